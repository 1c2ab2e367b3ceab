"""Regression of the seconds a request stays in the engine, for one model.

Owns one model's fit and what is reported of it. Knows nothing of completions.
"""

import math
from collections.abc import Sequence
from typing import Any, Final, Self

import numpy as np

from estimator.core.config import CoreConfig
from estimator.core.drift import LevelWatch, Sample, service_watch
from estimator.core.non_negative import fit_non_negative
from estimator.core.octaves import N_OCTAVES, Octaves, octave_of
from sched_client.model import ServiceTime

_N_COEFFICIENTS: Final = 5
_N_LINES: Final = _N_COEFFICIENTS * N_OCTAVES
# Completions after which an octave of concurrency is known: a mean of a relative spread of 0.5,
# the widest seen (benchmarks/service.py), is then right within 9 %.
_KNOWN_AFTER: Final = 32.0
# A completion counts by 1 / estimate², as a relative error does, but at most so much more than a
# mean one: the seconds of one token are mostly what the step was late.
_MAX_WEIGHT: Final = 4.0
# Requests that run together share their steps, so their residuals say the same thing: with all of
# 16 slots taken, correlations of .5, .3 and 0 with the next, the 4th and the 16th to finish, which
# makes the mean of many 2.6 times as uncertain (7 running: 1.6 times). Bounded, so that a change
# is seen whatever runs.
_SHARED: Final = 0.5
_MAX_SHARED: Final = 4.0
# Rates of the running means of tokens, prompt and audio: over about 200 completions.
_MEAN_RATE: Final = 0.01
# The reference concurrency is the mean of a model's first so many completions and stays there:
# one that followed the load would move all seconds with it, which is what is to be avoided.
_REFERENCE_AFTER: Final = 128
# Until then the published reference follows only beyond this.
_REFERENCE_RATIO: Final = 0.1
# Rate of the mean residual, over about 400 completions, and how far off it may be: detection must
# not be the only way to adapt, and an octave that is not visited cannot adapt by itself. The mean
# of the most uneven residuals seen strays by 4 % at this rate.
_LEVEL_RATE: Final = 0.005
_MOST_OFF: Final = 0.15
# Least seconds per token and per request: a tenth of what the fastest accelerator needs.
MIN_PER_TOKEN_S: Final = 1e-6
_MIN_SERVICE_S: Final = 1e-4
_TINY: Final = 1e-9
_PRIOR: Final = ServiceTime()
_PRIOR_COEFFICIENTS: Final = (_PRIOR.overhead_s, _PRIOR.seconds_per_token, 0.0, 0.0, 0.0)


class ServiceFit:
    """Residence of one model's requests.

    Parameters
    ----------
    parent : ServiceFit or None
        Whose coefficients this one shrinks toward; None for the fallback.
    config : CoreConfig
        Forgetting, shrinkage and clipping.

    Attributes
    ----------
    coef_ : list of float
        Seconds for 1, a token, an uncached prompt token, a unit of concurrency, and a token at a
        unit of concurrency; all ≥ 0.
    reference_ : float
        Concurrency at which seconds are reported.

    Notes
    -----
    ``s ≈ c₀ + c₁·n + c₂·p + c₃·k + c₄·n·k`` for n tokens, p uncached prompt tokens and a mean of k
    running requests: a decode step costs a fixed part and a part for each running sequence, and
    each admission meanwhile, of which there are about k in a mean residence, holds it up. Every
    term can only add time, so the fit is non-negative (an active set over decayed normal
    equations, kept for each octave of k). Columns are centred and each slope is held at the
    parent's by a penalty in proportion to its column's own variance: collinear columns share what
    they explain together, and a column that never varies keeps its prior.

    A residual at a load that the watched coefficients have not seen is no sign of a slower
    machine: it is learned and not tested.
    """

    __slots__ = (
        "_concurrency",
        "_known",
        "_level",
        "_mean_prompt",
        "_n_concurrency",
        "_octaves",
        "_typical_s",
        "coef_",
        "config",
        "mean_audio_s_",
        "mean_tokens_",
        "n_audio_",
        "n_fit_",
        "n_seen_",
        "parent",
        "published",
        "reference_",
        "watch",
    )  # fmt: skip

    def __init__(self, parent: "ServiceFit | None", config: CoreConfig) -> None:
        self.parent = parent
        self.config = config
        self.coef_: list[float] = (
            [*_PRIOR_COEFFICIENTS] * N_OCTAVES if parent is None else list(parent.coef_)
        )
        self.reference_: float = (
            config.reference_concurrency if parent is None else parent.reference_
        )
        self._concurrency = self.reference_
        self._n_concurrency = 0
        self.mean_tokens_: float = _PRIOR.mean_tokens if parent is None else parent.mean_tokens_
        self.mean_audio_s_: float = _PRIOR.mean_audio_s if parent is None else parent.mean_audio_s_
        self._mean_prompt = 0.0
        self.n_seen_ = self.n_audio_ = self.n_fit_ = 0
        self._octaves = Octaves(config)
        # Running mean of relative residuals.
        self._level = 0.0
        self.watch: LevelWatch | None = None
        self.published: ServiceTime | None = None
        self._settle()

    def _settle(self) -> None:
        """Derive what `learn` needs of the coefficients."""
        # What a watch keeps: lines, and the spread around those that are known, 0 for others.
        spreads = [0.0] * N_OCTAVES
        for octave in self._octaves.known(_KNOWN_AFTER):
            spreads[octave] = self._octaves.of(octave).temper.scale_
        self._known = [*self.coef_, *spreads]
        self._typical_s = _predict(
            self.coef_,
            octave_of(self.reference_),
            max(self.mean_tokens_, 1.0),
            self._mean_prompt,
            self.reference_,
        )

    def describe(self, tokens: float, prompt: float, audio_s: float | None) -> None:
        """Follow the means of what requests are like: uncached prompt tokens, audio if known."""
        self.n_seen_ += 1
        rate = max(_MEAN_RATE, 1.0 / self.n_seen_)
        self.mean_tokens_ += rate * (max(tokens, 1.0) - self.mean_tokens_)
        self._mean_prompt += rate * (prompt - self._mean_prompt)
        if audio_s is not None and audio_s > 0.0:
            self.n_audio_ += 1
            rate = max(_MEAN_RATE, 1.0 / self.n_audio_)
            self.mean_audio_s_ += rate * (audio_s - self.mean_audio_s_)

    def learn(self, tokens: float, prompt: float, concurrency: float, seconds: float) -> Sample:
        """Learn one residence, > 0, at a known concurrency, ≥ 1."""
        if self._n_concurrency < _REFERENCE_AFTER:
            self._refer(concurrency)
        known = self._known
        at = octave_of(concurrency)
        octave = self._octaves.of(at)
        expected = _predict(known, at, tokens, prompt, concurrency)
        value, deviation = octave.temper.judge(seconds, expected, expected)
        y = expected
        if value is not None:
            y = value
            weight = self._typical_s / expected
            weight = min(weight * weight, _MAX_WEIGHT)
            octave.rows.extend((tokens, prompt, concurrency, value, weight))
            self.n_fit_ += 1
            if known[_N_LINES + at] > 0.0:
                self._follow(value / expected - 1.0)
            if octave.is_due:
                octave.fold(self.config.service_forgetting)
                self._solve(at)
                self._settle()
        reference = expected
        if self.watch is not None and self.watch.reference_:
            then = self.watch.reference_
            spread = then[_N_LINES + at]
            if spread > 0.0:
                reference = _predict(then, at, tokens, prompt, concurrency)
                deviation = spread * reference
            else:
                reference = y
        deviation *= min(max(math.sqrt(_SHARED * concurrency), 1.0), _MAX_SHARED)
        return Sample(y, expected, reference, deviation, 0.0, max(tokens, 1.0), known)

    def _follow(self, residual: float) -> None:
        """Scale what is known once it is off by too much, whether or not a watch has seen why."""
        self._level += _LEVEL_RATE * (residual - self._level)
        if abs(self._level) > _MOST_OFF:
            self.discount(1.0, 1.0 + self._level)

    def _refer(self, concurrency: float) -> None:
        self._n_concurrency += 1
        self._concurrency += (concurrency - self._concurrency) / self._n_concurrency
        off = abs(self._concurrency - self.reference_) > _REFERENCE_RATIO * self.reference_
        if off or self._n_concurrency == _REFERENCE_AFTER:
            self.reference_ = max(self._concurrency, 1.0)

    def _solve(self, *fitted: int) -> None:
        """Fit these octaves; those without a row follow the nearest that has some."""
        parent = self.parent
        for octave in fitted:
            sums, count = self._octaves.around(octave)
            prior = np.array(
                _PRIOR_COEFFICIENTS if parent is None else parent.coef_[_span(octave)]
            )
            self.coef_[_span(octave)] = fit_non_negative(
                sums, prior, self.config.service_shrinkage / count
            )
        seen = self._octaves.known(_TINY) or fitted
        for octave in range(N_OCTAVES):
            if octave not in seen:
                nearest = min(seen, key=lambda other: abs(other - octave))
                self.coef_[_span(octave)] = self.coef_[_span(nearest)]

    def discount(self, keep_ratio: float, factor: float = 1.0) -> None:
        """Keep this share of the past's weight: its seconds became ``factor`` times as long."""
        self._level = 0.0
        self._octaves.discount(keep_ratio, factor)
        self._solve(*self._octaves.known(_TINY))
        self._settle()

    def entry(self) -> ServiceTime:
        """Build what a client is told, at the reference concurrency."""
        k = self.reference_
        c0, c1, c2, c3, c4 = self.coef_[_span(octave_of(k))]
        per_token = max(c1 + c4 * k, MIN_PER_TOKEN_S)
        overhead = c0 + c3 * k
        mean_tokens = max(self.mean_tokens_, 1.0)
        return ServiceTime(
            overhead_s=overhead,
            seconds_per_token=per_token,
            seconds_per_prompt_token=c2,
            reference_concurrency=k,
            mean_service_s=max(
                overhead + c2 * self._mean_prompt + per_token * mean_tokens, _MIN_SERVICE_S
            ),
            mean_tokens=mean_tokens,
            mean_audio_s=self.mean_audio_s_,
            sample_count=self.n_fit_,
        )

    def state(self) -> list[Any]:
        """Give what was learned as JSON (hence Any)."""
        return [
            self._known, self.reference_, self._concurrency, self._n_concurrency,
            self.mean_tokens_, self.mean_audio_s_, self._mean_prompt, self.n_seen_,
            self.n_audio_, self.n_fit_, self._typical_s, self._level,
            self._octaves.state(), None if self.watch is None else self.watch.state(),
        ]  # fmt: skip

    def restore(self, state: Sequence[Any]) -> Self:
        """Take on what `state` gave (JSON, hence Any); return self.

        Raises
        ------
        ValueError
            If a number is not finite or the shapes are not this class's.
        """
        (
            known, self.reference_, self._concurrency, self._n_concurrency, self.mean_tokens_,
            self.mean_audio_s_, self._mean_prompt, self.n_seen_, self.n_audio_, self.n_fit_,
            self._typical_s, self._level, octaves, watch,
        ) = state  # fmt: skip
        self._known = list(known)
        if len(self._known) != _N_LINES + N_OCTAVES or not all(map(math.isfinite, self._known)):
            raise ValueError(f"a service time knows finite lines and spreads, not {known}")
        self.coef_ = self._known[:_N_LINES]
        self._octaves.restore(octaves)
        if watch is not None:
            self.watch = service_watch(self.config).restore(watch)
        return self


def _span(octave: int) -> slice:
    """Give where an octave's coefficients are."""
    return slice(_N_COEFFICIENTS * octave, _N_COEFFICIENTS * (octave + 1))


def _predict(
    coefficients: Sequence[float], octave: int, tokens: float, prompt: float, concurrency: float
) -> float:
    c0, c1, c2, c3, c4 = coefficients[_N_COEFFICIENTS * octave : _N_COEFFICIENTS * (octave + 1)]
    seconds = c0 + c2 * prompt + c3 * concurrency + (c1 + c4 * concurrency) * tokens
    return max(_MIN_SERVICE_S, seconds)
