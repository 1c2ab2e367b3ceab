"""The waiting queue that is swapped into vLLM's scheduler.

In the modes ``off`` and ``shadow``, under policy ``fcfs``, and for ever after a failure of our
own, vLLM's stock queue holds the requests and decides. Else `OrderedRequests` does; in ``shadow``
a policy runs beside the stock queue and only counts where it would have chosen another. Any
exception of ours returns every waiting request to the stock queue: none lost, none doubled.

Imports no vLLM: `sched_client.vllm.scheduler` mixes vLLM's abstract class in.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Protocol

from sched_client.model import Mode, PolicyParameters
from sched_client.policies.base import Policy
from sched_client.policies.load import RecentLoad
from sched_client.vllm.ordered import OrderedRequests, Reviser, entry_of
from sched_client.vllm.record import Record
from sched_client.vllm.shadow import ShadowOrder


class QueueOwner(Reviser, Protocol):
    """What the queue asks of the client that it belongs to."""

    def record_of(self, request: Any) -> Record:
        """Give the record of a request, with its estimate filled in."""

    def note_waiting(self, request: Any) -> None:
        """Note that a request waits (again) without estimating it."""

    def on_failure(self, error: Exception) -> None:
        """Count and log that the queue fell back to the stock order; must not raise."""


class KappadQueue:
    """A request queue in a policy's order, with a way back at every step.

    Parameters
    ----------
    stock : callable
        Makes vLLM's own queue.
    owner : QueueOwner
        Makes the estimates.

    Attributes
    ----------
    mode : {"off", "shadow", "on"}
        What the queue does now.
    now_s : float
        Monotonic seconds, frozen for one ``schedule()``.
    reordered : int
        Pops where the policy's choice was not the stock order's.
    failed : bool
        Whether the queue fell back for ever.
    """

    def __init__(self, stock: Callable[[], Any], owner: QueueOwner) -> None:
        self.mode: Mode = "off"
        self.now_s = 0.0
        self.reordered = 0
        self.failed = False
        self._new_stock = stock
        # Any: vLLM's RequestQueue, whose module is not imported here. Empty in mode on.
        self._stock: Any = stock()
        self._owner = owner
        self._ordered: OrderedRequests | None = None  # in mode on
        self._shadow: ShadowOrder | None = None  # in mode shadow
        # Outlives each policy: one that is switched on in an overload knows that it is in one.
        self._load = RecentLoad()
        # Who was popped before its turn in this step.
        self._overtakers: set[str] = set()
        # What the last peek gave, and whether the next peek may give it again.
        self._choice: Any = None
        self._decided = False

    # -- vLLM's interface ---------------------------------------------------------------------

    def add_request(self, request: Any) -> None:
        """Take a request that arrives, or a session that waits for its next turn."""
        try:
            # The last step's time: an engine that has rested forgets with its second arrival.
            self._load.arrived(len(self), self.now_s)
            self._owner.note_waiting(request)
        except Exception as error:  # noqa: BLE001 - any failure of ours means the stock order
            self.fail(error)
        if not self._put(request, give_back=False):
            self._stock.add_request(request)
            if self._shadow is not None:
                self._follow(self._shadow.add, request)

    def peek_request(self) -> Any:
        """Decide which request goes next; IndexError when empty."""
        ordered = self._ordered
        if ordered is not None:
            if self._decided:
                return self._choice
            if not len(ordered):
                raise IndexError("peek from an empty queue")
            try:
                self._choice = ordered.decide(self.now_s)
            except Exception as error:  # noqa: BLE001 - any failure of ours means the stock order
                self._choice = None
                self.fail(error)
            else:
                self._decided = True
        # Outside of mode on a choice is left only where this queue fell back after a peek.
        return self._stock.peek_request() if self._choice is None else self._choice

    def pop_request(self) -> Any:
        """Remove and give what the last peek gave, or what a peek gives now."""
        if self._ordered is not None and self._choice is None:
            self.peek_request()
        choice, self._choice, self._decided = self._choice, None, False
        if self._ordered is not None:
            try:
                self._count(choice, self._ordered.take(choice, self.now_s))
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
                self._count(popped, self._shadow.would_differ(popped, self.now_s))
            except Exception as error:  # noqa: BLE001 - any failure of ours means the stock order
                self.fail(error)
        return popped

    def prepend_request(self, request: Any) -> None:
        """Take back a preempted request: its work is lost, so it goes first."""
        if not self._put(request, give_back=True):
            self._stock.prepend_request(request)
            if self._shadow is not None:
                self._follow(self._shadow.give_back, request)

    def prepend_requests(self, requests: Iterable[Any]) -> None:
        """Take back requests that were popped and skipped; they keep their place in time."""
        given = list(requests)
        for request in given:
            if request.request_id in self._overtakers:  # it has not overtaken anybody yet
                self._overtakers.remove(request.request_id)
                self.reordered -= 1
        taken = set()
        for request in self._oldest_first(given):
            if not self._put(request, give_back=True):
                break
            taken.add(request.request_id)
        rest = [request for request in given if request.request_id not in taken]
        if rest:
            self._stock.prepend_requests(rest)
            if self._shadow is not None:
                self._follow(self._shadow.give_back, *self._oldest_first(rest))

    def remove_request(self, request: Any) -> None:
        """Remove a request."""
        if self._ordered is not None:
            self.remove_requests((request,))
            return
        self._stock.remove_request(request)
        if self._shadow is not None:
            self._follow(self._shadow.remove, request)

    def remove_requests(self, requests: Iterable[Any]) -> None:
        """Remove requests; absent ones are no error."""
        removed = list(requests)
        if self._ordered is not None:
            try:
                self._ordered.remove(removed)
            except Exception as error:  # noqa: BLE001 - any failure of ours means the stock order
                self.fail(error)
        if self._ordered is None:
            self._stock.remove_requests(removed)
            if self._shadow is not None:
                self._follow(self._shadow.remove, *removed)
        self._decided = False
        if self._choice is not None and any(request is self._choice for request in removed):
            self._choice = None

    def has_request(self, request: Any) -> bool:
        """Say whether a request, or the request of an id, waits here (vLLM 0.33 and later)."""
        request_id = getattr(request, "request_id", request)
        if self._ordered is not None:
            return request_id in self._ordered
        if hasattr(self._stock, "has_request"):
            return bool(self._stock.has_request(request))
        return any(waiting.request_id == request_id for waiting in self._stock)

    def __bool__(self) -> bool:
        return bool(self._stock if self._ordered is None else len(self._ordered))

    def __len__(self) -> int:
        return len(self._stock if self._ordered is None else self._ordered)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._stock if self._ordered is None else self._ordered.in_arrival_order())

    # -- the owner's interface ----------------------------------------------------------------

    def begin_step(self, now_s: float) -> None:
        """Freeze the time of one ``schedule()``; an unused choice of the last one is void."""
        self.now_s = now_s
        self._choice = None
        self._decided = False
        self._overtakers.clear()
        if self._ordered is not None:
            self._ordered.begin_step()

    def switch(self, mode: Mode, policy: Policy | None, parameters: PolicyParameters) -> None:
        """Change the mode, the policy or both; every waiting request moves along.

        Parameters
        ----------
        mode : {"off", "shadow", "on"}
            The new mode.
        policy : Policy or None
            A new, empty policy; None where vLLM's own queue decides.
        parameters : PolicyParameters
            What it was made with.

        Notes
        -----
        O(n log n) in the waiting requests, once per change: the operator's doing.
        """
        if self.failed:
            return
        try:
            self._shadow = None
            self._load.above = parameters.reorder_above
            if policy is not None:
                policy.load = self._load
            if self._ordered is not None:
                self._return_to_stock(self._ordered)
            records = [] if policy is None else [self._newest(r) for r in self._stock]
            if policy is not None and mode == "on":
                ordered = OrderedRequests(policy, parameters, self._owner)
                ordered.add_all(records)
                self._stock = self._new_stock()
                self._ordered = ordered
            elif policy is not None:
                shadow = ShadowOrder(policy, self._entry)
                for record in sorted(records, key=lambda record: record.sequence):
                    shadow.add(record.request)
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
        if self._ordered is not None:
            self._return_to_stock(self._ordered)
        self._shadow = None
        self.mode = "off"
        self._owner.on_failure(error)

    def records(self) -> Iterable[Record]:
        """Give what a policy orders now: the records whose estimates may be revised."""
        return () if self._ordered is None else self._ordered.records()

    def revise(self, record: Record) -> None:
        """Give a record its new estimate, if it moved and still waits."""
        if self._ordered is not None:
            self._ordered.revise(record)

    def regroup(self, record: Record) -> None:
        """Let the policy know that a record has become a member of a group, if it waits.

        Whatever it raises, all that call it mean the stock order by it.
        """
        if self._ordered is not None:
            self._decided = False
            self._ordered.regroup(record)
        elif self._shadow is not None and record.service_s:
            self._shadow.policy.revise(entry_of(record, self._owner))

    def settle(self, parameters: PolicyParameters) -> None:
        """Give the policy its parameters."""
        if self._ordered is not None:
            self._ordered.settle(parameters)
        elif self._shadow is not None:
            self._shadow.policy.update(parameters)

    # -- inside -------------------------------------------------------------------------------

    def _count(self, popped: Any, overtakes: bool) -> None:  # noqa: FBT001 - what a pop tells
        if overtakes:
            self.reordered += 1
            self._overtakers.add(popped.request_id)

    def _oldest_first(self, requests: list[Any]) -> list[Any]:
        """Sort for a policy, which takes entries in the order of their age ten times faster."""
        if self._ordered is None and self._shadow is None:
            return requests
        try:
            return sorted(requests, key=lambda r: self._owner.record_of(r).enqueued_s)
        except Exception as error:  # noqa: BLE001 - any failure of ours means the stock order
            self.fail(error)
            return requests

    def _put(self, request: Any, *, give_back: bool) -> bool:
        """Take a request in mode on; False if the stock queue has to."""
        ordered = self._ordered
        if ordered is None:
            return False
        self._decided = False
        try:
            record = self._owner.record_of(request)
            if give_back:
                ordered.give_back(record)
            else:
                ordered.add(record)
        except Exception as error:  # noqa: BLE001 - any failure of ours means the stock order
            held = request.request_id in ordered
            self.fail(error)
            return held  # then it went to the stock queue with all others
        return True

    def _newest(self, request: Any) -> Record:
        """Give a record with the newest estimate: nobody revised it in the other modes."""
        record = self._owner.record_of(request)
        self._owner.revised(record)
        return record

    def _entry(self, request: Any) -> Any:
        return entry_of(self._owner.record_of(request), self._owner)

    def _follow(self, act: Callable[[Any], None], *requests: Any) -> None:
        """Let the shadow's policy follow what the stock queue did."""
        try:
            for request in requests:
                act(request)
        except Exception as error:  # noqa: BLE001 - any failure of ours means the stock order
            self.fail(error)

    def _return_to_stock(self, ordered: OrderedRequests) -> None:
        stock = self._new_stock()
        for request in ordered.in_arrival_order():
            stock.add_request(request)
        # From here on nothing can fail.
        self._stock, self._ordered, self.mode = stock, None, "off"
