"""What is read of real vLLM requests with real tensors."""

import itertools
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from transformers import WhisperFeatureExtractor
from transformers.models.whisper import tokenization_whisper
from vllm.multimodal.inputs import MultiModalFeatureSpec, PlaceholderRange

from sched_client.model import DEFAULT_MEAN_AUDIO_S
from sched_client.vllm.features import FeatureReader
from sched_client.vllm.mel import mel_duration_s
from sched_client.vllm.whisper_tokens import LANGUAGES, vocabulary_by_size
from tests.vllm_inprocess.engine import ENGLISH_PROMPT, make_request, mel

SAMPLE_RATE = 16_000


def _reader(**others: Any) -> FeatureReader:
    return FeatureReader(model="w", vocabulary=vocabulary_by_size(51865), **others)


def _log_mel(samples: torch.Tensor, rows: int = 80) -> torch.Tensor:
    """Make the log-mel that vLLM's processor makes."""
    extractor = WhisperFeatureExtractor(feature_size=rows)
    made = extractor(samples.numpy(), sampling_rate=SAMPLE_RATE, return_tensors="pt")
    return made["input_features"][0]


def _noise(seconds: float) -> torch.Tensor:
    generator = torch.Generator().manual_seed(1)
    return torch.randn(round(seconds * SAMPLE_RATE), generator=generator) * 0.1


# -- duration -------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("seconds", [0.5, 2.18, 12.12, 29.5])
@pytest.mark.parametrize("rows", [80, 128])
def test_duration_of_a_real_log_mel(seconds: float, dtype: torch.dtype, rows: int) -> None:
    read = mel_duration_s(_log_mel(_noise(seconds), rows).to(dtype))
    assert read == pytest.approx(seconds, abs=0.03)


def test_a_full_window_is_thirty_seconds() -> None:
    assert mel_duration_s(_log_mel(_noise(30.0))) == pytest.approx(30.0, abs=0.03)


def test_silence_inside_a_clip_does_not_shorten_it() -> None:
    samples = torch.cat([_noise(9.0), torch.zeros(7 * SAMPLE_RATE), _noise(4.4)])
    assert mel_duration_s(_log_mel(samples)) == pytest.approx(20.4, abs=0.03)


def test_silence_at_the_start_does_not_shorten_it() -> None:
    samples = torch.cat([torch.zeros(5 * SAMPLE_RATE), _noise(1.0)])
    assert mel_duration_s(_log_mel(samples)) == pytest.approx(6.0, abs=0.03)


def test_an_all_silent_clip_is_a_tiny_positive_duration() -> None:
    assert mel_duration_s(_log_mel(torch.zeros(5 * SAMPLE_RATE))) == pytest.approx(0.01)


def test_a_leading_batch_axis_is_taken_off_and_other_shapes_are_refused() -> None:
    tensor = mel(3.0)
    assert mel_duration_s(tensor[None]) == pytest.approx(3.0)
    assert mel_duration_s(tensor[0]) is None
    assert mel_duration_s(torch.stack([tensor, tensor])) is None
    assert mel_duration_s(tensor[:, :0]) is None


def test_a_tensor_that_is_not_on_the_cpu_is_never_touched() -> None:
    tensor = torch.empty((80, 3000), device="meta")
    assert mel_duration_s(tensor) is None
    reading = _reader().read(make_request("r", tensor=tensor))
    assert reading.features.audio_s is None
    assert reading.features.duration_source == "unknown"


def test_a_view_that_is_not_contiguous_is_read() -> None:
    assert mel_duration_s(mel(4.0).T.contiguous().T) == pytest.approx(4.0)


def test_data_absent_or_elsewhere_is_unknown_and_no_surprise() -> None:
    reader = _reader()
    absent = make_request("r", None)
    elsewhere = make_request("r", 1.0)
    elsewhere.mm_features[0].data = {"address": 5}
    field_without_data = make_request("r", 1.0)
    field_without_data.mm_features[0].data = {"input_features": SimpleNamespace(data=None)}
    for request in (absent, elsewhere, field_without_data):
        features = reader.read(request).features
        assert (features.audio_s, features.duration_source) == (None, "unknown")
        assert features.language == "en"
    assert reader.surprises == 0


def test_a_model_whose_placeholder_grows_with_the_audio() -> None:
    reader = FeatureReader(model="q", model_type="qwen3_asr")
    request = make_request("r", 1.0)
    request.mm_features = [
        MultiModalFeatureSpec(None, "audio", "x", PlaceholderRange(0, 65)),
        MultiModalFeatureSpec(None, "audio", "y", PlaceholderRange(65, 65)),
    ]
    features = reader.read(request).features
    assert features.audio_s == pytest.approx(10.0)
    assert features.duration_source == "placeholder"
    assert features.kind == "transcription"


def test_surprises_give_a_default_and_are_counted() -> None:
    reader = _reader()
    for broken in (SimpleNamespace(), SimpleNamespace(sampling_params=None), None):
        features = reader.read(broken).features
        assert (features.model, features.audio_s) == ("w", None)
    odd = make_request("r", 1.0)
    odd.prompt_token_ids = [50258, "x", None]  # vLLM never does this
    odd.mm_features[0].data = 7
    assert reader.read(odd).features.audio_s is None
    assert reader.surprises == 4


# -- tokens ---------------------------------------------------------------------------------------


def test_the_language_tables_are_transformers_own() -> None:
    assert tuple(tokenization_whisper.LANGUAGES) == LANGUAGES


@pytest.mark.parametrize("size", [51865, 51866])
def test_every_language_and_task_is_found(size: int) -> None:
    table = vocabulary_by_size(size)
    assert table is not None
    reader = FeatureReader(model="w", vocabulary=table)
    for (token, language), (task_id, task) in itertools.product(
        table.languages.items(), table.tasks.items()
    ):
        request = make_request("r", 1.0, prompt=[table.start, token, task_id, table.no_timestamps])
        features = reader.read(request).features
        assert (features.language, features.task, features.timestamps) == (language, task, False)


def test_timestamps_are_seen() -> None:
    features = _reader().read(make_request("r", 1.0, prompt=[50258, 50259, 50359, 50364])).features
    assert features.timestamps is True


@pytest.mark.parametrize("text", [[50361, 11, 12], [50361, 50258, 50270, 50359, 11]])
def test_text_before_the_start_token_is_passed_over(text: list[int]) -> None:
    request = make_request("r", 1.0, prompt=[*text, 50258, 50262, 50358, 50363])
    features = _reader().read(request).features
    assert (features.language, features.task) == ("es", "translate")
    assert features.prompt_tokens == len(text) + 4


def test_a_prompt_without_start_token_or_table_is_an_unknown_language() -> None:
    assert _reader().read(make_request("r", 1.0, prompt=[1, 2])).features.language == ""
    unknown = FeatureReader(model="w", vocabulary=None)
    features = unknown.read(make_request("r", 1.0)).features
    assert (features.language, features.task, features.audio_s) == ("", "transcribe", 1.0)


def test_an_english_only_model_needs_no_language_token() -> None:
    reader = FeatureReader(model="w", vocabulary=vocabulary_by_size(51864))
    features = reader.read(make_request("r", 1.0, prompt=[50257, 50362])).features
    assert (features.language, features.task, features.timestamps) == ("en", "transcribe", False)


# -- kinds ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("request_id", "prompt", "max_tokens", "kind"),
    [
        ("t-1", ENGLISH_PROMPT, 440, "transcription"),
        ("t-lang_detect-0123abcd", [50258], 1, "detection"),
        ("t-1", [50258], 1, "detection"),
        ("t-lang_detect-0123abcd", ENGLISH_PROMPT, 1, "detection"),
        # A caller that names its request so cannot pass as one token.
        ("transcribe-x-lang_detect-0123abcd", ENGLISH_PROMPT, 440, "transcription"),
        ("transcribe-x-beam-1-0123abcd", ENGLISH_PROMPT, 440, "transcription"),
        ("t-beam-0", [*ENGLISH_PROMPT, 17, 18], 1, "beam_step"),
    ],
)
def test_kinds(request_id: str, prompt: list[int], max_tokens: int, kind: str) -> None:
    request = make_request(request_id, 1.0, prompt=prompt, max_tokens=max_tokens)
    features = _reader().read(request).features
    assert (features.kind, features.max_tokens) == (kind, max_tokens)


def test_a_session_is_one_with_or_without_audio() -> None:
    for audio in (True, False):
        request = make_request("r", 1.0 if audio else None, audio=audio, resumable=True)
        assert _reader().read(request).features.kind == "session"


# -- hints ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("seconds", "hint", "trusted", "expected"),
    [
        (5.0, 20.0, False, 20.0),  # may raise
        (5.0, 1.0, False, 5.0),  # may not lower
        (5.0, 1.0, True, 1.0),
        (5.0, 900.0, False, 30.0),  # Whisper's window
        (None, DEFAULT_MEAN_AUDIO_S + 5, False, DEFAULT_MEAN_AUDIO_S + 5),
        (None, 1.0, False, None),  # below what an unknown duration counts as
        (None, 1.0, True, 1.0),
    ],
)
def test_a_hint_may_raise_the_estimate_and_lower_it_only_if_trusted(
    seconds: float | None, hint: float, trusted: bool, expected: float | None
) -> None:
    request = make_request("r", seconds, extra_args={"audio_s": hint})
    reading = _reader(trust_hints=trusted).read(request)
    assert reading.ordering.audio_s == expected
    # What is learned from is what was measured.
    assert reading.features.audio_s == seconds


def test_a_language_hint_counts_only_if_trusted_and_nothing_is_known() -> None:
    extra = {"language": "fr", "request_type": "live", "tier": -3, "group": "g"}
    bare = make_request("r", 1.0, prompt=[1, 2], extra_args=extra)
    assert _reader().read(bare).ordering.language == ""
    assert _reader(trust_hints=True).read(bare).ordering.language == "fr"
    known = make_request("r", 1.0, extra_args=extra)
    assert _reader(trust_hints=True).read(known).ordering.language == "en"


@pytest.mark.parametrize(
    "extra", [{"audio_s": "NaN"}, {"audio_s": [1]}, {"tier": "gold"}, {"x": 1}]
)
def test_hostile_hints_change_nothing(extra: dict[str, Any]) -> None:
    reader = _reader(trust_hints=True)
    reading = reader.read(make_request("r", 4.0, extra_args=extra))
    assert reading.ordering == reading.features
    assert reader.surprises == 0
