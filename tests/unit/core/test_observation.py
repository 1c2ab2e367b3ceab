"""What a completion may hold: each limit is one that is kept and one that is not."""

import math
from dataclasses import FrozenInstanceError, asdict, replace
from typing import Any

import pytest

from estimator.core.observation import (
    COMPLETION_FIELDS,
    MAX_NAME_LENGTH,
    Completion,
    completion_of,
    violation_of,
)

GOOD = Completion(
    completion_id="boot-1",
    language="en",
    timestamps=False,
    audio_s=3.0,
    output_tokens=9,
    max_tokens=448,
    finished_s=1.7e9,
    service_s=0.4,
    concurrency=2.0,
    client_id="pod/0",
)
NAMES = (
    "completion_id", "model", "task", "language", "duration_source", "request_hash", "group_id",
    "request_type", "queue_id", "client_id",
)  # fmt: skip
# Field, the largest that is kept, the next that is not.
HIGH = (
    ("audio_s", 86_400.0, 86_401.0),
    ("prompt_tokens", 10_000_000, 10_000_001),
    ("cached_prompt_tokens", 10_000_000, 10_000_001),
    ("max_tokens", 10_000_000, 10_000_001),
    ("finished_s", 1e11, 1.1e11),
    ("wait_s", 604_800.0, 604_801.0),
    ("service_s", 604_800.0, 604_801.0),
    ("concurrency", 1e6, 1.1e6),
    ("preemptions", 1_000_000, 1_000_001),
    ("predicted_tokens", 1e7, 1.1e7),
    ("snapshot_version", 2**62, 2**62 + 1),
    ("priority", 2**31, 2**31 + 1),
)
LOW = (
    ("audio_s", 1e-9, -1e-9),
    ("audio_s", 1e-9, 0.0),
    ("prompt_tokens", 0, -1),
    ("cached_prompt_tokens", 0, -1),
    ("output_tokens", 0, -1),
    ("max_tokens", 9, 0),
    ("finished_s", 0.0, -1.0),
    ("wait_s", 0.0, -1.0),
    ("service_s", 0.0, -1.0),
    ("concurrency", 0.0, -1.0),
    ("preemptions", 0, -1),
    ("predicted_tokens", 0.0, -1.0),
    ("snapshot_version", 0, -1),
    ("priority", -(2**31), -(2**31) - 1),
)
FLOATS = (
    "audio_s", "finished_s", "wait_s", "service_s", "concurrency", "predicted_tokens",
)  # fmt: skip


# Any in this file: a value of whatever type the field has.
def _with(name: str, value: Any) -> Completion:
    return replace(GOOD, **{name: value})


@pytest.mark.parametrize(("name", "kept", "refused"), HIGH + LOW)
def test_a_number_is_kept_up_to_its_limit(name: str, kept: Any, refused: Any) -> None:
    assert violation_of(_with(name, kept)) is None
    found = violation_of(_with(name, refused))
    assert found is not None
    assert found.field == name
    assert found.reason == "OUT_OF_RANGE"


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("name", FLOATS)
def test_a_number_must_be_finite(name: str, value: float) -> None:
    found = violation_of(_with(name, value))
    assert found is not None
    assert found.field == name


@pytest.mark.parametrize("name", NAMES)
def test_a_name_is_kept_up_to_its_limit(name: str) -> None:
    assert violation_of(_with(name, "é" * MAX_NAME_LENGTH)) is None
    found = violation_of(_with(name, "é" * (MAX_NAME_LENGTH + 1)))
    assert found is not None
    assert (found.reason, found.field) == ("NAME_TOO_LONG", name)


@pytest.mark.parametrize("character", ["\x00", "\n", "\x1f", "\x7f"])
@pytest.mark.parametrize("name", NAMES)
def test_a_name_holds_no_control_character(name: str, character: str) -> None:
    found = violation_of(_with(name, f"a{character}"))
    assert found is not None
    assert (found.reason, found.field) == ("NAME_NOT_PRINTABLE", name)


@pytest.mark.parametrize("name", ["a b", "a\u00a0b", "a\u200bb", "\ud800", "日本語", ""])
def test_other_characters_are_the_callers_business(name: str) -> None:
    assert violation_of(_with("language", name)) is None


def test_an_id_is_required() -> None:
    found = violation_of(_with("completion_id", ""))
    assert found is not None
    assert found.reason == "ID_MISSING"


def test_no_more_tokens_than_the_request_allowed() -> None:
    assert violation_of(_with("max_tokens", GOOD.output_tokens)) is None
    found = violation_of(_with("max_tokens", GOOD.output_tokens - 1))
    assert found is not None
    assert found.reason == "ABOVE_MAX_TOKENS"


@pytest.mark.parametrize(
    "good",
    [
        replace(GOOD, audio_s=None),
        replace(GOOD, audio_s=0.0, kind="detection"),
        replace(GOOD, max_tokens=None, output_tokens=10_000_000),
    ],
)
def test_what_is_absent_or_of_another_kind_has_no_limit(good: Completion) -> None:
    assert violation_of(good) is None


def test_a_completion_of_its_values_is_the_one_of_its_names() -> None:
    built = completion_of(*(getattr(GOOD, name) for name in COMPLETION_FIELDS))
    assert type(built) is Completion
    assert built == GOOD
    assert hash(built) == hash(GOOD)
    assert asdict(built) == asdict(GOOD)
    assert replace(built, language="de").language == "de"


def test_a_completion_of_its_values_is_frozen() -> None:
    built = completion_of(*(getattr(GOOD, name) for name in COMPLETION_FIELDS))
    with pytest.raises(FrozenInstanceError):
        built.language = "de"  # type: ignore[misc]  # what must fail


def test_a_completion_needs_each_value() -> None:
    with pytest.raises(TypeError):
        completion_of("boot-1")
