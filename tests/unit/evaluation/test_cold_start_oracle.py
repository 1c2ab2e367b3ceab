"""One who knows all of a trace but its level finds it, and is not misled by who is late."""

import itertools
import math
import random
from dataclasses import replace
from statistics import fmean, median

import numpy as np
import pytest

from benchmarks.learning.cold_start_oracle import KnowsAllButTheLevel
from benchmarks.learning.noise import Noise
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
    for seed in range(24):
        # Not of its own clips, which it would know by their tokens.
        drawn = sorted(speech(64, seed=100 + seed), key=lambda one: one.output_tokens)
        first, others = drawn[:10], drawn[10:]
        done = [(size_of(one), float(one.output_tokens)) for one in first]
        so_far = first[-1].output_tokens
        alone.append(oracle.off(done, []))
        beside.append(oracle.off(done, [Running(one, so_far) for one in others]))
    assert fmean(alone) < fmean(beside) - 0.03
    # Each is known to 10 %, their mean to 2 %.
    assert abs(fmean(beside)) < 0.05


def test_clips_of_one_length_are_taken_whole() -> None:
    rng = random.Random(5)
    clips = []
    for one in speech(600, seed=5):
        size = rng.choice((2.0, 4.0))
        clips.append(
            replace(one, audio_s=size, output_tokens=max(1, round(size * rng.gauss(8, 2))))
        )
    noise = Noise(Trace("of two lengths", tuple(clips)))
    for size in (2.0, 4.0):
        assert noise.median(size) == median(
            one.output_tokens for one in clips if size_of(one) == size
        )


def test_the_shortest_and_the_longest_hold_what_they_do() -> None:
    clips = [replace(one, output_tokens=round(40 * size_of(one))) for one in speech(400, seed=6)]
    noise = Noise(Trace("a line", tuple(clips)))
    for size in (1.0, 3.0, 15.0, 29.0):
        assert noise.median(size) == pytest.approx(40 * size, rel=0.02)


def test_nothing_is_believed_below_the_fewest_tokens() -> None:
    one = np.array([1.0])
    noise = Noise(TRACE)
    shortest = min(map(size_of, TRACE.completions))
    beyond = [noise.log_survival(shortest, y, one)[0] for y in (-0.5, 0.0, 0.5, 1.0)]
    assert all(math.isfinite(a) and a >= b for a, b in itertools.pairwise(beyond))
    assert math.exp(beyond[1]) > 0.99
