"""Start and stop vLLM and the sidecar so that none of them outlives the caller.

Each is started in its own session under `estimator.demo.guard`, writes to a log file and is
stopped by process group: SIGTERM, then SIGKILL after a bound.
"""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from estimator.demo import guard
from estimator.demo.home import client_path

SCHEDULER_CLASS: Final = "sched_client.vllm.KappadScheduler"
SERVED_MODEL: Final = "whisper-base"
# Seen 30 to 45 s on 2 cores; a loaded or slower machine gets the rest.
START_TIMEOUT_S: Final = 300.0
_HEALTH_POLL_S: Final = 0.25
_HEALTH_TIMEOUT_S: Final = 5.0
_LOG_TAIL_LINES: Final = 25
# As docs/vllm.md: no hub, no usage statistics, 1 GiB of KV cache.
_VLLM_ENVIRONMENT: Final = {
    "VLLM_CPU_KVCACHE_SPACE": "1",
    "HF_HUB_OFFLINE": "1",
    "TRANSFORMERS_OFFLINE": "1",
    "VLLM_NO_USAGE_STATS": "1",
    "DO_NOT_TRACK": "1",
    "TOKENIZERS_PARALLELISM": "false",
}


class StartError(Exception):
    """A process ended or stayed silent while starting; the message ends with its log."""


class Child:
    """One started process with its log.

    Attributes
    ----------
    name : str
        For messages.
    log : pathlib.Path
        Its stdout and stderr.
    """

    def __init__(
        self, name: str, command: Sequence[str], *, log: Path, environment: Mapping[str, str]
    ) -> None:
        self.name = name
        self.log = log
        with log.open("ab") as output:
            self._process = subprocess.Popen(
                [sys.executable, "-S", "-E", str(Path(guard.__file__)), *command],
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=subprocess.STDOUT,
                env={**os.environ, **environment},
                cwd=client_path(),  # python -m looks for modules there first
                start_new_session=True,
            )

    @property
    def group_id(self) -> int:
        """The process group of the guard, the command and the command's children."""
        return self._process.pid

    def ended(self) -> bool:
        """Tell whether the process is gone."""
        return self._process.poll() is not None

    def usage(self) -> tuple[float, float]:
        """Give the group's processor seconds so far and its resident MiB now."""
        ticks = pages = 0
        for entry in Path("/proc").iterdir():
            # OSError: it ended meanwhile.
            with contextlib.suppress(OSError):
                if entry.name.isdigit() and os.getpgid(int(entry.name)) == self.group_id:
                    # The name in parentheses may hold spaces; fields count from it (proc(5)).
                    stat = (entry / "stat").read_text(encoding="utf-8").rpartition(")")[2].split()
                    ticks += int(stat[11]) + int(stat[12])
                    pages += int(stat[21])
        return ticks / os.sysconf("SC_CLK_TCK"), pages * os.sysconf("SC_PAGE_SIZE") / 2**20

    def signal(self, number: int) -> None:
        """Send a signal to the whole group; a group that is gone is no error."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.group_id, number)

    def stop(self) -> None:
        """End the group: SIGTERM, and SIGKILL if it is still there after the guard's bound."""
        if not self.ended():
            self.signal(signal.SIGCONT)  # a frozen process could not obey
            self.signal(signal.SIGTERM)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(guard.GRACE_S)
        self.kill()

    def kill(self) -> None:
        """Kill the group at once and wait for it."""
        self.signal(signal.SIGKILL)
        self._process.wait()
        if self._process.stdin is not None:
            self._process.stdin.close()

    def log_tail(self) -> str:
        """Give the last lines of the log."""
        lines = self.log.read_text(encoding="utf-8", errors="replace").splitlines()
        return "\n".join(lines[-_LOG_TAIL_LINES:])


class Processes:
    """The processes of one run; leaving the ``with`` block stops all, newest first."""

    def __init__(self, log_dir: Path) -> None:
        self._log_dir = log_dir
        self._children: list[Child] = []
        log_dir.mkdir(parents=True, exist_ok=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def start(
        self, name: str, command: Sequence[str], environment: Mapping[str, str] | None = None
    ) -> Child:
        """Start a process whose log is ``<log_dir>/<name>.log``."""
        child = Child(
            name, command, log=self._log_dir / f"{name}.log", environment=environment or {}
        )
        self._children.append(child)
        return child

    def stop(self) -> None:
        """Stop every process; a second Ctrl-C meanwhile kills instead of waiting."""
        while self._children:
            child = self._children[-1]
            try:
                child.stop()
            except KeyboardInterrupt:
                for other in self._children:
                    other.kill()
                raise
            self._children.pop()


def free_port() -> int:
    """Give a loopback TCP port that was free a moment ago."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def wait_until_healthy(
    url: str,
    child: Child,
    *,
    timeout_s: float = START_TIMEOUT_S,
    progress: Callable[[float], None] | None = None,
) -> float:
    """Wait for a 200 from ``url``.

    Parameters
    ----------
    url : str
        A health endpoint on loopback.
    child : Child
        The process that serves it.
    timeout_s : float
        How long to wait.
    progress : callable, optional
        Called with the seconds waited so far, about four times a second.

    Returns
    -------
    float
        Seconds waited.

    Raises
    ------
    StartError
        The process ended, or the time is up; with the end of its log.
    """
    started = time.monotonic()
    # Proxies in the environment are not for loopback.
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    while True:
        waited = time.monotonic() - started
        if child.ended():
            raise StartError(
                f"{child.name} ended while starting; {child.log}:\n{child.log_tail()}"
            )
        if waited > timeout_s:
            raise StartError(
                f"{child.name} was not healthy after {timeout_s:.0f} s; "
                f"{child.log}:\n{child.log_tail()}"
            )
        try:
            with opener.open(url, timeout=_HEALTH_TIMEOUT_S):
                return time.monotonic() - started
        except (urllib.error.URLError, OSError):  # not listening yet, or 503
            pass
        if progress is not None:
            progress(waited)
        time.sleep(_HEALTH_POLL_S)


def vllm_command(
    python: Path | str,
    model: Path | str,
    port: int,
    *,
    scheduler: str | None = SCHEDULER_CLASS,
    max_num_seqs: int = 4,
    extra: Sequence[str] = (),
) -> list[str]:
    """Give the command that serves Whisper on the CPU, as docs/vllm.md describes it.

    Parameters
    ----------
    python : path
        Interpreter of an environment with vLLM.
    model : path
        The model folder.
    port : int
        Loopback port.
    scheduler : str or None
        ``--scheduler-cls``; None for vLLM's own.
    max_num_seqs : int
        Requests served at once.
    extra : sequence of str
        Further options.
    """
    command = [str(python), "-m", "vllm.entrypoints.openai.api_server"]
    command += ["--model", str(model), "--served-model-name", SERVED_MODEL]
    command += ["--host", "127.0.0.1", "--port", str(port)]
    command += ["--max-num-seqs", str(max_num_seqs), "--max-num-batched-tokens", "3072"]
    command += ["--enforce-eager", "--dtype", "bfloat16"]
    if scheduler is not None:
        command += ["--scheduler-cls", scheduler]
    return [*command, *extra]


def vllm_environment(**kappad: str) -> dict[str, str]:
    """Give the environment variables for a CPU vLLM, ``target="…"`` becoming ``KAPPAD_TARGET``."""
    given = {f"KAPPAD_{name.upper()}": value for name, value in kappad.items()}
    # A vLLM that the user named need not have kappad installed, only grpcio and protobuf.
    return {**_VLLM_ENVIRONMENT, **given, "PYTHONPATH": str(client_path())}


def sidecar_command(socket_path: Path, state_dir: Path, http_port: int) -> list[str]:
    """Give the command that runs the sidecar from this interpreter's environment."""
    command = [sys.executable, "-m", "estimator.cli.main", "serve"]
    command += ["--listen", f"unix://{socket_path}", "--state-dir", str(state_dir)]
    return [*command, "--http", f"127.0.0.1:{http_port}"]
