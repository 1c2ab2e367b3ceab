"""Figures of a prequential run, each computable by hand.

Owns what an error, a coverage and an adaptation are. Knows nothing of learners or files.
"""

import math
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

# DESIGN.md: into ±10 %, and there for 20.
CROSSING_RATIO: Final = 0.10
STAY_COMPLETIONS: Final = 20


class Record(NamedTuple):
    """One completion, predicted before it was learned.

    Attributes
    ----------
    segment : int
        Index of the stream's segment.
    size : float
        Seconds of audio, or prompt tokens.
    actual : int
        Output tokens.
    predicted, p50, p90, p99 : float
        What was expected when it was admitted; NaN for quantiles that the learner lacks.
    is_scored : bool
        False for what says nothing of the prediction: aborted, cut, or another kind of request.
    """

    segment: int
    size: float
    actual: int
    predicted: float
    p50: float = math.nan
    p90: float = math.nan
    p99: float = math.nan
    is_scored: bool = True


class Hindsight(NamedTuple):
    """What one knows of completions when all are seen: Σn/Σd, mean size, how many."""

    kappa: float
    mean_size: float
    n: int


def hindsight(sizes_and_tokens: Iterable[tuple[float, float]]) -> Hindsight:
    """Give κ = Σn/Σd and the mean size; NaN where there is nothing."""
    n, sizes, tokens = 0, 0.0, 0.0
    for size, count in sizes_and_tokens:
        n += 1
        sizes += size
        tokens += count
    return (
        Hindsight(tokens / sizes, sizes / n, n)
        if sizes > 0.0
        else Hindsight(math.nan, math.nan, n)
    )


def scored(records: Iterable[Record]) -> list[Record]:
    """Give the records that are scored."""
    return [record for record in records if record.is_scored]


def mae(records: Sequence[Record]) -> float:
    """Give the mean absolute error in tokens; NaN of nothing."""
    return _mean(abs(one.actual - one.predicted) for one in records)


def mape(records: Sequence[Record]) -> float:
    """Give the mean of the absolute error over the actual tokens (an empty one counts as 1)."""
    return _mean(abs(one.actual - one.predicted) / max(one.actual, 1) for one in records)


def coverage(records: Sequence[Record], level: str = "p90") -> float:
    """Give the share of actual tokens at or below a quantile: p50, p90 or p99."""
    return _mean(float(one.actual <= getattr(one, level)) for one in records)


def mean_width(records: Sequence[Record], level: str = "p90") -> float:
    """Give the mean of a quantile over the prediction."""
    return _mean(getattr(one, level) / one.predicted for one in records if one.predicted > 0.0)


def oracle_mae(records: Sequence[Record]) -> float:
    """Give the mean absolute error of each segment's own Σn/Σd, known in hindsight."""
    kappas: dict[int, float] = {}
    for segment in {one.segment for one in records}:
        own = ((one.size, float(one.actual)) for one in records if one.segment == segment)
        kappas[segment] = hindsight(own).kappa
    return _mean(abs(one.actual - kappas[one.segment] * one.size) for one in records)


def quantile(values: Iterable[float | None], level: float) -> float:
    """Give the smallest value that a share ``level`` of the values do not exceed.

    Parameters
    ----------
    values : iterable of float or None
        None, "never", counts as infinite.
    level : float
        In [0, 1].

    Returns
    -------
    float
        One of the values (the inverse of the empirical distribution); NaN of nothing.
    """
    ordered = sorted(math.inf if value is None else value for value in values)
    if not ordered:
        return math.nan
    return ordered[min(max(math.ceil(level * len(ordered)), 1), len(ordered)) - 1]


class Crossing:
    """Count completions until an estimate is right, and until it stays right.

    Parameters
    ----------
    target : float
        κ in hindsight.
    tolerance_ratio : float
        Relative error that counts as right.
    stay : int
        Estimates in a row that must be right.

    Attributes
    ----------
    to_cross, to_stay : int or None
        Completions learned before the first right estimate, and before the first of ``stay``
        right ones in a row; None if it never came.
    """

    __slots__ = ("_n", "_run", "stay", "target", "to_cross", "to_stay", "tolerance_ratio")

    def __init__(
        self,
        target: float,
        *,
        tolerance_ratio: float = CROSSING_RATIO,
        stay: int = STAY_COMPLETIONS,
    ) -> None:
        self.target = target
        self.tolerance_ratio = tolerance_ratio
        self.stay = stay
        self.to_cross: int | None = None
        self.to_stay: int | None = None
        self._n = 0
        self._run = 0

    @property
    def is_done(self) -> bool:
        """Whether nothing more can change."""
        return self.to_stay is not None

    def update(self, kappa: float) -> None:
        """Take the next estimate; the first is the one before anything was learned."""
        right = abs(kappa - self.target) <= self.tolerance_ratio * self.target
        self._run = self._run + 1 if right else 0
        if right and self.to_cross is None:
            self.to_cross = self._n
        if self._run == self.stay and self.to_stay is None:
            self.to_stay = self._n - self.stay + 1
        self._n += 1


def _mean(values: Iterable[float]) -> float:
    total, n = 0.0, 0
    for value in values:
        total += value
        n += 1
    return total / n if n else math.nan


def ratio(value: float, reference: float) -> float:
    """Give value over reference; NaN where the reference is 0 or nothing."""
    return value / reference if reference > 0.0 else math.nan
