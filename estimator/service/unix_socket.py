"""The socket file: who may be there before us, who may connect, and that it goes with us."""

import contextlib
import os
import socket
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Final

__all__ = ["SocketError", "claim", "private_umask", "remove", "restrict"]

DIRECTORY_MODE: Final = 0o750
# Whoever may connect may teach and switch: the owner, and the group that operators share.
SOCKET_MODE: Final = 0o660
_PROBE_TIMEOUT_S: Final = 1.0


class SocketError(Exception):
    """The socket cannot be made; the message names the path and the remedy."""


def claim(path: str) -> None:
    """Make room for a socket: its directory, and no file of a dead sidecar.

    Parameters
    ----------
    path : str
        Absolute.

    Raises
    ------
    SocketError
        If a living server listens there, it is another kind of file, or access is denied.
    """
    directory = Path(path).parent
    try:
        if not directory.is_dir():
            directory.mkdir(parents=True, exist_ok=True)
            directory.chmod(DIRECTORY_MODE)
        if not os.path.lexists(path):
            return
        if not stat.S_ISSOCK(os.lstat(path).st_mode):
            raise SocketError(f"{path} exists and is no socket; remove it or choose another path")
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
            probe.settimeout(_PROBE_TIMEOUT_S)
            try:
                probe.connect(path)
            except (ConnectionRefusedError, FileNotFoundError):
                # Nobody listens: left behind by a process that was killed.
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(path)  # noqa: PTH108  # one style for this file's calls
                return
            except TimeoutError:
                pass  # frozen, but alive
    except OSError as error:
        raise SocketError(
            f"the socket {path} cannot be made: {error.strerror or error}; make its directory "
            "writable for this user, or choose another --listen"
        ) from error
    raise SocketError(
        f"another server listens on {path}; stop it, or choose another --listen for this one"
    )


@contextlib.contextmanager
def private_umask() -> Iterator[None]:
    """Let files be made with `SOCKET_MODE` from the first moment: chmod alone comes too late."""
    before = os.umask(0o777 & ~SOCKET_MODE)
    try:
        yield
    finally:
        os.umask(before)


def restrict(path: str) -> None:
    """Set the mode whatever a default ACL or another umask made of it."""
    Path(path).chmod(SOCKET_MODE)


def remove(path: str) -> None:
    """Remove the socket if it is still there."""
    with contextlib.suppress(OSError):
        Path(path).unlink(missing_ok=True)
