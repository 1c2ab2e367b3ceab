"""A policy: an order proposes, the guard may say "the oldest instead". Standard library only."""

from collections.abc import Callable, Iterator
from math import inf
from typing import Protocol

from sched_client.model import OrderBy, PolicyParameters
from sched_client.policies.base import WaitingEntry
from sched_client.policies.lanes import PriorityLanes
from sched_client.policies.ledger import OvertakingLedger
from sched_client.policies.load import RecentLoad
from sched_client.policies.orders import Order
from sched_client.policies.waiting import (
    Waiting,
    check_entry,
    check_parameters,
    check_revision,
    re_estimated,
    work_of,
)


class Orders(Protocol):
    """Makes the orders of a policy, and tells them what changes."""

    def order(self) -> Order:
        """Make an empty order for the requests of one priority, or of all."""

    def update(self, parameters: PolicyParameters) -> bool:
        """Take over parameters; tell whether all that wait have to be put in anew."""

    def served(self, *, held_up: bool) -> None:
        """Take that one went by an order, or that the guard took the oldest instead."""

    def moved(self, work: float, ratio: float) -> None:
        """Take the work of one that has a new estimate, ``ratio`` times what it was."""

    def clear(self) -> None:
        """Forget what is in the orders made so far: all of it is about to be put in anew."""


class FixedOrders:
    """Orders that no parameter changes.

    Parameters
    ----------
    order : callable
        Makes an empty order.
    """

    __slots__ = ("_tier_weight", "order")

    def __init__(self, order: Callable[[], Order], parameters: PolicyParameters) -> None:
        self.order = order
        self._tier_weight = parameters.tier_weight

    def update(self, parameters: PolicyParameters) -> bool:
        """Tell whether the tiers weigh something else."""
        before, self._tier_weight = self._tier_weight, parameters.tier_weight
        return before != self._tier_weight

    def served(self, *, held_up: bool) -> None:
        """Do nothing: an order by size alone asks for no more than it gets."""

    def moved(self, work: float, ratio: float) -> None:
        """Do nothing: an order by size alone keeps no works but those that wait."""

    def clear(self) -> None:
        """Do nothing: an order that is dropped leaves nothing behind."""


class GuardedPolicy:
    """An order of waiting requests under the guard of DESIGN.md, decision 6.

    Parameters
    ----------
    name : str
        What the policy is called.
    orders : Orders
        Makes the orders.
    parameters : PolicyParameters
        The unit of work and the guard.

    Raises
    ------
    ValueError
        For parameters outside their limits.

    Notes
    -----
    A smaller priority goes first, in it the given-back by enqueue time, then the order's choice,
    to which the pieces of one file are one (`sched_client.policies.groups`).
    Whatever that proposes, it goes only if every older one, of any priority, keeps its slack.
    """

    __slots__ = (
        "_by_id",
        "_choice",
        "_held_up",
        "_lanes",
        "_ledger",
        "_orders",
        "_parameters",
        "_reordering",
        "_sequence",
        "load",
        "name",
    )

    def __init__(self, name: str, orders: Orders, parameters: PolicyParameters) -> None:
        check_parameters(parameters)
        self.name = name
        self.load = RecentLoad(parameters.reorder_above)
        self._parameters = parameters
        self._ledger = OvertakingLedger(parameters.phi)
        self._orders = orders
        self._lanes = PriorityLanes(orders.order)
        self._by_id: dict[str, Waiting] = {}
        self._sequence = 0
        # Whether more than `reorder_above` have waited, as seen at each choice, since no more than
        # `reorder_until` did or nobody.
        self._reordering = False
        # Whether the guard took the oldest instead of what the order proposed; None where
        # `guard_s` did, which says nothing of the order.
        self._held_up: bool | None = False
        # What the last peek decided, and the entry as it showed it.
        self._choice: tuple[Waiting, WaitingEntry] | None = None

    def __len__(self) -> int:
        """Count the waiting entries."""
        return len(self._by_id)

    def __iter__(self) -> Iterator[WaitingEntry]:
        """Iterate over the waiting entries in arrival order."""
        return (item.entry for item in self._ledger)

    def add(self, entry: WaitingEntry) -> None:
        """Add an entry as the youngest.

        Raises
        ------
        ValueError
            If its id is waiting already, its work is not finite and > 0, or its enqueue time is
            not finite; nothing has changed then.
        """
        item = self._admit(entry, returned=False)
        self._ledger.append(item)
        self._lanes.push(item)

    def give_back(self, entry: WaitingEntry) -> None:
        """Take back a popped entry: first among its priority, and charged to nobody again.

        It stands where its enqueue time puts it, and its own account of overtaking starts anew.

        Raises
        ------
        ValueError
            As `add`.
        """
        item = self._admit(entry, returned=True)
        self._ledger.insert(item)
        self._lanes.push(item)

    def _admit(self, entry: WaitingEntry, *, returned: bool) -> Waiting:
        request_id, enqueued_s, service_s, tokens, _, _, priority = entry
        # The usual case without a call: this runs for each request on the engine's thread.
        if not (0.0 < service_s < inf > tokens > 0.0 and -inf < enqueued_s < inf):
            check_entry(entry)
        if request_id in self._by_id:
            raise ValueError(
                f"request {request_id!r} is waiting already, and an id may wait once; "
                "remove it first"
            )
        self._sequence += 1
        parameters = self._parameters
        work = service_s if parameters.order_by == "service" else tokens
        item = Waiting(entry, work, self._sequence, returned=returned)
        if priority:
            item.weigh(parameters)
        self._by_id[request_id] = item
        return item

    def peek(self, now_s: float) -> WaitingEntry:
        """Give the entry that goes next at a monotonic time, and fix that choice for `pop`.

        Raises
        ------
        IndexError
            When nothing waits.
        """
        item = self._decide(now_s)
        entry = item.entry
        self._choice = (item, entry)
        return entry

    def pop(self, now_s: float) -> WaitingEntry:
        """Remove and give the entry of the last peek, or of a peek made now.

        Raises
        ------
        IndexError
            When nothing waits.
        """
        if self._choice is None:
            item = self._decide(now_s)
            entry = item.entry
        else:
            item, entry = self._choice
            self._choice = None
        if self._reordering and self._held_up is not None:
            self._orders.served(held_up=self._held_up)
        del self._by_id[item.request_id]
        if not self._by_id:
            self._reordering = False
        self._ledger.serve(item)
        self._lanes.discard(item)
        return entry

    def _decide(self, now_s: float) -> Waiting:
        if not self._by_id:
            raise IndexError(f"nothing waits in {self.name}; ask len() first")
        parameters = self._parameters
        ledger = self._ledger
        count = len(self._by_id)
        self._held_up = False
        if count > parameters.reorder_above or self.load.high:
            self._reordering = True
        elif count <= parameters.reorder_until:
            self._reordering = False
        if parameters.guard_s is not None:
            oldest = ledger.oldest()
            if now_s - oldest.enqueued_s > parameters.guard_s:
                self._held_up = None
                return oldest
        # Few: of the ledger, as a dictionary is searched past all that ever left it since it grew.
        reordering = self._reordering
        candidate = self._lanes.first(now_s) if reordering else min(ledger, key=_by_arrival)
        if ledger.allows(candidate, parameters.burst_work):
            return candidate
        self._held_up = True
        return ledger.oldest()

    def remove(self, request_id: str) -> None:
        """Forget an entry; an absent id is no error and changes nothing."""
        item = self._by_id.pop(request_id, None)
        if item is None:
            return
        if not self._by_id:
            self._reordering = False
        self._ledger.discard(item)
        self._lanes.discard(item)
        if self._choice is not None and self._choice[0] is item:
            self._choice = None

    def update(
        self,
        parameters: PolicyParameters,
        re_estimate: Callable[[WaitingEntry], WaitingEntry] | None = None,
    ) -> None:
        """Apply new parameters, and new estimates where ``re_estimate`` gives them.

        New queues and the weights of heads cost O(queues), another φ O(n); another unit of work,
        weight of tiers, order within queues, or new estimates, O(n log n).

        A choice that a peek has fixed stands. With a new φ or b₀ every account is what it would
        be had they held from the start; with another unit of work all accounts start anew.

        Raises
        ------
        ValueError
            For parameters or estimates outside their limits, or when ``re_estimate`` changes who
            a request is; nothing has changed then.
        """
        check_parameters(parameters)
        before = self._parameters
        changed: list[tuple[Waiting, WaitingEntry, float]] = []
        if re_estimate is not None:
            for item in self._ledger:
                entry = item.entry
                after = re_estimated(entry, re_estimate)
                if after is not entry:
                    changed.append((item, after, _ratio(item, after, parameters.order_by)))
        self._parameters = parameters
        self.load.above = parameters.reorder_above
        self._ledger.set_phi(parameters.phi)
        for item, entry, _ in changed:
            item.take(entry)
        ranks_anew = self._orders.update(parameters)
        if before.order_by != parameters.order_by:
            self._ledger.restart()
        elif not (changed or ranks_anew):
            return
        for item in self._ledger:
            item.count(work_of(item, parameters.order_by))
            item.weigh(parameters)
        for item, _, ratio in changed:
            self._orders.moved(item.work, ratio)
        self._orders.clear()
        self._lanes.rebuild(self._ledger)

    def revise(self, entry: WaitingEntry) -> None:
        """Give one waiting entry a new estimate; O(log n), and an absent id changes nothing.

        Its age and its account of overtaking go on; a choice that a peek has fixed stands.

        Raises
        ------
        ValueError
            As `update`; nothing has changed then.
        """
        item = self._by_id.get(entry.request_id)
        if item is None:
            return
        check_revision(item.entry, entry)
        parameters = self._parameters
        self._lanes.discard(item)
        ratio = _ratio(item, entry, parameters.order_by)
        item.take(entry)
        item.count(work_of(entry, parameters.order_by))
        item.weigh(parameters)
        self._orders.moved(item.work, ratio)
        self._lanes.push(item)


def _ratio(before: Waiting, after: WaitingEntry, order_by: OrderBy) -> float:
    return work_of(after, order_by) / work_of(before, order_by)


def _by_arrival(item: Waiting) -> tuple[int, bool, float, int]:
    """Rank by strict priority, then as fcfs does: the given-back by age, then by arrival."""
    if item.returned:
        return (item.lane, False, item.enqueued_s, -item.sequence)
    return (item.lane, True, 0.0, item.sequence)
