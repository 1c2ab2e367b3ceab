"""What runs beside what was learned: published, and never a part of the state."""

import json
import math
import random
from collections.abc import Sequence

import pytest

from estimator.core.censored import Bound
from estimator.core.kappa import KappaTable
from estimator.core.observation import Completion
from estimator.core.pipeline import CoreConfig, Pipeline
from estimator.core.running import SILENCE_S, Running
from sched_client.model import KappaEntry, Key
from tests.support.completions import completion_of, speech

EN = Key("default", "transcribe", "en", False)
AUDIO_S = 8.0


def _running(tokens: int, n: int = 40, key: Key = EN) -> list[Running]:
    return [Running(key, AUDIO_S, tokens, f"hash-{i}") for i in range(n)]


def _taught(n: int = 8) -> Pipeline:
    pipeline = Pipeline()
    for completion in speech(n, seed=1):
        pipeline.learn_one(completion)
    pipeline.take_changes()
    return pipeline


def _at(entry: KappaEntry) -> float:
    return entry.intercept_tokens + entry.kappa_tokens_per_s * AUDIO_S


def test_what_runs_longer_than_expected_raises_what_is_published() -> None:
    pipeline = _taught()
    before = pipeline.kappa_of(EN)
    pipeline.note_running("a", _running(round(1.1 * _at(before))), 0.0)
    changes = pipeline.take_changes()
    assert _at(changes.kappas[EN]) > 1.1 * _at(before)
    assert changes.kappas[EN] == pipeline.kappa_of(EN)
    assert pipeline.kappas()[EN] == pipeline.kappa_of(EN)
    # Parents answer for keys that nobody knows, and are told too.
    assert Key() in changes.kappas


def test_what_has_just_begun_says_next_to_nothing() -> None:
    pipeline = _taught(64)
    before = pipeline.kappa_of(EN)
    pipeline.note_running("a", _running(0), 0.0)
    assert _at(pipeline.kappa_of(EN)) == pytest.approx(_at(before), rel=0.05)


def test_nothing_of_it_is_learned_or_saved() -> None:
    pipeline, other = _taught(), _taught()
    completions = list(speech(30, seed=2, start=8))
    for index, completion in enumerate(completions):
        pipeline.note_running("a", _running(5 * index), float(index))
        pipeline.kappa_of(EN)
        pipeline.take_changes()
        pipeline.learn_one(completion)
        other.learn_one(completion)
    assert json.dumps(pipeline.state()) == json.dumps(other.state())
    restored = Pipeline(state=json.loads(json.dumps(pipeline.state())))
    assert restored.running_count == 0
    assert restored.kappa_of(EN) == other.kappa_of(EN)


@pytest.mark.parametrize("how", ["completed", "replaced", "silent"])
def test_what_runs_no_more_is_taken_back_and_published(how: str) -> None:
    pipeline = _taught()
    before = pipeline.kappa_of(EN)
    pipeline.note_running("a", _running(60, n=1), 0.0)
    assert EN in pipeline.take_changes().kappas
    if how == "completed":
        # A request that taught nothing all the same.
        gone = completion_of(99, None, 60, request_hash="hash-0", client_id="a")
        pipeline.learn_one(gone)
    elif how == "replaced":
        pipeline.note_running("a", [], 1.0)
    else:
        assert pipeline.expire_running(SILENCE_S + 1.0)
    assert pipeline.running_count == 0
    assert pipeline.take_changes().kappas[EN] == before


def test_a_key_that_nobody_taught_leaves_no_trace() -> None:
    pipeline = _taught()
    for number in range(50):
        key = Key("default", "transcribe", f"invented-{number}", False)
        pipeline.note_running("a", _running(90, n=4, key=key), float(number))
        pipeline.take_changes()
    assert pipeline.key_count == _taught().key_count


def test_evicted_keys_with_running_requests_are_not_published_again() -> None:
    pipeline = Pipeline(CoreConfig(max_keys=10, min_samples=1))
    for completion in speech(5, seed=1):
        pipeline.learn_one(completion)
    pipeline.note_running("a", _running(90), 0.0)
    pipeline.take_changes()
    for number in range(20):
        for completion in speech(2, seed=3, start=10 * number + 10, language=f"l{number}"):
            pipeline.learn_one(completion)
    removed = pipeline.take_changes().removed
    assert EN in removed
    pipeline.note_running("a", [], 1.0)
    assert EN not in pipeline.take_changes().kappas


def _cut(completions: Sequence[Completion], at: int, finish_reason: str) -> list[Completion]:
    """Cut what would have been longer."""
    cut = []
    for index, one in enumerate(completions):
        tokens = min(one.output_tokens, at)
        reason = "stop" if one.output_tokens <= at else finish_reason
        cut.append(completion_of(index, one.audio_s, tokens, finish_reason=reason))
    return cut


@pytest.mark.parametrize("finish_reason", ["length", "aborted"])
def test_requests_that_were_cut_are_lower_bounds(finish_reason: str) -> None:
    # Half are cut: those that ended by themselves are the shorter ones.
    whole = list(speech(600, seed=4))
    target = 3.0 + 3.1 * AUDIO_S
    told, silent = Pipeline(), Pipeline()
    for one in _cut(whole, 45, finish_reason):
        told.learn_one(one)
        if one.finish_reason == "stop":
            silent.learn_one(one)
    assert _at(silent.kappa_of(EN)) < 0.97 * target
    assert _at(told.kappa_of(EN)) == pytest.approx(target, rel=0.06)
    # At a length of which no request ended by itself, the difference is what matters.
    long_s = 20.0
    errors = [
        abs(entry.intercept_tokens + entry.kappa_tokens_per_s * long_s - 65.0) / 65.0
        for entry in (told.kappa_of(EN), silent.kappa_of(EN))
    ]
    assert errors[0] < 0.12
    assert errors[0] < 0.75 * errors[1]


def test_loops_that_were_cut_move_kappa_by_less_than_3_percent() -> None:
    rng = random.Random(5)
    clean, looped = Pipeline(), Pipeline()
    for index, one in enumerate(speech(1_000, seed=6)):
        clean.learn_one(one)
        if rng.random() < 0.05:
            looped.learn_one(completion_of(index, 2.0, 444, finish_reason="length"))
        else:
            looped.learn_one(one)
    assert _at(looped.kappa_of(EN)) == pytest.approx(_at(clean.kappa_of(EN)), rel=0.03)


def test_requests_aborted_before_anything_came_leave_no_trace() -> None:
    pipeline, other = _taught(), _taught()
    for index in range(50):
        pipeline.learn_one(completion_of(100 + index, AUDIO_S, 0, finish_reason="aborted"))
    assert pipeline.kappa_of(EN) == other.kappa_of(EN)


def test_the_entry_stays_valid_whatever_runs() -> None:
    pipeline = _taught(1)
    for tokens in (0, 1, 40, 448, 10_000_000):
        for size in (1e-6, 0.3, 30.0, 86_400.0):
            pipeline.note_running(
                "a", [Running(EN, size, tokens, str(i)) for i in range(256)], 0.0
            )
            entry = pipeline.kappa_of(EN)
            assert math.isfinite(entry.intercept_tokens)
            assert 0.0 <= entry.kappa_tokens_per_s < math.inf


def _served(pipeline: Pipeline, n: int, *, factor: float = 1.0, start: int = 0) -> None:
    for index, one in enumerate(speech(n, seed=11 + start, start=start)):
        tokens = max(1, round(factor * one.output_tokens))
        begun_s = float(start + index)
        pipeline.learn_one(
            completion_of(
                start + index, one.audio_s, tokens, finished_s=begun_s + 0.01 * tokens,
                service_s=0.01 * tokens,
            )
        )  # fmt: skip


def _running_since(tokens: int, started_s: float) -> list[Running]:
    return [Running(EN, AUDIO_S, tokens, f"r-{i}", started_s + i) for i in range(24)]


def test_an_old_key_follows_what_runs_only_where_it_says_that_kappa_has_changed() -> None:
    pipeline = Pipeline()
    _served(pipeline, 600)
    before = pipeline.kappa_of(EN)
    expected = _at(before)
    pipeline.note_running("a", _running_since(round(0.4 * expected), 600.0), 600.0)
    assert _at(pipeline.kappa_of(EN)) == pytest.approx(expected, rel=0.03)
    pipeline.note_running("a", _running_since(round(1.7 * expected), 600.0), 601.0)
    assert _at(pipeline.kappa_of(EN)) > 1.4 * expected
    # Parents are many languages': what one runs says nothing of them.
    assert pipeline.kappas()[Key()] == Pipeline(state=pipeline.state()).kappas()[Key()]
    pipeline.note_running("a", [], 602.0)
    assert pipeline.kappa_of(EN) == before


def test_completions_are_remembered_for_a_bounded_number_of_keys() -> None:
    table = KappaTable(CoreConfig(min_samples=1))
    for number in range(100):
        for one in speech(3, seed=number, start=10 * number, language=f"l{number}", service_s=0.5):
            table.learn(one)
    held = [node for node in table if node.recent is not None]
    assert len(held) == 32
    assert {node.key.language for node in held} == {f"l{number}" for number in range(68, 100)}


def test_of_many_old_keys_those_that_run_most_are_looked_at() -> None:
    table = KappaTable(CoreConfig())
    bounds = {}
    for number in range(10):
        for one in speech(260, seed=number, language=f"l{number}", service_s=0.5):
            table.learn(one)
        key = EN._replace(language=f"l{number}")
        bounds[key] = [Bound(AUDIO_S, 5.0, started_s=9.0)] * (number + 1)
    table.set_bounds(bounds)
    looked_at = {node.key.language for node in table if node.bounds}
    assert looked_at == {f"l{number}" for number in range(4, 10)}
