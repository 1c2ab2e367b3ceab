"""Highest response ratio next, exact, by a kinetic tournament. Standard library only."""

import math
from typing import Final

from sched_client.policies.waiting import Waiting

_MIN_LEAVES: Final = 32
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

    Waits may be negative after such a step; the formula is taken as it stands.
    """

    __slots__ = ("_count", "_free", "_leaves", "_now_s", "_until", "_winners")

    def __init__(self) -> None:
        self._now_s = -math.inf
        self._count = 0
        self._allot([], _MIN_LEAVES)

    def __len__(self) -> int:
        """Count the items."""
        return self._count

    def push(self, item: Waiting) -> None:
        """Take in a waiting item."""
        if not self._free:
            self._allot(self._present(), 2 * self._leaves)
        if not self._count:
            self._now_s = item.enqueued_s  # no match depends on the time before
        item.leaf = self._free.pop()
        self._count += 1
        self._winners[self._leaves + item.leaf] = item
        self._climb(self._leaves + item.leaf)

    def discard(self, item: Waiting) -> None:
        """Forget an item that is no longer present."""
        self._winners[self._leaves + item.leaf] = None
        self._free.append(item.leaf)
        self._count -= 1
        if self._count * 8 < self._leaves > _MIN_LEAVES:
            self._allot(self._present(), self._leaves // 4)
        else:
            self._climb(self._leaves + item.leaf)

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

    def _allot(self, items: list[Waiting], leaves: int) -> None:
        leaves = max(leaves, _MIN_LEAVES)
        self._leaves = leaves
        self._winners: list[Waiting | None] = [None] * leaves
        self._winners += items
        self._winners += [None] * (leaves - len(items))
        self._until = [math.inf] * (2 * leaves)
        for leaf, item in enumerate(items):
            item.leaf = leaf
        self._free = list(range(leaves - 1, len(items) - 1, -1))
        self._play_all()

    def _play_all(self) -> None:
        for node in range(self._leaves - 1, 0, -1):
            self._play(node)

    def _climb(self, node: int) -> None:
        """Play every match from a leaf to the root, as far as anything changes."""
        play = self._play
        while node > 1:
            node >>= 1
            if not play(node):
                return

    def _catch_up(self) -> None:
        """Play again, from below, every match whose moment has come."""
        now_s, until, leaves = self._now_s, self._until, self._leaves
        due, level = [], [1]
        while level:
            due.append(level)
            level = [
                child
                for node in level
                if node < leaves
                for child in (2 * node, 2 * node + 1)
                if until[child] <= now_s
            ]
        for nodes in reversed(due):
            for node in nodes:
                self._play(node)

    def _play(self, node: int) -> bool:
        """Play one match at the present time; tell whether its result changed."""
        winners, until = self._winners, self._until
        left = 2 * node
        one, other = winners[left], winners[left + 1]
        end = until[left]
        if until[left + 1] < end:  # noqa: PLR1730 -- min() is a call; this loop is hot
            end = until[left + 1]
        if other is None:
            winner = one
        elif one is None:
            winner = other
        else:
            now_s = self._now_s
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
        if winners[node] is winner and until[node] == end:
            return False
        winners[node] = winner
        until[node] = end
        return True
