"""Highest response ratio next, exact and without looking at all. Standard library only."""

import math
from math import isqrt
from typing import Final

from sched_client.policies.blocks import AgeBlocks
from sched_client.policies.front import Front, Stairs
from sched_client.policies.leaders import Leaders
from sched_client.policies.waiting import Waiting

# A front of so many is looked at as a whole: 0.06 µs each.
_FEW: Final = 32
# So many are kept at hand of a longer front, and at the most this many before it is thinned.
_AT_HAND: Final = 24
_MOST_AT_HAND: Final = 64
# Up to this, a front is looked through in one piece.
_MIN_STRIDE: Final = 512
# Bounds of what adapts itself to the load: how far ahead to look, in s, and how deep, as a share.
_AHEAD_S: Final = (1e-6, 1e6)
_DEPTH: Final = (1e-9, 0.5)
# What is looked through for one that leaves before it is too much: 4 µs. In a steady overload it
# is 7 of 10,000 that wait and 16 of 100,000.
_ALLOWED: Final = 64
# Times all that wait, in what was looked through beyond that: then something else costs less.
_PATIENCE: Final = 2


class HighestRatioFirst:
    """The item with the highest 1 + wait/work goes first; the older one among equals.

    Notes
    -----
    Only the `Front` can have the highest ratio. Of a front that is not short, some are kept at
    hand: all whose ratio will be above a floor at a time to come. Ratios only grow, so until that
    time none of the others is above the floor, and as long as the best one at hand is, it is the
    best of all. When it is not, or the time has come, the front is looked through once more,
    with a floor and a time that keep the number at hand small and the looking rare.

    Exact for real-valued work, as far as a quotient of floats is. An item that was stamped after
    ``now_s``, as the clock stepped back, has waited for 0 s.

    An operation is O(log n) and the scan of a few; looking through a front of m is O(m), after
    some 24 operations, where m is about 1.6 √n at a steady load (1,000 at 400,000 waiting). Where
    each arrival is shorter than all before, m is n, and the front may have to be looked through
    for each. So what is looked through is counted: before it comes to more than 64 for each that
    left and twice what waits, `Leaders` take over from the front, until as many have left as
    waited then. Whatever arrives, an operation therefore costs O(log n) and a few dozen looks at
    one item each, amortised over as many operations as wait.
    """

    __slots__ = (
        "_ahead_s",
        "_at_hand",
        "_blocks",
        "_debt",
        "_depth",
        "_floor",
        "_front",
        "_leaders",
        "_left",
        "_until_s",
    )

    def __init__(self) -> None:
        self._blocks = AgeBlocks()
        self._front = Front(self._blocks)
        self._ahead_s = 1.0
        self._depth = 0.1
        # In place of the front while there are any.
        self._leaders: Leaders | None = None
        # What was looked through beyond what is allowed, and how many have left since then; how
        # many are still to leave while there are leaders.
        self._debt = self._left = 0
        self._forget()

    def __len__(self) -> int:
        """Count the items."""
        return self._blocks.count

    def push(self, item: Waiting) -> None:
        """Take in a waiting item."""
        is_youngest = self._blocks.push(item)
        if self._leaders is not None:
            self._leaders.pushed(item)
            return
        if not is_youngest:
            hides = self._front.push_older(item)
            if hides is None:
                return
            for hidden in hides:
                self._lay_aside(hidden)
        elif not self._front.push_youngest(item):
            return
        if (self._until_s - item.enqueued_s) / item.work >= self._floor:
            self._take_at_hand(item)

    def discard(self, item: Waiting) -> None:
        """Forget an item that is in it."""
        blocks = self._blocks
        blocks.discard(item)
        if self._leaders is not None:
            self._leaders.discarded(item)
            blocks.tidy(item.block)
            self._left -= 1
            if self._left <= 0:
                self._leaders.retire()
                self._leaders = None
                self._front = Front(blocks)
            return
        self._left += 1
        exposed = self._front.discard(item)
        blocks.tidy(item.block)
        if exposed is None or not self._at_hand.items:
            return
        self._lay_aside(item)
        until_s, floor = self._until_s, self._floor
        for other in exposed:
            if (until_s - other.enqueued_s) / other.work >= floor:
                self._take_at_hand(other)

    def first(self, now_s: float) -> Waiting:
        """Give the item that goes next; there must be one."""
        if self._leaders is not None:
            return self._leaders.first(now_s)
        front = self._front
        if len(front.items) <= _FEW:
            if self._at_hand.items:
                self._forget()
            return front.best(now_s)[0]
        if self._at_hand.items:
            first, best = self._at_hand.best(now_s)
            if now_s <= self._until_s and best > self._floor:
                return first
        else:
            best = 0.0
        if now_s > self._until_s:
            self._ahead_s = min(2.0 * self._ahead_s, _AHEAD_S[1])
        elif len(self._at_hand.items) > _AT_HAND // 2:
            # Many are left, and none is above the floor yet: it is that of a time too far.
            self._ahead_s = max(0.5 * self._ahead_s, _AHEAD_S[0])
        else:
            self._depth = min(1.5 * self._depth, _DEPTH[1])
        first = self._look_through(now_s, best)
        if self._debt > _PATIENCE * self._blocks.count:
            self._let_lead()
        return first

    def _lay_aside(self, item: Waiting) -> None:
        index = self._at_hand.index(item)
        if index >= 0:
            self._at_hand.delete(index, index + 1)

    def _take_at_hand(self, item: Waiting) -> None:
        if len(self._at_hand.items) < _MOST_AT_HAND:
            self._at_hand.insert(item)
        else:
            self._forget()

    def _forget(self) -> None:
        """Have nothing at hand, so that the front is looked through next time."""
        self._at_hand = Stairs()
        self._floor, self._until_s = math.inf, -math.inf

    def _let_lead(self) -> None:
        """Do without a front for a while."""
        self._leaders = Leaders(self._blocks)
        self._front = Front(AgeBlocks())
        self._forget()
        self._left, self._debt = self._blocks.count, 0

    def _look_through(self, now_s: float, at_least: float) -> Waiting:
        """Find the best of the front, and take at hand what may be it soon.

        Some ratio is ``at_least`` as high now; a floor below it therefore leaves the best in.
        """
        front = self._front
        if not at_least > 0.0:
            at_least = max(front.ratios(now_s))
            if not at_least > 0.0:
                self._forget()
                return front.items[0]
        until_s = now_s + self._ahead_s
        floor = at_least * (1.0 - self._depth)
        rows = self._reaching(until_s, floor)
        first, _ = rows.best(now_s)
        if len(rows.items) > 2 * _AT_HAND:
            # Less far: who is not above a floor later is not above it before.
            self._ahead_s = max(0.5 * self._ahead_s, _AHEAD_S[0])
            self._depth = max(0.5 * self._depth, _DEPTH[0])
            until_s = now_s + self._ahead_s
            floor = max(floor, sorted(rows.ratios(until_s))[-_AT_HAND])
            rows = rows.above(until_s, floor)
        self._at_hand, self._floor, self._until_s = rows, floor, until_s
        return first

    def _reaching(self, until_s: float, floor: float) -> Stairs:
        """Give those of the front whose ratio will not be below a floor."""
        front, found = self._front, Stairs()
        n = len(front.items)
        stride = max(_MIN_STRIDE, isqrt(n))
        looked = n // stride
        for low in range(0, n, stride):
            high = min(low + stride, n)
            # The oldest and the shortest of a stride are its first and its last.
            if (until_s - front.ages[low]) / front.works[high - 1] < floor:
                continue
            looked += high - low
            found.extend(front.cut(low, high).reaching(until_s, floor))
        self._debt = max(0, self._debt + looked - _ALLOWED * self._left)
        self._left = 0
        return found
