"""Whether a stretch of log work is one class: by the best log-concave density for it.

A mixture of Gaussians draws several components for anything that is not log-normal. But log work
that is uniform, log-uniform, exponential, Weibull, gamma, Pareto or log-normal has a log-concave
density, and so has any part of it between two cuts; classes that lie apart have not.
"""

import math
from collections.abc import Sequence
from typing import Final

import numpy as np

from estimator.core.partition.mixture import Array, Mixture

# Of a stretch: two classes 3 σ apart span 14 of them from mean to mean, six span 6.
_BINS: Final = 64
# A knot that is expected to bring less log likelihood than this is not put in.
_LEAST_KNOT_GAIN: Final = 0.02
# Newton's method has converged where its next step is expected to bring less.
_LEAST_STEP_GAIN: Final = 1e-4
_MOST_KNOTS: Final = 24
_MOST_STEPS: Final = 40
_MOST_HALVINGS: Final = 30
# Log likelihood by which the log-concave density must be better, beside the half unit that a
# mixture gains by chance for each of its parameters (Wilks 1938). It gains 2 to 5 itself on 500
# to 10,000 points. For all work; within it there are many stretches to be wrong about: of 160
# samples of 2 to 6 classes just 3 σ apart, a twentieth had neighbours with 6, none with 9.
_LEAST_GAIN: Final = 4.0
_LEAST_GAIN_WITHIN: Final = 8.0
_WILKS: Final = 0.5
# Log likelihood that two log-concave densities may gain over one. On 350 flat samples of 500 to
# 10,000 points it was at most 11.6; 40 points of another class beside 4,056 flat ones gain 51.
_MOST_SPLIT_GAIN: Final = 12.0
# With fewer bins a slope has no knot to change at.
_LEAST_BINS: Final = 3
_RIDGE: Final = 1e-9
_TINY: Final = 1e-12


def is_one_class(
    x: Array, mixture: Mixture, cuts: Sequence[float], parameters: float, least_gain: float
) -> bool:
    """Whether a stretch of work is one class, though a mixture has several there.

    Parameters
    ----------
    x : ndarray of float64, shape (n,)
        The log work in it, n ≥ 1.
    mixture : Mixture
        Of all work; only its shape between the least and the greatest x counts.
    cuts : sequence of float
        Those of the mixture that lie within.
    parameters : float
        How many of the mixture's describe this stretch.
    least_gain : float
        Log likelihood by which a log-concave density must be better than the mixture, less half
        a unit for each parameter.

    Notes
    -----
    By the likelihood of 64 bins' counts. Where work is flat or has an edge, a log-concave density
    is the better by far; where there are classes 3 σ apart it has to fill the valley, and loses.
    But what it gains at an edge may hide a small class far from it: so two such densities, one on
    each side of a cut, must not be better by `_MOST_SPLIT_GAIN` either.
    """
    low, high = float(x.min()), float(x.max())
    if high - low <= _TINY:
        return True
    edges = np.linspace(low, high, _BINS + 1)
    counts = np.histogram(x, edges)[0].astype(np.float64)
    one = log_concave_likelihood(counts)
    if one - float(counts @ np.log(_shares(mixture, edges))) + _WILKS * parameters < least_gain:
        return False
    return all(
        _split_likelihood(counts, int(index)) - one < _MOST_SPLIT_GAIN
        for index in np.searchsorted(edges, cuts)
    )


def _split_likelihood(counts: Array, index: int) -> float:
    """Give the likelihood of one log-concave density below a bin and another from it on."""
    total = float(counts.sum())
    likelihood = 0.0
    for side in (counts[:index], counts[index:]):
        held = float(side.sum())
        if len(side) >= _LEAST_BINS and held > 0.0:
            likelihood += log_concave_likelihood(side)
        elif held > 0.0:
            likelihood -= held * math.log(len(side))
        likelihood += held * math.log(max(held, 1.0) / total)
    return likelihood


def fewest_classes(x: Array, mixture: Mixture, cuts: Sequence[float]) -> list[float]:
    """Give the cuts that remain where neighbours are joined that are one class.

    Parameters
    ----------
    x : ndarray of float64, shape (n,)
        Log seconds of work, ascending.
    mixture : Mixture
        Of x.
    cuts : sequence of float
        Between its classes, ascending.

    Notes
    -----
    Of all ways to join neighbours the one that leaves the fewest classes. O(k²) tests for k
    cuts; what lies within a stretch that is one class is not tested.
    """
    edges = np.searchsorted(x, cuts)
    parts = np.split(x, edges)
    n = len(parts)
    per_component = mixture.parameters / len(mixture.means)
    inside = np.searchsorted(cuts, mixture.means)
    held = np.bincount(inside, minlength=n)
    # ends[i]: one past the last part that can be one class with part i as its first.
    ends = list(range(1, n + 1))
    for first in range(n):
        least = max(ends[first], ends[first - 1] if first else 0)
        ends[first] = least
        for end in range(n, least, -1):
            stretch = np.concatenate(parts[first:end])
            parameters = per_component * float(held[first:end].sum())
            least_gain = _LEAST_GAIN if end - first == n else _LEAST_GAIN_WITHIN
            within = cuts[first : end - 1]
            if not len(stretch) or is_one_class(stretch, mixture, within, parameters, least_gain):
                ends[first] = end
                break
    return [cuts[index - 1] for index in _fewest(ends)]


def _fewest(ends: list[int]) -> list[int]:
    """Give where the stretches begin, but for the first: the fewest that hold all parts."""
    starts, at = [], 0
    while ends[at] < len(ends):
        at = ends[at]
        starts.append(at)
    return starts


def log_concave_likelihood(counts: Array) -> float:
    """Give the greatest log likelihood of counts that a log-concave sequence reaches.

    Parameters
    ----------
    counts : ndarray of float64, shape (b,)
        In bins of equal width, b ≥ 3, not all 0.

    Notes
    -----
    log p is concave and piecewise linear with knots at some bins: an intercept, a slope, and a
    fall of the slope ≥ 0 at each knot, by Newton's method; the knot that brings most is put in,
    and one whose fall becomes 0 taken out (support reduction). The bins of a log-concave density
    have log-concave probabilities, however wide they are.

    References
    ----------
    Dümbgen and Rufibach (2011), "logcondens: computations related to univariate log-concave
    density estimation", J. Stat. Softw. 39; Groeneboom, Jongbloed and Wellner (2008), "The
    support reduction algorithm", Scand. J. Stat. 35.
    """
    grid = np.linspace(-1.0, 1.0, len(counts))
    falls = -np.maximum(grid[:, None] - grid[None, 1:-1], 0.0)
    line = np.column_stack([np.ones_like(grid), grid])
    knots: list[int] = []
    refused: list[int] = []
    theta = np.array([math.log(float(counts.mean())), 0.0])
    for _ in range(2 * _MOST_KNOTS):
        theta, kept = _newton(counts, line, falls, knots, theta)
        # A knot that goes as it came would come again: rounding promised more than it gives.
        refused += [knot for knot in knots[-1:] if knot not in kept]
        knots = kept
        design = np.column_stack([line, falls[:, knots]])
        means = np.exp(design @ theta)
        gain = _knot_gains(counts, means, design, falls)
        gain[knots + refused] = 0.0
        best = int(gain.argmax())
        if gain[best] < _LEAST_KNOT_GAIN or len(knots) == _MOST_KNOTS:
            break
        knots.append(best)
        theta = np.append(theta, 0.0)
    return float(counts @ (np.log(np.maximum(means, _TINY)) - math.log(float(means.sum()))))


def _knot_gains(counts: Array, means: Array, design: Array, falls: Array) -> Array:
    """Give what a Newton step with each knot as one more would bring."""
    slope = falls.T @ (counts - means)
    weighted = design * means[:, None]
    across = falls.T @ weighted
    inner = _solved(design.T @ weighted, across.T)
    curvature = (falls**2).T @ means - np.einsum("ij,ji->i", across, inner)
    usable = (slope > 0.0) & (curvature > _TINY)
    return np.asarray(np.where(usable, 0.5 * slope**2 / np.where(usable, curvature, 1.0), 0.0))


def _newton(
    counts: Array, line: Array, falls: Array, knots: list[int], theta: Array
) -> tuple[Array, list[int]]:
    """Maximize the Poisson likelihood over intercept, slope and falls ≥ 0 at some knots."""
    knots = knots.copy()
    for _ in range(_MOST_STEPS):
        design = np.column_stack([line, falls[:, knots]])
        log_means = design @ theta
        means = np.exp(log_means)
        ascent = design.T @ (counts - means)
        step = _solved(design.T @ (design * means[:, None]), ascent)
        promised = float(ascent @ step)
        if promised < _LEAST_STEP_GAIN:
            break
        # Up to where the first fall would become a rise.
        shrinking = [
            (theta[2 + i] / -step[2 + i], i) for i in range(len(knots)) if step[2 + i] < 0.0
        ]
        reach, first = min(shrinking, default=(math.inf, -1))
        size = _step_size(counts, log_means, design @ step, min(1.0, reach), promised)
        theta = theta + size * step
        if first >= 0 and size == reach:
            theta = np.delete(theta, 2 + first)
            knots.pop(first)
    return theta, knots


def _step_size(
    counts: Array, log_means: Array, change: Array, most: float, promised: float
) -> float:
    """Halve a step until it brings a part of what was promised (Armijo)."""
    before = float(counts @ log_means - np.exp(log_means).sum())
    size = most
    for _ in range(_MOST_HALVINGS):
        after = log_means + size * change
        # Far out exp overflows, and a step that far is not taken.
        if after.max() < math.log(1e12) and float(
            counts @ after - np.exp(after).sum()
        ) >= before + 1e-4 * size * promised - _TINY * abs(before):
            return size
        size *= 0.5
    return 0.0


def _solved(matrix: Array, right: Array) -> Array:
    ridge = _RIDGE * float(np.trace(matrix)) * np.eye(len(matrix))
    return np.asarray(np.linalg.solve(matrix + ridge, right))


def _shares(mixture: Mixture, edges: Array) -> Array:
    """Give the mixture's probability of each bin, given that it is one of them."""
    scale = math.sqrt(2.0)
    z = (edges[:, None] - mixture.means) / mixture.sds / scale
    # By the nearer tail, or bins far out would have no probability at all.
    upper = np.array([[math.erfc(abs(value)) for value in row] for row in z.tolist()])
    left, right = upper[:-1], upper[1:]
    crossing = (z[:-1] < 0.0) & (z[1:] > 0.0)
    mass = np.where(crossing, 2.0 - left - right, np.abs(left - right)) @ mixture.weights
    mass = np.maximum(mass, 1e-300)
    return np.asarray(mass / mass.sum())
