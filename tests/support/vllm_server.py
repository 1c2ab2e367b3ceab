"""A real vLLM under test: start, send, and read what its scheduler recorded."""

import asyncio
import json
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from estimator.demo.load import Arrival, Outcome, run, send
from estimator.demo.processes import (
    SERVED_MODEL,
    Child,
    Processes,
    free_port,
    vllm_command,
    vllm_environment,
    wait_until_healthy,
)

# Read by tests.support.recording_scheduler, which only vLLM's interpreter can import.
RECORD_VARIABLE = "KAPPAD_TEST_RECORD"
RECORDING = "tests.support.recording_scheduler.RecordingScheduler"


@dataclass(frozen=True, slots=True, kw_only=True)
class VllmServer:
    """One started vLLM; ``record`` is empty for the stock scheduler."""

    child: Child
    port: int
    record: Path

    def send(self, arrivals: Sequence[Arrival]) -> list[Outcome]:
        """Send at the scheduled times; every request must be answered with 200."""
        outcomes = asyncio.run(run(self.port, arrivals))
        refused = [(o.arrival.clip.name, o.status, o.body[:200]) for o in outcomes if not o.ok]
        assert not refused, refused
        return outcomes

    def answer(self, arrival: Arrival, *, endpoint: str = "transcriptions") -> tuple[int, str]:
        """Send one request and give status and body, whatever they are."""
        return asyncio.run(send(self.port, arrival, endpoint=endpoint))

    def complete(self, prompt: str) -> tuple[int, str]:
        """Ask for a completion of text, without audio; give status and text or error type."""
        body = {"model": SERVED_MODEL, "prompt": prompt, "max_tokens": 8, "temperature": 0}
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.port}/v1/completions",
            data=json.dumps(body).encode(),
            headers={"Content-Type": "application/json"},
        )
        try:
            with urllib.request.urlopen(request, timeout=60.0) as answer:  # noqa: S310  loopback
                return 200, json.load(answer)["choices"][0]["text"]
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.reason

    def events(self, kind: str = "") -> list[dict[str, Any]]:  # Any: JSON
        """Read the record so far."""
        lines = self.record.read_text(encoding="utf-8").splitlines()
        events = [json.loads(line) for line in lines]
        return [e for e in events if not kind or e["event"] == kind]


def start_vllm(
    processes: Processes,
    name: str,
    *,
    python: Path,
    model: Path,
    folder: Path,
    target: str = "",
    stock: bool = False,
    extra: Sequence[str] = (),
    options: dict[str, str] | None = None,
) -> VllmServer:
    """Start a vLLM and wait until it is healthy."""
    port = free_port()
    record = folder / f"{name}.jsonl"
    environment = vllm_environment(**({"target": target} if target else {}), **(options or {}))
    environment[RECORD_VARIABLE] = str(record)
    command = vllm_command(
        python,
        model,
        port,
        scheduler=None if stock else RECORDING,
        # In bfloat16 a text may differ with the batch that it happens to run in.
        extra=["--dtype", "float32", *extra],
    )
    child = processes.start(name, command, environment)
    wait_until_healthy(f"http://127.0.0.1:{port}/health", child)
    return VllmServer(child=child, port=port, record=record)


def wait_for(condition: Callable[[], bool], timeout_s: float, what: str) -> None:
    """Poll until a condition holds; fail naming it when the time is up."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError(f"{what} within {timeout_s:g} s: not seen")
        time.sleep(0.1)


def caller_id(engine_id: str) -> str:
    """Give the ``X-Request-Id`` within ``transcribe-<X>-<8 hex>``."""
    return engine_id.removeprefix("transcribe-").rpartition("-")[0]
