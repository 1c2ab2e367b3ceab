import statistics

import pytest

from estimator.core.observation import violation_of
from estimator.evaluation.mixtures import (
    AFTER_ONE_CLIP,
    DEMO_CLIPS,
    NEW_LANGUAGES,
    STEADY,
    after_one_clip,
    new_language,
    steady,
)


@pytest.mark.parametrize("name", STEADY)
def test_what_is_drawn_has_the_mean_that_is_said(name: str) -> None:
    workload = steady(name, 1, 4_000)
    tokens = [one.output_tokens for one in workload.trace.completions]
    error = statistics.stdev(tokens) / len(tokens) ** 0.5
    assert statistics.fmean(tokens) == pytest.approx(workload.mean_tokens, abs=4.0 * error)
    assert all(violation_of(one) is None for one in workload.trace.completions)


def test_the_same_seed_gives_the_same_workload_and_another_another() -> None:
    assert steady("demo clips", 1, 50) == steady("demo clips", 1, 50)
    assert steady("demo clips", 1, 50) != steady("demo clips", 2, 50)


def test_the_demos_clips_come_as_often_as_they_were_sent() -> None:
    workload = steady("demo clips", 0, 10_000)
    dense = sum(one.output_tokens == 43 for one in workload.trace.completions) / 10_000
    sent = sum(n for *_, n in DEMO_CLIPS)
    assert dense == pytest.approx(8 / sent, abs=0.012)


@pytest.mark.parametrize("name", AFTER_ONE_CLIP)
def test_one_clip_is_alone_at_first(name: str) -> None:
    completions = after_one_clip(name, 3, 30, 40).trace.completions
    before = {(one.audio_s, one.output_tokens) for one in completions[:30]}
    assert len(before) == 1
    assert {(one.audio_s, one.output_tokens) for one in completions[30:]} - before


@pytest.mark.parametrize("name", NEW_LANGUAGES)
def test_a_new_language_follows_a_known_one(name: str) -> None:
    completions = new_language(name, 3, 30, 40).trace.completions
    assert [one.language for one in completions] == ["en"] * 30 + ["xx"] * 40
