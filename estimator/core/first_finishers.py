"""What the first finishers of requests that started together say, where nobody tells what runs.

Clients that are older than lists of running requests, and a history that is replayed, tell of
completions alone. Of requests that started together those with few tokens come first, so what
came is held against the time that each had: a completion is one of those of its length that can
have finished by now (a truncated likelihood). Owns that mathematics and what it needs of a key's
first completions; what it says is put beside what was learned, and never learned.
"""

import math
from collections.abc import Sequence
from itertools import chain
from typing import Any, Final, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from estimator.core.censored import Line

# Completions that are kept, of a key at most: twice the requests that an accelerator runs.
MAX_KEPT: Final = 128
# Fewer do not tell how many tokens a second makes.
_LEAST: Final = 3
# Started together: within so much of the longest service since the first of them did.
_TOGETHER: Final = 0.1
# So many longest services after the first start all that started with it have finished.
_OVER: Final = 2.0
# How often those that started together are counted.
_COUNT_EVERY: Final = 8
# Below and above these shares of completions that started together, nothing and all is left to
# this. Of requests one after another it is one, of those of an engine that has long been full 0.1
# to 0.3, of the first of 64 at once 1.0 after 10 and 0.95 after 40.
_FEW: Final = 0.5
_MOST: Final = 0.9
# Factors on the anchor that are weighed. Their prior is narrower than languages are apart: short
# clips alone say that few tokens came in little time, whatever the level. After 10 of 64 at once
# 0.25, 0.3 and 0.35 erred 13.2, 13.9 and 14.6 % (root mean square of 20 seeds of eight traces),
# and 17, 17 and 17 % after 5; what is learned alone errs 43 and 52 %.
_FACTORS: Final = np.exp(np.linspace(math.log(0.3), math.log(3.0), 61))
_LOG_PRIOR: Final = -0.5 * (np.log(_FACTORS) / 0.3) ** 2
# The first ones lie closer together than all do, so their own spread is too small: that of tokens
# in units of their root is 0.8 to 1.3.
_LEAST_SCALE: Final = 1.0
# As in `estimator.core.cohort`: neither a loop nor a clip that is cut off says more by being more
# so, and a normal's distribution function is taken to be the logistic one.
_MAX_NATS: Final = 6.0
_MAX_TRUNCATED_NATS: Final = 4.0
_LOGISTIC: Final = 1.702
# Square seconds; what varies less does not vary.
_TINY: Final = 1e-12

_Array = NDArray[np.float64]


class Finisher(NamedTuple):
    """A completion: when it started and finished, its size and its tokens."""

    started_s: float
    finished_s: float
    size: float
    tokens: float


class FirstFinishers:
    """All completions of a key there have been, as long as they may have started together.

    Attributes
    ----------
    anchor : Line
        The shape that holds beyond the lengths seen: a parent's line, or the prior's.
    """

    __slots__ = ("_done", "_finished_s", "_longest_s", "_started_s", "anchor")

    def __init__(self) -> None:
        self.anchor = Line(0.0, 0.0)
        self._done: list[Finisher] = []
        self._started_s = math.inf
        self._finished_s = -math.inf
        self._longest_s = 0.0

    def __len__(self) -> int:
        return len(self._done)

    def add(self, one: Finisher) -> bool:
        """Take the next; say whether more are worth keeping.

        Parameters
        ----------
        one : Finisher
            It finished after it started.
        """
        self._done.append(one)
        started_s, finished_s, _, _ = one
        self._started_s = min(self._started_s, started_s)
        self._finished_s = max(self._finished_s, finished_s)
        self._longest_s = max(self._longest_s, finished_s - started_s)
        n = len(self._done)
        if n >= MAX_KEPT or self._finished_s - self._started_s > _OVER * self._longest_s:
            return False
        return n % _COUNT_EVERY > 0 or self.share_together() > _FEW

    def share_together(self) -> float:
        """Give the share that started with the first of them, in (0, 1]; nothing kept is 0."""
        last_s = self._started_s + _TOGETHER * self._longest_s
        return sum(one.started_s <= last_s for one in self._done) / max(len(self._done), 1)

    def line(self, learned: Line, scale: float) -> Line:
        """Put what the others need, having not finished, beside what the first finishers taught.

        Parameters
        ----------
        learned : Line
            From the completions as they came.
        scale : float
            Deviation of a residual, in units of √(expected tokens), > 0.

        Returns
        -------
        Line
            The learned one where completions did not start together, or where no factor within
            ×0.3 and ×3 explains what came; beyond ×3 the one that expects more.

        Notes
        -----
        The posterior median of a factor on the anchor. A slope is not fitted: by the time that
        ten of 64 have finished, no clip of any length has had time for more than ten tokens or so.

        References
        ----------
        Amemiya (1973), Regression analysis when the dependent variable is truncated normal,
        Econometrica 41. Kalbfleisch & Lawless (1989), Inference based on retrospective
        ascertainment, JASA 84 (right truncation by the time of observation).
        """
        if len(self._done) < _LEAST:
            return learned
        weight = min(max((self.share_together() - _FEW) / (_MOST - _FEW), 0.0), 1.0)
        if weight == 0.0:
            return learned
        anchor, done = self.anchor, np.array(self._done, dtype=np.float64)
        limits, explained = _tokens_within(done)
        weight *= explained
        factor = _factor(anchor, max(scale, _LEAST_SCALE), done, limits)
        size = float(done[:, 2].mean())
        if factor is None or (
            factor >= _FACTORS[-1] and learned.at(size) > factor * anchor.at(size)
        ):
            return learned
        return Line(
            learned.kappa + weight * (factor * anchor.kappa - learned.kappa),
            learned.intercept + weight * (factor * anchor.intercept - learned.intercept),
        )

    def state(self) -> list[Any]:
        """Give what is kept (JSON, hence Any)."""
        return [*self.anchor, [list(one) for one in self._done]]

    def restore(self, state: Sequence[Any]) -> Self:
        """Take on what `state` gave; return self.

        Raises
        ------
        ValueError
            If it is not finite numbers, or more than are kept.
        """
        kappa, intercept, rows = state
        self.anchor = Line(float(kappa), float(intercept))
        done = [Finisher(*map(float, row)) for row in rows]
        if len(done) >= MAX_KEPT or not all(map(math.isfinite, chain(self.anchor, *done))):
            raise ValueError(f"first finishers are finite and below {MAX_KEPT}, not {state}")
        for one in done:
            self.add(one)
        return self


def _factor(anchor: Line, scale: float, done: _Array, limits: _Array) -> float | None:
    """Give the posterior's median; None where it is below all factors, or explains little.

    Where most completions are as far off as is counted, whatever the factor, the narrowest
    deviation wins, and that is the lowest factor's.
    """
    sizes, tokens = done[:, 2], done[:, 3]
    expected = np.maximum(anchor.intercept + anchor.kappa * sizes, 1.0)[:, None] * _FACTORS
    deviation = scale * np.sqrt(expected)
    z = (tokens[:, None] - expected) / deviation
    off = np.minimum(0.5 * z * z, _MAX_NATS)
    # As many tokens as there was time for have finished too.
    beyond = (expected - limits[:, None] - 0.5) / deviation
    nats = -off - np.log(deviation)
    nats += np.minimum(np.logaddexp(0.0, _LOGISTIC * beyond), _MAX_TRUNCATED_NATS)
    posterior = nats.sum(axis=0) + _LOG_PRIOR
    below = np.cumsum(np.exp(posterior - posterior.max()))
    at = int(np.searchsorted(below, 0.5 * below[-1]))
    if at == 0 or 2 * np.count_nonzero(off[:, at] >= _MAX_NATS) > len(done):
        return None
    return float(_FACTORS[at])


def _tokens_within(done: _Array) -> tuple[_Array, float]:
    """Give how many tokens each had time for by now, and how far tokens explain time, in [0, 1].

    By the line of tokens on seconds through those that finished, and its R².
    """
    started, finished, _, tokens = done.T
    service = finished - started
    off, rest = service - service.mean(), tokens - tokens.mean()
    together, varied, differed = float(off @ rest), float(off @ off), float(rest @ rest)
    if together <= 0.0 or varied <= _TINY:
        # As many tokens in the same time are no exception.
        return tokens, float(varied <= _TINY and differed <= _TINY)
    made = tokens + together / varied * (finished.max() - finished)
    return made, min(together * together / (varied * differed), 1.0)
