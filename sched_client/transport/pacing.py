"""When the transport's threads may run: retry delays and pauses within long conversions.

Standard library only.
"""

import random
import time
from typing import Final

# Beyond this many doublings every range of delays has reached its maximum.
_MAX_DOUBLINGS: Final = 30


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
        Length of a pause, seconds.

    Notes
    -----
    Whoever takes the lock from a busy engine delays one of its steps by the slice and by two
    thread switches, so what counts for the engine's p99 is how *often* it is taken: a pause of
    20 ms bounds that to 50 times a second. ``sleep(0)`` lets this thread take the lock back
    before the other has woken (measured: benchmarks/transport.py).
    """

    def __init__(self, slice_s: float, pause_s: float) -> None:
        self._slice_s = slice_s
        self._pause_s = pause_s
        self._until_s = 0.0

    def begin(self) -> None:
        """Start a slice; call it after anything that has blocked."""
        self._until_s = time.perf_counter() + self._slice_s

    def step(self) -> None:
        """Pause if the slice is used up; call it between items of a few microseconds."""
        if time.perf_counter() >= self._until_s:
            time.sleep(self._pause_s)
            self._until_s = time.perf_counter() + self._slice_s
