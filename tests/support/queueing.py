"""Formulas of queueing theory, and intervals for what a simulation measures.

Symbols as in Kleinrock, *Queueing Systems*, vol. 1 and 2 (1975, 1976): arrivals by a Poisson
process of ``rate``, service with ``mean`` and ``second`` moment, all in one unit of time.
"""

import math
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

import numpy as np

# Enough batches for the normal law, each long against the correlation of waits.
BATCHES: Final = 30
# Student's t, 99.5 %, by degrees of freedom: two-sided 99 % intervals.
_STUDENT_T: Final = {29: 2.756, 28: 2.763, 27: 2.771, 26: 2.779}


class Interval(NamedTuple):
    """A mean with the half width of its 99 % confidence interval."""

    mean: float
    half_width: float

    def holds(self, value: float) -> bool:
        """Say whether the interval holds a value."""
        return abs(value - self.mean) <= self.half_width

    @property
    def relative(self) -> float:
        """The half width over the mean."""
        return self.half_width / self.mean


class Control(NamedTuple):
    """Values of the inputs of a simulation, and the mean that they are drawn with."""

    values: Sequence[float]
    known: float


class SizeClass(NamedTuple):
    """Jobs of one size: how often, and how long."""

    probability: float
    service: float


def batched(values: Sequence[float], keep: Sequence[bool] | None = None) -> list[float]:
    """Give the means of 30 batches, of those values that are kept."""
    kept = keep or [True] * len(values)
    size = len(values) // BATCHES
    means = []
    for start in range(0, BATCHES * size, size):
        pairs = zip(values[start : start + size], kept[start : start + size], strict=True)
        batch = [value for value, wanted in pairs if wanted]
        means.append(math.fsum(batch) / len(batch))
    return means


def controlled_mean(means: Sequence[float], controls: Sequence[Control] = ()) -> Interval:
    """Estimate the mean of a correlated stationary sequence from its batch means.

    Parameters
    ----------
    means : sequence of float
        Of 30 batches (Law 2015, section 9.5.3).
    controls : sequence of Control
        What the waits go with and whose true means are known, up to three: gaps between arrivals,
        services, squared services. The waits are regressed on them, which takes away what the
        draw of this seed makes of it (control variates; Lavenberg and Welch 1981).
    """
    columns = [[1.0] * BATCHES]
    columns += [[one - known for one in batched(values)] for values, known in controls]
    design, response = np.array(columns).T, np.array(means)
    inverse = np.linalg.inv(design.T @ design)
    coefficients = inverse @ design.T @ response
    residuals = response - design @ coefficients
    freedom = BATCHES - len(columns)
    variance = float(residuals @ residuals) / freedom * float(inverse[0, 0])
    return Interval(float(coefficients[0]), _STUDENT_T[freedom] * math.sqrt(variance))


def residual_work(rate: float, second: float) -> float:
    """Give W₀: what an arrival finds left of the job in service."""
    return rate * second / 2.0


def pollaczek_khinchine(rate: float, mean: float, second: float) -> float:
    """Give the mean wait of M/G/1, first come, first served (vol. 1, eq. 5.70)."""
    return residual_work(rate, second) / (1.0 - rate * mean)


def shortest_first(rate: float, classes: Sequence[SizeClass]) -> list[float]:
    """Give the mean wait of each size in M/G/1 without preemption, shortest job first.

    Equal sizes wait in order of arrival: W(x) = W₀ / ((1 - ρ(<x)) (1 - ρ(≤x))) (Cobham 1954;
    Phipps 1956; vol. 2, eq. 3.31). Sizes ascend.
    """
    second = math.fsum(one.probability * one.service**2 for one in classes)
    first = residual_work(rate, second)
    waits, below = [], 0.0
    for one in classes:
        through = below + rate * one.probability * one.service
        waits.append(first / ((1.0 - below) * (1.0 - through)))
        below = through
    return waits


def shortest_first_between(
    rate: float,
    second: float,
    quantile: Callable[[float], float],
    low: float,
    high: float,
    steps: int = 2000,
) -> float:
    """Give the mean wait, shortest first, of sizes between two quantiles of a continuous law.

    W(x) = W₀ / (1 - ρ(x))², the mean over x by the midpoint rule; ρ(x) likewise from 0.
    """
    first = residual_work(rate, second)
    load = 0.0
    below = round(low * steps)
    total = 0.0
    for index in range(round(high * steps)):
        service = quantile((index + 0.5) / steps)
        if index >= below:
            total += first / (1.0 - load - rate * service / steps / 2.0) ** 2
        load += rate * service / steps
    return total / (round(high * steps) - below)


def erlang_c(rate: float, mean: float, servers: int) -> float:
    """Give the mean wait of M/M/c (vol. 1, eq. 3.40 and Little's law)."""
    offered = rate * mean
    term, total = 1.0, 1.0
    for k in range(1, servers):
        term *= offered / k
        total += term
    queued = term * offered / servers / (1.0 - offered / servers)
    return queued / (total + queued) * mean / (servers - offered)


def birth_death_sojourn(rate: float, death_rate: Callable[[int], float], limit: int) -> float:
    """Give the mean time in system of a birth-death queue whose death rate depends on its size.

    Vol. 1, eq. 3.11, cut off at ``limit`` jobs, and Little's law.
    """
    probability, total, number = 1.0, 1.0, 0.0
    for k in range(1, limit):
        probability *= rate / death_rate(k)
        total += probability
        number += k * probability
    return number / total / rate
