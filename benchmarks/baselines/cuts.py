"""Other places to cut two queues at than production's, to compare with.

``halves-no-gap`` cuts by the count of requests alone. ``halves-work`` cuts where the short hold
a share of the work, ``halves-more`` where they are that or production's share of the requests,
whichever is more, and ``halves-less`` whichever is less.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Callable
from operator import and_, or_
from typing import Final

from sched_client.model import PolicyParameters
from sched_client.policies import Policy
from sched_client.policies.guarded import GuardedPolicy
from sched_client.policies.halves import Halves
from sched_client.policies.orders import KeyedOrder, Order
from sched_client.policies.waiting import Waiting

# What .46 and .58 of the requests of LibriSpeech hold of the work on the decode-bound engine.
LEAST_WORK: Final = 0.24
MOST_WORK: Final = 0.34

Join = Callable[[bool, bool], bool]


class WithoutGap(Halves):
    """Cuts by count alone."""

    __slots__ = ()

    def _look(self) -> None:
        super()._look()
        self._limit, self._between = self._most, 0.0
        self.share = min(self.share, self._limit)


class ByWork(WithoutGap):
    """Cuts by the share of the work that the short hold.

    Parameters
    ----------
    join : callable
        Makes one answer of that by requests and that by work.
    least, most, phi : float
        As `Halves`; the share of the work moves between its own limits as that of the requests
        does between these.
    """

    __slots__ = ("_join",)

    def __init__(self, join: Join, least: float, most: float, phi: float) -> None:
        super().__init__(least, most, phi)
        self._join = join

    def rank(self, item: Waiting) -> bytes:
        """Give bytes that compare as the order does, and count an arrival."""
        by_count = super().rank(item)
        works, work = self._sorted, item.work
        lower, upper = bisect_left(works, work), bisect_right(works, work)
        place = (self.share - self._least) / ((self._most - self._least) or 1.0)
        most = LEAST_WORK + place * (MOST_WORK - LEAST_WORK)
        below = sum(works[:lower]) + work * (upper - lower) / 2.0
        is_short = self._join(not by_count[0], below <= most * sum(works))
        return bytes((not is_short,)) + by_count[1:]


def _work(_by_count: bool, by_work: bool) -> bool:  # noqa: FBT001 - as all of Join
    return by_work


class CutOrders:
    """The orders of one policy, cut by one rule.

    Parameters
    ----------
    halves : Halves
        The rule.
    """

    def __init__(self, halves: Halves) -> None:
        self._halves = halves

    def order(self) -> Order:
        """Make an empty order."""
        return KeyedOrder(self._halves.rank)

    def update(self, parameters: PolicyParameters) -> bool:
        """Apply new limits; nobody has to be put anew."""
        self._halves.bound(parameters.short_share, parameters.short_share_most, parameters.phi)
        return False

    def served(self, *, held_up: bool) -> None:
        """Take that one went by an order, or that the guard took the oldest instead."""
        self._halves.served(held_up=held_up)

    def moved(self, work: float, ratio: float) -> None:
        """Take the work of one that has a new estimate."""
        self._halves.moved(work, ratio)

    def clear(self) -> None:
        """Do nothing: an order that is dropped leaves nothing behind."""


_JOINS: Final[dict[str, Join]] = {
    "halves-work": _work,
    "halves-more": or_,
    "halves-less": and_,
}
NAMES: Final = ("halves-no-gap", *_JOINS)


def cut_policy(name: str, parameters: PolicyParameters) -> Policy:
    """Make a policy of one of `NAMES`."""
    limits = (parameters.short_share, parameters.short_share_most, parameters.phi)
    join = _JOINS.get(name)
    halves = WithoutGap(*limits) if join is None else ByWork(join, *limits)
    return GuardedPolicy(name, CutOrders(halves), parameters)
