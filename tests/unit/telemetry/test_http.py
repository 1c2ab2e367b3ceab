"""The two answers of the HTTP endpoint, and what it does with bad callers."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

import pytest

from estimator.telemetry import http
from estimator.telemetry.http import HttpEndpoint
from estimator.telemetry.metrics import Metrics


class _Server:
    def __init__(self) -> None:
        self.health = (True, "")
        self.endpoint = HttpEndpoint(Metrics(), lambda: self.health)
        self.port = 0

    async def ask(self, head: str) -> str:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        try:
            writer.write(f"{head}\r\nHost: x\r\n\r\n".encode())
            await writer.drain()
            return (await asyncio.wait_for(reader.read(), 5.0)).decode()
        finally:
            writer.close()
            await writer.wait_closed()


@pytest.fixture
async def server() -> AsyncIterator[_Server]:
    running = _Server()
    running.port = await running.endpoint.start("127.0.0.1", 0)
    yield running
    await running.endpoint.stop()


async def test_health_is_200_or_503_with_the_reason(server: _Server) -> None:
    assert (await server.ask("GET /healthz HTTP/1.1")).startswith("HTTP/1.1 200 OK\r\n")
    server.health = (False, "the learner died")
    answer = await server.ask("GET /healthz HTTP/1.1")
    assert answer.startswith("HTTP/1.1 503 Service Unavailable\r\n")
    assert answer.endswith("\r\n\r\nthe learner died\n")


async def test_metrics_are_rendered(server: _Server) -> None:
    answer = await server.ask("GET /metrics?x=1 HTTP/1.1")
    assert "kappad_backlog_completions" in answer
    assert "Content-Type: text/plain; version=" in answer


async def test_a_head_request_has_no_body(server: _Server) -> None:
    head = await server.ask("HEAD /metrics HTTP/1.0")
    assert head.endswith("\r\n\r\n")
    assert "Content-Length: 0" not in head


@pytest.mark.parametrize(
    ("line", "status"),
    [("GET / HTTP/1.1", "404"), ("POST /metrics HTTP/1.1", "405"), ("nonsense", "405")],
)
async def test_anything_else_is_refused(server: _Server, line: str, status: str) -> None:
    assert (await server.ask(line)).startswith(f"HTTP/1.1 {status} ")


async def test_a_head_without_end_is_cut_off(server: _Server) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    writer.write(b"GET /" + b"x" * 50_000)
    # Closed with unread bytes: a reset or an end, but no answer and no hang.
    with contextlib.suppress(ConnectionResetError):
        assert await asyncio.wait_for(reader.read(), 5.0) == b""
    writer.close()


async def test_a_silent_caller_is_cut_off(
    server: _Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http, "_TIMEOUT_S", 0.01)
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    assert await asyncio.wait_for(reader.read(), 5.0) == b""
    writer.close()


async def test_connections_beyond_the_limit_are_closed(
    server: _Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http, "_CONNECTION_LIMIT", 1)
    first = await asyncio.open_connection("127.0.0.1", server.port)
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    assert await asyncio.wait_for(reader.read(), 5.0) == b""
    writer.close()
    first[1].close()
