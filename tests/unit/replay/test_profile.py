"""Profiles: those that come along, reading one's own, and what is said of impossible ones."""

import json
from pathlib import Path
from typing import Any

import pytest

from estimator.replay.profile import EngineProfile, ProfileError, load_profile, profile_names

GOOD: dict[str, Any] = {"name": "mine", "slots": 8, "step_s": 0.01}


def _written(folder: Path, content: str | bytes) -> Path:
    path = folder / "mine.json"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def test_the_profiles_that_come_along_can_be_read_and_say_where_they_are_from() -> None:
    names = profile_names()
    assert {"a100-whisper-large-v3", "cpu-whisper-base", "decode-bound"} < set(names)
    assert "a100x4-llama2-13b" in names
    for name in names:
        profile = load_profile(name)
        assert profile.name == name
        assert profile.source
        assert profile.description


def test_decode_bound_is_as_it_was_asked_for() -> None:
    profile = load_profile("decode-bound")
    assert (profile.slots, profile.step_s, profile.per_sequence_s) == (64, 0.008, 0.00004)
    assert profile.admission_s == 0.01


def test_a_profile_survives_being_written(tmp_path: Path) -> None:
    profile = load_profile("a100x4-llama2-13b")
    assert load_profile(_written(tmp_path, profile.to_json())) == profile


def test_service_seconds_of_a_batch_of_constant_size() -> None:
    profile = EngineProfile(
        name="hand",
        slots=4,
        step_s=0.01,
        per_sequence_s=0.001,
        admission_s=0.5,
        per_prompt_token_s=0.002,
        per_context_token_s=0.0001,
    )
    # 0.5 + 0.002 · 10, and 20 steps of 0.01 + 0.001 · 4 + 0.0001 · 4 · (10 + 20/2).
    assert profile.service_s(20, 10, 4) == pytest.approx(0.52 + 20 * (0.014 + 0.008))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"slots": 0}, "slots is 0, must be 1 to 65536"),
        ({"slots": 2.0}, r"slots is 2\.0, must be a whole number"),
        ({"slots": True}, "slots is True, must be a whole number"),
        ({"step_s": "fast"}, "step_s is 'fast', must be a number of seconds"),
        ({"step_s": -1.0}, r"step_s is -1\.0, must be 0 to 3600 seconds; check the unit"),
        ({"step_s": 8000}, "step_s is 8000, must be 0 to 3600 seconds; check the unit"),
        ({"step_s": float("nan")}, "step_s is nan"),
        ({"step_s": 0.0}, "a step costs nothing"),
        ({"admission_s": float("inf")}, "admission_s is inf"),
        ({"block_size": 0}, "block_size is 0, must be 1 to 65536"),
        ({"kv_blocks": 0}, "kv_blocks is 0, must be 1"),
        ({"kv_blocks": "many"}, "kv_blocks is 'many', must be a whole number or null"),
        ({"kv_blocks": 94, "blocks_per_admission": 94}, "nothing could ever run; raise it"),
        ({"max_tokens_per_step": 7}, "max_tokens_per_step is 7, must be at least slots 8"),
        ({"max_admissions_per_step": 0}, "max_admissions_per_step is 0, must be 1"),
        ({"description": 5}, "description is 5, must be text"),
        ({"name": ""}, "name is empty"),
        ({"stepp_s": 1}, "field 'stepp_s' is unknown; use admission_s, "),
    ],
)
def test_an_impossible_profile_is_refused_with_file_field_value_limit_and_remedy(
    tmp_path: Path, change: dict[str, Any], message: str
) -> None:
    path = _written(tmp_path, json.dumps(GOOD | change))
    with pytest.raises(ProfileError, match=message) as caught:
        load_profile(path)
    assert str(path) in str(caught.value)


@pytest.mark.parametrize("name", ["name", "slots", "step_s"])
def test_a_missing_field_is_named(tmp_path: Path, name: str) -> None:
    values = {key: value for key, value in GOOD.items() if key != name}
    with pytest.raises(ProfileError, match=f"field '{name}' is missing"):
        load_profile(_written(tmp_path, json.dumps(values)))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "no JSON"),
        ("[1]", "not a JSON object"),
        (b"\xff\xfe{}", "not UTF-8"),
        ("[" * 100_000, "no JSON"),
    ],
)
def test_a_file_that_is_no_profile(tmp_path: Path, content: str | bytes, message: str) -> None:
    with pytest.raises(ProfileError, match=message):
        load_profile(_written(tmp_path, content))


def test_a_profile_may_begin_with_a_byte_order_mark(tmp_path: Path) -> None:
    content = b"\xef\xbb\xbf" + json.dumps(GOOD).encode()
    assert load_profile(_written(tmp_path, content)).name == GOOD["name"]


def test_a_name_that_is_neither_lists_those_that_are_known() -> None:
    with pytest.raises(
        ProfileError, match=r"neither a profile nor a file; name one of .*decode-b"
    ):
        load_profile("decode-bond")


def test_a_folder_is_no_profile(tmp_path: Path) -> None:
    with pytest.raises(ProfileError, match="is not a file"):
        load_profile(tmp_path)


def test_a_profile_that_is_built_in_place_is_checked_too() -> None:
    with pytest.raises(ProfileError, match="profile 'x': slots is 0"):
        EngineProfile(name="x", slots=0, step_s=1.0)


def test_memory_that_comes_to_a_slot_is_known_where_blocks_follow_tokens() -> None:
    llama = load_profile("a100x4-llama2-13b")
    assert llama.slot_context_tokens == 8_544 * 16 / 256 == 534.0
    # Speech: an encoder's blocks on top, or no limit at all.
    others = [load_profile(name) for name in profile_names() if name != llama.name]
    assert {one.slot_context_tokens for one in others} == {0.0}
    mine = {**GOOD, "kv_blocks": 100, "block_size": 4}
    assert EngineProfile(**mine).slot_context_tokens == 50.0
    assert EngineProfile(**mine, blocks_per_admission=5).slot_context_tokens == 0.0


@pytest.mark.parametrize("name", ["a100x4-llama2-13b"])
def test_what_is_known_beforehand_counts_the_context_too(name: str) -> None:
    """Seconds at full slots of a profile grow with the context, as learned work does."""
    profile = load_profile(name)
    small, large = (profile.service_s(200, prompt, profile.slots) for prompt in (400, 4_000))
    assert large > 2.0 * small
