"""Run a command and end its whole process group when the parent is gone.

Standard library only, started as a script with ``python -S``: vLLM leaves EngineCore processes
behind when only its front is killed, and a parent that is killed itself can clean up nothing.
The parent holds this process's stdin open; its end, however the parent died, is the signal.
"""

import contextlib
import ctypes
import os
import selectors
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Final

# A serving vLLM ends within a second, a draining sidecar too; a vLLM that is still loading does
# not obey SIGTERM, and somebody waits at the terminal.
GRACE_S: Final = 6.0
_POLL_S: Final = 0.2
_REAP_S: Final = 2.0
_PR_SET_CHILD_SUBREAPER: Final = 36  # linux/prctl.h


def main(command: list[str]) -> int:
    """Run ``command`` in this process's own group until it ends or stdin does.

    Parameters
    ----------
    command : list of str
        Program and arguments. It gets an empty stdin.

    Returns
    -------
    int
        The command's exit status; negative for a signal, as `subprocess` counts.

    Notes
    -----
    SIGTERM to the group reaches the command; this process ignores it and stays to see that the
    command's children end too.
    """
    # A handler, unlike SIG_IGN, is not inherited through exec.
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda *_: None)
    # Orphans of the command become ours, so that they can be waited for.
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    child = subprocess.Popen(command, stdin=subprocess.DEVNULL)
    selector = selectors.DefaultSelector()
    selector.register(sys.stdin.fileno(), selectors.EVENT_READ)
    asked = None
    while child.poll() is None:
        parent_gone = bool(selector.select(_POLL_S)) and not os.read(sys.stdin.fileno(), 1)
        if parent_gone and asked is None:
            asked = time.monotonic()
            selector.unregister(sys.stdin.fileno())
            os.killpg(0, signal.SIGTERM)
        if asked is not None and time.monotonic() - asked > GRACE_S:
            break
    status = child.poll()
    _end_group()
    return status or 0


def _end_group() -> None:
    """Kill what is left of the group, but for this process, and wait for it."""
    group, own = os.getpgid(0), os.getpid()
    for entry in Path("/proc").iterdir():
        # OSError: it ended meanwhile.
        with contextlib.suppress(OSError):
            if entry.name.isdigit() and int(entry.name) != own:
                number = int(entry.name)
                if os.getpgid(number) == group:
                    os.kill(number, signal.SIGKILL)
    deadline = time.monotonic() + _REAP_S
    with contextlib.suppress(ChildProcessError):
        while time.monotonic() < deadline:
            if os.waitpid(-1, os.WNOHANG) == (0, 0):
                time.sleep(_POLL_S / 10)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
