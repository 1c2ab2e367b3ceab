"""What is remembered of each request between its arrival and its end.

Own timestamps, because vLLM's events are drained by the end; a running integral, so that the mean
concurrency of a residence costs one subtraction.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from sched_client.completion import CompletionReport, RunningReport
from sched_client.request_ids import MAX_ID_LENGTH
from sched_client.vllm.file_groups import FileGroups
from sched_client.vllm.record import Record

# vLLM's names of finished states (v1/request.py). A detected repetition loop was cut, as a length
# cap cuts: its tokens are a lower bound.
_REASONS: Final[Mapping[str, str]] = {
    "FINISHED_STOPPED": "stop",
    "FINISHED_LENGTH_CAPPED": "length",
    "FINISHED_REPETITION": "length",
    "FINISHED_ABORTED": "aborted",
    "FINISHED_IGNORED": "error",
    "FINISHED_ERROR": "error",
}


class Tracker:
    """The requests between arrival and end, and the engine's running integral.

    Attributes
    ----------
    records : dict of str to Record
        By request id.
    running : dict of str to Record
        Those that were admitted, in that order.
    admitted : int
        First admissions since boot.
    """

    def __init__(self) -> None:
        self.records: dict[str, Record] = {}
        self.running: dict[str, Record] = {}
        self.admitted = 0
        self._sequence = 0
        self._integral = 0.0
        self._integral_s: float | None = None
        self._running = 0
        self._counter = 0
        self._groups = FileGroups()

    def arrive(self, request: Any, now_s: float) -> Record:
        """Start to remember a request, or give the record that there is."""
        record = self.records.get(request.request_id)
        if record is None:
            self._sequence += 1
            record = Record(request, now_s, self._sequence)
            record.group = self._groups.of(request.request_id, request.arrival_time)
            self.records[request.request_id] = record
        return record

    def come_again(self, record: Record, now_s: float) -> None:
        """Give a session that waits for its next turn a new place in time."""
        self._sequence += 1
        request_id = record.request.request_id
        again = record.again(now_s, self._sequence)
        self.records[request_id] = again
        if request_id in self.running:
            self.running[request_id] = again

    def join(self, record: Record, group: str) -> None:
        """Put a request into a group that its caller named; a session's next turn is in it."""
        if record.group != group:
            record.group = group
            self._groups.named(group, record.request.request_id)

    def group_id(self, record: Record) -> str:
        """Give the id of the file a request is a piece of, empty while it is the only one."""
        return record.group if self._groups.counts(record.group) else ""

    def grouped(self) -> list[Record]:
        """Give the records that have become members of a group since they were looked at.

        A file's first piece is one only when the second arrives; it may wait by then.
        """
        found = []
        for request_id in self._groups.take_completed():
            record = self.records.get(request_id)
            if record is not None:
                record.group_id = self.group_id(record)
                found.append(record)
        return found

    def advance(self, now_s: float, running: int | None = None) -> None:
        """Add to the integral of running requests over time.

        Parameters
        ----------
        now_s : float
            Monotonic seconds.
        running : int, optional
            The number of running requests from now on; unchanged by default.
        """
        if self._integral_s is not None and now_s > self._integral_s:
            self._integral += self._running * (now_s - self._integral_s)
        self._integral_s = now_s
        if running is not None:
            self._running = running

    def admit(self, request_id: str, now_s: float) -> None:
        """Note a first admission; a later one, after a preemption, changes nothing."""
        record = self.records.get(request_id)
        if record is not None and record.admitted_s is None:
            self.admitted += 1
            record.admitted_integral = self._integral
            record.prefill = getattr(record.request, "prefill_stats", None)
            record.admitted_s = now_s
            self.running[request_id] = record  # last: from here on the reporter's thread sees it

    def forget(self) -> None:
        """Forget every request."""
        self.records.clear()
        self.running.clear()

    def read(self, most: int) -> Iterator[RunningReport]:
        """Yield what runs, as `sched_client.completion.RunningSource` for the reporter's thread.

        Parameters
        ----------
        most : int
            Of more, every second, third, … is given: which ones must not depend on how long they
            have run.

        Notes
        -----
        The engine's thread does nothing for it and is kept waiting by no lock: ``list`` of a
        dictionary with text for keys, and each read of an attribute, is one step of the
        interpreter, and a record is read once. A request that ends meanwhile is left out or given
        with its last count.
        """
        ids = list(self.running)
        for request_id in ids[:: -(-len(ids) // most) or 1]:
            record = self.running.get(request_id)
            features = None if record is None else record.features
            if record is not None and features is not None:
                tokens = record.request.num_output_tokens
                name, started_s = request_id[-MAX_ID_LENGTH:], record.admitted_s or 0.0
                kind_of = record.hints.request_type
                yield RunningReport(features, tokens, name, started_s, kind_of)

    def finish(self, request: Any, now_s: float, unix_s: float) -> CompletionReport | None:
        """Forget a request and give its report; None for one never seen or read."""
        record = self.records.pop(request.request_id, None)
        self.running.pop(request.request_id, None)
        features = None if record is None else record.features
        if record is None or features is None:
            return None
        self._counter += 1
        wait_s, service_s, concurrency = now_s - record.enqueued_s, 0.0, 0.0
        cached_tokens = 0
        if record.admitted_s is not None:
            self.advance(now_s)
            wait_s = record.admitted_s - record.enqueued_s
            service_s = now_s - record.admitted_s
            concurrency = float(self._running)
            cached_tokens = getattr(record.prefill, "num_cached_tokens", 0) or 0
            if service_s > 0.0:
                concurrency = (self._integral - record.admitted_integral) / service_s
        return CompletionReport(
            counter=self._counter,
            features=features,
            output_tokens=request.num_output_tokens,
            finish_reason=_REASONS.get(request.status.name, "error"),
            finished_s=unix_s,
            cached_prompt_tokens=cached_tokens,
            wait_s=max(wait_s, 0.0),
            service_s=max(service_s, 0.0),
            concurrency=concurrency,
            preemptions=request.num_preemptions,
            predicted_tokens=record.tokens,
            snapshot_version=record.estimated_version,
            request_id=request.request_id[-MAX_ID_LENGTH:],  # the engine's own digits end it
            group_id=self.group_id(record),
            request_type=record.hints.request_type,
            queue_id=record.queue_id,
            priority=record.priority,
        )
