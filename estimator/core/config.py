"""The core's constants, each with its unit, its domain and where it comes from."""

import math
from dataclasses import dataclass, fields

from sched_client.model import (
    DEFAULT_KAPPA_TOKENS_PER_S,
    DEFAULT_MEAN_AUDIO_S,
    DEFAULT_TEXT_TOKENS,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class CoreConfig:
    """What the learners are built with.

    A state is saved without these: the same state may go on under other constants.

    Attributes
    ----------
    prior_kappa_tokens_per_s : float
        κ before any data, ≥ 0.
    prior_intercept_tokens : float
        Tokens at size 0 before any data. Real Whisper-base spends about 3 on start, end and
        punctuation, but a client's own prior is κ alone, so both start at the same place.
    prior_mean_audio_s, prior_sd_audio_s : float
        Where the prior is believed: mean and spread of LibriSpeech test-clean's utterances.
    prior_relative_error : float
        Robust standard deviation of tokens over the estimate before any data; between the 0.2 of
        read speech and the 0.45 of spontaneous speech in benchmarks/traces.
    prior_text_tokens : float
        Output of a text request before any data, as the client's own prior; it hardly depends on
        the prompt, so κ starts at 0.
    prior_text_prompt_tokens : float
        Median prompt of that trace; the spread is taken to be as large.
    forgetting : float
        Weight that a completion keeps after each later one of its key, in (0, 1]. It only keeps
        the distant past from weighing for ever: changes are `estimator.core.level`'s. 1 and 0.995
        erred 0.1 % more and 0.1 % less than 0.998 over 1,000 completions where nothing changes.
    shrinkage, level_shrinkage : float
        Completions that the parent's line counts for in a key's line, and that a factor of 1
        counts for, > 0. Languages differ by about as much as one utterance does from its line, so
        a parent is worth one. Over the first 20 completions of a new language 0.5, 1, 2 and 4
        erred 0.90, 0.94, 0.98 and 0.99 of what a fresh model does; 0.5 leaves a key's first
        completion to decide alone.
    change_hazard : float
        Weight of a change of level at each of the last completions before any evidence, in
        (0, 1). Where nothing changes, 1/50, 1/40, 1/30 and 1/25 erred 0.955, 0.956, 0.9575
        and 0.9585 of Σn/Σd; of changes of ×1.5 and more 46, 48, 53 and 55 % were crossed into
        ±10 % within four completions. One who is told of the change needs three (median).
    min_samples : int
        Completions after which a key answers for itself; fewer, and its parent answers. The
        first says more than a parent does, but a language seen once is often a mistake.
    clip_deviations : float
        Residuals of seconds, lower bounds of tokens and what a level is told of are pulled in to
        so many deviations (Huber 1964 uses 1.345 for 95 % efficiency; a wider one lets a drift
        through sooner). Tokens themselves: `estimator.core.outliers`.
    gross_deviations : float
        A lone residual of seconds, and a lower bound of tokens, beyond so many teaches nothing
        (Hampel's redescending part).
    max_keys : int
        Most keys of κ; beyond it the least recently used one falls back to its parent, keys that
        never reached ``min_samples`` first.
    max_models : int
        Most models with a service time of their own.
    drift_threshold, drift_tolerance : float
        Page-Hinkley's λ and δ, in standard deviations of a sum of four standardized completions
        (`estimator.core.shift`). docs/drift.md has the curve of false events against delay that
        the pair was chosen by, and ``python -m benchmarks.drift`` makes it.
    drift_keep_ratio : float
        Weight that the past keeps when a drift is detected, in (0, 1].
    service_forgetting : float
        As ``forgetting``, for the service time, within an octave of concurrency: hardware changes
        more rarely than speech, and a change that is detected scales what is known. On a model of
        continuous batching 0.999 and 0.9995 let estimates of typical clips move by up to 6.4 % and
        5.4 % while the load went from 0.3 to 1.2 and back, in 24 runs of which 23 stay below 5 %.
    service_shrinkage : float
        Completions that the fallback's service time counts for in a model's fit, > 0.
    reference_concurrency : float
        Concurrency that service seconds hold for until a model's mean is known, ≥ 1.
    """

    prior_kappa_tokens_per_s: float = DEFAULT_KAPPA_TOKENS_PER_S
    prior_intercept_tokens: float = 0.0
    prior_mean_audio_s: float = DEFAULT_MEAN_AUDIO_S
    prior_sd_audio_s: float = 5.2
    prior_relative_error: float = 0.35
    prior_text_tokens: float = DEFAULT_TEXT_TOKENS
    prior_text_prompt_tokens: float = 1020.0
    forgetting: float = 0.998
    shrinkage: float = 1.0
    level_shrinkage: float = 1.0
    change_hazard: float = 1.0 / 30.0
    min_samples: int = 2
    clip_deviations: float = 2.5
    gross_deviations: float = 6.0
    max_keys: int = 20_000
    max_models: int = 64
    drift_threshold: float = 10.5
    drift_tolerance: float = 0.6
    drift_keep_ratio: float = 0.1
    service_forgetting: float = 0.9995
    service_shrinkage: float = 2.0
    reference_concurrency: float = 1.0

    def __post_init__(self) -> None:
        for item in fields(self):
            value = getattr(self, item.name)
            if not (math.isfinite(value) and value >= 0.0):
                raise ValueError(f"{item.name} is {value}; it must be finite and >= 0")
        for name in ("forgetting", "service_forgetting", "drift_keep_ratio"):
            if not 0.0 < getattr(self, name) <= 1.0:
                raise ValueError(f"{name} is {getattr(self, name)}; it must be in (0, 1]")
        if not 0.0 < self.change_hazard < 1.0:
            raise ValueError(f"change_hazard is {self.change_hazard}; it must be in (0, 1)")
        for name in _POSITIVE:
            if getattr(self, name) <= 0.0:
                raise ValueError(f"{name} is {getattr(self, name)}; it must be > 0")
        for name in ("min_samples", "max_models", "reference_concurrency"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} is {getattr(self, name)}; it must be >= 1")
        # The longest chain of a key has 5 members, which one completion touches at once.
        if self.max_keys < 2 * MAX_CHAIN:
            raise ValueError(f"max_keys is {self.max_keys}; it must be >= {2 * MAX_CHAIN}")


# (model, task, language, timestamps), and without timestamps, language, task and model.
MAX_CHAIN = 5

_POSITIVE = (
    "shrinkage", "level_shrinkage", "service_shrinkage", "prior_relative_error",
    "clip_deviations", "prior_mean_audio_s", "prior_sd_audio_s", "prior_text_prompt_tokens",
    "drift_threshold",
)  # fmt: skip
