"""vLLM's request and queue as far as the client sees them, without vLLM."""

from collections import deque
from collections.abc import Iterable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

from sched_client.completion import CompletionReport, EngineStatus, RunningSource
from sched_client.model import (
    DEFAULT_MODEL,
    TEXT_TASK,
    KappaEntry,
    Key,
    Settings,
    Snapshot,
    prior_snapshot,
)


class Request:
    """Compared and hashed by identity, as vLLM's."""

    def __init__(self, request_id: str, **others: Any) -> None:
        self.request_id = request_id
        self.sampling_params: Any = SimpleNamespace(extra_args=None)
        self.max_tokens = 440
        self.num_prompt_tokens = 4
        self.prompt_token_ids: list[int] | None = [50258, 50259, 50359, 50363]
        self.mm_features: list[Any] = []
        self.resumable = False
        self.priority = 0
        self.arrival_time = 1e9
        self.num_preemptions = 0
        self.num_output_tokens = 0
        self.status = SimpleNamespace(name="WAITING")
        self.__dict__.update(others)


def text_snapshot(settings: Settings) -> Snapshot:
    """Build what orders text requests by their prompts, a token for each of its own."""
    prior = prior_snapshot(settings=settings)
    by_prompt = KappaEntry(kappa_tokens_per_s=1.0, sample_count=9, source="learned")
    return replace(prior, kappas={**prior.kappas, Key(DEFAULT_MODEL, TEXT_TASK): by_prompt})


class FakeLink:
    """A link whose other end is the test."""

    def __init__(self, snapshot: Snapshot) -> None:
        self.snapshot = snapshot
        self.stale_since_s: float | None = None
        self.kill_switch = False
        self.status = EngineStatus()
        self.running: RunningSource | None = None
        self.reports: list[CompletionReport] = []
        self.closed = 0

    def report(self, report: CompletionReport) -> None:
        self.reports.append(report)

    def close(self) -> None:
        self.closed += 1

    def set(self, **settings: Any) -> None:
        """Publish a snapshot with other settings."""
        self.publish(settings=replace(self.snapshot.settings, **settings))

    def publish(self, **changes: Any) -> None:
        """Publish a snapshot with changes."""
        self.snapshot = replace(
            self.snapshot, version=self.snapshot.version + 1, _resolved={}, **changes
        )


class StockQueue:
    """First come, first served, with the methods and quirks of vLLM's."""

    def __init__(self) -> None:
        self.waiting: deque[Any] = deque()

    def add_request(self, request: Any) -> None:
        self.waiting.append(request)

    def peek_request(self) -> Any:
        if not self.waiting:
            raise IndexError("peek from an empty queue")
        return self.waiting[0]

    def pop_request(self) -> Any:
        return self.waiting.popleft()

    def prepend_request(self, request: Any) -> None:
        self.waiting.appendleft(request)

    def prepend_requests(self, requests: Iterable[Any]) -> None:
        self.waiting.extendleft(requests)

    def remove_request(self, request: Any) -> None:
        self.waiting.remove(request)

    def remove_requests(self, requests: Iterable[Any]) -> None:
        gone = set(requests)
        self.waiting = deque(request for request in self.waiting if request not in gone)

    def __bool__(self) -> bool:
        return bool(self.waiting)

    def __len__(self) -> int:
        return len(self.waiting)

    def __iter__(self) -> Any:
        return iter(self.waiting)
