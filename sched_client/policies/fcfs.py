"""First come, first served: what every fallback promises. Standard library only."""

import math
from collections import OrderedDict
from collections.abc import Callable, Iterator
from heapq import merge

from sched_client.model import PolicyParameters
from sched_client.policies.base import WaitingEntry
from sched_client.policies.load import RecentLoad
from sched_client.policies.orders import KeyedOrder, returned_rank
from sched_client.policies.waiting import (
    Waiting,
    check_entry,
    check_parameters,
    check_revision,
    re_estimated,
)


class Fcfs:
    """Requests in the order in which they arrived, the given-back before all others.

    Parameters
    ----------
    parameters : PolicyParameters
        Checked, and without effect on the order.

    Raises
    ------
    ValueError
        For parameters outside their limits.

    Notes
    -----
    As vLLM's own fcfs queue, it ignores priorities: a fallback must be what the operator had
    without kappad. It overtakes nobody, so there is nothing to guard, and it shares no structure
    with the guarded policies that it stands in for.
    """

    __slots__ = (
        "_arrived",
        "_choice",
        "_given_back",
        "_returned",
        "_sequence",
        "_youngest",
        "load",
        "name",
    )

    def __init__(self, parameters: PolicyParameters) -> None:
        check_parameters(parameters)
        self.name = "fcfs"
        self.load = RecentLoad(parameters.reorder_above)
        # A plain dict would search past every entry that left before to find its first one.
        self._arrived: OrderedDict[str, tuple[float, WaitingEntry]] = OrderedDict()
        self._given_back: dict[str, Waiting] = {}
        self._returned = KeyedOrder(returned_rank)
        self._sequence = 0
        self._youngest = -math.inf
        self._choice: WaitingEntry | None = None

    def __len__(self) -> int:
        """Count the waiting entries."""
        return len(self._arrived) + len(self._given_back)

    def __iter__(self) -> Iterator[WaitingEntry]:
        """Iterate over the waiting entries in arrival order."""
        returned = sorted(self._given_back.values(), key=returned_rank)
        aged = ((item.enqueued_s, item.entry) for item in returned)
        # Stable: a given-back entry comes before those that were enqueued at the same time.
        return (pair[1] for pair in merge(aged, self._arrived.values(), key=lambda pair: pair[0]))

    def add(self, entry: WaitingEntry) -> None:
        """Add an entry as the youngest.

        Raises
        ------
        ValueError
            If its id is waiting already, its work is not finite and > 0, or its enqueue time is
            not finite; nothing has changed then.
        """
        request_id = self._check(entry)
        enqueued_s = entry.enqueued_s
        if enqueued_s > self._youngest:  # noqa: PLR1730 -- max() is a call for each arrival
            self._youngest = enqueued_s
        self._arrived[request_id] = (self._youngest, entry)

    def give_back(self, entry: WaitingEntry) -> None:
        """Take back a popped entry: before all arrivals, by enqueue time among its like.

        Raises
        ------
        ValueError
            As `add`.
        """
        request_id = self._check(entry)
        self._youngest = max(self._youngest, entry.enqueued_s)
        self._sequence += 1
        item = Waiting(entry, entry.service_s, self._sequence, returned=True)
        self._given_back[request_id] = item
        self._returned.push(item)

    def _check(self, entry: WaitingEntry) -> str:
        check_entry(entry)
        request_id = entry.request_id
        if request_id in self._arrived or request_id in self._given_back:
            raise ValueError(
                f"request {request_id!r} is waiting already, and an id may wait once; "
                "remove it first"
            )
        return request_id

    def peek(self, now_s: float) -> WaitingEntry:
        """Give the entry that goes next, and fix that choice for `pop`.

        Raises
        ------
        IndexError
            When nothing waits.
        """
        if self._given_back:
            self._choice = self._returned.first(now_s).entry
        elif self._arrived:
            self._choice = next(iter(self._arrived.values()))[1]
        else:
            raise IndexError("nothing waits in fcfs; ask len() first")
        return self._choice

    def pop(self, now_s: float) -> WaitingEntry:
        """Remove and give the entry of the last peek, or of a peek made now.

        Raises
        ------
        IndexError
            When nothing waits.
        """
        entry = self._choice or self.peek(now_s)
        self._choice = None
        self.remove(entry.request_id)
        return entry

    def remove(self, request_id: str) -> None:
        """Forget an entry; an absent id is no error and changes nothing."""
        if self._arrived.pop(request_id, None) is None:
            item = self._given_back.pop(request_id, None)
            if item is None:
                return
            self._returned.discard(item)
        if self._choice is not None and self._choice.request_id == request_id:
            self._choice = None

    def update(
        self,
        parameters: PolicyParameters,
        re_estimate: Callable[[WaitingEntry], WaitingEntry] | None = None,
    ) -> None:
        """Apply new estimates where ``re_estimate`` gives them; they do not move anyone.

        Raises
        ------
        ValueError
            As `GuardedPolicy.update`; nothing has changed then.
        """
        check_parameters(parameters)
        if re_estimate is None:
            return
        arrived = {
            request_id: (age, re_estimated(entry, re_estimate))
            for request_id, (age, entry) in self._arrived.items()
        }
        given_back = {
            request_id: re_estimated(item.entry, re_estimate)
            for request_id, item in self._given_back.items()
        }
        self._arrived.update(arrived)
        for request_id, entry in given_back.items():
            self._given_back[request_id].take(entry)

    def revise(self, entry: WaitingEntry) -> None:
        """Give one waiting entry a new estimate; it does not move, an absent id changes nothing.

        Raises
        ------
        ValueError
            As `GuardedPolicy.revise`; nothing has changed then.
        """
        arrived = self._arrived.get(entry.request_id)
        returned = self._given_back.get(entry.request_id)
        if arrived is not None:
            check_revision(arrived[1], entry)
            self._arrived[entry.request_id] = (arrived[0], entry)
        elif returned is not None:
            check_revision(returned.entry, entry)
            returned.take(entry)
