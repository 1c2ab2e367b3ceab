"""Regression of the seconds a request stays in the engine, for one model.

Owns one model's fit and what is reported of it. Knows nothing of completions.
"""

# ruff: noqa: FURB136, PLR1730 - min() and max() take as long as the arithmetic around them

import math
from bisect import bisect_right, insort
from collections.abc import Sequence
from typing import Any, Final, Self

import numpy as np

from estimator.core.config import CoreConfig
from estimator.core.drift import LevelWatch, Sample, service_watch
from estimator.core.non_negative import fit_non_negative
from estimator.core.observation import MAX_SECONDS
from estimator.core.octaves import N_OCTAVES, Octaves, octave_of, packed_row
from sched_client.model import ServiceTime

_N_COEFFICIENTS: Final = 6
_N_LINES: Final = _N_COEFFICIENTS * N_OCTAVES
# Completions after which an octave of concurrency is known: a mean of a relative spread of 0.5,
# the widest seen (benchmarks/service.py), is then right within 9 %.
_KNOWN_AFTER: Final = 32.0
# A completion counts by 1 / estimate², as a relative error does, but at most so much more than a
# mean one: the seconds of one token are mostly what the step was late.
_MAX_WEIGHT: Final = 4.0
_MAX_ROOT_WEIGHT: Final = 2.0
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
# A shorter clip counts as one this long: beside the mean, 1e-17 s would be rounded to 0.
_MIN_AUDIO_S: Final = 1e-3
_TINY: Final = 1e-9
_PRIOR: Final = ServiceTime()
_PRIOR_COEFFICIENTS: Final = (_PRIOR.overhead_s, _PRIOR.seconds_per_token, 0.0, 0.0, 0.0, 0.0)
# Ends that are remembered: vLLM's max_num_seqs is 256 by default.
_MAX_ENDS: Final = 256
# All slots are taken, at least for most of a residence, where so many ran of the most that ever
# ran (0.98 and 0.9 raised 3 and 2 false events where 0.8 raised 1, in 77,000 completions at loads
# 0.3 to 1.2); the most fades in 10,000 requests.
_FULL_RATIO: Final = 0.8
_PEAK_FORGETTING: Final = 1.0 - 1e-4
# Bounds what ends of other engines of the same model could add.
_MOST_TURNOVERS: Final = 4.0
# Rate of the mean tokens that turn over: over about the last 32.
_RECENT_RATE: Final = 1.0 / 16.0


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
        Seconds for 1, a token, an uncached prompt token, a unit of concurrency, a token at a unit
        of concurrency, and another request's admission; all ≥ 0, for each octave of concurrency.
    reference_ : float
        Concurrency at which seconds are reported.
    slot_context_tokens : float
        Tokens of KV memory that come to a slot, 0 where unknown. Nothing that is learned depends
        on it, only what is published.

    Notes
    -----
    ``s ≈ c₀ + c₁·n + c₂·p + c₃·k + c₄·n·k + c₅·a`` for n tokens, p uncached prompt tokens, a mean
    of k running requests and a others that were admitted meanwhile. A decode step costs a fixed
    part and a part for each running sequence, and each admission holds up all that run. Where all
    slots are taken every end is followed by one, so ends are counted (the spread around the line
    halves, and what is left is not shared by those that ran together). Elsewhere the others turn
    over n·(k - 1)/m times in n tokens, at a recent mean of m tokens; ends would not do there: a
    slower machine sees more of them, and would explain itself. What is published has the
    mean of a for a request of n tokens in it. Every term can only add time, so the fit is
    non-negative (an active set over decayed normal equations, kept for each octave of k). Columns
    are centred and each slope is held at the parent's by a penalty in proportion to its column's
    own variance: collinear columns share what they explain together, and a column that never
    varies keeps its prior.

    A residual at a load that the watched coefficients have not seen is no sign of a slower
    machine: it is learned and not tested.
    """

    __slots__ = (
        "_concurrency",
        "_ends",
        "_known",
        "_level",
        "_mean_prompt",
        "_n_concurrency",
        "_octaves",
        "_peak",
        "_recent_tokens",
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
        "slot_context_tokens",
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
        # Unix times of the latest ends, ascending.
        self._ends: list[float] = []
        # Mean tokens of the latest, and the most that ran at once.
        self._recent_tokens = self.mean_tokens_
        self._peak = 1.0
        # Running mean of relative residuals.
        self._level = 0.0
        self.watch: LevelWatch | None = None
        self.published: ServiceTime | None = None
        self.slot_context_tokens = 0.0
        self._settle()

    def _settle(self) -> None:
        """Derive what `learn` needs of the coefficients."""
        # What a watch keeps: lines, and the spread around those that are known, 0 for others.
        self._known = [*self.coef_, *self._octaves.spreads(_KNOWN_AFTER)]
        self._typical_s = self._entry(0.0).mean_service_s

    def describe(self, tokens: float, prompt: float, audio_s: float | None) -> None:
        """Follow the means of what requests are like: uncached prompt tokens, audio if known."""
        self.n_seen_ = n = self.n_seen_ + 1
        rate = 1.0 / n
        if rate < _MEAN_RATE:
            rate = _MEAN_RATE
        self.mean_tokens_ += rate * ((tokens if tokens > 1.0 else 1.0) - self.mean_tokens_)
        self._mean_prompt += rate * (prompt - self._mean_prompt)
        if audio_s is not None and audio_s > 0.0:
            self.n_audio_ = n = self.n_audio_ + 1
            rate = 1.0 / n
            if rate < _MEAN_RATE:
                rate = _MEAN_RATE
            self.mean_audio_s_ += rate * (max(audio_s, _MIN_AUDIO_S) - self.mean_audio_s_)

    def admitted(
        self, tokens: float, concurrency: float, finished_s: float, seconds: float
    ) -> float:
        """Note a request's end; give about how many were admitted while it was resident."""
        mean = self._recent_tokens
        self._recent_tokens += _RECENT_RATE * (tokens - mean)
        peak = _PEAK_FORGETTING * self._peak
        self._peak = peak = concurrency if concurrency >= peak else peak
        ends = self._ends
        if ends and finished_s < ends[0]:
            # The clock went back: what is ahead of it now would count for ever.
            ends.clear()
        turnover = tokens * (concurrency - 1.0) / (mean if mean > 1.0 else 1.0)
        admitted = turnover
        if concurrency >= _FULL_RATIO * peak:
            ended = len(ends) - bisect_right(ends, finished_s - seconds)
            admitted = min(float(ended), _MOST_TURNOVERS * turnover)
        if not ends or finished_s >= ends[-1]:
            ends.append(finished_s)
        else:
            insort(ends, finished_s)
        if len(ends) > _MAX_ENDS:
            del ends[0]
        return admitted

    def learn(
        self, tokens: float, prompt: float, concurrency: float, admitted: float, seconds: float
    ) -> Sample:
        """Learn one residence, > 0, at a known concurrency, ≥ 1, with so many `admitted`."""
        if self._n_concurrency < _REFERENCE_AFTER:
            self._refer(concurrency)
        known = self._known
        at = octave_of(concurrency)
        octave = self._octaves.of(at)
        # `_predict` without its call, which would be a tenth of the cost.
        start = _N_COEFFICIENTS * at
        c0, c1, c2, c3, c4, c5 = known[start : start + _N_COEFFICIENTS]
        expected = c0 + c2 * prompt + c3 * concurrency + c5 * admitted
        expected += (c1 + c4 * concurrency) * tokens
        if expected < _MIN_SERVICE_S:
            expected = _MIN_SERVICE_S
        value, deviation = octave.temper.judge(seconds, expected, expected)
        if value is not None:
            weight = self._typical_s / expected
            weight = weight * weight if weight < _MAX_ROOT_WEIGHT else _MAX_WEIGHT
            row = packed_row(tokens, prompt, concurrency, admitted, value, weight)
            octave.rows.frombytes(row)
            self.n_fit_ += 1
            octave.note((value - expected) / deviation)
            if known[_N_LINES + at] > 0.0:
                self._level = off = self._level + _LEVEL_RATE * (
                    value / expected - 1.0 - self._level
                )
                if off > _MOST_OFF or off < -_MOST_OFF:
                    # Scaled at once, whether or not a watch has seen why.
                    self.discount(1.0, 1.0 + off)
            if len(octave.rows) >= octave.due:
                octave.fold(self.config.service_forgetting)
                self._solve(at)
                self._settle()
        reference = expected
        watch = self.watch
        if watch is not None and watch.reference_:
            then = watch.reference_
            spread = then[_N_LINES + at]
            if spread > 0.0:
                reference = _predict(then, at, tokens, prompt, concurrency, admitted)
                deviation = spread * reference
            else:
                reference = seconds
        units = tokens if tokens > 1.0 else 1.0
        return tuple.__new__(Sample, (seconds, expected, reference, deviation, 0.0, units, known))

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
        return self._entry(self.slot_context_tokens)

    def _entry(self, slot_context_tokens: float) -> ServiceTime:
        k = self.reference_
        octave = octave_of(k)
        c0, c1, c2, c3, c4, c5 = self.coef_[_span(octave)]
        admitted, admitted_per_token = self._octaves.admitted(octave)
        per_token = max(c1 + c4 * k + c5 * admitted_per_token, MIN_PER_TOKEN_S)
        per_token = min(per_token, MAX_SECONDS)
        overhead = min(max(c0 + c3 * k + c5 * admitted, 0.0), MAX_SECONDS)
        mean_tokens = max(self.mean_tokens_, 1.0)
        mean_s = overhead + c2 * self._mean_prompt + per_token * mean_tokens
        if slot_context_tokens > 0.0:
            context = self._mean_prompt + 0.5 * mean_tokens
            mean_s *= max(1.0, context / slot_context_tokens)
        return ServiceTime(
            overhead_s=overhead,
            seconds_per_token=per_token,
            seconds_per_prompt_token=min(c2, MAX_SECONDS),
            reference_concurrency=k,
            mean_service_s=min(max(mean_s, _MIN_SERVICE_S), MAX_SECONDS),
            mean_tokens=mean_tokens,
            mean_audio_s=self.mean_audio_s_,
            sample_count=self.n_fit_,
            slot_context_tokens=slot_context_tokens,
        )

    def state(self) -> list[Any]:
        """Give what was learned as JSON (hence Any)."""
        return [
            self._known, self.reference_, self._concurrency, self._n_concurrency,
            self.mean_tokens_, self.mean_audio_s_, self._mean_prompt, self.n_seen_,
            self.n_audio_, self.n_fit_, self._typical_s, self._level,
            self._ends, self._recent_tokens, self._peak,
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
            self._typical_s, self._level, ends,
            self._recent_tokens, self._peak, octaves, watch,
        ) = state  # fmt: skip
        self._known, self._ends = list(known), list(ends)
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
    coefficients: Sequence[float],
    octave: int,
    tokens: float,
    prompt: float,
    concurrency: float,
    admitted: float,
) -> float:
    at = _N_COEFFICIENTS * octave
    c0, c1, c2, c3, c4, c5 = coefficients[at : at + _N_COEFFICIENTS]
    seconds = c0 + c2 * prompt + c3 * concurrency + (c1 + c4 * concurrency) * tokens
    seconds += c5 * admitted
    return max(_MIN_SERVICE_S, seconds)
