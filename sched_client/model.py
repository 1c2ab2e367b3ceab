"""The snapshot a scheduler acts on, and the one way to turn it into an estimate.

The sidecar's ``BatchPredict``, the replay and the client inside vLLM all call `evaluate`, so an
estimate is the same wherever it is made. Standard library only: this module is imported where
neither grpc nor vLLM is present, and nothing here blocks, logs or reads a clock.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final, Literal, NamedTuple

from sched_client.keys import GLOBAL_KEY, TEXT_TASK, Key
from sched_client.service import DEFAULT_MEAN_AUDIO_S, MIN_SERVICE_S, ServiceTime
from sched_client.settings import (
    MAX_REORDER_ABOVE,
    MODES,
    SINGLE_QUEUE,
    Between,
    Mode,
    OrderBy,
    Partition,
    PolicyParameters,
    Preemption,
    Settings,
    Within,
    parameters_of,
)

__all__ = [
    "DEFAULT_KAPPA_TOKENS_PER_S",
    "DEFAULT_MEAN_AUDIO_S",
    "DEFAULT_MODEL",
    "DEFAULT_TEXT_TOKENS",
    "GLOBAL_KEY",
    "MAX_REORDER_ABOVE",
    "MIN_SERVICE_S",
    "MODES",
    "NO_PARTITIONS",
    "SINGLE_QUEUE",
    "TEXT_TASK",
    "WHISPER_MAX_TOKENS",
    "WHISPER_WINDOW_S",
    "YOUNG_SAMPLES",
    "Between",
    "Estimate",
    "Features",
    "KappaEntry",
    "Key",
    "Mode",
    "OrderBy",
    "Partition",
    "PolicyParameters",
    "Preemption",
    "RequestKind",
    "ServiceTime",
    "Settings",
    "Snapshot",
    "Source",
    "Within",
    "evaluate",
    "parameters_of",
    "policy_parameters",
    "prior_snapshot",
]

Source = Literal["prior", "parent", "learned"]
RequestKind = Literal["transcription", "detection", "beam_step", "session", "text"]

DEFAULT_MODEL: Final = "default"
# Whisper's decoder has 448 positions (openai/whisper, n_text_ctx); text models pass max_tokens.
WHISPER_MAX_TOKENS: Final = 448
# A key with fewer completions is young: what runs is told and put beside them (the sidecar's
# `estimator.core.censored`).
YOUNG_SAMPLES: Final = 256
# Whisper pads or cuts every piece to 30 s (openai/whisper, CHUNK_LENGTH).
WHISPER_WINDOW_S: Final = 30.0
# LibriSpeech's tokens per second of audio by Whisper's tokenizer (benchmarks/traces/README.md).
DEFAULT_KAPPA_TOKENS_PER_S: Final = 3.2
# The median output of production chat (Azure 2023 conversation trace; Patel et al., Splitwise,
# 2024): what a text request counts as before any of its model's has been seen.
DEFAULT_TEXT_TOKENS: Final = 129.0
# The cache of resolved keys is dropped beyond this, so that invented languages cannot grow it.
_MAX_RESOLVED: Final = 8192


@dataclass(frozen=True, slots=True, kw_only=True)
class KappaEntry:
    """What is known of one key: tokens ≈ intercept + κ · size.

    Attributes
    ----------
    kappa_tokens_per_s : float
        Output tokens per second of audio, ≥ 0; per prompt token where the task is ``text``.
    intercept_tokens : float
        Output tokens at size 0: start, end and punctuation do not scale with the audio.
    ratio_p50, ratio_p90, ratio_p99 : float
        Quantiles of actual over estimated tokens, > 0 and not decreasing.
    sample_count : int
        Completions learned for this key, its children included.
    source : {"prior", "learned"}
        ``prior`` until the key itself has enough samples.
    """

    kappa_tokens_per_s: float
    intercept_tokens: float = 0.0
    ratio_p50: float = 1.0
    ratio_p90: float = 1.5
    ratio_p99: float = 2.5
    sample_count: int = 0
    source: Literal["prior", "learned"] = "prior"


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """Everything a client acts on; immutable, replaced as a whole.

    Attributes
    ----------
    version : int
        Counts up for ever within one ``instance_id``.
    instance_id : str
        Changes when the sidecar's history is reset; versions compare only within it.
    created_s : float
        Unix time at which it was built.
    kappas : Mapping[Key, KappaEntry]
        Always holds `GLOBAL_KEY`.
    services : Mapping[str, ServiceTime]
        By model; the empty name is the fallback.
    partitions : Mapping[str, Partition]
        By model; a model without one has a single queue.
    settings : Settings
        Mode, policy and guard.
    """

    version: int
    instance_id: str
    created_s: float
    kappas: Mapping[Key, KappaEntry]
    services: Mapping[str, ServiceTime] = field(default_factory=dict)
    partitions: Mapping[str, Partition] = field(default_factory=dict)
    settings: Settings = field(default_factory=Settings)
    _resolved: dict[Key, tuple[KappaEntry, Source]] = field(
        default_factory=dict, compare=False, repr=False
    )

    def resolve(self, key: Key) -> tuple[KappaEntry, Source]:
        """Find the entry for a key or for its nearest known parent, in O(1) once seen."""
        found = self._resolved.get(key)
        if found is None:
            found = self._search(key)
            if len(self._resolved) >= _MAX_RESOLVED:
                self._resolved.clear()
            self._resolved[key] = found
        return found

    def _search(self, key: Key) -> tuple[KappaEntry, Source]:
        for candidate in key.chain():
            entry = self.kappas.get(candidate)
            if entry is not None:
                if entry.source == "prior":
                    return entry, "prior"
                return entry, "learned" if candidate == key else "parent"
        if key.task == TEXT_TASK:
            return _TEXT_PRIOR, "prior"
        raise ValueError("a snapshot must hold the global key; build it with prior_snapshot()")

    def service_of(self, model: str) -> ServiceTime:
        """Give the service time of a model, or the fallback."""
        return self.services.get(model) or self.services.get("") or _DEFAULT_SERVICE


_DEFAULT_SERVICE: Final = ServiceTime()
_TEXT_PRIOR: Final = KappaEntry(kappa_tokens_per_s=0.0, intercept_tokens=DEFAULT_TEXT_TOKENS)
NO_PARTITIONS: Final[Mapping[str, Partition]] = MappingProxyType({})


class Features(NamedTuple):
    """What can be read of a request before it runs.

    Attributes
    ----------
    model, task, language, timestamps
        The request's `Key`; an unknown part is empty or None.
    kind : {"transcription", "detection", "beam_step", "session", "text"}
        Only ``transcription`` and ``text`` teach κ.
    audio_s : float or None
        Seconds of audio; None where it could not be read, or the request has none.
    prompt_tokens : int
        Length of the prompt.
    max_tokens : int or None
        The most the request may produce.
    duration_source : str
        Where ``audio_s`` came from (``mel``, ``placeholder``, ``hint``, ``unknown``, ``none``).

    Notes
    -----
    A named tuple, as `Estimate`: one is built for each request on the engine's thread, and a
    frozen dataclass of this size took three times as long to build (Python 3.11).
    """

    model: str = DEFAULT_MODEL
    task: str = ""
    language: str = ""
    timestamps: bool | None = None
    kind: RequestKind = "transcription"
    audio_s: float | None = None
    prompt_tokens: int = 0
    max_tokens: int | None = None
    duration_source: str = "unknown"

    @property
    def key(self) -> Key:
        """The key under which this request's κ is found."""
        return Key(self.model, self.task, self.language, self.timestamps)


class Estimate(NamedTuple):
    """How much work a request is expected to be.

    Attributes
    ----------
    tokens, tokens_p50, tokens_p90, tokens_p99 : float
        Expected output tokens and quantiles, ≥ 1, capped by ``max_tokens``.
    service_s : float
        Expected work in seconds of one slot at reference concurrency (`ServiceTime`), > 0: the
        seconds that it stays, times the parts of the engine's slots that its context takes up.
    queue_id : str
        Queue of the partition that this work falls into.
    source : {"prior", "parent", "learned"}
        Whether the key itself, a parent of it, or a prior answered.
    snapshot_version : int
        Version of the snapshot that was asked.
    """

    tokens: float
    tokens_p50: float
    tokens_p90: float
    tokens_p99: float
    service_s: float
    queue_id: str
    source: Source
    snapshot_version: int


def evaluate(snapshot: Snapshot, features: Features) -> Estimate:
    """Estimate the work of a request.

    Parameters
    ----------
    snapshot : Snapshot
        What was learned so far.
    features : Features
        What was read of the request. Values are taken as they are: the edges validate.

    Returns
    -------
    Estimate
        Always finite for finite input; a cold model gives the prior, never an error.

    Notes
    -----
    n̂ = intercept + κ · size (arXiv 2603.11273, eq. for n̂, extended by an intercept), then capped.
    O(1): a handful of dictionary look-ups and one bisection.
    """
    model, task, language, timestamps, kind, audio_s, prompt_tokens, max_tokens, _ = features
    service = snapshot.service_of(model)
    entry, source = snapshot.resolve(Key(model, task, language, timestamps))
    cap = float(max_tokens or WHISPER_MAX_TOKENS)
    # Comparisons instead of min() and max(), and positions instead of names, halve the time.
    if kind in ("detection", "beam_step"):
        # One token each, whatever the audio: full encoder, one decode step.
        tokens = p50 = p90 = p99 = 1.0
    else:
        if kind == "text":
            size = float(prompt_tokens)
        else:
            size = service.mean_audio_s if audio_s is None else audio_s
        tokens = entry.intercept_tokens + entry.kappa_tokens_per_s * size
        if tokens < 1.0:
            tokens = 1.0
        elif tokens > cap:
            tokens = cap
        p50 = tokens * entry.ratio_p50
        if p50 < 1.0:
            p50 = 1.0
        elif p50 > cap:
            p50 = cap
        p90 = tokens * entry.ratio_p90
        if p90 < 1.0:
            p90 = 1.0
        elif p90 > cap:
            p90 = cap
        p99 = tokens * entry.ratio_p99
        if p99 < 1.0:
            p99 = 1.0
        elif p99 > cap:
            p99 = cap
    seconds = service.service_s(prompt_tokens, tokens)
    queue_id = snapshot.partitions.get(model, SINGLE_QUEUE).queue_of(seconds)
    return Estimate(tokens, p50, p90, p99, seconds, queue_id, source, snapshot.version)


def policy_parameters(snapshot: Snapshot, model: str) -> PolicyParameters:
    """Resolve a snapshot's settings for one model.

    Parameters
    ----------
    snapshot : Snapshot
        Holds the settings and the model's mean work.
    model : str
        The served model's name.

    Returns
    -------
    PolicyParameters
        With b₀ in the unit that work is counted in.
    """
    settings = snapshot.settings
    service = snapshot.service_of(model)
    mean = service.mean_service_s if settings.order_by == "service" else service.mean_tokens
    partition = snapshot.partitions.get(model, SINGLE_QUEUE)
    return parameters_of(settings, mean_work=mean, partition=partition)


def prior_snapshot(
    *, kappa_tokens_per_s: float = DEFAULT_KAPPA_TOKENS_PER_S, settings: Settings | None = None
) -> Snapshot:
    """Build what a client acts on before any sidecar has answered (version 0).

    Parameters
    ----------
    kappa_tokens_per_s : float
        The configured prior, > 0 and finite.
    settings : Settings, optional
        Defaults to mode ``shadow``.

    Returns
    -------
    Snapshot
        With the global key only.
    """
    return Snapshot(
        version=0,
        instance_id="",
        created_s=0.0,
        kappas={GLOBAL_KEY: KappaEntry(kappa_tokens_per_s=kappa_tokens_per_s)},
        settings=settings or Settings(),
    )
