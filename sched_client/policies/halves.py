"""Two queues at the median of what comes: the shorter half first. Standard library only.

Why at the median, and why no more than two: docs/policies.md.
"""

import struct
from bisect import bisect_left, bisect_right, insort
from collections import deque
from typing import Final

from sched_client.policies.groups import GroupUnit
from sched_client.policies.waiting import Waiting

# What a request that goes in its order adds to the share, and one that the guard holds up takes:
# about one in ten is held up where it settles.
_UP: Final = 0.001
_DOWN: Final = 0.01
# So many arrivals tell where the median is within 3 % of them (a binomial share's deviation), and
# a mix that has changed is forgotten after as many.
WINDOW: Final = 256
_BY_HALF: Final = struct.Struct(">BQ").pack
_SHORT: Final = 0
_LONG: Final = 1


class Halves:
    """Ranks the short before the long, each by arrival.

    Parameters
    ----------
    least, most : float
        How many of the arrivals are short at least and at most, [0, 1]; ``least`` alone if
        ``most`` is no more.

    Notes
    -----
    Short is who has no more work than that share of the last `WINDOW` arrivals, itself included,
    so that this works from the first requests on, whatever the unit and before anything is
    learned. Of equal work half counts as less: requests that are all alike are all long, which
    is first come, first served. A request is judged when it is put into an order: when it
    arrives, and when its estimate changes; meanwhile it stays what it is.

    The share begins with the most, which suits a short overload. In a long one the guard lets no
    more pass than φ allows; then all of a queue that is too large waits, and so the share falls
    by ten steps for a request held up and rises by one for each that goes (as TCP's window does;
    Chiu and Jain 1989).

    An insertion into a list of 256 floats and two bisections take about a microsecond.
    """

    __slots__ = ("_latest", "_least", "_most", "_recent", "_sorted", "share")

    def __init__(self, least: float, most: float) -> None:
        self.share = max(least, most)
        self.bound(least, most)
        self._recent: deque[float] = deque()
        self._sorted: list[float] = []
        # The youngest that was counted: who is put into an order again counts once.
        self._latest = -1

    def bound(self, least: float, most: float) -> None:
        """Set new limits."""
        self._least = least
        self._most = max(least, most)
        self.share = min(max(self.share, self._least), self._most)

    def served(self, *, held_up: bool) -> None:
        """Take that one went by this order, or that the guard took the oldest instead."""
        if held_up:
            self.share = max(self._least, self.share - _DOWN)
        else:
            self.share = min(self._most, self.share + _UP)

    def rank(self, item: Waiting) -> bytes:
        """Give bytes that compare as the order does, and count an arrival."""
        work = item.work
        # Of a file each piece counts, so that what is short does not depend on who sends files.
        arrived = item.newest if item.__class__ is GroupUnit else item
        if arrived.sequence > self._latest:
            self._latest = arrived.sequence
            self._count(arrived.work)
        works = self._sorted
        below = bisect_left(works, work) + bisect_right(works, work)
        is_short = below <= 2.0 * self.share * len(works)
        return _BY_HALF(_SHORT if is_short else _LONG, item.sequence)

    def _count(self, work: float) -> None:
        recent, works = self._recent, self._sorted
        recent.append(work)
        insort(works, work)
        if len(recent) > WINDOW:
            del works[bisect_left(works, recent.popleft())]
