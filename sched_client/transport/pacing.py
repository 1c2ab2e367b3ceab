"""When the transport's threads may run: retry delays and pauses within long conversions.

Standard library only.
"""

import random
import time
from collections.abc import Callable
from typing import Final

# Beyond this many doublings every range of delays has reached its maximum.
_MAX_DOUBLINGS: Final = 30
_SHORTEST_PAUSE_S: Final = 0.001
# Waking takes 0.1 ms; waiting for a thread that holds the lock takes the switch interval, 5 ms.
_CONTENDED_S: Final = 0.002


class Backoff:
    """Delays before retries, drawn evenly from a range that doubles (full jitter).

    Parameters
    ----------
    min_s, max_s : float
        Bounds of every delay in seconds, 0 < min_s ≤ max_s.
    rng : random.Random
        Source of the jitter.

    References
    ----------
    M. Brooker, "Exponential Backoff And Jitter", AWS Architecture Blog, 2015; with a lower bound,
    so that no draw makes the loop busy.
    """

    def __init__(self, min_s: float, max_s: float, rng: random.Random) -> None:
        self.min_s = min_s
        self.max_s = max_s
        self._rng = rng
        self._failures = 0

    def reset(self) -> None:
        """Start again from the shortest range."""
        self._failures = 0

    def next_s(self) -> float:
        """Draw the delay after one more failure, in seconds."""
        self._failures = min(self._failures + 1, _MAX_DOUBLINGS)
        return self._rng.uniform(self.min_s, min(self.max_s, self.min_s * 2**self._failures))


class Pacer:
    """Gives the interpreter's lock away in the midst of long work.

    Parameters
    ----------
    slice_s : float
        Longest stretch of work between two pauses, seconds.
    pause_s : float
        Length of a pause while the engine is busy, seconds.
    clock, sleep : callable
        Replaced by tests.

    Notes
    -----
    Whoever takes the lock from a busy engine delays one of its steps by the slice and by two
    thread switches, so what counts for the engine's p99 is how *often* it is taken: 30 ms bound
    that to about 28 times a second, below 1 % of steps of 0.2 ms. Any sleep hands the lock over
    (after ``sleep(0)`` a busy thread had run in 99 of 100 cases), but whoever wants it back gets
    it after the switch interval, 5 ms: without a pause up to 200 times a second. A thread that
    wakes and has to wait for the lock knows that the engine is busy; if it need not, the next
    pause is the shortest.
    """

    def __init__(
        self,
        slice_s: float,
        pause_s: float,
        *,
        clock: Callable[[], float] = time.perf_counter,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._slice_s = slice_s
        self._longest_s = pause_s
        self._pause_s = pause_s
        self._clock = clock
        self._sleep = sleep
        self._until_s = 0.0

    def begin(self) -> None:
        """Start a slice; call it after anything that has blocked."""
        self._until_s = self._clock() + self._slice_s

    def step(self) -> None:
        """Pause if the slice is used up; call it between items of some 50 µs at most."""
        now_s = self._clock()
        if now_s < self._until_s:
            return
        due_s = now_s + self._pause_s
        self._sleep(self._pause_s)
        now_s = self._clock()
        busy = now_s - due_s > _CONTENDED_S
        self._pause_s = self._longest_s if busy else min(_SHORTEST_PAUSE_S, self._longest_s)
        self._until_s = now_s + self._slice_s
