"""Addresses that a sidecar may listen on, checked before anything is opened."""

import ipaddress
import os
from dataclasses import dataclass
from typing import Final

__all__ = ["AddressError", "TcpAddress", "UnixAddress", "parse_http", "parse_listen"]

# struct sockaddr_un holds 108 bytes with the terminating zero (unix(7)).
UNIX_PATH_LIMIT: Final = 107
_PORT_LIMIT: Final = 65_535


class AddressError(ValueError):
    """An address that cannot be used; the message names it and the remedy."""


@dataclass(frozen=True, slots=True)
class UnixAddress:
    """A socket file."""

    path: str

    @property
    def target(self) -> str:
        """What gRPC binds to."""
        return f"unix:{self.path}"

    @property
    def text(self) -> str:
        """What people write."""
        return f"unix://{self.path}"


@dataclass(frozen=True, slots=True)
class TcpAddress:
    """A host and a port; port 0 lets the system choose."""

    host: str
    port: int

    @property
    def text(self) -> str:
        """What people write, and gRPC binds to."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def loopback(self) -> bool:
        """Whether only this machine can reach it."""
        if self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False


def parse_listen(text: str) -> UnixAddress | TcpAddress:
    """Read where the gRPC server listens.

    Parameters
    ----------
    text : str
        ``unix:///absolute/path``, ``unix:/absolute/path`` or ``host:port``.

    Returns
    -------
    UnixAddress or TcpAddress
        Checked for form and length, not opened.

    Raises
    ------
    AddressError
        Naming the value, the limit and the remedy.
    """
    if not text.startswith("unix:"):
        return _parse_tcp(text, name="listen", form="unix:///path or host:port")
    path = text.removeprefix("unix:")
    path = path.removeprefix("//")
    if not path.startswith("/"):
        raise AddressError(
            f"listen={text!r} has no absolute path, so it would depend on the working directory; "
            "write unix:///absolute/path"
        )
    if "\x00" in path or path.endswith("/"):
        raise AddressError(f"listen={text!r} names no file; write unix:///directory/name.sock")
    length = len(os.fsencode(path))
    if length > UNIX_PATH_LIMIT:
        raise AddressError(
            f"listen={text!r} has a path of {length} bytes, the system's limit is "
            f"{UNIX_PATH_LIMIT}; use a shorter directory such as /run/kappad"
        )
    return UnixAddress(path)


def parse_http(text: str) -> TcpAddress | None:
    """Read where /healthz and /metrics are served; empty gives None."""
    if not text:
        return None
    return _parse_tcp(text, name="http", form="host:port")


def _parse_tcp(text: str, *, name: str, form: str) -> TcpAddress:
    host, colon, port = text.rpartition(":")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        raise AddressError(f"{name}={text!r}: put an IPv6 address in brackets, [::1]:9464")
    if not colon or not host or not port.isascii() or not port.isdigit():
        raise AddressError(f"{name}={text!r} is not of the form {form}")
    if int(port) > _PORT_LIMIT:
        raise AddressError(f"{name}={text!r}: the port is above {_PORT_LIMIT}; choose a lower one")
    return TcpAddress(host, int(port))
