"""A bounded sample of a model's completions that forgets the old ones.

Owns which points are kept. Knows nothing of what they mean.
"""

import base64
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

# Tokens, prompt tokens, seconds.
WIDTH: Final = 3
# Points are put into the sample so many at a time: one by one, numpy takes ten times as long.
BLOCK: Final = 128
# Multipliers and shifts of splitmix64 (Steele, Lea and Flood 2014).
_GAMMA: Final = np.uint64(0x9E3779B97F4A7C15)
_MIX_1: Final = np.uint64(0xBF58476D1CE4E5B9)
_MIX_2: Final = np.uint64(0x94D049BB133111EB)
_SHIFTS: Final = (np.uint64(30), np.uint64(27), np.uint64(31))
_TOP_BITS: Final = np.uint64(32)

Points = NDArray[np.float32]


class Sample:
    """An exponentially biased reservoir.

    Parameters
    ----------
    capacity : int
        Points that are held, ≥ 1.
    seed : int
        Of the random slots, ≥ 0.

    Notes
    -----
    Each point goes in; once the reservoir is full it takes the place of a random one. So after t
    more points one is still there with probability (1 − 1/capacity)^t ≈ exp(−t/capacity), and all
    that are there weigh the same. Time is counted in completions. The slot of the t-th point is
    a hash of t, so that no generator is to be saved.

    References
    ----------
    Aggarwal (2006), "On biased reservoir sampling in the presence of stream evolution", VLDB,
    algorithm 2.1 with p_in = 1.
    """

    __slots__ = ("_held", "_n_put", "_pending", "_points", "_seed", "capacity")

    def __init__(self, capacity: int, seed: int = 0) -> None:
        self.capacity = capacity
        # Points that are no longer pending.
        self._n_put = 0
        self._seed = seed
        self._held = 0
        # Grows with what it holds: most models never fill it.
        self._points: Points = np.empty((0, WIDTH), dtype=np.float32)
        self._pending: list[tuple[float, float, float]] = []

    def __len__(self) -> int:
        """Give how many points `points` gives."""
        return self._held + len(self._pending)

    @property
    def n_seen_(self) -> int:
        """Points taken so far."""
        return self._n_put + len(self._pending)

    def add(self, tokens: float, prompt_tokens: float, seconds: float) -> Points | None:
        """Take a point; give the last `BLOCK` points each time so many have come, else None."""
        pending = self._pending
        pending.append((tokens, prompt_tokens, seconds))
        if len(pending) < BLOCK:
            return None
        block = np.array(pending, dtype=np.float32)
        pending.clear()
        self._n_put += BLOCK
        self._put(block)
        return block

    def _put(self, block: Points) -> None:
        free = self.capacity - self._held
        fill, rest = block[:free], block[free:]
        if len(fill):
            self._points = np.concatenate([self._points[: self._held], fill])
            self._held += len(fill)
        if len(rest):
            numbers = np.arange(self._n_put - len(rest), self._n_put, dtype=np.uint64)
            slots = _hashed(numbers, self._seed) >> _TOP_BITS
            # Where two of a block meet the later one stays, as if they had come one by one.
            self._points[(slots * np.uint64(self.capacity)) >> _TOP_BITS] = rest

    def points(self) -> NDArray[np.float64]:
        """Give a copy of all that is held, shape (n, 3): tokens, prompt tokens, seconds."""
        held = self._points[: self._held].astype(np.float64)
        if not self._pending:
            return held
        return np.concatenate([held, np.array(self._pending, dtype=np.float64)])

    def some(self, n: int) -> NDArray[np.float64]:
        """Give at most n of the points that are held."""
        return self._points[: min(n, self._held)].astype(np.float64)

    def state(self) -> dict[str, Any]:
        """Give what is held as JSON (hence Any): 16 characters a point."""
        raw = self._points[: self._held].astype("<f4").tobytes()
        return {
            "n_seen": self.n_seen_,
            "points": base64.b64encode(raw).decode("ascii"),
            "pending": self._pending.copy(),
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Take on what `state` gave (JSON, hence Any).

        Raises
        ------
        ValueError
            If it is damaged.
        """
        raw = base64.b64decode(state["points"], validate=True)
        points = np.frombuffer(raw, dtype="<f4").astype(np.float32).reshape(-1, WIDTH)
        if len(points) > self.capacity:
            # Of a larger sample, made under another configuration: any of it are as good.
            points = points[: self.capacity]
        if not np.isfinite(points).all():
            raise ValueError("the sample holds values that are not finite")
        self._points, self._held = points.copy(), len(points)
        self._pending = [(float(a), float(b), float(c)) for a, b, c in state["pending"]]
        self._n_put = int(state["n_seen"]) - len(self._pending)


def _hashed(numbers: NDArray[np.uint64], seed: int) -> NDArray[np.uint64]:
    """Give splitmix64 of the numbers; arithmetic is modulo 2^64."""
    z = (numbers + np.uint64(seed + 1)) * _GAMMA
    z = (z ^ (z >> _SHIFTS[0])) * _MIX_1
    z = (z ^ (z >> _SHIFTS[1])) * _MIX_2
    return np.asarray(z ^ (z >> _SHIFTS[2]), dtype=np.uint64)
