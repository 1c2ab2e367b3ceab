"""Whether a queue has been long lately. Standard library only."""

from collections import deque
from typing import Final

# So many arrivals are remembered, a minute or more of a busy engine: a burst is no overload.
WINDOW: Final = 64
# How many of them found a long queue when an overload begins, and below which it is over.
_BEGINS: Final = WINDOW // 4
_ENDS: Final = WINDOW // 10


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
        queue, and since then no fewer than a tenth did.

    Notes
    -----
    At load 0.7 one arrival in fifty finds more than eight waiting, at 1.5 nearly every one
    (benchmarks/RESULTS.md, twin).
    """

    __slots__ = ("_found", "_long", "above", "high")

    def __init__(self, above: int = 8) -> None:
        self.above = above
        self.high = False
        self._found: deque[bool] = deque(maxlen=WINDOW)
        self._long = 0

    def arrived(self, waiting: int) -> None:
        """Take an arrival that found so many waiting."""
        found = self._found
        if len(found) == WINDOW:
            self._long -= found[0]
        is_long = waiting > self.above
        found.append(is_long)
        self._long += is_long
        if self._long >= _BEGINS:
            self.high = True
        elif self._long < _ENDS:
            self.high = False
