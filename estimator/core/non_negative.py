"""Least squares with coefficients that cannot be negative, from sums alone."""

import math
from typing import Final

import numpy as np
from numpy.typing import NDArray

Matrix = NDArray[np.float64]

# Least variance of a slope's column, as a share of its mean square, in the penalty that holds
# the slope at the parent's: a constant column (Whisper's 4 prompt tokens) keeps its prior.
_MIN_VARIATION: Final = 1e-3
# A column below this is one of zeros; its square would underflow.
_LEAST_SQUARE: Final = 1e-200


def fit_non_negative(sums: Matrix, prior: Matrix, pull_ratio: float) -> list[float]:
    """Solve decayed normal equations for coefficients that are all ≥ 0.

    Parameters
    ----------
    sums : ndarray of float64, shape (m + 2, m + 2)
        ΣwvvT over rows v = (1, m columns, target).
    prior : ndarray of float64, shape (m + 1,)
        Coefficients that the slopes are held at, ≥ 0.
    pull_ratio : float
        Completions that the prior counts for, over those in the sums, > 0.

    Returns
    -------
    list of float
        m + 1 finite coefficients ≥ 0.
    """
    n_slopes = len(prior) - 1
    weight = sums[0, 0]
    means = sums[0, 1:] / weight
    second = sums[1:, 1:] / weight
    centred = second - np.outer(means, means)
    squares = np.maximum(np.diagonal(second)[:n_slopes], _LEAST_SQUARE)
    variances = np.maximum(np.diagonal(centred)[:n_slopes], _MIN_VARIATION * squares)
    penalty = pull_ratio * variances
    slopes = prior[1:].copy()
    free = list(range(n_slopes))
    matrix, target = centred, n_slopes
    intercept_is_free = True
    # Each round fixes one coefficient at 0, so there are at most m + 1.
    while free:
        slopes[:] = 0.0
        gram = matrix[np.ix_(free, free)] + np.diag(penalty[free])
        right = matrix[free, target] + penalty[free] * prior[1:][free]
        scale = np.sqrt(np.diagonal(gram))
        slopes[free] = np.linalg.solve(gram / np.outer(scale, scale), right / scale) / scale
        lowest = min(free, key=lambda j: slopes[j] * math.sqrt(float(squares[j])))
        if slopes[lowest] < 0.0:
            free.remove(lowest)
            slopes[lowest] = 0.0
        elif intercept_is_free and means[target] < float(means[:target] @ slopes):
            # The line through the means would start below 0: fit it through the origin.
            matrix, intercept_is_free = second, False
        else:
            break
    intercept = float(means[target] - means[:target] @ slopes) if intercept_is_free else 0.0
    coefficients = [max(intercept, 0.0), *map(float, slopes)]
    if not all(map(math.isfinite, coefficients)):
        raise RuntimeError(f"the fit is not finite: {coefficients}")
    return coefficients
