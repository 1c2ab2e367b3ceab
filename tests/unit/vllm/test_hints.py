"""Callers choose their hints: each is checked and bounded."""

import math

import pytest

from sched_client.vllm.hints import MAX_LABEL, MAX_TIER, NO_HINTS, read_hints


@pytest.mark.parametrize("nothing", [None, {}, [], "audio_s=3", 7])
def test_anything_but_a_filled_mapping_is_no_hint(nothing: object) -> None:
    assert read_hints(nothing) is NO_HINTS


@pytest.mark.parametrize("value", [0, -1, math.nan, math.inf, "x", True, [3], 1e9, 10**400, ""])
def test_a_duration_that_cannot_be_is_ignored(value: object) -> None:
    assert read_hints({"audio_s": value}).audio_s is None


@pytest.mark.parametrize("value", [2.5, "2.5"], ids=["number", "text"])
def test_a_duration_is_read_from_numbers_and_text(value: object) -> None:
    assert read_hints({"audio_s": value}).audio_s == 2.5


@pytest.mark.parametrize(
    ("value", "tier"),
    [
        (3, 3),
        (-2, -2),
        ("1", 1),
        (" -1 ", -1),
        ("paid", -1),
        ("FREE", 1),
        ("batch", 2),
        ("normal", 0),
        (1 << 40, MAX_TIER),
        ("-999", -MAX_TIER),
        (True, None),
        (1.0, None),
        ("gold", None),
        ("--1", None),
        ("\u0661", None),
        ("", None),
        (["paid"], None),
        (None, None),
    ],
)
def test_a_tier_is_a_name_or_a_small_integer(value: object, tier: int | None) -> None:
    assert read_hints({"tier": value}).tier == tier


@pytest.mark.parametrize(
    ("value", "label"),
    [
        ("live", "live"),
        (" a ", "a"),
        ("x" * 900, "x" * MAX_LABEL),
        ("a\nb", ""),
        (4, ""),
        (None, ""),
    ],
)
def test_labels_are_short_and_printable(value: object, label: str) -> None:
    hints = read_hints({"request_type": value, "group": value, "language": value})
    assert (hints.request_type, hints.group, hints.language) == (label, label, label)
