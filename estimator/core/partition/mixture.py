"""A Gaussian mixture of log work in one dimension, its order chosen by BIC.

Wraps scikit-learn, which has no types and is slow to import: nothing here runs before the first
fit. Knows nothing of queues.
"""

import math
import warnings
from dataclasses import dataclass
from typing import Final, Self

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

# EM works on so many order statistics, evenly spaced: they keep the distribution that all the
# points have, tails included, and take a tenth of the time. The likelihood counts all points.
MAX_POINTS: Final = 1024
# Least gain of log likelihood a point that another component must bring. Without it samples of
# 4,096 of the nine real traces came to 1 to 7 queues, with 0.006 to 1 to 6 and fewer of them; 90
# samples of classes just 3 σ apart were all found right with 0 to 0.007, one was not with 0.008.
LEAST_GAIN: Final = 0.006
# Added to each variance: work that differs by 1 % does not differ, and equal values do not divide
# by zero.
_LEAST_VARIANCE: Final = 1e-4
_MAX_ITERATIONS: Final = 200
# A weight, a mean and a variance each; the weights sum to 1.
_PER_COMPONENT: Final = 3
_LOG_TWO_PI: Final = float(np.log(2.0 * np.pi))
_TINY: Final = 1e-300
# An empty component still has to start somewhere.
_LEAST_WEIGHT: Final = 1e-6


@dataclass(frozen=True, slots=True, kw_only=True)
class Mixture:
    """Weights, means and standard deviations of log work, by ascending mean.

    Attributes
    ----------
    weights, means, sds : ndarray of float64, shape (k,)
        Weights sum to 1; the others are in logarithms of seconds.
    tied : bool
        Whether all deviations were fitted as one.
    """

    weights: Array
    means: Array
    sds: Array
    tied: bool = False

    @property
    def parameters(self) -> int:
        """How many numbers were fitted."""
        k = len(self.means)
        return 2 * k if self.tied else _PER_COMPONENT * k - 1

    def log_parts(self, x: Array) -> Array:
        """Give log(weight · density) of each component, shape (n, k)."""
        z = (x[:, None] - self.means) / self.sds
        scale = np.log(np.maximum(self.weights, _TINY)) - np.log(self.sds) - 0.5 * _LOG_TWO_PI
        return np.asarray(scale - 0.5 * z * z)

    def log_density(self, x: Array) -> Array:
        """Give the log density at each x, shape (n,)."""
        parts = self.log_parts(x)
        top = parts.max(axis=1)
        return np.asarray(top + np.log(np.exp(parts - top[:, None]).sum(axis=1)))

    def responsibilities(self, x: Array) -> Array:
        """Give each component's posterior at each x, shape (n, k)."""
        parts = self.log_parts(x)
        shares = np.exp(parts - parts.max(axis=1)[:, None])
        return np.asarray(shares / shares.sum(axis=1)[:, None])

    @classmethod
    def moments(cls, x: Array, responsibilities: Array) -> Self:
        """Give the mixture with the moments of x under given responsibilities: an M-step."""
        mass = np.maximum(responsibilities.sum(axis=0), _TINY)
        means = responsibilities.T @ x / mass
        spread = ((x[:, None] - means) ** 2 * responsibilities).sum(axis=0) / mass
        return cls.sorted(mass / mass.sum(), means, np.sqrt(spread + _LEAST_VARIANCE))

    @classmethod
    def sorted(cls, weights: Array, means: Array, sds: Array, *, tied: bool = False) -> Self:
        """Build one from components in any order."""
        order = np.argsort(means, kind="stable")
        return cls(weights=weights[order], means=means[order], sds=sds[order], tied=tied)

    def joined(self, first: int) -> "Mixture":
        """Give the mixture with a component and its right neighbour as one, moments kept."""
        pair = slice(first, first + 2)
        weight, mean, sd = pooled(self.weights[pair], self.means[pair], self.sds[pair])
        parts = []
        for values, value in ((self.weights, weight), (self.means, mean), (self.sds, sd)):
            parts.append(np.concatenate([values[:first], [value], values[first + 2 :]]))
        return Mixture.sorted(*parts)


def pooled(weights: Array, means: Array, sds: Array) -> tuple[float, float, float]:
    """Give weight, mean and standard deviation of some components together."""
    weight = float(weights.sum())
    mean = float(weights @ means) / weight
    variance = float(weights @ (sds**2 + (means - mean) ** 2)) / weight
    return weight, mean, float(np.sqrt(variance))


def separations(mixture: Mixture) -> Array:
    """Give the distance of neighbouring means in their root mean square deviation.

    References
    ----------
    Ashman, Bird and Zepf (1994), "Detecting bimodality in astronomical datasets", eq. 4: D; two
    normal distributions are cleanly separated where D > 2.
    """
    sds = mixture.sds
    return np.asarray(np.diff(mixture.means) / np.sqrt((sds[1:] ** 2 + sds[:-1] ** 2) / 2.0))


def penalty(mixture: Mixture, n: int) -> float:
    """Give what a mixture's order costs on n points, in twice log likelihood.

    Notes
    -----
    Schwarz's p log n, filled up to `LEAST_GAIN` for each component and point. No real work is a
    mixture of log-normals, so with enough points BIC finds a component for each bend of the
    density; one that says less than this of a point is not worth a queue.
    """
    log_n = math.log(n)
    missing = max(2.0 * n * LEAST_GAIN - _PER_COMPONENT * log_n, 0.0)
    return mixture.parameters * log_n + missing * len(mixture.means)


def bic(mixture: Mixture, x: Array, n: int) -> float:
    """Give Schwarz's criterion of a mixture on x, which stands for n points; less is better.

    With `penalty`, which is Schwarz's own up to some 2,000 points.
    """
    return float(-2.0 * n * mixture.log_density(x).mean() + penalty(mixture, n))


def thinned(x: Array) -> Array:
    """Give at most `MAX_POINTS` evenly spaced order statistics of x, the extremes included."""
    x = np.sort(x)
    if len(x) <= MAX_POINTS:
        return x
    return np.asarray(x[np.linspace(0, len(x) - 1, MAX_POINTS).round().astype(int)])


def best_mixture(
    x: Array, *, max_components: int, seed: int, start: Mixture | None = None
) -> Mixture:
    """Fit mixtures of each order and give the one of least BIC.

    Parameters
    ----------
    x : ndarray of float64, shape (n,)
        Log seconds of work, n ≥ 1.
    max_components : int
        Highest order, ≥ 1.
    seed : int
        Of the k-means++ starts.
    start : Mixture, optional
        One more start for its order: what is in force.

    Returns
    -------
    Mixture
        Sorted by mean.

    Notes
    -----
    Both equal and unequal deviations are tried, as in Banfield and Raftery (1993): where classes
    are alike, six of them 3 σ apart take 1,000 points instead of 4,000.

    EM finds a local optimum. Equal deviations start from k-means++ and from the best of the order
    above with its two nearest components as one (as hierarchical starts do, Fraley 1998), unequal
    ones from the best equal ones and from the latter.
    """
    n, x = len(x), thinned(x)
    if n == 1:  # scikit-learn refuses one point
        return Mixture.moments(x, np.ones((1, 1)))
    most = min(max_components, len(np.unique(x)))
    above: Mixture | None = None
    found: list[tuple[float, Mixture]] = []
    for k in range(most, 0, -1):
        joined = [] if above is None else [above.joined(int(np.argmin(separations(above))))]
        fits = [_em(x, one, tied=True) for one in (_spread(x, k, seed), *joined)]
        if k > 1:
            known = [start] if start is not None and len(start.means) == k else []
            equal = min(fits, key=lambda one: bic(one, x, n))
            fits += [_em(x, one) for one in (equal, *joined, *known)]
        scored = [(bic(one, x, n), one) for one in fits]
        least, above = min(scored, key=lambda fit: fit[0])
        found.append((least, above))
    return min(found, key=lambda fit: fit[0])[1]


def _spread(x: Array, k: int, seed: int) -> Mixture:
    """Give a start whose centres k-means++ chose, with the moments of what is nearest to each."""
    from sklearn.cluster import kmeans_plusplus  # noqa: PLC0415 - see `_em`

    centres, _ = kmeans_plusplus(x[:, None], k, random_state=seed)
    nearest = np.abs(x[:, None] - centres[:, 0]).argmin(axis=1)
    return Mixture.moments(x, np.eye(k)[nearest])


def _em(x: Array, start: Mixture, *, tied: bool = False) -> Mixture:
    """Run EM from a start; ``tied`` makes all deviations equal."""
    # Here, because it takes 0.2 s and 18 MiB beside what river brings, 1 s without.
    from sklearn.exceptions import ConvergenceWarning  # noqa: PLC0415
    from sklearn.mixture import GaussianMixture  # noqa: PLC0415

    k = len(start.means)
    weights = np.maximum(start.weights, _LEAST_WEIGHT)
    weights /= weights.sum()
    variances = start.sds**2
    model = GaussianMixture(
        k,
        covariance_type="tied" if tied else "full",
        max_iter=_MAX_ITERATIONS,
        reg_covar=_LEAST_VARIANCE,
        weights_init=weights,
        means_init=start.means[:, None],
        precisions_init=(
            np.array([[1.0 / float(weights @ variances)]])
            if tied
            else 1.0 / variances[:, None, None]
        ),
        # What is drawn here is replaced by the three above; this draws the quickest.
        init_params="random_from_data",
        random_state=0,
    )
    with warnings.catch_warnings():
        # Components that overlap so much that EM creeps are joined later.
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(x[:, None])
    sds = np.sqrt(np.broadcast_to(model.covariances_.reshape(-1), k))
    return Mixture.sorted(model.weights_, model.means_[:, 0], sds, tied=tied)
