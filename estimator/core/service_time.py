"""Seconds that requests stay in the engine, with the load taken out.

Owns the regression of residence on tokens and concurrency, for each model and for all together.
"""

import math
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from estimator.core.config import CoreConfig
from estimator.core.drift import LevelWatch
from estimator.core.observation import Completion
from estimator.core.robust import Temper
from sched_client.model import ServiceTime

Matrix = NDArray[np.float64]

# Columns of a row: 1, tokens, uncached prompt, concurrency, tokens · concurrency, seconds.
_WIDTH: Final = 6
_SECONDS: Final = 5
_N_SLOPES: Final = 4
# A fit is made every so many completions (10 µs each would be most of the budget), and more
# often while there are few: after each of the first 4, every second one of the next 4, and so on.
_MAX_BATCH: Final = 16
# Least variance of a slope's column, as a share of its mean square, in the penalty that holds
# the slope at the parent's: a constant column (Whisper's 4 prompt tokens) keeps its prior.
_MIN_VARIATION: Final = 1e-3
# A robust deviation before any data, as a share of the estimate: hardware is unknown then.
_PRIOR_SPREAD: Final = 0.5
# Rates of the running means: of tokens, audio and service over about 200 completions, of the
# concurrency over about 1,000 (an operator reads figures at a reference that hardly moves).
_MEAN_RATE: Final = 0.01
_REFERENCE_RATE: Final = 0.002
# The published reference follows only beyond this, so that it does not move every figure.
_REFERENCE_RATIO: Final = 0.1
# Least seconds per token and per request: a tenth of what the fastest accelerator needs.
_MIN_PER_TOKEN_S: Final = 1e-6
_MIN_SERVICE_S: Final = 1e-4
_PRIOR: Final = ServiceTime()
# What counts as moved: 2 % of the cost of a mean request, 10 % of a mean.
_MOVED_RATIO: Final = 0.02
_MOVED_MEAN_RATIO: Final = 0.1


class ServiceLesson(NamedTuple):
    """What one completion was to the model it taught."""

    z: float
    value_s: float
    expected_s: float
    level_s: float


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

    def describe(self, completion: Completion) -> None:
        """Follow the means of what requests are like."""
        self.n_seen_ += 1
        rate = max(_MEAN_RATE, 1.0 / self.n_seen_)
        self.mean_tokens_ += rate * (max(completion.output_tokens, 1) - self.mean_tokens_)
        uncached = max(completion.prompt_tokens - completion.cached_prompt_tokens, 0)
        self._mean_prompt += rate * (uncached - self._mean_prompt)
        if completion.audio_s is not None and completion.audio_s > 0.0:
            self.n_audio_ += 1
            rate = max(_MEAN_RATE, 1.0 / self.n_audio_)
            self.mean_audio_s_ += rate * (completion.audio_s - self.mean_audio_s_)

    def predict(self, tokens: float, prompt: float, concurrency: float) -> float:
        """Estimate seconds at a concurrency, > 0."""
        c0, c1, c2, c3, c4 = self.coef_
        return max(
            c0 + c2 * prompt + c3 * concurrency + (c1 + c4 * concurrency) * tokens, _MIN_SERVICE_S
        )

    def learn(
        self, tokens: float, prompt: float, concurrency: float, seconds: float
    ) -> ServiceLesson:
        """Learn one residence, > 0, at a known concurrency, ≥ 1."""
        self._n_concurrency += 1
        rate = max(_REFERENCE_RATE, 1.0 / self._n_concurrency)
        self._concurrency += rate * (concurrency - self._concurrency)
        if abs(self._concurrency - self.reference_) > _REFERENCE_RATIO * self.reference_:
            self.reference_ = max(self._concurrency, 1.0)
        level = self.level()
        expected = self.predict(tokens, prompt, concurrency)
        value, z = self.temper.judge(seconds, expected, expected)
        if value is None:
            return ServiceLesson(z, expected, expected, level)
        self._batch.append([1.0, tokens, prompt, concurrency, tokens * concurrency, value])
        self.n_fit_ += 1
        if len(self._batch) >= min(_MAX_BATCH, 1 + self.n_fit_ // 4):
            self._fit()
        return ServiceLesson(z, value, expected, level)

    def level(self) -> float:
        """Give the seconds per token of a mean request at the reference concurrency."""
        mean = self.mean_tokens_
        return self.predict(mean, self._mean_prompt, self.reference_) / mean

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
        per_token = max(c1 + c4 * k, _MIN_PER_TOKEN_S)
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
            self.temper.state(), None if self.watch is None else self.watch.state(),
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
            config = self.config
            self.watch = LevelWatch(
                threshold=config.drift_threshold, tolerance=config.drift_tolerance
            ).restore(watch)
        return self


def fit_non_negative(sums: Matrix, prior: Matrix, shrinkage: float) -> list[float]:
    """Solve decayed normal equations for coefficients that are all ≥ 0.

    Parameters
    ----------
    sums : ndarray of float64, shape (6, 6)
        ΣwvvT over rows v = (1, four columns, target).
    prior : ndarray of float64, shape (5,)
        Coefficients that the slopes are held at, ≥ 0.
    shrinkage : float
        Completions that the prior counts for.

    Returns
    -------
    list of float
        Five finite coefficients ≥ 0.
    """
    weight = sums[0, 0]
    means = sums[0, 1:] / weight
    second = sums[1:, 1:] / weight
    centred = second - np.outer(means, means)
    squares = np.diagonal(second)[:_N_SLOPES]
    variances = np.maximum(np.diagonal(centred)[:_N_SLOPES], _MIN_VARIATION * squares)
    penalty = shrinkage / weight * np.maximum(variances, np.finfo(np.float64).tiny)
    slopes = prior[1:].copy()
    free = list(range(_N_SLOPES))
    matrix, target = centred, _N_SLOPES
    intercept_is_free = True
    # Each round fixes one coefficient at 0, so there are at most five.
    while free:
        slopes[:] = 0.0
        gram = matrix[np.ix_(free, free)] + np.diag(penalty[free])
        right = matrix[free, target] + penalty[free] * prior[1:][free]
        scale = np.sqrt(np.diagonal(gram))
        slopes[free] = np.linalg.solve(gram / np.outer(scale, scale), right / scale) / scale
        lowest = min(free, key=lambda j: slopes[j] * math.sqrt(float(squares[j])))
        if slopes[lowest] < 0.0:
            free.remove(lowest)
            slopes[lowest] = 0.0
        elif intercept_is_free and means[target] < float(means[:target] @ slopes):
            # The line through the means would start below 0: fit it through the origin.
            matrix, intercept_is_free = second, False
        else:
            break
    intercept = float(means[target] - means[:target] @ slopes) if intercept_is_free else 0.0
    coefficients = [max(intercept, 0.0), *map(float, slopes)]
    if not all(map(math.isfinite, coefficients)):
        raise RuntimeError(f"the fit is not finite: {coefficients}")
    return coefficients


class ServiceTable:
    """Service times of every model, and of all together under the empty name.

    Parameters
    ----------
    config : CoreConfig
        See there.
    """

    def __init__(self, config: CoreConfig) -> None:
        self.config = config
        self._fallback = ServiceFit(None, config)
        self._models: OrderedDict[str, ServiceFit] = OrderedDict()
        self._dirty: dict[str, ServiceFit] = {"": self._fallback}

    def __len__(self) -> int:
        return len(self._models)

    def __iter__(self) -> Iterator[tuple[str, ServiceFit]]:
        yield "", self._fallback
        yield from self._models.items()

    def learn(self, completion: Completion) -> tuple[ServiceFit, ServiceLesson] | None:
        """Learn one completion; None if it told nothing of seconds.

        Notes
        -----
        Finished requests only. A preempted one did part of its work twice, a beam step finds its
        encoder's work done, a session waits for its caller; a language detection is a clean
        measurement of one token.
        """
        if completion.finish_reason not in ("stop", "length"):
            return None
        kind = completion.kind
        if kind not in ("transcription", "text", "detection"):
            return None
        model = completion.model
        fit = self._models.get(model)
        if fit is None:
            fit = self._models[model] = ServiceFit(self._fallback, self.config)
            if len(self._models) > self.config.max_models:
                self._models.popitem(last=False)
        self._models.move_to_end(model)
        self._dirty[model] = fit
        self._dirty[""] = self._fallback
        if kind != "detection":
            fit.describe(completion)
            self._fallback.describe(completion)
        seconds, concurrency = completion.service_s, completion.concurrency
        if seconds <= 0.0 or concurrency <= 0.0 or completion.preemptions:
            return None
        prompt = float(max(completion.prompt_tokens - completion.cached_prompt_tokens, 0))
        tokens, concurrency = float(completion.output_tokens), max(concurrency, 1.0)
        self._fallback.learn(tokens, prompt, concurrency, seconds)
        return fit, fit.learn(tokens, prompt, concurrency, seconds)

    def entries(self) -> dict[str, ServiceTime]:
        """Give the service time of every model and the fallback."""
        return {model: fit.entry() for model, fit in self}

    def take_changes(self) -> dict[str, ServiceTime]:
        """Give what a client would act on that has moved since the last call."""
        changed: dict[str, ServiceTime] = {}
        for model, fit in self._dirty.items():
            entry = fit.entry()
            if fit.published is None or _has_moved(fit.published, entry):
                changed[model] = fit.published = entry
        self._dirty.clear()
        return changed

    def state(self) -> Mapping[str, list[Any]]:
        """Give every model's state as JSON (hence Any), the least recently used first."""
        return {model: fit.state() for model, fit in self}

    def restore(self, state: Mapping[str, list[Any]]) -> None:
        """Take on what `state` gave (JSON, hence Any)."""
        self._fallback.restore(state[""])
        for model, row in state.items():
            if model:
                self._models[model] = ServiceFit(self._fallback, self.config).restore(row)
        self._dirty = dict(self)


def _has_moved(old: ServiceTime, new: ServiceTime) -> bool:
    cost = _MOVED_RATIO * old.mean_service_s
    if (
        abs(new.overhead_s - old.overhead_s) > cost
        or abs(new.seconds_per_token - old.seconds_per_token)
        > _MOVED_RATIO * old.seconds_per_token
        or abs(new.seconds_per_prompt_token - old.seconds_per_prompt_token)
        > _MOVED_RATIO * max(old.seconds_per_prompt_token, _MIN_PER_TOKEN_S)
    ):
        return True
    return any(
        abs(getattr(new, name) - getattr(old, name)) > _MOVED_MEAN_RATIO * getattr(old, name)
        for name in ("reference_concurrency", "mean_service_s", "mean_tokens", "mean_audio_s")
    )
