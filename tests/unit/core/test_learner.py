import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from river import evaluate, linear_model, metrics

from estimator.core.learner import AffineRegressor, Anchor


def anchor(**fields: float) -> Anchor:
    values = {
        "kappa": 3.2, "intercept": 0.0, "mean_size": 7.4, "sd_size": 5.2, "relative_error": 0.35,
    }  # fmt: skip
    return Anchor(**{**values, **fields})


def pairs(n: int, *, kappa: float = 3.1, seed: int = 0) -> list[tuple[dict[str, float], float]]:
    rng = random.Random(seed)
    sizes = [rng.uniform(1.0, 29.0) for _ in range(n)]
    return [({"size": s}, (3.0 + kappa * s) * rng.lognormvariate(0.0, 0.2)) for s in sizes]


def test_the_prior_answers_before_any_data() -> None:
    assert AffineRegressor(parent=anchor()).predict_one({"size": 10.0}) == pytest.approx(32.0)


def test_the_line_becomes_the_generating_one() -> None:
    regressor = AffineRegressor(parent=anchor(), forgetting=1.0)
    for x, y in pairs(4_000):
        regressor.learn_one(x, y)
    assert regressor.kappa_ == pytest.approx(3.1, rel=0.03)
    assert regressor.intercept_ == pytest.approx(3.0, abs=0.5)


def test_sums_give_what_rivers_bayesian_regression_gives() -> None:
    ours = AffineRegressor(parent=anchor(), forgetting=0.99, shrinkage=1e-9, level_shrinkage=1e12)
    rivers = linear_model.BayesianLinearRegression(alpha=1e6, smoothing=0.99)
    for x, y in pairs(300):
        ours.absorb(x["size"], y)
        rivers.learn_one({"size": x["size"], "one": 1.0}, y)
    ours.solve()
    for size in (1.0, 10.0, 29.0):
        theirs = rivers.predict_one({"size": size, "one": 1.0})
        assert ours.predict_one({"size": size}) == pytest.approx(theirs, rel=1e-4)


def test_rivers_own_tools_run_it() -> None:
    ours = evaluate.progressive_val_score(
        pairs(500), AffineRegressor(parent=anchor()), metrics.MAE()
    )
    rivers = evaluate.progressive_val_score(
        pairs(500), linear_model.BayesianLinearRegression(smoothing=0.97), metrics.MAE()
    )
    assert ours.get() < rivers.get()


def test_few_completions_shrink_toward_the_parent_by_their_share() -> None:
    regressor = AffineRegressor(
        parent=anchor(), forgetting=1.0, shrinkage=2.0, level_shrinkage=1e12
    )
    for _ in range(2):
        for size in (2.2, 12.6):
            regressor.absorb(size, 6.4 * size)
    regressor.solve()
    # Four on twice the parent's line, spread as the parent's sizes are, against its two.
    assert regressor.kappa_ == pytest.approx(3.2 + 3.2 * 4 / 6, rel=1e-6)


def test_clips_of_one_length_keep_the_parents_slope_where_it_is_not_seen() -> None:
    parent = AffineRegressor(parent=anchor(), forgetting=1.0)
    for x, y in pairs(1_000):
        parent.learn_one(x, y)
    child = AffineRegressor(parent=parent)
    for _ in range(500):
        child.learn_one({"size": 2.0}, 9.0)
    assert child.predict_one({"size": 2.0}) == pytest.approx(9.0, rel=0.02)
    assert child.predict_one({"size": 29.0}) == pytest.approx(3.0 + 3.1 * 29.0, rel=0.1)


def test_kappa_is_never_negative() -> None:
    regressor = AffineRegressor(parent=anchor())
    for size in range(1, 200):
        regressor.learn_one({"size": float(size % 29 + 1)}, 100.0 - 3.0 * (size % 29))
    assert regressor.kappa_ == 0.0
    assert 40.0 < regressor.intercept_ < 90.0


@given(st.permutations(range(12)))
def test_order_does_not_matter_without_forgetting(order: list[int]) -> None:
    data = pairs(12)
    sums, permuted = (
        AffineRegressor(parent=anchor(), forgetting=1.0, level_forgetting=1.0) for _ in range(2)
    )
    for x, y in data:
        sums.absorb(x["size"], y)
    for i in order:
        permuted.absorb(data[i][0]["size"], data[i][1])
    sums.solve()
    permuted.solve()
    assert permuted.kappa_ == pytest.approx(sums.kappa_, rel=1e-9)
    assert permuted.intercept_ == pytest.approx(sums.intercept_, rel=1e-9, abs=1e-9)


def test_discounting_lets_the_new_through() -> None:
    kept, discounted = (AffineRegressor(parent=anchor(), forgetting=0.99) for _ in range(2))
    for x, y in pairs(300):
        kept.learn_one(x, y)
        discounted.learn_one(x, y)
    discounted.discount(0.1)
    for x, y in pairs(20, kappa=6.0, seed=1):
        kept.learn_one(x, y)
        discounted.learn_one(x, y)
    far = {"size": 20.0}
    assert kept.predict_one(far) < discounted.predict_one(far) < 130.0


@pytest.mark.parametrize("state", [[1.0] * 15, [float("nan")] * 16])
def test_a_damaged_state_is_refused(state: list[float]) -> None:
    with pytest.raises(ValueError, match="finite numbers"):
        AffineRegressor(parent=anchor()).restore(state)


def test_a_factor_follows_the_level_before_the_line_does() -> None:
    two_rates = AffineRegressor(parent=anchor())
    one_rate = AffineRegressor(parent=anchor(), level_shrinkage=1e12)
    for x, y in pairs(600):
        two_rates.learn_one(x, y)
        one_rate.learn_one(x, y)
    for x, y in pairs(40, seed=2):
        two_rates.learn_one(x, 1.5 * y)
        one_rate.learn_one(x, 1.5 * y)
    expected = 1.5 * (3.0 + 3.1 * 15.0)
    assert two_rates.predict_one({"size": 15.0}) == pytest.approx(expected, rel=0.12)
    assert one_rate.predict_one({"size": 15.0}) < 0.85 * expected
