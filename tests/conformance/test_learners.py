"""What every learner of tokens keeps; a new one is finished when it is in `LEARNERS`."""

import json
import math
import random
from collections.abc import Callable, Iterator

import pytest

from estimator.core.learner import AffineRegressor, Learner
from estimator.evaluation.candidates import CANDIDATES, ROBUST, core

Factory = Callable[[float], Learner]
PRIOR_KAPPA = 3.2
HUGE_TOKENS = 1e7


def child(prior_kappa: float) -> Learner:
    """Make the learner of a key whose parent has seen the prior's line only."""
    parent = core(prior_kappa=prior_kappa)
    assert isinstance(parent, AffineRegressor)
    for size in (2.0, 5.0, 9.0, 20.0):
        parent.learn_one({"size": size}, prior_kappa * size)
    return AffineRegressor(parent=parent)


def from_candidate(name: str) -> Factory:
    return lambda prior_kappa: CANDIDATES[name](prior_kappa=prior_kappa)


LEARNERS: dict[str, Factory] = {
    **{name: from_candidate(name) for name in CANDIDATES},
    "core, child": child,
}
ROBUST_LEARNERS = [name for name in LEARNERS if name in ROBUST or name == "core, child"]


@pytest.fixture(params=LEARNERS, name="make")
def make_fixture(request: pytest.FixtureRequest) -> Factory:
    return LEARNERS[request.param]


@pytest.fixture(params=ROBUST_LEARNERS, name="robust")
def robust_fixture(request: pytest.FixtureRequest) -> Factory:
    return LEARNERS[request.param]


def speech(
    n: int, *, kappa: float = 3.1, intercept: float = 3.0, seed: int = 0, unit: float = 1.0
) -> Iterator[tuple[dict[str, float], float]]:
    rng = random.Random(seed)
    for _ in range(n):
        size = rng.uniform(1.0, 29.0)
        yield {"size": size}, unit * (intercept + kappa * size) * rng.lognormvariate(0.0, 0.2)


def test_it_is_a_learner(make: Factory) -> None:
    assert isinstance(make(PRIOR_KAPPA), Learner)


def test_it_predicts_the_prior_before_any_data(make: Factory) -> None:
    assert make(PRIOR_KAPPA).predict_one({"size": 10.0}) == pytest.approx(32.0)


def test_predicting_changes_nothing(make: Factory) -> None:
    learner = make(PRIOR_KAPPA)
    for x, y in speech(50):
        learner.learn_one(x, y)
    before = learner.state()
    for size in (0.0, 1e-9, 7.0, 1e9):
        learner.predict_one({"size": size})
    assert learner.state() == before


def test_learning_does_not_touch_its_arguments(make: Factory) -> None:
    x = {"size": 4.0}
    make(PRIOR_KAPPA).learn_one(x, 9.0)
    assert x == {"size": 4.0}


@pytest.mark.parametrize("true_kappa", [1.6, 6.4])
def test_a_prior_that_is_twice_wrong_is_forgotten_within_thirty(
    make: Factory, true_kappa: float
) -> None:
    learner = make(PRIOR_KAPPA)
    for x, y in speech(30, kappa=true_kappa, intercept=0.0):
        learner.learn_one(x, y)
    assert learner.predict_one({"size": 15.0}) == pytest.approx(15.0 * true_kappa, rel=0.15)


def test_it_follows_a_change(make: Factory) -> None:
    learner = make(PRIOR_KAPPA)
    for x, y in speech(500):
        learner.learn_one(x, y)
    for x, y in speech(100, kappa=5.6, seed=1):
        learner.learn_one(x, y)
    assert learner.predict_one({"size": 15.0}) == pytest.approx(3.0 + 15.0 * 5.6, rel=0.1)


def test_loops_at_five_percent_move_it_by_three_percent_at_most(robust: Factory) -> None:
    clean, looping = robust(PRIOR_KAPPA), robust(PRIOR_KAPPA)
    rng = random.Random(5)
    ratios = []
    for x, y in speech(2_000):
        clean.learn_one(x, y)
        looping.learn_one(x, 444.0 if rng.random() < 0.05 else y)
        ratios.append(looping.predict_one({"size": 8.0}) / clean.predict_one({"size": 8.0}))
    assert sum(ratios[500:]) / len(ratios[500:]) == pytest.approx(1.0, abs=0.03)


def test_a_single_loop_moves_nothing(robust: Factory) -> None:
    learner = robust(PRIOR_KAPPA)
    for x, y in speech(100):
        learner.learn_one(x, y)
    before = learner.predict_one({"size": 8.0})
    learner.learn_one({"size": 2.0}, 444.0)
    assert learner.predict_one({"size": 8.0}) == pytest.approx(before, rel=0.001)


@pytest.mark.parametrize("size", [0.0, 1e-12, 86_400.0, 1e7])
@pytest.mark.parametrize("tokens", [0.0, 1.0, HUGE_TOKENS])
def test_it_stays_finite_and_not_negative(make: Factory, size: float, tokens: float) -> None:
    learner = make(PRIOR_KAPPA)
    for x, y in speech(20):
        learner.learn_one(x, y)
    for _ in range(20):
        learner.learn_one({"size": size}, tokens)
    for asked in (0.0, 1.0, 30.0, 1e7):
        prediction = learner.predict_one({"size": asked})
        assert math.isfinite(prediction)
        assert prediction >= 0.0
    assert all(map(math.isfinite, learner.state()))


def test_scaling_tokens_and_prior_scales_predictions(make: Factory) -> None:
    learner, tenfold = make(PRIOR_KAPPA), make(10.0 * PRIOR_KAPPA)
    for (x, y), (_, y10) in zip(speech(200), speech(200, unit=10.0), strict=True):
        learner.learn_one(x, y)
        tenfold.learn_one(x, y10)
    for size in (2.0, 10.0, 25.0):
        expected = 10.0 * learner.predict_one({"size": size})
        assert tenfold.predict_one({"size": size}) == pytest.approx(expected, rel=1e-6)


def test_the_state_goes_through_json_and_on(make: Factory) -> None:
    live = make(PRIOR_KAPPA)
    data = list(speech(120))
    for x, y in data[:70]:
        live.learn_one(x, y)
    restored = make(PRIOR_KAPPA).restore(json.loads(json.dumps(live.state())))
    assert restored.predict_one({"size": 9.0}) == live.predict_one({"size": 9.0})
    for x, y in data[70:]:
        live.learn_one(x, y)
        restored.learn_one(x, y)
    assert restored.state() == live.state()
