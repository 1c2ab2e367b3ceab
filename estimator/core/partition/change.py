"""Whether work is distributed otherwise than when the partition in force was made.

A better description of the same work is no reason to move a boundary: only other work is.
"""

import math
from dataclasses import dataclass
from typing import Final, Self

import numpy as np

from estimator.core.partition.mixture import Array

# Quantiles that a sample is remembered by.
_QUANTILES: Final = 129
# Probability of finding a change where there is none, by each of the tests.
_ALPHA: Final = 1e-4
# Its one-sided normal quantile.
_Z: Final = 3.72
# Kolmogorov's quantile of it: P(√n D > c) ≈ 2 exp(−2c²).
_KOLMOGOROV: Final = math.sqrt(-0.5 * math.log(0.5 * _ALPHA))


@dataclass(frozen=True, slots=True, kw_only=True)
class Reference:
    """What a sample was like.

    Attributes
    ----------
    quantiles : ndarray of float64, shape (129,)
        Of log work, evenly spaced, the extremes included.
    log_density, log_density_sd : float
        Mean and deviation of the points' log density by the mixture in force.
    n : int
        Points.
    """

    quantiles: Array
    log_density: float
    log_density_sd: float
    n: int

    @classmethod
    def of(cls, x: Array, log_densities: Array) -> Self:
        """Describe a sample of log work and its log densities."""
        return cls(
            quantiles=np.quantile(x, np.linspace(0.0, 1.0, _QUANTILES)),
            log_density=float(log_densities.mean()),
            log_density_sd=float(log_densities.std()),
            n=len(x),
        )

    def change(self, x: Array, log_densities: Array, least_count: float) -> str:
        """Say what is otherwise now, for a person; empty if nothing is.

        Parameters
        ----------
        x, log_densities : ndarray of float64, shape (n,)
            Log work now, at the rates of then, and its log density by the mixture in force.
        least_count : float
            Points beyond what was seen that count.

        Notes
        -----
        Each test finds what the others miss: the two-sample Kolmogorov-Smirnov test a shift of
        the bulk, the mean log likelihood a few points where there were none, the extremes a few
        points beyond. Points that are in both samples make them find less, never more.
        """
        n = len(x)
        scale = math.sqrt(1.0 / self.n + 1.0 / n)
        above, below = int((x > self.quantiles[-1]).sum()), int((x < self.quantiles[0]).sum())
        # Of a sample from the same work n/n₀ are expected beyond its largest.
        if max(above, below) >= least_count + 2.0 * n / self.n:
            return f"{max(above, below)} of {n} beyond all work seen before"
        fall = (self.log_density - float(log_densities.mean())) / (
            max(self.log_density_sd, float(log_densities.std())) * scale
        )
        if fall > _Z:
            return f"likelihood fell by {fall:.1f} deviations"
        share = np.searchsorted(np.sort(x), self.quantiles, side="right") / n
        was = np.searchsorted(self.quantiles, self.quantiles, side="right") - 1.0
        distance = float(np.abs(share - was / (_QUANTILES - 1)).max())
        if distance > _KOLMOGOROV * scale + 1.0 / (_QUANTILES - 1):
            return f"the distribution of work moved by {100.0 * distance:.0f} %"
        return ""
