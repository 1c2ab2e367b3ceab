"""How many components describe log work: by BIC, from several starts."""

import math
from typing import Final

import numpy as np

from estimator.core.partition.em import (
    Histogram,
    em,
    histogram,
    mean_log_likelihood,
    spread_start,
)
from estimator.core.partition.mixture import Array, Mixture, separations

# Least gain of log likelihood a point that another component must bring. Without it samples of
# 4,096 of the nine real traces came to 1 to 7 queues, with 0.006 to 1 to 6 and fewer of them; 90
# samples of classes just 3 σ apart were all found right with 0 to 0.007, one was not with 0.008.
LEAST_GAIN: Final = 0.006
# A weight, a mean and a variance each; the weights sum to 1.
_PER_COMPONENT: Final = 3
_TINY: Final = 1e-300


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


def bic(mixture: Mixture, points: Histogram, n: int) -> float:
    """Give Schwarz's criterion of a mixture on a histogram of n points; less is better.

    With `penalty`, which is Schwarz's own up to some 2,000 points.
    """
    return -2.0 * n * mean_log_likelihood(mixture, points) + penalty(mixture, n)


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
        What is in force: one more start for its order, and `grown` one for the next.

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
    n, points = len(x), histogram(x)
    rng = np.random.default_rng(seed)
    starts_known = [] if start is None else [start, grown(start, points)]
    above: Mixture | None = None
    found: list[tuple[float, Mixture]] = []
    for k in range(min(max_components, len(points.means)), 0, -1):
        joined = [] if above is None else [above.joined(int(np.argmin(separations(above))))]
        starts = [spread_start(points, k, rng), *joined]
        fits = [em(points, one, tied=True) for one in starts]
        if k > 1:
            known = [one for one in starts_known if len(one.means) == k]
            equal = min(fits, key=lambda one: bic(one, points, n))
            fits += [em(points, one) for one in (equal, *joined, *known)]
        scored = [(bic(one, points, n), one) for one in fits]
        least, above = min(scored, key=lambda fit: fit[0])
        found.append((least, above))
    return min(found, key=lambda fit: fit[0])[1]


def grown(mixture: Mixture, points: Histogram) -> Mixture:
    """Give a mixture with one more component, where it describes a histogram worst.

    That is the bin with the largest share of the Kullback-Leibler divergence. A few requests of a
    new class among thousands are seldom a centre of k-means++.

    References
    ----------
    Verbeek, Vlassis and Kröse (2003), "Efficient greedy learning of Gaussian mixture models",
    Neural Computation 15.
    """
    log_density = mixture.log_density(points.means)
    expected = np.exp(log_density - log_density.max())
    surprise = np.log(points.weights / np.maximum(expected / expected.sum(), _TINY))
    worst = int((points.weights * surprise).argmax())
    weight = float(points.weights[worst])
    return Mixture.sorted(
        np.append((1.0 - weight) * mixture.weights, weight),
        np.append(mixture.means, points.means[worst]),
        np.append(mixture.sds, mixture.sds.min()),
    )
