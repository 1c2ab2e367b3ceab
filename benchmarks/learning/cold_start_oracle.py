"""κ of the first finishers by one who knows everything of a trace but its level.

How many tokens clips of a length hold, and how far they spread, is taken from the whole trace in
hindsight; what is to be found is one factor on all of it. No learner knows as much, so what this
one is off by is what the first of concurrent requests cannot tell.
"""

import math
from collections.abc import Sequence
from typing import Final

import numpy as np

from benchmarks.learning.noise import Array, Noise
from estimator.evaluation.scenarios import Running, Trace
from estimator.evaluation.subjects import size_of

# Factors that are weighed, and how widely they are believed: languages differ by ×1.2 to ×1.9.
_FACTORS: Final = np.exp(np.linspace(math.log(0.4), math.log(2.5), 81))
_LOG_PRIOR: Final = -0.5 * (np.log(_FACTORS) / 0.5) ** 2


class KnowsAllButTheLevel:
    """The posterior of a factor, given a trace's own distribution.

    Parameters
    ----------
    trace : Trace
        What clips hold is taken from all of it.
    """

    def __init__(self, trace: Trace) -> None:
        self.noise = Noise(trace)

    def off(self, done: Sequence[tuple[float, float]], running: Sequence[Running]) -> float:
        """Give the relative error of κ after completions and beside what runs.

        Parameters
        ----------
        done : sequence of (float, float)
            Sizes and tokens.
        running : sequence of Running
            With their tokens so far.
        """
        return self.level(done, running) - 1.0

    def level(
        self,
        done: Sequence[tuple[float, float]],
        running: Sequence[Running] = (),
        *,
        log_prior: Array = _LOG_PRIOR,
    ) -> float:
        """Give the posterior median of the factor.

        Parameters
        ----------
        done, running : sequences
            As in `off`.
        log_prior : array
            Of 81 factors from 0.4 to 2.5 in even steps of their logarithms.
        """
        nats = self.evidence(done, running) + log_prior
        mass = np.exp(nats - nats.max())
        # Each factor's mass lies evenly about it: the grid's steps are 2 %.
        below = np.cumsum(mass) - 0.5 * mass
        return float(np.exp(np.interp(0.5 * mass.sum(), below, np.log(_FACTORS))))

    def evidence(
        self, done: Sequence[tuple[float, float]], running: Sequence[Running] = ()
    ) -> Array:
        """Give the logarithm of the likelihood of each factor."""
        nats = np.zeros_like(_FACTORS)
        for size, tokens in done:
            nats += self.noise.log_density(size, tokens, _FACTORS)
        for one in running:
            # What has not finished with so many tokens may hold just as many: all of these
            # started at the same moment, and the next to finish may do so at this one.
            nats += self.noise.log_survival(size_of(one.completion), one.tokens - 0.5, _FACTORS)
        return nats

    def tokens_by_factor(self, size: float) -> Array:
        """Give what is expected of a size at each factor."""
        expected: Array = _FACTORS * self.noise.expected(np.array([size]))
        return expected


def tokens_of_one_of(
    oracles: Sequence[KnowsAllButTheLevel], evidences: Sequence[Array], size: float
) -> float:
    """Give the posterior median of what is expected of a size, by who knows a set of traces.

    Parameters
    ----------
    oracles, evidences : sequences
        Of each trace that it may be, all alike before any data, at any level.
    size : float
        Seconds.
    """
    nats = np.concatenate([one + _LOG_PRIOR for one in evidences])
    tokens = np.concatenate([one.tokens_by_factor(size) for one in oracles])
    order = np.argsort(tokens, kind="stable")
    below = np.cumsum(np.exp(nats[order] - nats.max()))
    return float(tokens[order][int(np.searchsorted(below, 0.5 * below[-1]))])


def log_prior_of(center: float, deviation: float) -> Array:
    """Give a log-normal prior of the factors: its median and deviation in logarithms."""
    log_prior: Array = -0.5 * ((np.log(_FACTORS) - math.log(center)) / deviation) ** 2
    return log_prior
