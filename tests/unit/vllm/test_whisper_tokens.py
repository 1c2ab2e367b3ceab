"""Ids of Whisper's control tokens; compared with transformers in tests/vllm_inprocess."""

import json
from pathlib import Path
from types import SimpleNamespace

import pytest

from sched_client.vllm.whisper_tokens import (
    LANGUAGES,
    served_vocabulary,
    vocabulary_by_file,
    vocabulary_by_size,
)


def test_large_v3_has_one_language_more_which_shifts_the_later_ids() -> None:
    base, large = vocabulary_by_size(51865), vocabulary_by_size(51866)
    assert base is not None
    assert large is not None
    assert (len(base.languages), len(large.languages)) == (99, 100)
    assert large.languages[50358] == "yue"
    assert base.tasks == {50358: "translate", 50359: "transcribe"}
    assert large.tasks == {50359: "translate", 50360: "transcribe"}
    assert (base.no_timestamps, large.no_timestamps) == (50363, 50364)
    assert base.start == large.start == 50258


def test_languages_are_a_hundred_and_distinct() -> None:
    assert len(set(LANGUAGES)) == len(LANGUAGES) == 100


def test_an_unknown_size_gives_none() -> None:
    assert vocabulary_by_size(32000) is None


def test_the_models_own_file_comes_before_the_table(tmp_path: Path) -> None:
    content = {
        "decoder_start_token_id": 9,
        "lang_to_id": {"<|en|>": 10, "<|tlh|>": 11},
        "task_to_id": {"transcribe": 12},
        "no_timestamps_token_id": 13,
    }
    (tmp_path / "generation_config.json").write_text(json.dumps(content), encoding="utf-8")
    config = SimpleNamespace(
        hf_config=SimpleNamespace(model_type="whisper", vocab_size=51865), model=str(tmp_path)
    )
    found = served_vocabulary(config)
    assert found is not None
    assert found.languages == {10: "en", 11: "tlh"}
    assert (found.start, found.tasks, found.no_timestamps) == (9, {12: "transcribe"}, 13)


@pytest.mark.parametrize("text", ["", "[]", "{}", "{", '{"lang_to_id": 3}', '{"lang_to_id": []}'])
def test_a_file_that_is_not_whispers_gives_none(tmp_path: Path, text: str) -> None:
    path = tmp_path / "generation_config.json"
    path.write_text(text, encoding="utf-8")
    assert vocabulary_by_file(path) is None
    assert vocabulary_by_file(tmp_path / "absent.json") is None


def test_a_model_without_files_is_known_by_its_vocabulary_size() -> None:
    config = SimpleNamespace(
        hf_config=SimpleNamespace(model_type="whisper", vocab_size=51866),
        model="openai/whisper-large-v3",
    )
    found = served_vocabulary(config)
    assert found is not None
    assert found.tasks[50360] == "transcribe"


@pytest.mark.parametrize("model_type", ["qwen3_asr", "", None])
def test_another_model_has_no_table(model_type: str | None) -> None:
    config = SimpleNamespace(hf_config=SimpleNamespace(model_type=model_type, vocab_size=51865))
    assert served_vocabulary(config) is None
    assert served_vocabulary(SimpleNamespace()) is None
