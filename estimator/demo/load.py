"""Send audio to vLLM's transcription endpoint at fixed times, whatever comes back.

Open loop: each request is due at its scheduled time and its latency counts from there, so a slow
server cannot slow the schedule down and hide its own queue (coordinated omission). Plain asyncio:
one connection for each request, about 1 % of a core for this load.
"""

import asyncio
import json
import mimetypes
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from estimator.demo.processes import SERVED_MODEL

_BOUNDARY: Final = "kappad-demo-boundary-7d1c0a9e"
REQUEST_TIMEOUT_S: Final = 600.0
_OK: Final = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrival:
    """One request of a schedule.

    Attributes
    ----------
    due_s : float
        Seconds after the start of the run.
    clip : pathlib.Path
        The audio file.
    audio_s : float
        Its length; 0 if unknown.
    fields : tuple of (str, str)
        Further form fields, such as ``("language", "en")``.
    request_id : str
        Sent as ``X-Request-Id``; empty for none.
    """

    due_s: float
    clip: Path
    audio_s: float = 0.0
    fields: tuple[tuple[str, str], ...] = ()
    request_id: str = ""

    @property
    def language(self) -> str:
        """The language asked for; empty if it is left to the server."""
        return dict(self.fields).get("language", "")


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What became of one arrival.

    Attributes
    ----------
    arrival : Arrival
        As scheduled.
    sent_s, finished_s : float
        Seconds after the start of the run.
    status : int
        HTTP status; 0 if the connection failed.
    body : str
        The raw answer, or the error.
    """

    arrival: Arrival
    sent_s: float
    finished_s: float
    status: int
    body: str = field(repr=False)

    @property
    def ok(self) -> bool:
        """Whether a transcription came back."""
        return self.status == _OK

    @property
    def latency_s(self) -> float:
        """Seconds from the scheduled time to the whole answer."""
        return self.finished_s - self.arrival.due_s

    @property
    def text(self) -> str:
        """The transcript; also of a streamed answer."""
        if self.body.startswith("data:"):
            return _streamed_text(self.body)
        text: str = json.loads(self.body)["text"]
        return text


def _streamed_text(body: str) -> str:
    events = (line.removeprefix("data:").strip() for line in body.splitlines())
    choices = (
        choice
        for event in events
        if event and event != "[DONE]"
        for choice in json.loads(event).get("choices", [])
    )
    return "".join(choice.get("delta", {}).get("content") or "" for choice in choices)


async def send(
    port: int, arrival: Arrival, *, endpoint: str = "transcriptions"
) -> tuple[int, str]:
    """Send one file and wait for the whole answer.

    Parameters
    ----------
    port : int
        vLLM's loopback port.
    arrival : Arrival
        What to send; its time is ignored.
    endpoint : str
        ``transcriptions`` or ``translations``.

    Returns
    -------
    tuple of (int, str)
        HTTP status and body. Cancelling closes the connection, which is how a client leaves.

    Raises
    ------
    OSError
        The connection failed or ended early.
    """
    body = _form(arrival)
    head = (
        f"POST /v1/audio/{endpoint} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n"
        f"Content-Type: multipart/form-data; boundary={_BOUNDARY}\r\n"
        f"Content-Length: {len(body)}\r\nConnection: close\r\n"
    )
    if arrival.request_id:
        head += f"X-Request-Id: {arrival.request_id}\r\n"
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(head.encode() + b"\r\n" + body)
        await writer.drain()
        answer = await asyncio.wait_for(reader.read(-1), REQUEST_TIMEOUT_S)
    finally:
        writer.close()
    return parse_response(answer)


def _form(arrival: Arrival) -> bytes:
    fields = [("model", SERVED_MODEL), ("temperature", "0"), *arrival.fields]
    parts = [
        f'--{_BOUNDARY}\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{value}\r\n'
        for name, value in fields
    ]
    kind = mimetypes.guess_type(arrival.clip.name)[0] or "application/octet-stream"
    parts.append(
        f'--{_BOUNDARY}\r\nContent-Disposition: form-data; name="file"; '
        f'filename="{arrival.clip.name}"\r\nContent-Type: {kind}\r\n\r\n'
    )
    data = arrival.clip.read_bytes()
    return "".join(parts).encode() + data + f"\r\n--{_BOUNDARY}--\r\n".encode()


def parse_response(answer: bytes) -> tuple[int, str]:
    """Split a whole HTTP/1.1 answer into status and body, undoing chunks.

    Raises
    ------
    ConnectionError
        The answer is cut off.
    """
    head, found, body = answer.partition(b"\r\n\r\n")
    if not found:
        raise ConnectionError(f"vLLM closed the connection after {len(answer)} bytes")
    lines = head.decode("latin-1").lower().split("\r\n")
    status = int(lines[0].split(" ", 2)[1])
    if any(line.replace(" ", "") == "transfer-encoding:chunked" for line in lines[1:]):
        pieces, rest, ended = [], body, False
        while rest and not ended:
            size_text, _, rest = rest.partition(b"\r\n")
            size = int(size_text.split(b";")[0], 16)
            pieces.append(rest[:size])
            ended, rest = size == 0, rest[size + 2 :]
        if not ended:
            raise ConnectionError("vLLM ended the connection within a chunked answer")
        body = b"".join(pieces)
    return status, body.decode("utf-8", errors="replace")


async def run(
    port: int,
    arrivals: Sequence[Arrival],
    *,
    on_outcome: Callable[[Outcome], None] | None = None,
) -> list[Outcome]:
    """Send every arrival at its time and collect the outcomes.

    Parameters
    ----------
    port : int
        vLLM's loopback port.
    arrivals : sequence of Arrival
        In any order.
    on_outcome : callable, optional
        Called for each as it comes back.

    Returns
    -------
    list of Outcome
        In the order of ``arrivals``.
    """
    started = time.monotonic()

    async def one(arrival: Arrival) -> Outcome:
        await asyncio.sleep(max(0.0, arrival.due_s - (time.monotonic() - started)))
        sent = time.monotonic() - started
        try:
            status, body = await send(port, arrival)
        except (OSError, TimeoutError) as error:
            status, body = 0, f"{type(error).__name__}: {error}"
        outcome = Outcome(
            arrival=arrival,
            sent_s=sent,
            finished_s=time.monotonic() - started,
            status=status,
            body=body,
        )
        if on_outcome is not None:
            on_outcome(outcome)
        return outcome

    return list(await asyncio.gather(*(one(arrival) for arrival in arrivals)))
