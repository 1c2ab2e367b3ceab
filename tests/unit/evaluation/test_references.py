import json
from collections.abc import Callable

import pytest

from estimator.core.learner import Learner
from estimator.evaluation.references import (
    CumulativeLeastSquares,
    CumulativeRatio,
    Told,
    ToldRatio,
)

FACTORIES: list[Callable[[], Learner]] = [CumulativeRatio, CumulativeLeastSquares, ToldRatio]


def test_cumulative_ratio_by_hand() -> None:
    learner = CumulativeRatio(prior_kappa=7.0)
    assert learner.predict_one({"size": 2.0}) == 14.0
    learner.learn_one({"size": 1.0}, 10.0)
    learner.learn_one({"size": 3.0}, 6.0)
    assert learner.predict_one({"size": 2.0}) == 8.0


def test_least_squares_finds_an_exact_line() -> None:
    learner = CumulativeLeastSquares()
    for size in (1.0, 2.0, 5.0):
        learner.learn_one({"size": size}, 3.0 + 2.0 * size)
    assert learner.predict_one({"size": 10.0}) == pytest.approx(23.0)


def test_least_squares_of_one_size_is_the_line_through_the_origin() -> None:
    learner = CumulativeLeastSquares()
    for tokens in (9.0, 11.0):
        learner.learn_one({"size": 5.0}, tokens)
    assert learner.predict_one({"size": 10.0}) == pytest.approx(20.0)


def test_least_squares_does_not_lose_a_slope_far_from_the_origin() -> None:
    learner = CumulativeLeastSquares()
    for size in (1e5, 1e5 + 1.0, 1e5 + 2.0):
        learner.learn_one({"size": size}, size - 1e5)
    assert learner.predict_one({"size": 1e5 + 5.0}) == pytest.approx(5.0, abs=1e-6)


def test_least_squares_never_predicts_less_than_nothing() -> None:
    learner = CumulativeLeastSquares()
    learner.learn_one({"size": 10.0}, 0.0)
    learner.learn_one({"size": 20.0}, 50.0)
    assert learner.predict_one({"size": 1.0}) == 0.0


def test_told_keeps_its_answer_until_it_sees_something_new() -> None:
    learner = ToldRatio()
    learner.change()
    learner.learn_one({"size": 1.0}, 3.0)
    learner.change()
    learner.change()
    assert learner.predict_one({"size": 2.0}) == 6.0
    learner.learn_one({"size": 1.0}, 8.0)
    assert learner.predict_one({"size": 2.0}) == 16.0


def test_only_the_told_one_listens() -> None:
    assert isinstance(ToldRatio(), Told)
    assert not isinstance(CumulativeRatio(), Told)


@pytest.mark.parametrize("factory", FACTORIES)
def test_references_are_learners_whose_state_goes_on_as_json(
    factory: Callable[[], Learner],
) -> None:
    learner = factory()
    assert isinstance(learner, Learner)
    for size in (1.0, 2.5, 4.0):
        learner.learn_one({"size": size}, 1.0 + 3.0 * size)
    if isinstance(learner, Told):
        learner.change()
    again = factory().restore(json.loads(json.dumps(learner.state())))
    for one in (learner, again):
        one.learn_one({"size": 3.0}, 20.0)
    assert again.predict_one({"size": 7.0}) == learner.predict_one({"size": 7.0})
