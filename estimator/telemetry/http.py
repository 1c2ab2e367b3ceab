"""A minimal HTTP endpoint: GET /healthz and GET /metrics, and nothing else.

On the event loop, without a framework: two fixed answers need no parser of ours beyond the first
line. Bounded in connections, bytes and seconds, since a scraper is not trusted to be well.
"""

import asyncio
import contextlib
from collections.abc import Callable
from http import HTTPStatus
from typing import Final

from prometheus_client import CONTENT_TYPE_LATEST

from estimator.telemetry.metrics import Metrics

__all__ = ["HttpEndpoint"]

_CONNECTION_LIMIT: Final = 16
_HEADER_LIMIT_BYTES: Final = 8192
_TIMEOUT_S: Final = 5.0
_TEXT: Final = "text/plain; charset=utf-8"


class HttpEndpoint:
    """Serves health and metrics.

    Parameters
    ----------
    metrics : Metrics
        Rendered at /metrics.
    health : callable
        Gives (healthy, reason); asked at each /healthz.
    """

    def __init__(self, metrics: Metrics, health: Callable[[], tuple[bool, str]]) -> None:
        self._metrics = metrics
        self._health = health
        self._server: asyncio.Server | None = None
        self._n_open = 0

    async def start(self, host: str, port: int) -> int:
        """Listen, and give the port (the system's choice for 0).

        Raises
        ------
        OSError
            If the address cannot be bound.
        """
        self._server = await asyncio.start_server(
            self._serve, host, port, limit=_HEADER_LIMIT_BYTES
        )
        bound: int = self._server.sockets[0].getsockname()[1]
        return bound

    async def stop(self) -> None:
        """Stop listening and cut what is open."""
        if self._server is not None:
            self._server.close()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_TIMEOUT_S):
                    await self._server.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._n_open += 1
        try:
            if self._n_open <= _CONNECTION_LIMIT:
                async with asyncio.timeout(_TIMEOUT_S):
                    head = await reader.readuntil(b"\r\n\r\n")
                    writer.write(self._answer(head))
                    await writer.drain()
        except (TimeoutError, OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass  # whoever it was sees a closed connection
        finally:
            self._n_open -= 1
            writer.close()

    def _answer(self, head: bytes) -> bytes:
        method, _, rest = head.partition(b" ")
        path = rest.partition(b" ")[0].partition(b"?")[0]
        if method not in {b"GET", b"HEAD"}:
            status, kind, body = HTTPStatus.METHOD_NOT_ALLOWED, _TEXT, b"only GET\n"
        elif path == b"/metrics":
            status, kind, body = HTTPStatus.OK, CONTENT_TYPE_LATEST, self._metrics.render()
        elif path == b"/healthz":
            healthy, reason = self._health()
            status = HTTPStatus.OK if healthy else HTTPStatus.SERVICE_UNAVAILABLE
            kind, body = _TEXT, f"{reason or 'ok'}\n".encode()
        else:
            status, kind, body = HTTPStatus.NOT_FOUND, _TEXT, b"try /healthz or /metrics\n"
        lines = (
            f"HTTP/1.1 {status.value} {status.phrase}",
            f"Content-Type: {kind}",
            f"Content-Length: {len(body)}",
            "Connection: close",
        )
        return ("\r\n".join(lines) + "\r\n\r\n").encode() + (b"" if method == b"HEAD" else body)
