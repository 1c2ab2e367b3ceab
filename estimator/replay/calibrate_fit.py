"""Least squares for a profile's costs: none negative, robust, with errors; and how well they fit.

Owns the arithmetic only: rows of terms and seconds in, coefficients and figures out.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Final

import numpy as np

from estimator.replay.calibrate_residence import Matrix, Vector

__all__ = ["Band", "Costs", "Goodness", "QuantileRow", "fit_costs", "goodness_of"]

# Huber (1964): 95 % efficiency on normal errors.
_HUBER: Final = 1.345
_ROUNDS: Final = 8
# Robust standard deviation of a normal sample over its median absolute deviation.
_MAD: Final = 1.4826
_TINY: Final = 1e-12
# Below this share of the largest, an eigenvalue is rounding; beyond this share of its length, a
# sum of coefficients leans on a direction that nothing is known of.
_RANK: Final = 1e-9
_ALONG: Final = 1e-3
_QUANTILES: Final = (0.1, 0.5, 0.9, 0.99)


@dataclass(frozen=True, slots=True, kw_only=True)
class Costs:
    """Coefficients and how sure they are.

    Attributes
    ----------
    values : ndarray of float64, shape (m,)
        All ≥ 0.
    covariance : ndarray of float64, shape (m, m)
        Of the coefficients if they were free to be negative, within what the columns tell.
    unknown : ndarray of float64, shape (m, k)
        Directions that the columns tell nothing of.
    """

    values: Vector
    covariance: Matrix
    unknown: Matrix

    def scaled(self, factor: float) -> "Costs":
        """Give all costs times a factor."""
        return Costs(
            values=factor * self.values,
            covariance=factor**2 * self.covariance,
            unknown=self.unknown,
        )

    def error_of(self, weights: Sequence[float]) -> float:
        """Give the standard error of a weighted sum of the coefficients."""
        w = np.asarray(weights, dtype=np.float64)
        lengths = np.linalg.norm(self.unknown, axis=0) * np.linalg.norm(w)
        if (np.abs(w @ self.unknown) > _ALONG * lengths).any():
            return float("inf")
        return float(np.sqrt(max(float(w @ self.covariance @ w), 0.0)))


def fit_costs(columns: Matrix, seconds: Vector) -> Costs:
    """Fit seconds by columns, without an intercept.

    Parameters
    ----------
    columns : ndarray of float64, shape (n, m)
        Terms, ≥ 0; m ≤ 6, as every subset is tried.
    seconds : ndarray of float64, shape (n,)
        > 0. Errors count in relation to them.

    Notes
    -----
    Iteratively reweighted: residuals beyond 1.345 robust deviations weigh less. With so few
    columns the best fit without negative coefficients is the best of all subsets' own fits that
    have none, which is exact.
    """
    rows = columns / seconds[:, None]
    ones = np.ones(len(rows))
    weights = ones
    values = _non_negative(rows, ones)
    residuals = ones - rows @ values
    for _ in range(_ROUNDS):
        scale = max(_MAD * float(np.median(np.abs(residuals))), _TINY)
        weights = np.minimum(1.0, _HUBER * scale / np.maximum(np.abs(residuals), _TINY))
        root = np.sqrt(weights)
        values = _non_negative(rows * root[:, None], root)
        residuals = ones - rows @ values
    degrees = max(len(rows) - columns.shape[1], 1)
    variance = float(weights @ residuals**2) / degrees
    inverse, unknown = _inverse(rows, weights)
    return Costs(values=values, covariance=variance * inverse, unknown=unknown)


def _non_negative(rows: Matrix, target: Vector) -> Vector:
    best = np.zeros(rows.shape[1])
    least = float(target @ target)
    columns = range(rows.shape[1])
    for count in columns:
        for chosen in combinations(columns, count + 1):
            part = rows[:, chosen]
            scale = np.sqrt((part**2).sum(axis=0))
            if not (scale > 0.0).all():
                continue
            found = np.linalg.lstsq(part / scale, target, rcond=None)[0] / scale
            error = target - part @ found
            loss = float(error @ error)
            if (found >= 0.0).all() and loss < least * (1.0 - 1e-9):
                least = loss
                best = np.zeros(rows.shape[1])
                best[list(chosen)] = found
    return best


def _inverse(rows: Matrix, weights: Vector) -> tuple[Matrix, Matrix]:
    """Invert the normal equations where they can be; give the directions where they cannot."""
    size = rows.shape[1]
    scale = np.sqrt((weights[:, None] * rows**2).sum(axis=0))
    used = np.flatnonzero(scale > 0.0)
    scale = scale[used]
    part = rows[:, used] / scale
    values, vectors = np.linalg.eigh((part.T * weights) @ part)
    vectors = vectors / scale[:, None]
    free = values > _RANK * values[-1]
    inverse = np.zeros((size, size))
    inverse[np.ix_(used, used)] = (vectors[:, free] / values[free]) @ vectors[:, free].T
    unknown = np.zeros((size, int((~free).sum())))
    unknown[used, :] = vectors[:, ~free]
    return inverse, unknown


@dataclass(frozen=True, slots=True, kw_only=True)
class QuantileRow:
    """A quantile of what was measured, and of what the fit gives for the same requests."""

    q: float
    measured_s: float
    fitted_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Band:
    """Requests that ran beside about as many.

    Attributes
    ----------
    low, high : float
        Mean running requests, from ``low`` to below ``high``.
    n : int
        Requests.
    median_ln : float
        Median of ln(measured / fitted): above 0 where they took longer than the fit says.
    """

    low: float
    high: float
    n: int
    median_ln: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Goodness:
    """How well the costs explain the seconds in the engine.

    Attributes
    ----------
    n : int
        Requests.
    median_abs_ln, p90_abs_ln : float
        Of ln(measured / fitted).
    r_squared : float
        Share of the variance of the seconds that is explained.
    quantiles : tuple of QuantileRow
        Of the seconds.
    by_concurrency : tuple of Band
        By octaves.
    """

    n: int
    median_abs_ln: float
    p90_abs_ln: float
    r_squared: float
    quantiles: tuple[QuantileRow, ...]
    by_concurrency: tuple[Band, ...]


def goodness_of(measured_s: Vector, fitted_s: Vector, concurrency: Vector) -> Goodness:
    """Compare measured with fitted seconds, all > 0, request by request."""
    logs = np.log(measured_s / fitted_s)
    total = float(((measured_s - measured_s.mean()) ** 2).sum())
    left = float(((measured_s - fitted_s) ** 2).sum())
    octaves = np.floor(np.log2(np.maximum(concurrency, 1.0)))
    return Goodness(
        n=len(logs),
        median_abs_ln=float(np.median(np.abs(logs))),
        p90_abs_ln=float(np.quantile(np.abs(logs), 0.9)),
        r_squared=1.0 - left / total if total > 0.0 else 0.0,
        quantiles=tuple(
            QuantileRow(
                q=q,
                measured_s=float(np.quantile(measured_s, q)),
                fitted_s=float(np.quantile(fitted_s, q)),
            )
            for q in _QUANTILES
        ),
        by_concurrency=tuple(
            Band(
                low=float(2.0**octave),
                high=float(2.0 ** (octave + 1.0)),
                n=int((octaves == octave).sum()),
                median_ln=float(np.median(logs[octaves == octave])),
            )
            for octave in np.unique(octaves)
        ),
    )
