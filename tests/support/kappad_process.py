"""Real ``kappad`` processes for tests: a sidecar, and commands beside it."""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

COMMAND = (sys.executable, "-m", "estimator.cli.main")
ROOT = Path(__file__).resolve().parents[2]
# Far above what a start takes on a loaded machine of two cores.
START_TIMEOUT_S = 60.0
COMMAND_TIMEOUT_S = 60.0


def environment(extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """Give a process's environment without settings of whoever runs the tests."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("KAPPAD_")}
    return {**kept, "PYTHONWARNINGS": "error", **(extra or {})}


def kappad(
    arguments: Sequence[str | bytes],
    *,
    target: str = "",
    stdin: str = "",
    extra: Mapping[str, str] | None = None,
) -> "subprocess.CompletedProcess[str]":
    """Run one command to its end."""
    variables = environment({"KAPPAD_TARGET": target} if target else {})
    variables.update(extra or {})
    return subprocess.run(
        [*COMMAND, *arguments],
        cwd=ROOT,
        env=variables,
        input=stdin,
        capture_output=True,
        text=True,
        timeout=COMMAND_TIMEOUT_S,
        check=False,
    )


def kappad_json(arguments: Sequence[str | bytes], *, target: str) -> Any:  # Any: JSON
    """Run one command that must succeed, and read what it prints."""
    done = kappad([*arguments, "--json"], target=target)
    assert done.returncode == 0, done
    assert done.stderr == "", done
    return json.loads(done.stdout)


@dataclass(frozen=True)
class Sidecar:
    """A running sidecar."""

    process: "subprocess.Popen[bytes]"
    target: str
    folder: Path

    def log(self) -> str:
        """Give what it wrote so far."""
        return (self.folder / "log").read_text(encoding="utf-8", errors="replace")


@contextmanager
def sidecar(*arguments: str) -> Iterator[Sidecar]:
    """Run ``kappad serve`` on a unix socket in a short folder until the block ends."""
    # Not pytest's tmp_path: a socket's path may have 107 characters.
    with tempfile.TemporaryDirectory(prefix="kappad-") as name:
        folder = Path(name)
        socket = folder / "s.sock"
        target = f"unix://{socket}"
        state = ["--state-dir", str(folder / "state")]
        with (folder / "log").open("wb") as log:
            process = subprocess.Popen(
                [*COMMAND, "serve", "--listen", target, *state, *arguments],
                cwd=ROOT,
                env=environment(),
                stdout=log,
                stderr=log,
            )
        running = Sidecar(process, target, folder)
        try:
            deadline_s = time.monotonic() + START_TIMEOUT_S
            while not socket.exists():
                assert process.poll() is None, running.log()
                assert time.monotonic() < deadline_s, running.log()
                time.sleep(0.02)
            yield running
        finally:
            process.terminate()
            try:
                process.wait(30.0)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait(30.0)
