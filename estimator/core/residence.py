"""Regression of the seconds a request stays in the engine, for one model.

Owns one model's fit and what is reported of it. Knows nothing of completions.
"""

from collections.abc import Sequence
from typing import Any, Final, Self

import numpy as np

from estimator.core.config import CoreConfig
from estimator.core.drift import LevelWatch, Sample
from estimator.core.non_negative import Matrix, fit_non_negative
from estimator.core.robust import Temper
from sched_client.model import ServiceTime

# Columns of a row: 1, tokens, uncached prompt, concurrency, tokens · concurrency, seconds.
_WIDTH: Final = 6
_SECONDS: Final = 5
# A fit is made every so many completions (10 µs each would be most of the budget), and more
# often while there are few: after each of the first 4, every second one of the next 4, and so on.
_MAX_BATCH: Final = 32
# A robust deviation before any data, as a share of the estimate: hardware is unknown then.
_PRIOR_SPREAD: Final = 0.5
# Rates of the running means: of tokens, audio and service over about 200 completions, of the
# concurrency over about 1,000 (an operator reads figures at a reference that hardly moves).
_MEAN_RATE: Final = 0.01
_REFERENCE_RATE: Final = 0.002
# The published reference follows only beyond this, so that it does not move every figure.
_REFERENCE_RATIO: Final = 0.1
# Least seconds per token and per request: a tenth of what the fastest accelerator needs.
MIN_PER_TOKEN_S: Final = 1e-6
_MIN_SERVICE_S: Final = 1e-4
_PRIOR: Final = ServiceTime()


def _predict(
    coefficients: Sequence[float], tokens: float, prompt: float, concurrency: float
) -> float:
    c0, c1, c2, c3, c4 = coefficients
    seconds = c0 + c2 * prompt + c3 * concurrency + (c1 + c4 * concurrency) * tokens
    return max(_MIN_SERVICE_S, seconds)


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
    the encoder is shared too. Every term can only add time, so the fit is non-negative (an active
    set over the decayed normal equations). Columns are centred and each slope is held at the
    parent's by a penalty in proportion to its column's own variance: collinear columns share what
    they explain together, and a column that never varies keeps its prior.
    """

    __slots__ = (
        "_batch",
        "_concurrency",
        "_mean_prompt",
        "_n_concurrency",
        "_sums",
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
        "temper",
        "watch",
    )  # fmt: skip

    def __init__(self, parent: "ServiceFit | None", config: CoreConfig) -> None:
        self.parent = parent
        self.config = config
        self.coef_: list[float] = (
            [_PRIOR.overhead_s, _PRIOR.seconds_per_token, 0.0, 0.0, 0.0]
            if parent is None
            else list(parent.coef_)
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
        self._sums: Matrix = np.zeros((_WIDTH, _WIDTH))
        self._batch: list[list[float]] = []
        self.temper: Temper = Temper(
            _PRIOR_SPREAD if parent is None else parent.temper.scale_,
            clip_deviations=config.clip_deviations,
            gross_deviations=config.gross_deviations,
        )
        self.watch: LevelWatch | None = None
        self.published: ServiceTime | None = None

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
        self._n_concurrency += 1
        rate = max(_REFERENCE_RATE, 1.0 / self._n_concurrency)
        self._concurrency += rate * (concurrency - self._concurrency)
        if abs(self._concurrency - self.reference_) > _REFERENCE_RATIO * self.reference_:
            self.reference_ = max(self._concurrency, 1.0)
        coefficients = self.coef_
        expected = reference = _predict(coefficients, tokens, prompt, concurrency)
        if self.watch is not None and self.watch.reference_:
            reference = _predict(self.watch.reference_, tokens, prompt, concurrency)
        value, deviation = self.temper.judge(seconds, expected, expected)
        if value is not None:
            self._batch.append([1.0, tokens, prompt, concurrency, tokens * concurrency, value])
            self.n_fit_ += 1
            if len(self._batch) >= min(_MAX_BATCH, 1 + self.n_fit_ // 4):
                self._fit()
        y = expected if value is None else value
        return Sample(y, expected, reference, deviation, 0.0, max(tokens, 1.0), coefficients)

    def _new_watch(self) -> LevelWatch:
        config = self.config
        return LevelWatch(threshold=config.drift_threshold, tolerance=config.drift_tolerance)

    def _fit(self) -> None:
        rows = np.array(self._batch)
        self._batch.clear()
        n = len(rows)
        forgetting = self.config.service_forgetting
        weights = forgetting ** np.arange(n - 1, -1, -1)
        self._sums = forgetting**n * self._sums + rows.T @ (weights[:, None] * rows)
        prior = (
            np.array([_PRIOR.overhead_s, _PRIOR.seconds_per_token, 0.0, 0.0, 0.0])
            if self.parent is None
            else np.array(self.parent.coef_)
        )
        self.coef_ = fit_non_negative(self._sums, prior, self.config.service_shrinkage)

    def discount(self, keep_ratio: float) -> None:
        """Keep this share of the past's weight: it stopped being true."""
        self._sums = self._sums * keep_ratio

    def entry(self) -> ServiceTime:
        """Build what a client is told, at the reference concurrency."""
        c0, c1, c2, c3, c4 = self.coef_
        k = self.reference_
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
            self.coef_, self.reference_, self._concurrency, self._n_concurrency,
            self.mean_tokens_, self.mean_audio_s_, self._mean_prompt, self.n_seen_,
            self.n_audio_, self.n_fit_, self._sums.ravel().tolist(), [*map(list, self._batch)],
            self.temper.state(),  None if self.watch is None else self.watch.state(),
        ]  # fmt: skip

    def restore(self, state: Sequence[Any]) -> Self:
        """Take on what `state` gave (JSON, hence Any); return self.

        Raises
        ------
        ValueError
            If a number is not finite or the shapes are not this class's.
        """
        (
            coef, self.reference_, self._concurrency, self._n_concurrency, self.mean_tokens_,
            self.mean_audio_s_, self._mean_prompt, self.n_seen_, self.n_audio_, self.n_fit_,
            sums, batch, temper, watch,
        ) = state  # fmt: skip
        self.coef_ = list(coef)
        self._sums = np.array(sums, dtype=np.float64).reshape(_WIDTH, _WIDTH)
        self._batch = [list(row) for row in batch]
        if len(self.coef_) != _SECONDS or not np.isfinite(self._sums).all():
            raise ValueError("a service time's state must be finite")
        self.temper.restore(temper)
        if watch is not None:
            self.watch = self._new_watch().restore(watch)
        return self
