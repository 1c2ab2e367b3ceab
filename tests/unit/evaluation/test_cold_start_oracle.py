"""One who knows all of a trace but its level finds it, and is not misled by who is late."""

import random

import pytest

from benchmarks.learning.cold_start_oracle import KnowsAllButTheLevel
from estimator.evaluation.scenarios import Running, Trace
from estimator.evaluation.subjects import size_of
from tests.support.completions import speech

TRACE = Trace("invented", tuple(speech(800, seed=3)))


@pytest.mark.parametrize("factor", [0.7, 1.0, 1.6])
def test_the_level_of_what_came_is_found(factor: float) -> None:
    oracle = KnowsAllButTheLevel(TRACE)
    drawn = random.Random(1).sample(TRACE.completions, 60)
    done = [(size_of(one), factor * one.output_tokens) for one in drawn]
    assert oracle.off(done, []) == pytest.approx(factor - 1.0, abs=0.06)


def test_the_first_finishers_are_not_taken_for_all() -> None:
    oracle = KnowsAllButTheLevel(TRACE)
    alone, beside = [], []
    for seed in range(12):
        drawn = random.Random(seed).sample(TRACE.completions, 64)
        drawn.sort(key=lambda one: one.output_tokens)
        first, others = drawn[:10], drawn[10:]
        done = [(size_of(one), float(one.output_tokens)) for one in first]
        so_far = first[-1].output_tokens
        alone.append(oracle.off(done, []))
        beside.append(oracle.off(done, [Running(one, so_far) for one in others]))
    assert sum(alone) / 12 < -0.06
    assert abs(sum(beside) / 12) < 0.05
