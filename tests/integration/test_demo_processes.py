"""Children of the demo end with it, however it ends."""

import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from estimator.demo.processes import Processes, StartError, free_port, wait_until_healthy

REPOSITORY = Path(__file__).resolve().parents[2]
# A server that leaves a grandchild behind, as vLLM's front leaves its EngineCore.
FAMILY = textwrap.dedent(
    """
    import pathlib, signal, subprocess, sys, time
    if sys.argv[2] == "stubborn":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    child = subprocess.Popen([sys.executable, "-S", "-c", "import time; time.sleep(600)"])
    pathlib.Path(sys.argv[1]).write_text(f"{child.pid}")
    time.sleep(600)
    """
)


def exists(pid: int) -> bool:
    """Tell whether a process runs; a zombie that nobody has waited for yet does not."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8")
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] != "Z"


def wait_until_gone(pid: int, timeout_s: float = 10.0) -> None:
    deadline = time.monotonic() + timeout_s
    while exists(pid):
        assert time.monotonic() < deadline, f"process {pid} is still there"
        time.sleep(0.02)


def read_pid(path: Path) -> int:
    deadline = time.monotonic() + 20.0
    while not (path.exists() and path.read_text(encoding="utf-8")):
        assert time.monotonic() < deadline, "the child never started"
        time.sleep(0.02)
    return int(path.read_text(encoding="utf-8"))


def family(path: Path, manner: str = "obedient") -> list[str]:
    return [sys.executable, "-S", "-c", FAMILY, str(path), manner]


def test_leaving_the_block_stops_children_and_their_children(tmp_path: Path) -> None:
    with Processes(tmp_path / "logs") as processes:
        child = processes.start("family", family(tmp_path / "pid"))
        grandchild = read_pid(tmp_path / "pid")
        assert exists(grandchild)
        cpu_s, resident_mib = child.usage()
        assert cpu_s >= 0.0
        assert resident_mib > 1.0
    assert child.ended()
    wait_until_gone(grandchild)


def test_an_exception_stops_children(tmp_path: Path) -> None:
    grandchild = 0

    def interrupted() -> None:
        nonlocal grandchild
        with Processes(tmp_path / "logs") as processes:
            processes.start("family", family(tmp_path / "pid"))
            grandchild = read_pid(tmp_path / "pid")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert grandchild
    wait_until_gone(grandchild)


def test_a_frozen_child_is_stopped(tmp_path: Path) -> None:
    with Processes(tmp_path / "logs") as processes:
        child = processes.start("family", family(tmp_path / "pid"))
        grandchild = read_pid(tmp_path / "pid")
        child.signal(signal.SIGSTOP)
    wait_until_gone(grandchild)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_children_end_when_the_parent_is_killed(tmp_path: Path, number: int) -> None:
    program = textwrap.dedent(
        """
        import sys, time
        from pathlib import Path
        from estimator.demo.processes import Processes
        with Processes(Path(sys.argv[1])) as processes:
            processes.start("family", sys.argv[2:])
            time.sleep(600)
        """
    )
    command = [sys.executable, "-c", program, str(tmp_path / "logs"), *family(tmp_path / "pid")]
    with subprocess.Popen(command, cwd=REPOSITORY, stderr=subprocess.DEVNULL) as parent:
        grandchild = read_pid(tmp_path / "pid")
        os.kill(parent.pid, number)
        parent.wait(20.0)
    wait_until_gone(grandchild)


def test_a_child_that_ends_while_starting_is_an_error_with_its_log(tmp_path: Path) -> None:
    with Processes(tmp_path / "logs") as processes:
        child = processes.start(
            "broken", [sys.executable, "-S", "-c", "raise SystemExit('no such model')"]
        )
        url = f"http://127.0.0.1:{free_port()}/health"
        with pytest.raises(StartError, match=r"broken ended while starting(.|\n)*no such model"):
            wait_until_healthy(url, child, timeout_s=20.0)


def test_a_child_that_stays_silent_is_an_error(tmp_path: Path) -> None:
    waits: list[float] = []
    with Processes(tmp_path / "logs") as processes:
        child = processes.start("silent", family(tmp_path / "pid"))
        url = f"http://127.0.0.1:{free_port()}/health"
        with pytest.raises(StartError, match="silent was not healthy after"):
            wait_until_healthy(url, child, timeout_s=0.4, progress=waits.append)
        grandchild = read_pid(tmp_path / "pid")
    assert waits
    wait_until_gone(grandchild)
