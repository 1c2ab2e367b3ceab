"""The learners that others are held against.

One never forgets, as a ratio and as a line; one is told when a change happens. Each keeps the
`Learner` protocol, so that it can be run wherever a learner can.
"""

from collections.abc import Mapping, Sequence
from typing import Final, Protocol, Self, runtime_checkable

from sched_client.model import DEFAULT_KAPPA_TOKENS_PER_S

# Below this share of n·Σs² the sizes seen are one and the same: no slope can be told.
_COLLINEAR: Final = 1e-12


@runtime_checkable
class Told(Protocol):
    """A learner that is told that what it learns has just changed."""

    def change(self) -> None:
        """Take note that the past is over."""


class CumulativeRatio:
    """κ = Σn/Σd over everything seen.

    Parameters
    ----------
    prior_kappa : float
        κ before any data, tokens a unit of size.

    Notes
    -----
    Σn/Σd is the maximum-likelihood κ of counts whose mean and variance grow with the size.
    """

    def __init__(self, *, prior_kappa: float = DEFAULT_KAPPA_TOKENS_PER_S) -> None:
        self.prior_kappa = prior_kappa
        self._tokens = 0.0
        self._size = 0.0

    def learn_one(self, x: Mapping[str, float], y: float) -> None:
        """Learn one pair."""
        self._tokens += y
        self._size += x["size"]

    def predict_one(self, x: Mapping[str, float]) -> float:
        """Predict tokens; the prior before any data."""
        kappa = self._tokens / self._size if self._size > 0.0 else self.prior_kappa
        return kappa * x["size"]

    def state(self) -> list[float]:
        """Give what was fitted, as numbers."""
        return [self._tokens, self._size]

    def restore(self, state: Sequence[float]) -> Self:
        """Take on what `state` gave; return self."""
        self._tokens, self._size = state
        return self


class CumulativeLeastSquares:
    """The least-squares line ``n = a + κ·d`` over everything seen.

    Parameters
    ----------
    prior_kappa : float
        κ before any data; the line goes through the origin and the mean until two sizes differ.

    Notes
    -----
    Welford's updates: sums of raw squares would lose the slope of prompts of 10⁵ tokens.
    """

    def __init__(self, *, prior_kappa: float = DEFAULT_KAPPA_TOKENS_PER_S) -> None:
        self.prior_kappa = prior_kappa
        self._n = 0.0
        self._mean_size = 0.0
        self._mean_tokens = 0.0
        self._size_size = 0.0
        self._size_tokens = 0.0

    def learn_one(self, x: Mapping[str, float], y: float) -> None:
        """Learn one pair."""
        size = x["size"]
        self._n += 1.0
        off = size - self._mean_size
        self._mean_size += off / self._n
        self._mean_tokens += (y - self._mean_tokens) / self._n
        self._size_size += off * (size - self._mean_size)
        self._size_tokens += off * (y - self._mean_tokens)

    def predict_one(self, x: Mapping[str, float]) -> float:
        """Predict tokens, ≥ 0; the prior before any data."""
        if self._n == 0.0:
            return self.prior_kappa * x["size"]
        if self._size_size > _COLLINEAR * self._n * self._mean_size**2:
            slope = self._size_tokens / self._size_size
        else:
            slope = self._mean_tokens / self._mean_size if self._mean_size > 0.0 else 0.0
        return max(self._mean_tokens + slope * (x["size"] - self._mean_size), 0.0)

    def state(self) -> list[float]:
        """Give what was fitted, as numbers."""
        return [
            self._n, self._mean_size, self._mean_tokens, self._size_size, self._size_tokens,
        ]  # fmt: skip

    def restore(self, state: Sequence[float]) -> Self:
        """Take on what `state` gave; return self."""
        (
            self._n, self._mean_size, self._mean_tokens, self._size_size, self._size_tokens,
        ) = state  # fmt: skip
        return self


class ToldRatio(CumulativeRatio):
    """Σn/Σd since the last change, which it is told of.

    Until something of the new kind is seen, it answers what it answered before.
    """

    def change(self) -> None:
        """Forget the past but for its κ, which becomes the prior."""
        if self._size > 0.0:
            self.prior_kappa = self._tokens / self._size
        self._tokens = self._size = 0.0

    def state(self) -> list[float]:
        """Give what was fitted, as numbers."""
        return [*super().state(), self.prior_kappa]

    def restore(self, state: Sequence[float]) -> Self:
        """Take on what `state` gave; return self."""
        *rest, self.prior_kappa = state
        return super().restore(rest)
