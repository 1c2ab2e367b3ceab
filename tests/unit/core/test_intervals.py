import json
import math
import random
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from estimator.core.intervals import RatioQuantiles, RunningCoverage

_LEVELS = (0.5, 0.9, 0.99)


def _coverage(
    quantiles: RatioQuantiles, log_ratios: list[float], first: int = 0
) -> tuple[float, ...]:
    """Learn residuals, and give the share of those from the first on that lay below."""
    below = [0, 0, 0]
    for i, value in enumerate(log_ratios):
        if i >= first:
            for j, quantile in enumerate(quantiles.ratios()):
                below[j] += math.exp(value) <= quantile
        quantiles.learn_one(value)
    return tuple(count / (len(log_ratios) - first) for count in below)


def _normal(seed: int, n: int, spread: float, mean: float = 0.0) -> list[float]:
    rng = random.Random(seed)
    return [rng.gauss(mean, spread) for _ in range(n)]


def _skewed(seed: int, n: int, spread: float) -> list[float]:
    """Draw residuals as those of spontaneous speech: a long lower tail."""
    rng = random.Random(seed)
    return [spread * (1.0 - rng.expovariate(1.0)) for _ in range(n)]


def test_quantiles_start_where_the_client_does() -> None:
    assert RatioQuantiles().ratios() == pytest.approx((1.0, 1.5, 2.5))


def test_a_child_starts_from_its_parent() -> None:
    parent = RatioQuantiles()
    for value in _normal(1, 100, 0.2, mean=0.3):
        parent.learn_one(value)
    child = RatioQuantiles(parent)
    assert child.ratios() == parent.ratios() != RatioQuantiles().ratios()
    child.learn_one(1.0)
    assert child.ratios() != parent.ratios()


@pytest.mark.parametrize("draw", [_normal, _skewed])
@pytest.mark.parametrize("spread", [0.1, 0.3, 0.6])
def test_coverage_is_the_level_whatever_the_residuals(
    draw: Callable[[int, int, float], list[float]], spread: float
) -> None:
    found = _coverage(RatioQuantiles(), draw(3, 16_000, spread), first=1_000)
    assert found == pytest.approx(_LEVELS, abs=0.005)


def test_the_first_thousand_are_covered_as_the_rest_are() -> None:
    found = [_coverage(RatioQuantiles(), _normal(seed, 1_000, 0.15)) for seed in range(20)]
    pooled = [sum(level) / len(found) for level in zip(*found, strict=True)]
    assert pooled == pytest.approx(_LEVELS, abs=0.01)


@pytest.mark.parametrize(("before", "after"), [(0.15, 0.3), (0.3, 0.15)])
def test_a_change_of_spread_is_followed_within_20(before: float, after: float) -> None:
    found = [
        _coverage(
            RatioQuantiles(), _normal(seed, 400, before) + _normal(100 + seed, 220, after), 420
        )[1]
        for seed in range(30)
    ]
    assert sum(found) / len(found) == pytest.approx(0.9, abs=0.02)


def test_a_short_bias_is_not_paid_for_long() -> None:
    # Four completions far above the line, as after a change that the learner follows in as many.
    found = [
        _coverage(
            RatioQuantiles(),
            _normal(seed, 400, 0.2) + _normal(50 + seed, 4, 0.2, mean=0.5)
            + _normal(100 + seed, 216, 0.2),
            420,
        )[1]
        for seed in range(30)
    ]  # fmt: skip
    assert sum(found) / len(found) == pytest.approx(0.9, abs=0.02)


def test_long_run_coverage_survives_residuals_that_never_settle() -> None:
    # Level and spread wander for ever, together by a factor of 10 and more.
    rng = random.Random(5)
    values = [
        math.sin(i / 700.0) + rng.gauss(0.0, 0.1 + 0.3 * (1.0 + math.sin(i / 311.0)))
        for i in range(20_000)
    ]
    p50, p90, p99 = _coverage(RatioQuantiles(), values)
    assert (p90, p99) == pytest.approx((0.9, 0.99), abs=0.002)
    # The median's steps are as large as the scale was, so its errors are balanced by weight.
    assert p50 == pytest.approx(0.5, abs=0.03)


def test_residuals_without_noise_close_the_interval() -> None:
    quantiles = RatioQuantiles()
    for _ in range(2_000):
        quantiles.learn_one(0.2)
    assert quantiles.ratios() == pytest.approx((math.exp(0.2),) * 3, rel=0.05)


def test_one_absurd_residual_moves_p90_little() -> None:
    quantiles = RatioQuantiles()
    for value in _normal(6, 500, 0.2):
        quantiles.learn_one(value)
    before = quantiles.ratios()
    quantiles.learn_one(math.log(444 / 6))
    after = quantiles.ratios()
    assert after[0] == pytest.approx(before[0], rel=0.03)
    assert after[1] == pytest.approx(before[1], rel=0.08)


@given(st.lists(st.floats() | st.sampled_from([0.0, 5.0, -5.0]), max_size=200), st.integers(1, 40))
def test_quantiles_are_positive_finite_and_never_cross(
    log_ratios: list[float], repeats: int
) -> None:
    # NaN and infinity too: nothing downstream may see them.
    quantiles = RatioQuantiles()
    for value in log_ratios:
        for _ in range(repeats):
            quantiles.learn_one(value)
        p50, p90, p99 = quantiles.ratios()
        assert 0.0 < p50 <= p90 <= p99 < 200.0
        assert all(map(math.isfinite, quantiles.state()))


@given(st.lists(st.floats(-6.0, 6.0), max_size=60), st.floats(-6.0, 6.0))
def test_state_round_trip_continues_alike(log_ratios: list[float], value: float) -> None:
    quantiles = RatioQuantiles()
    for one in log_ratios:
        quantiles.learn_one(one)
    other = RatioQuantiles().restore(json.loads(json.dumps(quantiles.state())))
    assert other.ratios() == quantiles.ratios()
    other.learn_one(value)
    quantiles.learn_one(value)
    assert other.state() == quantiles.state()


@pytest.mark.parametrize(
    "state",
    [
        [1, 0.0, 0.2, 2.0, 1.0],
        [1, 0.0, 0.2, -1.0, 1.0],
        [1, 0.0, 0.0, 1.0, 2.0],
        [1, 9.0, 0.2, 1.0, 2.0],
        [1, 0.0, 0.2, 1.0, math.inf],
        [1, math.nan, 0.2, 1.0, 2.0],
        [1, 0.0, 0.2, 1.0],
    ],
    ids=["crossing", "negative", "no scale", "absurd", "infinite", "nan", "short"],
)
def test_a_damaged_state_is_refused(state: list[float]) -> None:
    with pytest.raises(ValueError, match="quantiles"):
        RatioQuantiles().restore(state)


def test_covers_agrees_with_the_ratios() -> None:
    quantiles = RatioQuantiles()
    for value in _normal(7, 300, 0.2):
        quantiles.learn_one(value)
    p90 = math.log(quantiles.ratios()[1])
    assert quantiles.covers(p90 - 1e-9)
    assert not quantiles.covers(p90 + 1e-9)


def test_running_coverage_is_the_mean_at_first_and_recent_later() -> None:
    coverage = RunningCoverage()
    for covered in (True, True, False, True):
        coverage.learn_one(covered)
    assert (coverage.n_seen_, coverage.ratio_) == (4, 0.75)
    for _ in range(4_000):
        coverage.learn_one(covered=True)
    assert coverage.ratio_ > 0.99
    assert RunningCoverage().restore(coverage.state()).state() == coverage.state()


@pytest.mark.parametrize("state", [[-1, 0.5], [1, 1.5], [1, math.nan], [math.inf, 0.5]])
def test_a_damaged_coverage_is_refused(state: list[float]) -> None:
    with pytest.raises(ValueError, match="coverage"):
        RunningCoverage().restore(state)
