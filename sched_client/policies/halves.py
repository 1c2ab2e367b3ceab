"""Two queues at the median of what comes: the shorter half first. Standard library only.

Why at the median or at a gap, and why no more than two: docs/policies.md.
"""

import struct
from bisect import bisect_left, bisect_right, insort
from collections import deque
from math import ceil, sqrt
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
# Where a work is this many times the next smaller one, two kinds of requests meet. Draws of one
# broad class have no such gap: of log-normal ones with sigma 2, one in 256 at the top twentieth is
# 1.1 times the next on average, and at most 1.5 times in practice.
_GAP: Final = 2.0
# A gap is looked for among so many at least, after so many arrivals, and not in the top twentieth,
# which is too few to tell a kind from a stray.
_ENOUGH: Final = WINDOW // 2
_EVERY: Final = WINDOW // 4
_HIGHEST: Final = 0.95
# What an arrival was counted as is found again within this; the ratio of two estimates is rounded.
_ROUNDED: Final = 1e-9
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
    phi : float
        The guard's: what part of the work may overtake, [0, 1).

    Attributes
    ----------
    share : float
        How many are short now.

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

    Where the works have a wide gap, the most is the share below it, so that a kind of requests is
    short as a whole, if no more than φ of the work is theirs: first in an overload, they overtake
    with at least that much.

    An insertion into a list of 256 floats and two bisections take about a microsecond; every 64th
    arrival looks for a gap, some ten microseconds.
    """

    __slots__ = (
        "_between",
        "_latest",
        "_least",
        "_limit",
        "_most",
        "_phi",
        "_recent",
        "_sorted",
        "_unseen",
        "share",
    )

    def __init__(self, least: float, most: float, phi: float) -> None:
        self._recent: deque[float] = deque()
        self._sorted: list[float] = []
        # Arrivals since a gap was looked for.
        self._unseen = 0
        # The youngest that was counted: who is put into an order again counts once.
        self._latest = -1
        self.share = 1.0
        self.bound(least, most, phi)

    def bound(self, least: float, most: float, phi: float) -> None:
        """Set new limits."""
        self._least = least
        self._most = max(least, most)
        self._phi = phi
        self._look()

    def served(self, *, held_up: bool) -> None:
        """Take that one went by this order, or that the guard took the oldest instead."""
        if held_up:
            self.share = max(self._least, self.share - _DOWN)
        else:
            self.share = min(self._limit, self.share + _UP)

    def moved(self, work: float, ratio: float) -> None:
        """Take the work of one that has a new estimate, ``ratio`` times what it was.

        It takes the old one's place in the window. Counted as an arrival it would crowd out what
        comes: it is the long ones that wait and are estimated anew.
        """
        if not ratio:
            return  # less than any number: what it was cannot be told, and the window forgets it
        old, works = work / ratio, self._sorted
        place = bisect_left(works, old * (1.0 - _ROUNDED))
        if place < len(works) and works[place] <= old * (1.0 + _ROUNDED):
            self._recent[self._recent.index(works[place])] = work
            del works[place]
            insort(works, work)

    def rank(self, item: Waiting) -> bytes:
        """Give bytes that compare as the order does, and count an arrival."""
        work = item.work
        arrived, counted = item.sequence, work
        if item.__class__ is GroupUnit:
            # Of a file each piece counts: what is short does not depend on who sends files.
            arrived, counted = item.newest, item.newest_work
        if arrived > self._latest:
            self._latest = arrived
            self._count(counted)
        share, works = self.share, self._sorted
        if share == self._limit and self._between:
            # The share below a gap changes from arrival to arrival, and where it lies does not.
            is_short = work < self._between
        else:
            below = bisect_left(works, work) + bisect_right(works, work)
            is_short = below <= 2.0 * share * len(works)
        return _BY_HALF(_SHORT if is_short else _LONG, item.sequence)

    def _count(self, work: float) -> None:
        recent, works = self._recent, self._sorted
        recent.append(work)
        insort(works, work)
        if len(recent) > WINDOW:
            del works[bisect_left(works, recent.popleft())]
        self._unseen += 1
        if self._unseen >= _EVERY:
            self._look()

    def _look(self) -> None:
        """Look for a gap, and let the share rise as far as that says."""
        self._unseen = 0
        self._limit, self._between = self._most, 0.0
        works = self._sorted
        count = len(works)
        # A share that does not move stays where it is.
        if count >= _ENOUGH and self._most > self._least:
            start, widest, below = max(ceil(self._least * count), 1), _GAP, 0
            for place in range(start, int(_HIGHEST * count) + 1):
                ratio = works[place] / works[place - 1]
                if ratio > widest:
                    widest, below = ratio, place
            if below and sum(works[:below]) <= self._phi * sum(works):
                self._limit = below / count
                self._between = sqrt(works[below - 1]) * sqrt(works[below])
        self.share = min(max(self.share, self._least), self._limit)
