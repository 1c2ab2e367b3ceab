"""Where one class of work ends and another begins: by density, by gaps, by latency.

A cut is a point on the axis of log seconds. Pure functions of a mixture and of points.
"""

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, Literal

import numpy as np

from estimator.core.partition.mixture import Array, Mixture, separations

Why = Literal["density", "gap", "latency"]

# Spacings on each side of a gap that the local spacing is taken from: enough for the ratio to be
# nearly exponential (see `gap_cut`), few enough for the density to be level across them.
_SIDE: Final = 25
# Gaps are looked for in the central 98 %: outside, a spacing has too few neighbours.
_TAIL: Final = 0.01
# A narrower gap than what bubbles bridge (0.90 and 1.10) is no gap.
_LEAST_GAP: Final = math.log(1.1 / 0.9)
# A cut by latency leaves this share on each side: near the ends its statistic is not normal.
_LATENCY_TAIL: Final = 0.1
# Fewer points with an observed latency tell nothing.
_LEAST_LATENCIES: Final = 100
# Latencies beyond so many deviations are pulled in to them (a stall is no class).
_LATENCY_CLIP: Final = 3.0
# Normal consistency of the median absolute deviation.
_MAD: Final = 1.4826
_GRID: Final = 129
# Less of a dent in the log density is none. 90 samples of classes just 3 σ apart lost one class
# at 0.05, four at 0.1; gamma and skewed samples came to 1 or 2 queues instead of 2 or 3.
_LEAST_DENT: Final = 0.05
_TINY: Final = 1e-12


@dataclass(frozen=True, slots=True, kw_only=True)
class Cut:
    """A boundary between two queues.

    Attributes
    ----------
    at : float
        Log seconds of work.
    why : {"density", "gap", "latency"}
        What it was found by.
    """

    at: float
    why: Why


def density_cuts(mixture: Mixture, least_separation: float) -> tuple[Cut, ...]:
    """Give the points where the posteriors of neighbouring classes cross.

    Parameters
    ----------
    mixture : Mixture
        Sorted by mean.
    least_separation : float
        Classes nearer than this (`separations`) are one: BIC describes what is not log-normal by
        several components, which are no classes.

    Notes
    -----
    The nearest two are joined first, with the moments of both. Joined in any case are two whose
    posteriors do not cross between their means (the lesser is nowhere the likelier) and two with
    no dent in the log density between them: that of a normal, gamma, Weibull or skewed peak is
    concave however many components draw it. A dent needs no valley: a class of a tenth of the
    work, 3 σ above the rest, has no peak of its own but a dent of 0.23.
    """
    groups = [[index] for index in range(len(mixture.means))]
    joined = mixture
    while len(groups) > 1:
        distances = separations(joined)
        crossings = [
            _crossing(mixture, *pair, joined.means[i : i + 2])
            for i, pair in enumerate(pairwise(groups))
        ]
        distances[_dents(mixture, joined.means) < _LEAST_DENT] = 0.0
        distances[[at is None for at in crossings]] = -1.0
        nearest = int(distances.argmin())
        if distances[nearest] >= least_separation:
            return tuple(Cut(at=at, why="density") for at in crossings if at is not None)
        joined = joined.joined(nearest)
        groups[nearest : nearest + 2] = [groups[nearest] + groups[nearest + 1]]
    return ()


def _crossing(mixture: Mixture, left: list[int], right: list[int], means: Array) -> float | None:
    """Give where the right group becomes the likelier between two means, None if nowhere."""
    grid = np.linspace(means[0], means[1], _GRID)
    parts = np.exp(mixture.log_parts(grid))
    ahead = parts[:, right].sum(axis=1) > parts[:, left].sum(axis=1)
    if ahead[0] or not ahead[-1]:
        return None
    # The last change to the right group: beyond it the right one is the likelier for good.
    step = int(np.flatnonzero(~ahead)[-1])
    return float(0.5 * (grid[step] + grid[step + 1]))


def _dents(mixture: Mixture, means: Array) -> Array:
    """Give how far the log density falls below its chord from each mean to the next."""
    grid = np.linspace(means[:-1], means[1:], _GRID)
    density = mixture.log_density(grid.ravel()).reshape(grid.shape)
    chord = np.linspace(density[0], density[-1], _GRID)
    return np.asarray((chord - density).max(axis=0))


def gap_cut(x: Array, mixture: Mixture, alpha: float) -> float | None:
    """Give the middle of a gap that one class would not have, None if there is none.

    Parameters
    ----------
    x : ndarray of float64, shape (n,)
        Log work of one queue, ascending.
    mixture : Mixture
        The density fitted to all work; only its shape within x counts.
    alpha : float
        Probability of finding a gap where there is none, (0, 1).

    Notes
    -----
    A spacing of points of density f is close to exponential with mean 1/(n f). Beside the mean of
    its m neighbours on one side it is then distributed as F with 2 and 2m degrees of freedom, for
    which P(ratio > t) = (1 + t/m)^-m. The larger of both sides' means is taken, so that a falling
    density does not look like a gap, and of n spacings the limit is t = m((α/n)^(-1/m) − 1). It
    must be exceeded beside the mixture's own spacing as well. "α · mean gap" has no such limit:
    one log-normal class of 500, 2,000 and 10,000 has a gap of 38, 118 and 478 times its mean.
    Equal values count once, or a grid of whole tokens would be full of gaps.

    References
    ----------
    Pyke (1965), "Spacings", J. R. Stat. Soc. B 27, §2.1 and §4.
    """
    values = np.unique(x)
    spacings = np.diff(values)
    n = len(spacings)
    if n < 2 * _SIDE + 1:
        return None
    sums = np.concatenate([[0.0], np.cumsum(spacings)])
    index = np.arange(n)
    low, high = np.maximum(index - _SIDE, 0), np.minimum(index + 1 + _SIDE, n)
    n_left, n_right = index - low, high - index - 1
    left = (sums[index] - sums[low]) / np.maximum(n_left, 1)
    right = (sums[high] - sums[index + 1]) / np.maximum(n_right, 1)
    local = np.maximum(left, right)
    limit = _SIDE * ((alpha / n) ** (-1.0 / _SIDE) - 1.0)
    wide = (spacings > _LEAST_GAP) & (spacings > limit * local)
    # A side with fewer neighbours has a wider distribution than the limit is for.
    wide &= (n_left >= _SIDE) & (n_right >= _SIDE)
    inner = np.quantile(x, [_TAIL, 1.0 - _TAIL])
    wide &= (values[:-1] >= inner[0]) & (values[1:] <= inner[1])
    if not wide.any():
        return None
    middles = 0.5 * (values[:-1] + values[1:])
    inside = np.exp(mixture.log_density(middles)) / _mass(mixture, values[0], values[-1])
    wide &= spacings * inside * len(x) > limit
    if not wide.any():
        return None
    return float(middles[int(np.where(wide, spacings / local, 0.0).argmax())])


def _mass(mixture: Mixture, low: float, high: float) -> float:
    """Give the mixture's probability between two points."""
    mass = 0.0
    for weight, mean, sd in zip(mixture.weights, mixture.means, mixture.sds, strict=True):
        scale = float(sd) * math.sqrt(2.0)
        mass += float(weight) * 0.5 * (
            math.erf((high - float(mean)) / scale) - math.erf((low - float(mean)) / scale)
        )  # fmt: skip
    return max(mass, _TINY)


def latency_cut(x: Array, ratios: Array, alpha: float, least_ratio: float) -> float | None:
    """Give where the latency a unit of work changes within one queue, None if it is homogeneous.

    Parameters
    ----------
    x, ratios : ndarray of float64, shape (n,)
        Log work of one queue, ascending, and log(observed seconds / work), NaN where unknown.
    alpha : float
        Probability of a cut where all is alike, (0, 1).
    least_ratio : float
        A smaller change is no reason for a queue, > 1.

    Notes
    -----
    The standardized difference of the means of both sides, largest over the positions that leave
    a tenth on each side (the maximally selected statistic, whose limit is a standardized Brownian
    bridge), against its quantile. Ratios are pulled in to three deviations.

    References
    ----------
    Miller and Siegmund (1982), "Maximally selected chi square statistics", Biometrics 38.
    """
    known = np.isfinite(ratios)
    x, ratios = x[known], ratios[known]
    n = len(x)
    if n < _LEAST_LATENCIES:
        return None
    median = float(np.median(ratios))
    spread = _MAD * float(np.median(np.abs(ratios - median))) or float(ratios.std())
    clipped = np.clip(ratios, median - _LATENCY_CLIP * spread, median + _LATENCY_CLIP * spread)
    sums = np.cumsum(clipped)
    size = np.arange(1, n)
    difference = sums[:-1] / size - (sums[-1] - sums[:-1]) / (n - size)
    deviation = float(clipped.std()) + _TINY
    z = np.abs(difference) / (deviation * np.sqrt(1.0 / size + 1.0 / (n - size)))
    tail = max(int(_LATENCY_TAIL * n), 1)
    # Between equal work there is no place for a cut.
    allowed = (size >= tail) & (size <= n - tail) & (x[1:] > x[:-1])
    z = np.where(allowed, z, 0.0)
    best = int(z.argmax())
    if z[best] <= _latency_limit(alpha) or abs(difference[best]) < math.log(least_ratio):
        return None
    return float(0.5 * (x[best] + x[best + 1]))


def _latency_limit(alpha: float) -> float:
    """Give the b with P(max |standardized bridge| > b) = α between a tenth and nine tenths.

    Miller and Siegmund's approximation: 4φ(b)/b + φ(b)(b − 1/b) log((1 − ε)²/ε²).
    """
    log_odds = 2.0 * math.log((1.0 - _LATENCY_TAIL) / _LATENCY_TAIL)
    low, high = 1.0, 40.0
    for _ in range(60):
        b = 0.5 * (low + high)
        phi = math.exp(-0.5 * b * b) / math.sqrt(2.0 * math.pi)
        if 4.0 * phi / b + phi * (b - 1.0 / b) * log_odds > alpha:
            low = b
        else:
            high = b
    return high
