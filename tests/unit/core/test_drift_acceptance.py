"""The promises of issue 3 about drift, at small sizes with fixed seeds; benchmarks/drift.py has
the large ones."""

import random
from collections.abc import Iterable, Sequence
from pathlib import Path

import pytest

from estimator.core.drift_event import DriftEvent
from estimator.core.observation import Completion
from estimator.core.pipeline import Pipeline
from estimator.evaluation.scenarios import read_trace
from tests.support.completions import completion_of

TRACES = Path(__file__).parents[3] / "benchmarks" / "traces"
N_BEFORE = 300

Clip = tuple[float, int]


def clips(name: str) -> list[Clip]:
    trace = read_trace(TRACES / f"{name}.csv.gz")
    return [(one.audio_s or 0.0, one.output_tokens) for one in trace.completions]


def served(
    drawn: Iterable[Clip], rng: random.Random, *, start: int = 0, slower: float = 1.0
) -> list[Completion]:
    return [
        completion_of(
            start + i, audio_s, tokens, concurrency=1.0,
            service_s=slower * (0.03 + 0.008 * tokens) * rng.lognormvariate(0.0, 0.1),
        )
        for i, (audio_s, tokens) in enumerate(drawn)
    ]  # fmt: skip


def begun(completions: Iterable[Completion]) -> list[tuple[int, DriftEvent]]:
    pipeline = Pipeline()
    return [
        (i, event)
        for i, one in enumerate(completions)
        for event in pipeline.learn_one(one)
        if event.ended_s is None
    ]


def changed(
    before: Sequence[Clip], after: Sequence[Clip], seed: int, *, slower: float = 1.0, n: int = 100
) -> list[tuple[int, DriftEvent]]:
    """Give the events of a change, each with the completions from the change to it."""
    rng = random.Random(seed)
    stream = served(rng.choices(before, k=N_BEFORE), rng)
    stream += served(rng.choices(after, k=n), rng, start=N_BEFORE, slower=slower)
    return [(i - N_BEFORE + 1, event) for i, event in begun(stream)]


@pytest.mark.parametrize("name", ["librispeech-test-clean", "ud-french-parisstories"])
def test_a_resampled_trace_raises_no_event_of_any_kind(name: str) -> None:
    rng = random.Random(3)
    assert begun(served(rng.choices(clips(name), k=12_000), rng)) == []


@pytest.mark.parametrize("factor", [1.5, 1 / 1.5])
@pytest.mark.parametrize(
    ("name", "limit"),
    [("librispeech-test-clean", 40), ("tedxjp10k-ja-chars", 40), ("ud-french-parisstories", 80)],
)
def test_kappa_times_one_and_a_half_is_one_event_in_time(
    name: str, limit: int, factor: float
) -> None:
    before = clips(name)
    after = [(audio_s, max(round(factor * tokens), 1)) for audio_s, tokens in before]
    for seed in range(6):
        [(delay, event)] = [one for one in changed(before, after, seed) if one[1].kind == "kappa"]
        assert 0 < delay <= limit
        assert event.after / event.before == pytest.approx(factor, rel=0.3)
        assert event.z > 4.5
        assert abs(event.completions_to_detect - delay) <= 40


def test_lengths_that_become_uniform_are_one_mix_event() -> None:
    before = clips("librispeech-test-clean")
    after = [(float(s), round(1.3 + 2.98 * s)) for s in (5, 10, 15, 20, 25, 30)]
    for seed in range(6):
        [(delay, event)] = [one for one in changed(before, after, seed) if one[1].kind == "mix"]
        assert 0 < delay <= 60
        assert event.detail == "audio seconds"


@pytest.mark.parametrize("slower", [1.5, 1 / 1.5])
def test_a_slower_machine_is_one_service_event(slower: float) -> None:
    before = clips("librispeech-test-clean")
    for seed in range(6):
        [(delay, event)] = changed(before, before, seed, slower=slower)
        assert event.kind == "service"
        assert 0 < delay <= 60
        assert event.after / event.before == pytest.approx(slower, rel=0.25)


def test_a_replay_gives_the_same_ids_and_no_two_alike() -> None:
    english, french = clips("librispeech-test-clean"), clips("ud-french-parisstories")
    rng = random.Random(0)
    stream = [
        one
        for k, drawn in enumerate([english, french] * 3)
        for one in served(rng.choices(drawn, k=300), rng, start=300 * k)
    ]
    first = [event.event_id for _, event in begun(stream)]
    assert len(first) == len(set(first)) >= 5
    assert [event.event_id for _, event in begun(stream)] == first
