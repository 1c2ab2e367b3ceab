"""A running sidecar, and a real vLLM that follows it."""

import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from estimator.client import ClientError, EstimatorClient, Status
from estimator.demo.processes import (
    Child,
    Processes,
    free_port,
    sidecar_command,
    vllm_command,
    vllm_environment,
    wait_until_healthy,
)
from sched_client.model import Mode

_SIDECAR_START_TIMEOUT_S: Final = 30.0
# An idle client says every 10 s which version it holds (sched_client.transport.state.Timing).
_MODE_TIMEOUT_S: Final = 15.0
_POLL_S: Final = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class Sidecar:
    """A started sidecar.

    Attributes
    ----------
    child : Child
        Its process.
    target : str
        Where it listens.
    state_dir : pathlib.Path
        Its store, kept after the run.
    """

    child: Child
    target: str
    state_dir: Path


@contextmanager
def sidecar(processes: Processes, run_dir: Path) -> Iterator[Sidecar]:
    """Start a sidecar with an empty store under ``run_dir``.

    Raises
    ------
    StartError
        It did not become healthy.
    """
    # A unix socket's path may have 107 bytes at most; a checkout's own may be longer.
    with tempfile.TemporaryDirectory(prefix="kappad-") as folder:
        socket_path = Path(folder) / "kappad.sock"
        http_port = free_port()
        state_dir = run_dir / "state"
        child = processes.start("sidecar", sidecar_command(socket_path, state_dir, http_port))
        url = f"http://127.0.0.1:{http_port}/healthz"
        wait_until_healthy(url, child, timeout_s=_SIDECAR_START_TIMEOUT_S)
        yield Sidecar(child=child, target=f"unix://{socket_path}", state_dir=state_dir)


def start_vllm(
    processes: Processes,
    python: Path,
    model: Path,
    target: str,
    *,
    progress: Callable[[float], None] | None = None,
) -> tuple[int, float]:
    """Start vLLM with kappad's scheduler; give its port and the seconds until it was healthy."""
    port = free_port()
    environment = vllm_environment(target=target)
    child = processes.start("vllm", vllm_command(python, model, port), environment)
    url = f"http://127.0.0.1:{port}/health"
    return port, wait_until_healthy(url, child, progress=progress)


def switch_mode(client: EstimatorClient, mode: Mode, reason: str) -> bool:
    """Set the mode and wait until every engine holds the snapshot that carries it.

    Returns
    -------
    bool
        False if an engine had not said so within 15 s.

    Notes
    -----
    An engine obeys from its next step on. An idle one makes no step, so its ``effective_mode``
    would still be the old one: the version it holds is what can be waited for.
    """
    version = client.set_mode(mode, reason).snapshot_version
    return wait_for(
        client,
        lambda s: bool(s.clients) and all(c.applied_version >= version for c in s.clients),
        _MODE_TIMEOUT_S,
    )


def wait_for(
    client: EstimatorClient, condition: Callable[[Status], bool], timeout_s: float
) -> bool:
    """Wait until the sidecar's status meets a condition; tell whether it did."""
    deadline = time.monotonic() + timeout_s
    while True:
        try:
            if condition(client.status()):
                return True
        except ClientError:  # starting or restarting
            pass
        if time.monotonic() > deadline:
            return False
        time.sleep(_POLL_S)


def wait_until_learned(client: EstimatorClient, n: int, timeout_s: float = 10.0) -> bool:
    """Wait until ``n`` completions have been learned; tell whether they were."""
    return wait_for(client, lambda s: s.learned >= n, timeout_s)


def look_further(place: Sidecar) -> Sequence[str]:
    """List commands that show what the run left behind."""
    listen = "unix:///tmp/kappad-demo.sock"
    kappad = Path(sys.executable).with_name("kappad")
    return (
        f"{kappad} serve --listen {listen} --state-dir {place.state_dir} &",
        f"{kappad} status --target {listen}",
        f"{kappad} kappa --history --target {listen}",
        f"{kappad} drift --target {listen}",
        f"less {place.state_dir.parent}/*.log",
    )
