"""The requests that wait in a policy's order (mode ``on``).

Who is held is changed first and the policy last (the other way round on the way out), so that
after an exception at any point `in_arrival_order` still gives every request exactly once.
"""

from collections.abc import Iterable
from heapq import heappop, heappush
from typing import Any, Final, Protocol

from sched_client.estimates import Remains
from sched_client.model import PolicyParameters
from sched_client.policies.base import Policy, WaitingEntry
from sched_client.vllm.record import Record

# Times a step that a new estimate may send the head back, O(log n) each; after that the head is
# taken as it is, and the slices of `EngineClient` see to the rest.
_HEAD_REVISIONS: Final = 8
# The heap of ages is cleaned when more than half of it has left; below this it is not worth it.
_MIN_STALE: Final = 64


class Reviser(Protocol):
    """Gives new estimates."""

    def revised(self, record: Record) -> bool:
        """Estimate a request anew if the newest snapshot moves it enough; say whether it did."""

    def remains(self, record: Record) -> Remains:
        """Estimate what is left of a request that was preempted."""


class OrderedRequests:
    """Waiting requests and the policy that orders them.

    Parameters
    ----------
    policy : Policy
        Empty.
    parameters : PolicyParameters
        What it was made with.
    reviser : Reviser
        Gives new estimates.
    """

    def __init__(self, policy: Policy, parameters: PolicyParameters, reviser: Reviser) -> None:
        self._policy = policy
        self._parameters = parameters
        self._reviser = reviser
        self._held: dict[str, Record] = {}
        # Sequence numbers alone: what has left is in the heap, but no longer in the set.
        self._ages: list[int] = []
        self._sequences: set[int] = set()
        self._head_revisions = _HEAD_REVISIONS

    def __len__(self) -> int:
        return len(self._held)

    def __contains__(self, request_id: str) -> bool:
        return request_id in self._held

    def add(self, record: Record) -> None:
        """Take a request as the youngest."""
        self._hold(record)
        self._policy.add(entry_of(record, self._reviser))

    def give_back(self, record: Record) -> None:
        """Take back a request that was popped: it goes first among equals."""
        self._hold(record)
        self._policy.give_back(entry_of(record, self._reviser))

    def add_all(self, records: Iterable[Record]) -> None:
        """Take over what waited elsewhere, by arrival; preempted ones go first again."""
        ordered = sorted(records, key=by_sequence)
        for record in ordered:
            if not record.request.num_preemptions:
                self.add(record)
        for record in ordered:
            if record.request.num_preemptions:
                self.give_back(record)

    def remove(self, requests: Iterable[Any]) -> None:
        """Forget requests; absent ones are no error."""
        for request in requests:
            if self._leave(request.request_id) is not None:
                self._policy.remove(request.request_id)

    def begin_step(self) -> None:
        """Allow heads to be given new estimates once more."""
        self._head_revisions = _HEAD_REVISIONS

    def decide(self, now_s: float) -> Any:
        """Give the request that goes next; there must be one."""
        record = self._held[self._policy.peek(now_s).request_id]
        while self._head_revisions and self.revise(record):
            self._head_revisions -= 1
            record = self._held[self._policy.peek(now_s).request_id]
        return record.request

    def take(self, request: Any, now_s: float) -> bool:
        """Remove what `decide` gave; say whether it was not the oldest."""
        request_id = request.request_id
        popped = self._policy.pop(now_s).request_id
        if popped != request_id:
            raise RuntimeError(f"policy {self._policy.name} popped another than it peeked")
        oldest = self._oldest()
        record = self._leave(request_id)
        return record is not None and record.sequence != oldest

    def records(self) -> Iterable[Record]:
        """Give the records, in no particular order."""
        return self._held.values()

    def in_arrival_order(self) -> list[Any]:
        """List the requests: preempted ones first, then by arrival."""
        records = sorted(self._held.values(), key=by_sequence)
        records.sort(key=lambda record: not record.request.num_preemptions)
        return [record.request for record in records]

    def revise(self, record: Record) -> bool:
        """Give a record its new estimate, if it moved and still waits; say whether it did."""
        if self._held.get(record.request.request_id) is not record:
            return False
        if not self._reviser.revised(record):
            return False
        self._policy.revise(entry_of(record, self._reviser))
        return True

    def regroup(self, record: Record) -> None:
        """Let the policy know that a record's group has changed, if it still waits; O(log n)."""
        if self._held.get(record.request.request_id) is record:
            self._policy.revise(entry_of(record, self._reviser))

    def settle(self, parameters: PolicyParameters) -> None:
        """Give the policy its parameters."""
        if parameters != self._parameters:
            self._policy.update(parameters)
            self._parameters = parameters

    def _hold(self, record: Record) -> None:
        request_id = record.request.request_id
        self._held[request_id] = record
        self._sequences.add(record.sequence)
        heappush(self._ages, record.sequence)
        if len(self._ages) > 2 * len(self._held) + _MIN_STALE:
            self._ages = sorted(self._sequences)

    def _leave(self, request_id: str) -> Record | None:
        record = self._held.pop(request_id, None)
        if record is not None:
            self._sequences.discard(record.sequence)
        return record

    def _oldest(self) -> int:
        """Give the sequence number of the oldest that waits; amortised O(log n)."""
        while self._ages[0] not in self._sequences:
            heappop(self._ages)
        return self._ages[0]


def by_sequence(record: Record) -> int:
    """Sort by arrival."""
    return record.sequence


def entry_of(record: Record, reviser: Reviser) -> WaitingEntry:
    """Make a policy's entry of a record, which the client estimates before it waits.

    One that was preempted is ordered by what is left of it; the record keeps the whole.
    """
    request = record.request
    if not record.service_s:
        raise RuntimeError(f"{request.request_id!r} waits without an estimate")
    service_s, tokens, queue_id = record.service_s, record.tokens, record.queue_id
    if request.num_preemptions:
        service_s, tokens, queue_id = reviser.remains(record)
    return WaitingEntry(
        request.request_id,
        record.enqueued_s,
        service_s,
        tokens,
        queue_id,
        record.group_id,
        record.priority,
    )
