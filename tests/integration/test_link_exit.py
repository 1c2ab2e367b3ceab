"""Processes that hold a link: a frozen or killed sidecar, the end of the interpreter, a fork."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.scripted_sidecar import make_report, short_folder, started_link, wait_until

ROOT = Path(__file__).parents[2]
SERVER = """
import sys, time
from tests.support.scripted_sidecar import ScriptedSidecar
with ScriptedSidecar(sys.argv[1]) as sidecar:
    print("ready", flush=True)
    while True:
        time.sleep(1)
"""
CLIENT = """
import sys, time
from tests.support.scripted_sidecar import BOOT_ID, make_report
from sched_client.options import ClientOptions
from sched_client.transport.link import Identity, Link
link = Link(ClientOptions(target=sys.argv[1]), Identity("c", "m"), boot_id=BOOT_ID)
link.start()
"""


@pytest.fixture
def target() -> Iterator[str]:
    with short_folder() as folder:
        yield f"unix://{folder}/s"


@contextmanager
def _server(target: str) -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen(
        [sys.executable, "-c", SERVER, target], cwd=ROOT, stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
            yield process
        finally:
            process.kill()


def _run(target: str, body: str) -> tuple[subprocess.CompletedProcess[str], float]:
    """Run a client; give what it printed and the seconds after its own last line."""
    done = subprocess.run(
        [sys.executable, "-c", CLIENT + body + "\nprint(time.monotonic(), flush=True)", target],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    ended_s = time.monotonic()
    assert done.returncode == 0, done.stderr
    return done, ended_s - float(done.stdout.splitlines()[-1])


def test_a_frozen_sidecar_makes_stale_and_is_found_again(target: str) -> None:
    with _server(target) as server, started_link(target) as link:
        wait_until(lambda: link.stale_since_s is None, "fresh")
        server.send_signal(signal.SIGSTOP)
        wait_until(lambda: link.stale_since_s is not None, "stale")
        begun_s = time.monotonic()
        for number in range(100):
            link.report(make_report(number))
        assert time.monotonic() - begun_s < 0.1
        assert link.snapshot.version == 1
        server.send_signal(signal.SIGCONT)
        wait_until(lambda: link.stale_since_s is None, "fresh again")


def test_a_killed_and_restarted_sidecar_is_found_again(target: str) -> None:
    with started_link(target) as link:
        with _server(target) as server:
            wait_until(lambda: link.stale_since_s is None, "fresh")
            server.kill()
            server.wait(5)
            wait_until(lambda: link.stale_since_s is not None, "stale")
        with _server(target):
            wait_until(lambda: link.stale_since_s is None, "fresh again")


@pytest.mark.parametrize("frozen", [False, True], ids=["serving", "frozen"])
def test_the_interpreter_ends_cleanly_with_a_link_open(target: str, *, frozen: bool) -> None:
    with _server(target) as server:
        freeze = f"import os, signal; os.kill({server.pid}, signal.SIGSTOP); " if frozen else ""
        done, took_s = _run(
            target,
            "while link.snapshot.version != 1: time.sleep(0.01)\n"
            f"{freeze}\n"
            "for number in range(1000): link.report(make_report(number))\n"
            "time.sleep(0.7)",  # so that a report is on its way
        )
    assert took_s < 2.5, "2 s and the start of this process's own clock"
    assert "Traceback" not in done.stderr
    assert "Fatal" not in done.stderr


@pytest.mark.parametrize("pause", ["pass", "time.sleep(0.05)", "time.sleep(0.5)"])
def test_the_interpreter_ends_cleanly_with_no_sidecar(target: str, pause: str) -> None:
    done, took_s = _run(target, pause)
    assert took_s < 2.5
    assert "Traceback" not in done.stderr
    assert "Fatal" not in done.stderr


def test_a_forked_child_ends_at_once_and_leaves_the_parent_its_link(target: str) -> None:
    body = """
import os, warnings
warnings.simplefilter("ignore")  # newer Pythons warn of any fork beside threads
while link.snapshot.version != 1: time.sleep(0.01)
child = os.fork()
if child == 0:
    link.report(make_report(1))
    link.start()
    link.close()
    os._exit(7 if link.snapshot.version == 1 else 8)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
time.sleep(0.3)
assert link.stale_since_s is None
"""
    with _server(target):
        _run(target, body)


def test_a_missing_grpc_is_counted_and_logged_once_and_the_kill_switch_works(
    target: str,
) -> None:
    off = Path(target.removeprefix("unix://")).with_name("off")
    body = f"""
import pathlib
while not link.failures: time.sleep(0.01)
link.report(make_report(1))
pathlib.Path({str(off)!r}).touch()
while not link.kill_switch: time.sleep(0.01)
assert link.failures == 1 and link.snapshot.version == 0 and link.stale_since_s is not None
"""
    blocked = "import sys; sys.modules['grpc'] = None\n"
    client = CLIENT.replace(
        "from tests.support.scripted_sidecar import BOOT_ID, make_report",
        "BOOT_ID, make_report = 'b', str",
    )
    done = subprocess.run(
        [sys.executable, "-c", blocked + client + body, target],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("cannot load grpc") == 1
