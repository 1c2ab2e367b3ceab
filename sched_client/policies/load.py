"""Whether a queue has been long lately. Standard library only."""

from collections import deque
from math import inf
from typing import Final

# So many arrivals are remembered, a minute or more of a busy engine: a burst is no overload.
WINDOW: Final = 64
# How many of them found a long queue when an overload begins, and below which it is over.
_BEGINS: Final = WINDOW // 4
_ENDS: Final = WINDOW // 10
# Or when so many seconds have passed since an arrival found one: with few arrivals, at night,
# sixty of them take hours. Longer than a pause between two loads that belong together.
QUIET_S: Final = 300.0


class RecentLoad:
    """Remembers what the last arrivals found waiting.

    Whoever owns a queue tells it of each arrival, in every mode, so that an engine that is
    switched on in the middle of an overload need not find out first.

    Attributes
    ----------
    above : int
        A queue is long when more than this many wait.
    high : bool
        Whether the engine is overloaded: a quarter of the last `WINDOW` arrivals found a long
        queue, and since then no fewer than a tenth did, and one within `QUIET_S`.

    Notes
    -----
    At load 0.7 one arrival in fifty finds more than eight waiting, at 1.5 nearly every one
    (benchmarks/RESULTS.md, twin).
    """

    __slots__ = ("_found", "_long", "_long_s", "above", "high")

    def __init__(self, above: int = 8) -> None:
        self.above = above
        self.high = False
        self._found: deque[bool] = deque(maxlen=WINDOW)
        self._long = 0
        # When an arrival last found a long queue.
        self._long_s = -inf

    def arrived(self, waiting: int, now_s: float) -> None:
        """Take an arrival that found so many waiting, at a monotonic time."""
        found = self._found
        if self._long and now_s - self._long_s > QUIET_S:
            found.clear()
            self._long = 0
        if len(found) == WINDOW:
            self._long -= found[0]
        is_long = waiting > self.above
        if is_long:
            self._long_s = now_s
        found.append(is_long)
        self._long += is_long
        if self._long >= _BEGINS:
            self.high = True
        elif self._long < _ENDS:
            self.high = False
