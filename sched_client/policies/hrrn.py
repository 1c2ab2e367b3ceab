"""Highest response ratio next, exact, by a kinetic tournament. Standard library only."""

import math
from bisect import bisect_right
from collections.abc import Iterable
from itertools import repeat
from operator import rshift
from typing import Final

from sched_client.policies.waiting import Waiting

_MIN_LEAVES: Final = 32
# Leaves that share a list of free ones and a range of work.
_REGION: Final = 8
# A certificate ends this much of its time early, so that rounding in the crossing time can never
# outlive the comparison of the two ratios themselves.
_MARGIN: Final = 1e-12


class HighestRatioFirst:
    """The item with the highest 1 + wait/work goes first; the older one among equals.

    Notes
    -----
    A ratio is a line in time, 1 + (now - enqueued)/work, and two lines cross once. Each node of a
    tournament over the items keeps its winner and the first moment at which a winner below it, or
    its own, may change: when the loser has less work, the crossing of the two lines, else never.
    As time goes on only nodes whose moment has come are played again (Basch, Guibas, Hershberger,
    "Data structures for mobile data", 1999). An arrival is played against winners on its way up
    and stops where nothing changes; a departure is one walk to the root. Exact for real-valued
    work, unlike size classes. When time steps back, everything is played again, O(n).

    Items of like work are kept in neighbouring leaves: among them the oldest wins until it
    leaves, so that matches come due less often (1.6 instead of 15 an operation at 10,000 waiting,
    benchmarks/policies.py). Placement affects nothing but that.

    Waits may be negative after such a step; the formula is taken as it stands.
    """

    __slots__ = ("_bounds", "_count", "_free", "_leaves", "_now_s", "_until", "_winners")

    def __init__(self) -> None:
        self._now_s = -math.inf
        self._count = 0
        self._allot([], _MIN_LEAVES)

    def __len__(self) -> int:
        """Count the items."""
        return self._count

    def push(self, item: Waiting) -> None:
        """Take in a waiting item."""
        if self._count * 4 >= self._leaves * 3:  # fuller, and like would not find like
            self._allot(self._present(), 2 * self._leaves)
        if not self._count:
            self._now_s = item.enqueued_s  # no match depends on the time before
        item.leaf = self._free_leaf(item.work)
        self._count += 1
        self._winners[self._leaves + item.leaf] = item
        self._climb(item.leaf)

    def discard(self, item: Waiting) -> None:
        """Forget an item that is in it."""
        self._winners[self._leaves + item.leaf] = None
        self._free[item.leaf // _REGION].append(item.leaf)
        self._count -= 1
        if self._count * 8 < self._leaves > _MIN_LEAVES:
            self._allot(self._present(), self._leaves // 4)
        else:
            self._climb(item.leaf)

    def first(self, now_s: float) -> Waiting:
        """Give the item that goes next; there must be one."""
        if now_s != self._now_s and math.isfinite(now_s):
            stepped_back = now_s < self._now_s
            self._now_s = now_s
            if stepped_back:
                self._play_all()
            elif self._until[1] <= now_s:
                self._catch_up()
        winner = self._winners[1]
        if winner is None:
            raise RuntimeError("first() of an empty order")
        return winner

    def _present(self) -> list[Waiting]:
        return [item for item in self._winners[self._leaves :] if item is not None]

    def _free_leaf(self, work: float) -> int:
        """Take the free leaf nearest to others of like work; there must be one."""
        free = self._free
        region = bisect_right(self._bounds, work)
        if free[region]:
            return free[region].pop()
        for distance in range(1, len(free)):
            for near in (region - distance, region + distance):
                if 0 <= near < len(free) and free[near]:
                    return free[near].pop()
        raise RuntimeError("no leaf is free")

    def _allot(self, items: list[Waiting], leaves: int) -> None:
        """Spread items by work over a tree of this many leaves, and play everything."""
        self._leaves = leaves
        self._winners: list[Waiting | None] = [None] * (2 * leaves)
        self._until = [math.inf] * (2 * leaves)
        items.sort(key=lambda item: item.work)
        for rank, item in enumerate(items):
            item.leaf = rank * leaves // len(items)
            self._winners[leaves + item.leaf] = item
        regions = range(0, leaves, _REGION)
        self._free = [
            [leaf for leaf in range(low, low + _REGION) if self._winners[leaves + leaf] is None]
            for low in regions
        ]
        # The work at which each region but the first begins; nothing is known of an empty tree.
        self._bounds = [items[low * len(items) // leaves].work for low in regions[1:] if items]
        self._play_all()

    def _climb(self, leaf: int) -> None:
        """Play every match from a leaf to the root, as far as anything changes."""
        # Lazily, as most walks stop early.
        levels = range(1, self._leaves.bit_length())
        self._play(map(rshift, repeat(self._leaves + leaf), levels), until_same=True)

    def _play_all(self) -> None:
        self._play(range(self._leaves - 1, 0, -1))

    def _catch_up(self) -> None:
        """Play again, from below, every match whose moment has come."""
        now_s, until, leaves = self._now_s, self._until, self._leaves
        due = [1]
        for node in due:  # grows while it is walked: parents come before their children
            if node < leaves:
                left = 2 * node
                if until[left] <= now_s:
                    due.append(left)
                if until[left + 1] <= now_s:
                    due.append(left + 1)
        due.reverse()
        self._play(due)

    def _play(self, nodes: Iterable[int], *, until_same: bool = False) -> None:
        """Play matches at the present time, children first; stop at one that stays the same.

        One loop for all callers: a call for each match cost a fifth of an operation.
        """
        now_s, winners, until = self._now_s, self._winners, self._until
        for node in nodes:
            left = 2 * node
            one, other = winners[left], winners[left + 1]
            end = until[left]
            if until[left + 1] < end:  # noqa: PLR1730 -- min() is a call; this loop is hot
                end = until[left + 1]
            winner: Waiting | None
            if one is None or other is None:
                winner = one or other
            else:
                one_ratio = (now_s - one.enqueued_s) / one.work
                other_ratio = (now_s - other.enqueued_s) / other.work
                if one_ratio > other_ratio or (
                    one_ratio == other_ratio
                    and (one.enqueued_s, one.sequence) < (other.enqueued_s, other.sequence)
                ):
                    winner, loser = one, other
                else:
                    winner, loser = other, one
                more = winner.work - loser.work
                if more > 0.0:  # the loser's ratio grows faster and will catch up
                    crossing = loser.enqueued_s
                    crossing += (crossing - winner.enqueued_s) * loser.work / more
                    crossing -= _MARGIN * abs(crossing)
                    if not crossing > now_s:
                        crossing = now_s
                    if crossing < end:  # noqa: PLR1730 -- min() is a call; this loop is hot
                        end = crossing
            if until_same and winners[node] is winner and until[node] == end:
                return
            winners[node] = winner
            until[node] = end
