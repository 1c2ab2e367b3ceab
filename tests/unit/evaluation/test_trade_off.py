"""A filter that knows both sides of a change stays where nothing changes, and finds what does."""

import itertools
import math
import random
from dataclasses import replace

import numpy as np
import pytest

from benchmarks.learning.noise import Noise
from benchmarks.learning.trade_off import crossing_of, filtered, follow
from estimator.evaluation.prequential import hindsight_of
from estimator.evaluation.scenarios import Stream, Trace, in_trace_order
from tests.support.completions import speech

N_BEFORE = 120
BEFORE = Trace("before", tuple(speech(800, seed=3)))
AFTER = Trace(
    "after",
    tuple(replace(one, output_tokens=2 * one.output_tokens) for one in speech(800, seed=4)),
)


def stream(second: Trace) -> Stream:
    rng = random.Random(1)
    return in_trace_order(
        [
            Trace("first", tuple(rng.sample(BEFORE.completions, N_BEFORE))),
            Trace("second", tuple(rng.sample(second.completions, 60))),
        ]
    )


def test_a_change_to_one_of_its_levels_is_found_within_three() -> None:
    factors = np.array([0.7, 1.0, 1.5])
    seen = filtered(stream(AFTER), Noise(BEFORE), Noise(AFTER), factors)
    _, kappas = follow(seen, 1 / 30)
    crossing = crossing_of(kappas[N_BEFORE:].tolist(), seen.kappa)
    assert crossing.to_cross is not None
    assert 1 <= crossing.to_cross <= 3
    assert crossing.to_stay is not None


def test_where_nothing_changes_it_stays_and_errs_as_the_medians_do() -> None:
    seen = filtered(stream(BEFORE), Noise(BEFORE), Noise(AFTER), np.array([1.0]))
    errors, kappas = follow(seen, 1 / 100)
    known = hindsight_of(BEFORE).kappa
    assert np.mean(np.abs(kappas / known - 1.0) < 0.1) > 0.98
    # Its second state, twice the tokens, would err as much as there are.
    assert errors.mean() < 0.5 * seen.tokens.mean()


def test_a_smaller_hazard_is_later() -> None:
    seen = filtered(stream(AFTER), Noise(BEFORE), Noise(AFTER), np.array([1.0]))
    n_changed = [
        int(np.sum(follow(seen, hazard)[1][N_BEFORE:] > 1.5 * hindsight_of(BEFORE).kappa))
        for hazard in (1e-1, 1e-9)
    ]
    assert n_changed[0] > n_changed[1] > 0


def test_densities_are_of_the_tokens_and_survival_falls() -> None:
    noise = Noise(BEFORE)
    size = hindsight_of(BEFORE).mean_size
    grid = np.arange(0.0, 400.0)
    one = np.array([1.0])
    density = np.exp([noise.log_density(size, y, one)[0] for y in grid])
    assert density.sum() == pytest.approx(1.0, abs=0.01)
    beyond = [noise.log_survival(size, y, one)[0] for y in grid[::20]]
    assert beyond[0] == pytest.approx(0.0, abs=0.01)
    assert all(a >= b for a, b in itertools.pairwise(beyond))
    assert math.exp(noise.log_survival(size, noise.median(size), one)[0]) == pytest.approx(
        0.5, abs=0.05
    )
