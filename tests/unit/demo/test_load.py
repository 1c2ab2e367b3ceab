import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from estimator.demo.load import Arrival, Outcome, parse_response, run


def outcome(body: str, *, status: int = 200) -> Outcome:
    arrival = Arrival(due_s=1.0, clip=Path("a.wav"))
    return Outcome(arrival=arrival, sent_s=1.1, finished_s=3.0, status=status, body=body)


def test_latency_counts_from_the_scheduled_time_not_from_sending() -> None:
    assert outcome("{}").latency_s == 2.0


def test_text_of_a_plain_answer() -> None:
    assert outcome('{"text": " hello"}').text == " hello"


def test_text_of_a_streamed_answer_joins_the_deltas() -> None:
    body = (
        'data: {"choices":[{"delta":{"content":" he"}}]}\n\n'
        'data: {"choices":[{"delta":{"content":"llo"}}]}\n\n'
        'data: {"choices":[{"delta":{"content":""},"finish_reason":"stop"}]}\n\n'
        "data: [DONE]\n\n"
    )
    assert outcome(body).text == " hello"


def test_plain_response_is_split() -> None:
    assert parse_response(b"HTTP/1.1 503 Busy\r\nA: b\r\n\r\nwait") == (503, "wait")


def test_chunked_response_is_joined_and_extensions_are_ignored() -> None:
    head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    assert parse_response(head + b"3;x=1\r\nabc\r\n2\r\nde\r\n0\r\n\r\n") == (200, "abcde")


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"HTTP/1.1 200 OK\r\n",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n",
    ],
)
def test_a_cut_answer_is_a_connection_error(answer: bytes) -> None:
    with pytest.raises(ConnectionError):
        parse_response(answer)


@pytest.fixture
async def slow_server() -> AsyncIterator[tuple[int, list[bytes]]]:
    """Answer every request only after the third has arrived."""
    requests: list[bytes] = []
    third = asyncio.Event()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        length = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
        requests.append(head + await reader.readexactly(length))
        if len(requests) == 3:
            third.set()
        await third.wait()
        writer.write(b'HTTP/1.1 200 OK\r\n\r\n{"text": "x"}')
        await writer.drain()
        writer.close()
        await writer.wait_closed()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with server:
        yield server.sockets[0].getsockname()[1], requests


async def test_a_slow_server_does_not_slow_the_schedule(
    slow_server: tuple[int, list[bytes]], tmp_path: Path
) -> None:
    port, requests = slow_server
    clip = tmp_path / "clip.wav"
    clip.write_bytes(b"RIFF1234")
    arrivals = [
        Arrival(due_s=0.0, clip=clip, fields=(("language", "en"),), request_id=f"id-{i}")
        for i in range(3)
    ]
    seen: list[Outcome] = []
    outcomes = await run(port, arrivals, on_outcome=seen.append)
    assert [o.arrival for o in outcomes] == arrivals
    assert all(o.ok and o.text == "x" for o in outcomes)
    assert len(seen) == 3
    for i, request in enumerate(sorted(requests)):
        assert f"X-Request-Id: id-{i}".encode() in request
        assert b'name="language"\r\n\r\nen\r\n' in request
        assert b"RIFF1234\r\n--" in request


async def test_a_refused_connection_is_an_outcome_not_an_exception(tmp_path: Path) -> None:
    server = await asyncio.start_server(lambda _r, w: w.close(), "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    server.close()
    await server.wait_closed()
    clip = tmp_path / "clip.wav"
    clip.write_bytes(b"")
    (failed,) = await run(port, [Arrival(due_s=0.0, clip=clip)])
    assert not failed.ok
    assert failed.status == 0
    assert "Error" in failed.body
