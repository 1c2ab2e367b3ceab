"""The first finishers of requests that started together are not taken for all."""

import heapq
import itertools
import json
import math
import random
from collections.abc import Iterator
from statistics import fmean
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from estimator.core.censored import Line
from estimator.core.config import CoreConfig
from estimator.core.first_finishers import MAX_KEPT, Finisher, FirstFinishers
from estimator.core.observation import Completion
from estimator.core.pipeline import Pipeline
from estimator.core.running import Running
from sched_client.model import KappaEntry, Key
from tests.support.completions import completion_of

PRIOR = Line(CoreConfig().prior_kappa_tokens_per_s, 0.0)
MEAN_S = 7.0
OVERHEAD_S = 0.03
S_PER_TOKEN = 0.008
EN = Key("default", "transcribe", "en", False)


def _clips(kappa: float, seed: int) -> Iterator[tuple[float, int]]:
    rng = random.Random(seed)
    while True:
        size = rng.uniform(2.0, 12.0)
        mean = kappa * size
        yield size, max(1, round(rng.gauss(mean, math.sqrt(mean))))


def _engine(
    n: int, kappa: float, seed: int, *, slots: int = 64, **fields: Any
) -> Iterator[Completion]:
    """Yield what finishes in slots that all start at once (Any: fields of `Completion`)."""
    clips = _clips(kappa, seed)
    running: list[tuple[float, int, float, int, float]] = []
    for index in range(n + slots):
        now_s = 1000.0
        if index >= slots:
            now_s, done, size, tokens, began_s = heapq.heappop(running)
            yield completion_of(
                done, size, tokens, finished_s=now_s, service_s=now_s - began_s, **fields
            )
        size, tokens = next(clips)
        finish_s = now_s + OVERHEAD_S + S_PER_TOKEN * tokens
        heapq.heappush(running, (finish_s, index, size, tokens, now_s))


def _at_mean(line: Line | KappaEntry) -> float:
    if isinstance(line, Line):
        return line.at(MEAN_S)
    return line.intercept_tokens + line.kappa_tokens_per_s * MEAN_S


def _finisher(completion: Completion) -> Finisher:
    finished_s = completion.finished_s
    assert completion.audio_s is not None
    return Finisher(
        finished_s - completion.service_s,
        finished_s,
        completion.audio_s,
        float(completion.output_tokens),
    )


def _of(completions: Iterator[Completion]) -> FirstFinishers:
    first = FirstFinishers()
    first.anchor = PRIOR
    for one in completions:
        assert first.add(_finisher(one))
    return first


# Far from the prior some of the way to it is left: short clips alone say little.
@pytest.mark.parametrize(("kappa", "bias"), [(2.4, 0.2), (3.2, 0.1), (5.5, 0.1)])
def test_what_the_first_ten_of_64_teach_is_set_right(kappa: float, bias: float) -> None:
    naive, cured = [], []
    for seed in range(20):
        pipeline = Pipeline()
        for one in _engine(10, kappa, seed):
            pipeline.learn_one(one)
        cured.append(_at_mean(pipeline.kappa_of(EN)) / (kappa * MEAN_S) - 1.0)
        # The same without a word of how long each took.
        untold = Pipeline()
        for one in _engine(10, kappa, seed):
            untold.learn_one(completion_of(0, one.audio_s, one.output_tokens))
        naive.append(_at_mean(untold.kappa_of(EN)) / (kappa * MEAN_S) - 1.0)
    assert fmean(naive) < -0.15
    assert abs(fmean(cured)) < bias
    assert fmean(off * off for off in cured) < 0.5 * fmean(off * off for off in naive)


@pytest.mark.parametrize("ratio", [0.1, 0.2, 4.0, 8.0, 16.0])
def test_a_level_beyond_all_factors_is_what_was_learned(ratio: float) -> None:
    # It was told as 0.3 or 3 times the prior, or, where all completions were as far off as is
    # counted, as 0.3 times it where 16 times it came, until other requests began.
    true = Line(ratio * PRIOR.kappa, 0.0)
    first = FirstFinishers()
    first.anchor = PRIOR
    clips = _clips(true.kappa, 4)
    rows = sorted((tokens, size) for size, tokens in (next(clips) for _ in range(64)))
    for tokens, size in rows:
        assert first.add(Finisher(0.0, OVERHEAD_S + S_PER_TOKEN * tokens, size, float(tokens)))
    assert first.line(true, 1.3) == true


def test_a_level_beyond_all_factors_that_is_yet_to_be_learned_is_the_nearest() -> None:
    first = _of(itertools.islice(_engine(64, 4.0 * PRIOR.kappa, 5), 10))
    low = Line(0.5 * PRIOR.kappa, 0.0)
    assert _at_mean(first.line(low, 1.3)) == pytest.approx(3.0 * _at_mean(PRIOR), rel=0.1)


def test_requests_one_after_another_are_what_they_are() -> None:
    told, untold = Pipeline(), Pipeline()
    for one in _engine(40, 4.0, 1, slots=1):
        told.learn_one(one)
        untold.learn_one(completion_of(0, one.audio_s, one.output_tokens))
        assert told.kappa_of(EN) == untold.kappa_of(EN)
    assert all(row[-1] is None for row in told.state()["kappas"])


def test_an_engine_that_was_full_before_is_believed() -> None:
    told, untold = Pipeline(), Pipeline()
    for index, one in enumerate(_engine(260, 4.0, 2)):
        if index < 200:
            continue
        told.learn_one(one)
        untold.learn_one(completion_of(0, one.audio_s, one.output_tokens))
        if index >= 205:
            assert told.kappa_of(EN) == untold.kappa_of(EN)


def test_where_tokens_do_not_explain_time_nothing_is_set_right() -> None:
    learned = Line(3.0, 1.0)
    first = FirstFinishers()
    first.anchor = PRIOR
    for one in _engine(10, 3.2, 6):
        first.add(_finisher(one)._replace(started_s=1000.0, finished_s=1000.5))
    assert first.line(learned, 1.0) == learned


def test_once_all_have_finished_it_is_over() -> None:
    pipeline = Pipeline()
    batch = list(_engine(8, 3.2, 3, slots=8))
    for one in batch:
        pipeline.learn_one(one)
    rows = {tuple(row[:4]): row[-1] for row in pipeline.state()["kappas"]}
    assert rows[tuple(EN)] is not None
    later_s = batch[-1].finished_s + 3600.0
    pipeline.learn_one(completion_of(9, 5.0, 16, finished_s=later_s, service_s=0.2))
    assert all(row[-1] is None for row in pipeline.state()["kappas"])


def test_of_a_known_model_the_parents_line_is_the_shape() -> None:
    kappa = 6.4
    known = Pipeline()
    for index, (size, tokens) in zip(range(300), _clips(kappa, 4), strict=False):
        known.learn_one(completion_of(index, size, tokens, language=f"l{index % 6}"))
    state = known.state()
    fresh, cured = [], []
    for seed in range(6):
        again = Pipeline(state=state)
        new = Pipeline()
        for one in _engine(6, kappa, seed):
            again.learn_one(one)
            new.learn_one(one)
        cured.append(abs(_at_mean(again.kappa_of(EN)) / (kappa * MEAN_S) - 1.0))
        fresh.append(abs(_at_mean(new.kappa_of(EN)) / (kappa * MEAN_S) - 1.0))
    assert fmean(cured) < 0.5 * fmean(fresh)


def test_lists_of_what_runs_come_first() -> None:
    # Both know the same ten; with a list the censored likelihood answers.
    first = _of(_engine(10, 3.2, 5))
    pipeline = Pipeline()
    for one in _engine(10, 3.2, 5):
        pipeline.learn_one(one)
    alone = pipeline.kappa_of(EN)
    learned = Line(0.0, 0.0)
    assert _at_mean(first.line(learned, 1.0)) == pytest.approx(_at_mean(alone), rel=0.15)
    pipeline.note_running("a", [], 0.0)
    assert pipeline.kappa_of(EN) == alone


def test_where_lists_say_that_nothing_runs_all_have_finished() -> None:
    # The prior's shape has no intercept, and clips of 2 s were told 38 % too few tokens.
    rng = random.Random(8)
    rows = []
    for index in range(64):
        size = rng.uniform(2.0, 20.0)
        rows.append((round(8.0 + 4.0 * size + rng.gauss(0.0, 4.0)), size, f"r{index}"))
    rows.sort()
    told, blind = Pipeline(), Pipeline()
    for index, (tokens, size, name) in enumerate(rows):
        service_s = OVERHEAD_S + S_PER_TOKEN * tokens
        for pipeline in (told, blind):
            pipeline.learn_one(
                completion_of(
                    index, size, tokens, finished_s=1000.0 + service_s, service_s=service_s,
                    client_id="a", request_hash=name,
                )
            )  # fmt: skip
        told.note_running(
            "a",
            [Running(EN, other, tokens, hashed) for _, other, hashed in rows[index + 1 :]],
            0.0,
        )
        told.take_changes()
    assert told.state() == blind.state()
    entry = told.kappa_of(EN)
    at_two = entry.intercept_tokens + 2.0 * entry.kappa_tokens_per_s
    assert at_two == pytest.approx(16.0, rel=0.15)
    assert entry != blind.kappa_of(EN)


@pytest.mark.parametrize("cut", [1, 2, 9, 30, 64, 100, 140])
def test_a_checkpoint_amid_them_tells_and_learns_the_same(cut: int) -> None:
    languages = [f"l{i}" for i in range(40)]
    completions = [
        one
        for seed, language in enumerate(languages)
        for one in _engine(150 if seed < 2 else 3, 4.0, seed, language=language)
    ]
    completions.sort(key=lambda one: one.finished_s)
    live = Pipeline()
    for one in completions[:cut]:
        live.learn_one(one)
    again = Pipeline(state=json.loads(json.dumps(live.state(), allow_nan=False)))
    assert again.kappas() == live.kappas()
    for one in completions[cut:]:
        live.learn_one(one)
        again.learn_one(one)
        assert again.kappa_of(one.key) == live.kappa_of(one.key)
    assert again.state() == live.state()


def test_what_is_kept_is_bounded() -> None:
    pipeline = Pipeline()
    for seed in range(50):
        for one in _engine(5, 3.2, seed, language=f"l{seed}"):
            pipeline.learn_one(one)
    kept = [row for row in pipeline.state()["kappas"] if row[-1] is not None]
    assert len(kept) == 32
    # The newest, each where it began among them.
    assert {row[2] for row in kept} == {f"l{seed}" for seed in range(18, 50)}
    assert sorted(row[-1][0] for row in kept) == list(range(32))
    first = FirstFinishers()
    for index in range(MAX_KEPT - 1):
        assert first.add(Finisher(0.0, 1.0 + index * 1e-3, 5.0, 16.0))
    assert not first.add(Finisher(0.0, 2.0, 5.0, 16.0))


def test_evicted_keys_are_forgotten_here_too() -> None:
    pipeline = Pipeline(CoreConfig(max_keys=12))
    for seed in range(30):
        for one in _engine(3, 3.2, seed, language=f"l{seed}"):
            pipeline.learn_one(one)
    again = Pipeline(CoreConfig(max_keys=12), state=pipeline.state())
    assert again.state() == pipeline.state()


@pytest.mark.parametrize(
    "first",
    [
        [0, 3.2],
        [0, 3.2, 0.0, [[0.0, 1.0, 5.0]]],
        [0, 3.2, 0.0, [[0.0, 1.0, 5.0, math.nan]]],
        [0, math.inf, 0.0, [[0.0, 1.0, 5.0, 16.0]]],
        [0, 3.2, 0.0, [[0.0, 1.0, 5.0, 16.0]] * MAX_KEPT],
        [0, 3.2, 0.0, [None]],
    ],
)
def test_damage_is_one_error(first: list[Any]) -> None:
    pipeline = Pipeline()
    for one in _engine(3, 3.2, 1):
        pipeline.learn_one(one)
    state = pipeline.state()
    row = next(row for row in state["kappas"] if tuple(row[:4]) == EN)
    row[-1] = first
    with pytest.raises(ValueError, match=r"."):
        Pipeline(state=state)


finishers = st.builds(
    lambda started_s, service_s, size, tokens: Finisher(
        started_s, started_s + service_s, size, tokens
    ),
    st.floats(0.0, 2e9),
    st.floats(1e-3, 6e5),
    st.floats(1e-3, 86_400.0),
    st.floats(0.0, 1e7),
)


@settings(deadline=None)
@given(
    st.lists(finishers, min_size=1, max_size=40),
    st.booleans(),
    st.floats(min_value=1e-3, max_value=1e6),
)
def test_a_line_is_finite_and_between(done: list[Finisher], together: bool, scale: float) -> None:
    first = FirstFinishers()
    first.anchor = PRIOR
    for one in done:
        first.add(one._replace(started_s=0.0) if together else one)
    learned = Line(3.0, 1.0)
    kappa, intercept = first.line(learned, scale)
    assert 0.0 <= intercept <= 1.0
    assert min(learned.kappa, 0.29 * PRIOR.kappa) <= kappa <= 3.01 * PRIOR.kappa
