"""A Gaussian mixture of log work in one dimension. Knows nothing of queues."""

from dataclasses import dataclass
from typing import Final, Self

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

# Added to each variance: work that differs by 1 % does not differ, and equal values do not divide
# by zero.
LEAST_VARIANCE: Final = 1e-4
# A weight, a mean and a variance each; the weights sum to 1.
_PER_COMPONENT: Final = 3
_LOG_TWO_PI: Final = float(np.log(2.0 * np.pi))
_TINY: Final = 1e-300


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
        return cls.sorted(mass / mass.sum(), means, np.sqrt(spread + LEAST_VARIANCE))

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
