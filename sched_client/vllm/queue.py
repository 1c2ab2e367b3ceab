"""The waiting queue that is swapped into vLLM's scheduler.

In the modes ``off`` and ``shadow``, and for ever after a failure of our own, vLLM's stock queue
holds the requests and decides. In mode ``on`` this queue holds them and a policy decides; in
``shadow`` the policy runs beside the stock queue and only counts where it would have chosen
another. Whoever holds the requests is changed first and the policy last, so that an exception at
any point loses none and doubles none.

Imports no vLLM: `sched_client.vllm.shim` mixes vLLM's abstract class in.
"""

from collections.abc import Callable, Iterable, Iterator
from heapq import heappop, heappush
from typing import Any, Final, Protocol

from sched_client.model import Mode, PolicyParameters
from sched_client.policies.base import Policy, WaitingEntry
from sched_client.vllm.shadow import ShadowOrder
from sched_client.vllm.tracker import Record

# Times a step that new estimates found at the head are given to the policy, O(n log n) each;
# after that the head is taken as it is, and the slices of `EngineClient` see to the rest.
_HEAD_REVISIONS: Final = 1


# The heap of ages is cleaned when more than half of it has left; below this it is not worth it.
_MIN_STALE: Final = 64


class QueueOwner(Protocol):
    """What the queue asks of the client that it belongs to."""

    def record_of(self, request: Any) -> Record:
        """Give the record of a request, with its entry for the policy filled in."""

    def note_waiting(self, request: Any) -> None:
        """Note that a request waits (again) without making an entry for it."""

    def revised(self, record: Record) -> WaitingEntry | None:
        """Give a new entry if the newest snapshot moves the estimate enough, else None."""

    def on_failure(self, error: Exception) -> None:
        """Count and log that the queue fell back to the stock order; must not raise."""


class KappadQueue:
    """A request queue in a policy's order, with a way back at every step.

    Parameters
    ----------
    stock : callable
        Makes vLLM's own queue.
    owner : QueueOwner
        Makes the entries.

    Attributes
    ----------
    mode : {"off", "shadow", "on"}
        What the queue does now.
    now_s : float
        Monotonic seconds, frozen for one ``schedule()``.
    reordered : int
        Pops where the policy's choice was not the stock order's.
    """

    def __init__(self, stock: Callable[[], Any], owner: QueueOwner) -> None:
        self.mode: Mode = "off"
        self.reordered = 0
        self.failed = False
        self._new_stock = stock
        # Any: vLLM's RequestQueue, whose module is not imported here.
        self._stock: Any = stock()
        self._owner = owner
        self._policy: Policy | None = None
        self._shadow: ShadowOrder | None = None
        self._parameters = PolicyParameters()
        self.now_s = 0.0
        self._head_revisions = _HEAD_REVISIONS
        # Mode on only: all waiting requests, and a heap of their ages, cleaned lazily.
        self._waiting: dict[str, Record] = {}
        self._ages: list[tuple[int, str]] = []
        self._changed: dict[str, WaitingEntry] = {}
        # What the last peek gave, and whether the next peek may give it again.
        self._choice: Any = None
        self._decided = False

    # -- vLLM's interface ---------------------------------------------------------------------

    def add_request(self, request: Any) -> None:
        """Take a request that arrives, or a session that waits for its next turn."""
        try:
            self._owner.note_waiting(request)
            record = self._owner.record_of(request) if self.mode == "on" else None
        except Exception as error:  # noqa: BLE001 - any failure of ours means the stock order
            self.fail(error)
            record = None
        if record is None:
            self._stock.add_request(request)
            if self._shadow is not None:
                self._follow(self._shadow.add, request)
            return
        self._waiting[request.request_id] = record
        try:
            self._note_age(record)
            self._active().add(_entry_of(record))
        except Exception as error:  # noqa: BLE001 - as above; the request is held by now
            self.fail(error)

    def peek_request(self) -> Any:
        """Decide which request goes next; IndexError when empty."""
        if self.mode == "on":
            if self._decided:
                return self._choice
            if not self._waiting:
                raise IndexError("peek from an empty queue")
            try:
                self._choice = self._decide().request
            except Exception as error:  # noqa: BLE001 - any failure of ours means the stock order
                self._choice = None
                self.fail(error)
            else:
                self._decided = True
                return self._choice
        # A choice is left only where this queue fell back after it was peeked.
        return self._stock.peek_request() if self._choice is None else self._choice

    def pop_request(self) -> Any:
        """Remove and give what the last peek gave, or what a peek gives now."""
        if self.mode == "on" and self._choice is None:
            self.peek_request()
        choice, self._choice, self._decided = self._choice, None, False
        if self.mode == "on":
            try:
                self._take(choice)
            except Exception as error:  # noqa: BLE001 - any failure of ours means the stock order
                self.fail(error)
            else:
                return choice
        if choice is not None:
            # Fell back between peek and pop: vLLM has allocated for this one already.
            self._stock.remove_request(choice)
            return choice
        popped = self._stock.pop_request()
        if self._shadow is not None:
            try:
                self.reordered += self._shadow.would_differ(popped, self.now_s)
            except Exception as error:  # noqa: BLE001 - any failure of ours means the stock order
                self.fail(error)
        return popped

    def prepend_request(self, request: Any) -> None:
        """Take back a preempted request: its work is lost, so it goes first."""
        if self.mode != "on":
            self._stock.prepend_request(request)
            if self._shadow is not None:
                self._follow(self._shadow.give_back, request)
            return
        self._give_back(request)

    def prepend_requests(self, requests: Iterable[Any]) -> None:
        """Take back requests that were popped and skipped; they keep their place in time."""
        returned = list(requests)
        if self.mode != "on":
            self._stock.prepend_requests(returned)
            if self._shadow is not None:
                self._follow(self._shadow.give_back, *returned)
            return
        for position, request in enumerate(returned):
            if self.failed:  # on the way: the rest as stock would
                self._stock.prepend_requests(returned[position:])
                return
            self._give_back(request)

    def remove_request(self, request: Any) -> None:
        """Remove a request."""
        if self.mode == "on":
            self.remove_requests((request,))
            return
        self._stock.remove_request(request)
        if self._shadow is not None:
            self._follow(self._shadow.remove, request)

    def remove_requests(self, requests: Iterable[Any]) -> None:
        """Remove requests; absent ones are no error."""
        removed = list(requests)
        if self.mode != "on":
            self._stock.remove_requests(removed)
            if self._shadow is not None:
                self._follow(self._shadow.remove, *removed)
            self._forget_choice(removed)
            return
        try:
            for request in removed:
                if self._waiting.pop(request.request_id, None) is not None:
                    self._active().remove(request.request_id)
        except Exception as error:  # noqa: BLE001 - any failure of ours means the stock order
            self.fail(error)
            self._stock.remove_requests(removed)
        self._forget_choice(removed)

    def has_request(self, request: Any) -> bool:
        """Say whether a request, or the request of an id, waits here (vLLM 0.33 and later)."""
        request_id = getattr(request, "request_id", request)
        if self.mode == "on":
            return request_id in self._waiting
        return any(waiting.request_id == request_id for waiting in self._stock)

    def __bool__(self) -> bool:
        return bool(self._waiting) if self.mode == "on" else bool(self._stock)

    def __len__(self) -> int:
        return len(self._waiting) if self.mode == "on" else len(self._stock)

    def __iter__(self) -> Iterator[Any]:
        if self.mode == "on":
            return iter([record.request for record in self._in_arrival_order()])
        return iter(self._stock)

    # -- the owner's interface ----------------------------------------------------------------

    def begin_step(self, now_s: float) -> None:
        """Freeze the time of one ``schedule()``; an unused choice of the last one is void."""
        self.now_s = now_s
        self._head_revisions = _HEAD_REVISIONS
        self._choice = None
        self._decided = False

    def switch(self, mode: Mode, policy: Policy | None, parameters: PolicyParameters) -> None:
        """Change the mode, the policy or both; every waiting request moves along.

        Parameters
        ----------
        mode : {"off", "shadow", "on"}
            The new mode.
        policy : Policy or None
            A new, empty policy; None for ``off``.
        parameters : PolicyParameters
            What the policy was made with.

        Notes
        -----
        O(n log n) in the waiting requests, once per change: the operator's doing.
        """
        if self.failed:
            return
        try:
            if self.mode == "on":
                self._return_to_stock()
            self._policy, self._shadow, self._parameters = policy, None, parameters
            if mode == "on":
                self._take_over()
            elif mode == "shadow":
                shadow = ShadowOrder(self._active(), self._entry)
                for request in sorted(self._stock, key=self._sequence_of):
                    shadow.add(request)
                self._shadow = shadow
            self.mode = mode
        except Exception as error:  # noqa: BLE001 - any failure of ours means the stock order
            self.fail(error)

    def fail(self, error: Exception) -> None:
        """Return every waiting request to the stock queue, for ever; a second call does nothing.

        Parameters
        ----------
        error : Exception
            What went wrong.
        """
        if self.failed:
            return
        self.failed = True
        if self._waiting:
            self._return_to_stock()
        self.mode = "off"
        self._policy = self._shadow = None
        self._decided = False
        self._owner.on_failure(error)

    def records(self) -> list[Record]:
        """List what a policy orders now: the records whose estimates may be revised."""
        return list(self._waiting.values())

    def revise(self, record: Record) -> None:
        """Note a record's new estimate, if it moved and still waits; `settle` applies it."""
        request_id = record.request.request_id
        if self._waiting.get(request_id) is record:
            entry = self._owner.revised(record)
            if entry is not None:
                record.entry = self._changed[request_id] = entry

    def settle(self, parameters: PolicyParameters) -> None:
        """Give the policy its parameters and the new estimates; O(n) without evaluating any."""
        self._parameters = parameters
        if self._policy is None:
            return
        changed, self._changed = self._changed, {}
        if changed:
            self._policy.update(parameters, lambda entry: changed.get(entry.request_id, entry))
        else:
            self._policy.update(parameters)

    # -- mode on ------------------------------------------------------------------------------

    def _active(self) -> Policy:
        if self._policy is None:
            raise RuntimeError(f"mode {self.mode} without a policy")
        return self._policy

    def _follow(self, act: Callable[[Any], None], *requests: Any) -> None:
        """Let the shadow's policy follow what the stock queue did."""
        try:
            for request in requests:
                act(request)
        except Exception as error:  # noqa: BLE001 - any failure of ours means the stock order
            self.fail(error)

    def _sequence_of(self, request: Any) -> int:
        return self._owner.record_of(request).sequence

    def _entry(self, request: Any) -> WaitingEntry:
        return _entry_of(self._owner.record_of(request))

    def _decide(self) -> Record:
        policy = self._active()
        record = self._waiting[policy.peek(self.now_s).request_id]
        while self._head_revisions:
            self.revise(record)
            if record.request.request_id not in self._changed:
                break
            self._head_revisions -= 1
            self.settle(self._parameters)
            record = self._waiting[policy.peek(self.now_s).request_id]
        return record

    def _take(self, choice: Any) -> None:
        """Remove a choice from the policy and only then from what is held."""
        request_id = choice.request_id
        policy = self._active()
        entry = policy.pop(self.now_s)
        if entry.request_id != request_id:
            raise RuntimeError(f"policy {policy.name} popped another than it peeked")
        if self._oldest() != request_id:
            self.reordered += 1
        del self._waiting[request_id]

    def _note_age(self, record: Record) -> None:
        heappush(self._ages, (record.sequence, record.request.request_id))
        if len(self._ages) > 2 * len(self._waiting) + _MIN_STALE:
            self._ages = sorted((r.sequence, i) for i, r in self._waiting.items())

    def _oldest(self) -> str:
        """Give the id of the oldest that waits; amortised O(log n)."""
        ages = self._ages
        while True:
            sequence, request_id = ages[0]
            record = self._waiting.get(request_id)
            if record is not None and record.sequence == sequence:
                return request_id
            heappop(ages)

    def _give_back(self, request: Any) -> None:
        try:
            record = self._owner.record_of(request)
        except Exception as error:  # noqa: BLE001 - any failure of ours means the stock order
            self.fail(error)
            self._stock.prepend_request(request)
            return
        self._waiting[request.request_id] = record
        self._decided = False
        try:
            self._note_age(record)
            self._active().give_back(_entry_of(record))
        except Exception as error:  # noqa: BLE001 - as above; the request is held by now
            self.fail(error)

    def _forget_choice(self, removed: list[Any]) -> None:
        self._decided = False
        if self._choice is not None and any(request is self._choice for request in removed):
            self._choice = None

    def _in_arrival_order(self) -> list[Record]:
        """List the waiting records: preempted ones first, then by arrival."""
        return sorted(self._waiting.values(), key=_place)

    def _return_to_stock(self) -> None:
        stock = self._new_stock()
        for record in self._in_arrival_order():
            stock.add_request(record.request)
        # From here on nothing can fail.
        self._stock, self.mode = stock, "off"
        self._waiting, self._ages, self._changed = {}, [], {}

    def _take_over(self) -> None:
        policy = self._active()
        records = sorted(map(self._owner.record_of, self._stock), key=_sequence)
        for record in records:
            if not record.request.num_preemptions:
                policy.add(_entry_of(record))
        for record in reversed(records):
            if record.request.num_preemptions:
                policy.give_back(_entry_of(record))
        stock = self._new_stock()
        # From here on nothing can fail. Ascending, so that the list is a heap already.
        self._ages = [(record.sequence, record.request.request_id) for record in records]
        self._waiting = {record.request.request_id: record for record in records}
        self._stock = stock


def _sequence(record: Record) -> int:
    return record.sequence


def _place(record: Record) -> tuple[bool, int]:
    return (not record.request.num_preemptions, record.sequence)


def _entry_of(record: Record) -> WaitingEntry:
    if record.entry is None:
        raise RuntimeError(f"{record.request.request_id!r} waits without an entry")
    return record.entry
