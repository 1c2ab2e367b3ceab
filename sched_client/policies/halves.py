"""Two queues at the median of what comes: the shorter half first. Standard library only.

Why at the median, and why no more than two: docs/policies.md.
"""

import struct
from bisect import bisect_left, bisect_right, insort
from collections import deque
from typing import Final

from sched_client.policies.groups import GroupUnit
from sched_client.policies.waiting import Waiting

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
    short_share : float
        How many of the arrivals are short, [0, 1]; may be set anew at any time.

    Notes
    -----
    Short is who has no more work than that share of the last `WINDOW` arrivals, itself included,
    so that this works from the first requests on, whatever the unit and before anything is
    learned. Of equal work half counts as less: requests that are all alike are all long, which
    is first come, first served. A request is judged when it is put into an order: when it
    arrives, and when its estimate changes; meanwhile it stays what it is.

    An insertion into a list of 256 floats and two bisections take about a microsecond.
    """

    __slots__ = ("_latest", "_recent", "_sorted", "short_share")

    def __init__(self, short_share: float) -> None:
        self.short_share = short_share
        self._recent: deque[float] = deque()
        self._sorted: list[float] = []
        # The youngest that was counted: who is put into an order again counts once.
        self._latest = -1

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
        is_short = below <= 2.0 * self.short_share * len(works)
        return _BY_HALF(_SHORT if is_short else _LONG, item.sequence)

    def _count(self, work: float) -> None:
        recent, works = self._recent, self._sorted
        recent.append(work)
        insort(works, work)
        if len(recent) > WINDOW:
            del works[bisect_left(works, recent.popleft())]
