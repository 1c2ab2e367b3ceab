"""What can be read of a request before it runs; never raises.

Any surprise gives a cheap default and is counted: a request that cannot be read is still served.
Imports neither vLLM nor torch; requests are taken as they come (docs/vllm.md lists the traps).
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from sched_client.model import (
    DEFAULT_MEAN_AUDIO_S,
    DEFAULT_MODEL,
    WHISPER_WINDOW_S,
    Features,
    RequestKind,
)
from sched_client.text_class import text_class
from sched_client.vllm.hints import NO_HINTS, Hints, read_hints
from sched_client.vllm.mel import mel_duration_s
from sched_client.vllm.whisper_tokens import Vocabulary

# vLLM's own suffix of the requests that detect a language (entrypoints/speech_to_text).
_DETECTION_MARK: Final = "-lang_detect"
# Placeholder tokens per second of audio where the placeholder grows with the audio. A wrong rate
# scales κ of that model and nothing else, since κ is learned per model.
_PLACEHOLDERS_PER_S: Final[Mapping[str, float]] = {"qwen3_asr": 13.0, "qwen2_audio": 25.0}
_DEFAULT_PLACEHOLDERS_PER_S: Final = 12.5
# Start, language, task, timestamps: a prompt that holds nothing else.
_BARE_PROMPT: Final = 4
_NO_IDS: Final[tuple[int, ...]] = ()


class Reading(NamedTuple):
    """Everything read of one request.

    Attributes
    ----------
    features : Features
        As measured: what is reported and learned from.
    ordering : Features
        The same, with the hints applied: what the estimate for the order is made of.
    hints : Hints
        What the caller said.
    """

    features: Features
    ordering: Features
    hints: Hints


class FeatureReader:
    """Turns vLLM's requests into features.

    Parameters
    ----------
    model : str
        The served model's name.
    model_type : str
        ``hf_config.model_type``; ``whisper`` means that the mel tells the duration.
    vocabulary : Vocabulary or None
        Whisper's control tokens, if known.
    trust_hints : bool
        Whether hints may lower an estimate.

    Attributes
    ----------
    surprises : int
        Requests that could not be read.
    mean_audio_s : float
        What an unknown duration counts as; the owner keeps it up to date.
    """

    def __init__(
        self,
        *,
        model: str = DEFAULT_MODEL,
        model_type: str = "whisper",
        vocabulary: Vocabulary | None = None,
        trust_hints: bool = False,
    ) -> None:
        self.model = model
        self.is_whisper = model_type == "whisper"
        self.vocabulary = vocabulary
        self.trust_hints = trust_hints
        self.surprises = 0
        self.mean_audio_s = DEFAULT_MEAN_AUDIO_S
        self._placeholders_per_s = _PLACEHOLDERS_PER_S.get(model_type, _DEFAULT_PLACEHOLDERS_PER_S)

    def read(self, request: Any) -> Reading:
        """Read a request.

        Parameters
        ----------
        request : vllm.v1.request.Request
            Any: vLLM is not imported here.

        Returns
        -------
        Reading
            A default for a request that cannot be read.
        """
        try:
            return self._read(request)
        except Exception:  # noqa: BLE001 - whatever vLLM changed, the request must be served
            self.surprises += 1
            features = Features(model=self.model, task="transcribe")
            return Reading(features, features, NO_HINTS)

    def _read(self, request: Any) -> Reading:
        sampling = request.sampling_params
        max_tokens = request.max_tokens
        prompt_tokens = request.num_prompt_tokens
        hints = NO_HINTS
        if sampling is None:
            # A pooling request costs one step and produces no token.
            features = Features(self.model, kind="detection", prompt_tokens=prompt_tokens)
            features = features._replace(max_tokens=1, duration_source="none")
            return Reading(features, features, hints)
        if sampling.extra_args:
            hints = read_hints(sampling.extra_args)
        audio = [item for item in request.mm_features if item.modality == "audio"]
        kind: RequestKind
        if not audio:
            kind = "session" if request.resumable else "text"
            features = Features(
                self.model, "text", "", None, kind, None, prompt_tokens, max_tokens, "none"
            )
            kind_of = text_class(hints.request_type if self.trust_hints else "", prompt_tokens)
            return Reading(features, features._replace(language=kind_of), hints)
        language, task, timestamps, bare = self._transcript(request.prompt_token_ids or _NO_IDS)
        if request.resumable:
            kind = "session"
        elif max_tokens != 1:
            kind = "transcription"
        elif bare or _DETECTION_MARK in request.request_id:
            kind = "detection"
        else:
            kind = "beam_step"
        audio_s, source = self._duration(audio)
        features = Features(
            self.model,
            task,
            language,
            timestamps,
            kind,
            audio_s,
            prompt_tokens,
            max_tokens,
            source,
        )
        ordering = features if hints is NO_HINTS else self._hinted(features, hints)
        return Reading(features, ordering, hints)

    def _transcript(self, ids: Sequence[int]) -> tuple[str, str, bool | None, bool]:
        """Give language, task, timestamps, and whether the prompt ends at its start token."""
        words = self.vocabulary
        if words is None or words.start not in ids:
            return "", "transcribe", None, False
        size = len(ids)
        at = 1
        if ids[0] != words.start or size > _BARE_PROMPT:
            # A `prompt=` text stands before it, and might itself hold one: the last one counts.
            at = size - list(ids[::-1]).index(words.start)
        if at == size:
            return words.default_language, words.default_task, None, True
        language, task = words.default_language, words.default_task
        if ids[at] in words.languages:
            language = words.languages[ids[at]]
            at += 1
        if at < size and ids[at] in words.tasks:
            task = words.tasks[ids[at]]
            at += 1
        if at >= size:
            return language, task, None, False
        return language, task, ids[at] != words.no_timestamps, False

    def _duration(self, audio: Sequence[Any]) -> tuple[float | None, str]:
        """Give the seconds of all audio items and where they came from."""
        if not self.is_whisper:
            length = sum(item.mm_position.length for item in audio)
            return length / self._placeholders_per_s, "placeholder"
        data = audio[0].data
        # Absent under the processor cache's other types; its placeholder is always 30 s long.
        field = None if data is None else data.get("input_features")
        tensor = None if field is None else field.data
        seconds = None if tensor is None else mel_duration_s(tensor)
        return (None, "unknown") if seconds is None else (seconds, "mel")

    def _hinted(self, features: Features, hints: Hints) -> Features:
        """Apply what a hint may change of the estimate."""
        if self.trust_hints and hints.language and not features.language:
            features = features._replace(language=hints.language)
        hinted_s = hints.audio_s
        if hinted_s is None:
            return features
        if self.is_whisper:
            hinted_s = min(hinted_s, WHISPER_WINDOW_S)
        known_s = self.mean_audio_s if features.audio_s is None else features.audio_s
        if self.trust_hints or hinted_s > known_s:
            return features._replace(audio_s=hinted_s, duration_source="hint")
        return features
