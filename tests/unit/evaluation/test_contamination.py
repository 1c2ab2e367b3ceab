from collections.abc import Callable

import pytest

from estimator.core.observation import Completion, violation_of
from estimator.evaluation.contamination import (
    invented_languages,
    with_empty_transcripts,
    with_loops,
    with_lying_hints,
    with_wrong_languages,
)
from estimator.evaluation.scenarios import Trace

CLEAN = Trace(
    "a",
    tuple(
        Completion(completion_id=f"a-{i}", language="en", audio_s=3.0 + i % 5, output_tokens=12)
        for i in range(2000)
    ),
)
SPOILERS: dict[str, Callable[[Trace, float, int], Trace]] = {
    "loops": with_loops,
    "empty": with_empty_transcripts,
    "hints": with_lying_hints,
    "languages": lambda trace, share, seed: with_wrong_languages(
        trace, share, seed, ["en", "fr", "ja"]
    ),
}


def spoilt_rows(spoilt: Trace) -> set[int]:
    return {
        i
        for i, (clean, one) in enumerate(zip(CLEAN.completions, spoilt.completions, strict=True))
        if (clean.audio_s, clean.output_tokens, clean.language)
        != (one.audio_s, one.output_tokens, one.language)
    }


@pytest.mark.parametrize("name", SPOILERS)
def test_the_share_is_spoilt_the_rest_stays_and_the_seed_decides(name: str) -> None:
    spoil = SPOILERS[name]
    rows = spoilt_rows(spoil(CLEAN, 0.05, 1))
    assert 70 <= len(rows) <= 130  # 100 ± 3 standard deviations
    assert spoil(CLEAN, 0.05, 1) == spoil(CLEAN, 0.05, 1)
    assert spoilt_rows(spoil(CLEAN, 0.05, 2)) != rows
    assert not spoilt_rows(spoil(CLEAN, 0.0, 1))
    assert len(spoilt_rows(spoil(CLEAN, 1.0, 1))) == len(CLEAN)


def test_a_loop_fills_the_decoder_after_two_seconds_of_audio() -> None:
    one = with_loops(CLEAN, 1.0, 1).completions[0]
    assert (one.audio_s, one.output_tokens, one.finish_reason) == (2.0, 444, "length")
    own = with_loops(CLEAN, 1.0, 1, audio_s=None, finish_reason="stop").completions[4]
    assert (own.audio_s, own.output_tokens, own.finish_reason) == (7.0, 444, "stop")


def test_a_lying_hint_can_be_told_from_a_measured_length_by_its_source() -> None:
    spoilt = with_lying_hints(CLEAN, 0.05, 1, factor=3.0)
    for clean, one in zip(CLEAN.completions, spoilt.completions, strict=True):
        assert clean.audio_s is not None
        if one.duration_source == "hint":
            assert one.audio_s == 3.0 * clean.audio_s
        else:
            assert (one.duration_source, one.audio_s) == ("mel", clean.audio_s)


def test_a_wrong_language_is_another_one() -> None:
    spoilt = with_wrong_languages(CLEAN, 1.0, 1, ["en", "fr", "ja"])
    assert {one.language for one in spoilt.completions} == {"fr", "ja"}


def test_invented_languages_are_valid_and_all_different() -> None:
    invented = list(invented_languages(500))
    assert len({one.language for one in invented}) == 500
    assert [one for one in invented if violation_of(one)] == []
