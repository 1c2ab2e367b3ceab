import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from estimator.core.intervals import RatioQuantiles


def test_quantiles_start_where_the_client_does() -> None:
    assert RatioQuantiles().ratios() == pytest.approx((1.0, 1.5, 2.5))


def test_a_child_starts_from_its_parent() -> None:
    parent = RatioQuantiles()
    for _ in range(100):
        parent.learn_one(1.0)
    assert RatioQuantiles(parent).ratios() == parent.ratios()


@pytest.mark.parametrize("spread", [0.1, 0.3, 0.6])
def test_coverage_is_the_level_whatever_the_spread(spread: float) -> None:
    quantiles = RatioQuantiles()
    rng = random.Random(3)
    below = [0, 0, 0]
    n = 8_000
    for i in range(2 * n):
        ratio = rng.lognormvariate(0.0, spread)
        if i >= n:
            for j, quantile in enumerate(quantiles.ratios()):
                below[j] += ratio <= quantile
        quantiles.learn_one(math.log(ratio))
    for count, level in zip(below, (0.5, 0.9, 0.99), strict=True):
        assert count / n == pytest.approx(level, abs=0.01)


def test_coverage_holds_after_the_spread_doubles() -> None:
    quantiles = RatioQuantiles()
    rng = random.Random(4)
    below = 0
    for i in range(9_000):
        ratio = rng.lognormvariate(0.0, 0.15 if i < 4_000 else 0.3)
        below += i >= 5_000 and ratio <= quantiles.ratios()[1]
        quantiles.learn_one(math.log(ratio))
    assert below / 4_000 == pytest.approx(0.9, abs=0.01)


@given(st.lists(st.floats(allow_nan=False, allow_infinity=True), max_size=60))
def test_quantiles_are_positive_finite_and_never_cross(log_ratios: list[float]) -> None:
    quantiles = RatioQuantiles()
    for value in log_ratios:
        quantiles.learn_one(value)
        p50, p90, p99 = quantiles.ratios()
        assert 0.0 < p50 <= p90 <= p99 < math.inf


def test_state_round_trip_continues_alike() -> None:
    quantiles = RatioQuantiles()
    for value in (0.1, -0.4, 0.9):
        quantiles.learn_one(value)
    other = RatioQuantiles().restore(quantiles.state())
    other.learn_one(0.7)
    quantiles.learn_one(0.7)
    assert other.state() == quantiles.state()


@pytest.mark.parametrize("state", [[1, 0.3, 0.2, 0.4], [1, 0.1, 0.2, math.inf]])
def test_a_damaged_state_is_refused(state: list[float]) -> None:
    with pytest.raises(ValueError, match="finite and ascending"):
        RatioQuantiles().restore(state)
