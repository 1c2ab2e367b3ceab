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
# So many points of a sample, or this share, lie where hardly any do: fewer have no quantile.
_LOW_POINTS: Final = 8
_LOW_SHARE: Final = 0.002
# Of log densities, where all work is alike.
_LEAST_DEVIATION: Final = 0.05
_TINY: Final = 1e-6
# Kolmogorov's quantile of it: P(√n D > c) ≈ 2 exp(−2c²).
_KOLMOGOROV: Final = math.sqrt(-0.5 * math.log(0.5 * _ALPHA))


@dataclass(frozen=True, slots=True, kw_only=True)
class Reference:
    """What a sample was like.

    Attributes
    ----------
    quantiles : ndarray of float64, shape (129,)
        Of log work, evenly spaced, the extremes included.
    log_density, log_density_sd, log_density_low : float
        Of the points' log density by the mixture in force: mean, deviation, and what a few
        of the points were below.
    n : int
        Points.
    """

    quantiles: Array
    log_density: float
    log_density_sd: float
    log_density_low: float
    n: int

    @classmethod
    def of(cls, x: Array, log_densities: Array) -> Self:
        """Describe a sample of log work and its log densities."""
        return cls(
            quantiles=np.quantile(x, np.linspace(0.0, 1.0, _QUANTILES)),
            log_density=float(log_densities.mean()),
            log_density_sd=float(log_densities.std()),
            log_density_low=float(np.quantile(log_densities, _low_share(len(x)))),
            n=len(x),
        )

    def change(self, x: Array, log_densities: Array) -> str:
        """Say what is otherwise now, for a person; empty if nothing is.

        Parameters
        ----------
        x, log_densities : ndarray of float64, shape (n,)
            Log work now, at the rates of then, and its log density by the mixture in force.

        Notes
        -----
        Each test finds what the others miss: the counts of points beyond all that was seen and
        where hardly any were, a few of a new class; the mean log likelihood, a wider spread; the
        two-sample Kolmogorov-Smirnov test, a shift of the bulk. Points that are in both samples
        make them find less.
        """
        n = len(x)
        scale = 1.0 / self.n + 1.0 / n
        strange = int((log_densities < self.log_density_low - _TINY).sum())
        expected = _low_share(self.n) * n
        beyond = max(int((x > self.quantiles[-1]).sum()), int((x < self.quantiles[0]).sum()))
        # Of the same work, m of n lie beyond all of n₀ with probability (n/(n + n₀))^m.
        if beyond * math.log1p(self.n / n) > -math.log(_ALPHA):
            return f"{beyond} of {n} beyond all work seen before"
        # Square roots of counts vary by a half, whatever the count (Anscombe 1948); both do.
        if 2.0 * (math.sqrt(strange) - math.sqrt(expected)) > _Z * math.sqrt(n * scale):
            return f"{strange} of {n} where about {expected:.0f} were expected"
        deviation = max(self.log_density_sd, float(log_densities.std()), _LEAST_DEVIATION)
        fall = (self.log_density - float(log_densities.mean())) / (deviation * math.sqrt(scale))
        if fall > _Z:
            return f"likelihood fell by {fall:.1f} deviations"
        share = np.searchsorted(np.sort(x), self.quantiles, side="right") / n
        was = np.searchsorted(self.quantiles, self.quantiles, side="right") - 1.0
        distance = float(np.abs(share - was / (_QUANTILES - 1)).max())
        if distance > _KOLMOGOROV * math.sqrt(scale) + 1.0 / (_QUANTILES - 1):
            return f"the distribution of work moved by {100.0 * distance:.0f} %"
        return ""


def _low_share(n: int) -> float:
    return min(max(_LOW_SHARE, _LOW_POINTS / n), 1.0)
