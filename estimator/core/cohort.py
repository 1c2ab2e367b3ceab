"""Whether the newest requests are of another level, told by when they started.

When κ changes, requests that started before still finish, and of those that started afterwards
the short ones finish first. By their start, completions and running requests fall apart into
before and after, and neither side is selected by its outcome. Owns that mathematics. What it
says is put beside what was learned and never learned: which requests run is not stored.
"""

import math
from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from estimator.core.censored import Bound, Line

# Completions of a key that are remembered: those that ran at a change and twice as many after it.
MAX_RECENT: Final = 256
# Keys that are looked at with each list, those that run most: 0.7 ms each.
MAX_KEYS: Final = 6
# Fewer say nothing that the learned line does not.
_LEAST_RECENT: Final = 16
# A side of a change has at least so many requests.
_LEAST_SIDE: Final = 3
# Places for the change that are weighed, the newest: a whole batch that started since, and as many
# completions. Earlier ones are the learned line's by now.
_MAX_PLACES: Final = 128
# Factors on the line that are weighed, and their prior: languages differ by ×1.2 to ×1.9, so a
# new level is 1 ± 0.45 in natural logarithms.
_FACTORS: Final = np.exp(np.linspace(math.log(0.4), math.log(2.5), 45))
_UNCHANGED: Final = 22
_PRIOR_DEVIATION: Final = 0.45
_STEP: Final = float(np.log(_FACTORS[1] / _FACTORS[0]))
# Where nothing changed the last completions lie as far from the line as that: a line that is off
# is not taken for a change.
_SAME_DEVIATION: Final = 0.05
# Weight of "it changed here" for each place, before any evidence. Where nothing changes it leaves
# the factor beyond 10 % of 1 at 0.6, 0.8 and 1.0 % of the completions for 1/1000, 1/500 and 1/300.
# 1/500 and 1/250 cross into ±10 % after 6 and 5 (median of 60 changes of ×1.5 and more).
_LOG_HAZARD: Final = math.log(1.0 / 250.0)
# No completion says more than so many nats, and no running request: a repetition loop says
# nothing by being longer still.
_MAX_NATS: Final = 6.0
_MAX_RUNNING_NATS: Final = 4.0
# log(1 - Φ(z)) is taken to be that of the logistic distribution, -log(1 + e^(1.702 z)), within
# 0.01 in probability (Bowling et al. 2009): numpy has no normal distribution.
_LOGISTIC: Final = 1.702
_LEAST_SCALE: Final = 0.5
# The median absolute deviation of a normal, to its standard deviation.
_NORMAL: Final = 1.4826
# Completions that a spread is measured on; fewer, and the learned one is taken.
_LEAST_SPREAD: Final = 32
# A window of empty transcripts has a level too.
_LEAST_FACTOR: Final = 0.01

_Array = NDArray[np.float64]


class Recent(NamedTuple):
    """A completion: when it started, its size and its tokens."""

    started_s: float
    size: float
    tokens: float


def _log_prior(deviation: float) -> _Array:
    prior = np.exp(-0.5 * (np.log(_FACTORS) / deviation) ** 2)
    log_prior: _Array = np.log(prior / prior.sum())
    return log_prior


_LOG_PRIOR: Final = _log_prior(_PRIOR_DEVIATION)
_LOG_SAME: Final = _log_prior(_SAME_DEVIATION)


def newest_factor(
    line: Line, scale: float, recent: Sequence[Recent], bounds: Sequence[Bound]
) -> float:
    """Give the factor on a line that the newest requests call for.

    Parameters
    ----------
    line : Line
        What was learned.
    scale : float
        Robust deviation of a residual, in units of √(expected tokens), > 0.
    recent : sequence of Recent
        The key's last completions.
    bounds : sequence of Bound
        Those of its requests that run, or an even part of them.

    Returns
    -------
    float
        1 where nothing calls for another; within [0.4, 2.5].

    Notes
    -----
    Posterior median over "the line holds for all" and, for each place in the order of starts,
    "what started before is at one level, what started since at another", both levels unknown.
    Levels are summed over a grid, so that a running request's survival is as easy as a density:
    some 300 × 45 terms, 0.7 ms.

    The spread is that of the completions that started first, a half of those remembered: a change
    widens what a learner takes for the spread, by half within 30 completions of one to 1/1.7, and
    then hides in it.

    References
    ----------
    Barry & Hartigan (1993), A Bayesian analysis for change point problems, JASA 88.
    """
    if len(recent) < _LEAST_RECENT or not bounds or bounds[0].started_s <= 0.0:
        return 1.0
    done = np.array(recent, dtype=np.float64)
    runs = np.array(bounds, dtype=np.float64)
    scale = _spread_before(line, scale, done)
    nats = np.vstack(
        (_log_density(line, scale, done[:, 1:]), _log_survival(line, scale, runs[:, :3]))
    )
    order = np.argsort(-np.concatenate((done[:, 0], runs[:, 3])), kind="stable")
    since = np.cumsum(nats[order], axis=0)[_LEAST_SIDE - 1 :]
    everything = since[-1]
    same = float(np.logaddexp.reduce(everything + _LOG_SAME))
    since = since[:_MAX_PLACES]
    before = np.logaddexp.reduce(everything - since + _LOG_PRIOR, axis=1)
    odds = since + _LOG_PRIOR + (before - same + _LOG_HAZARD)[:, None]
    top = max(float(odds.max()), 0.0)
    weights = np.exp(odds - top).sum(axis=0)
    weights[_UNCHANGED] += math.exp(-top)
    return _median(weights)


def _median(weights: _Array) -> float:
    """Give the median of a grid's weights, each spread evenly over its cell."""
    below = np.cumsum(weights)
    half = 0.5 * float(below[-1])
    at = int(np.searchsorted(below, half))
    within = 0.5 - (float(below[at]) - half) / float(weights[at])
    return float(_FACTORS[at]) * math.exp(_STEP * within)


def _spread_before(line: Line, scale: float, done: _Array) -> float:
    """Give the robust deviation of the half that started first, about its own level."""
    first = done[np.argsort(done[:, 0], kind="stable")][: len(done) // 2]
    if len(first) < _LEAST_SPREAD:
        return scale
    expected = np.maximum(line.intercept + line.kappa * first[:, 1], 1.0)
    expected *= max(float(first[:, 2].sum() / expected.sum()), _LEAST_FACTOR)
    off = np.abs(first[:, 2] - expected) / np.sqrt(expected)
    return _NORMAL * float(np.median(off))


def _expected(line: Line, sizes: _Array) -> _Array:
    return np.maximum(line.intercept + line.kappa * sizes, 1.0)[:, None] * _FACTORS


def _log_density(line: Line, scale: float, rows: _Array) -> _Array:
    expected = _expected(line, rows[:, 0])
    deviation = max(scale, _LEAST_SCALE) * np.sqrt(expected)
    z = (rows[:, 1:2] - expected) / deviation
    density: _Array = -np.minimum(0.5 * z * z, _MAX_NATS) - np.log(deviation)
    return density


def _log_survival(line: Line, scale: float, rows: _Array) -> _Array:
    expected = _expected(line, rows[:, 0])
    deviation = max(scale, _LEAST_SCALE) * np.sqrt(expected)
    z = (rows[:, 1:2] - expected) / deviation
    survival: _Array = np.maximum(-np.logaddexp(0.0, _LOGISTIC * z), -_MAX_RUNNING_NATS)
    return survival * rows[:, 2:3]
