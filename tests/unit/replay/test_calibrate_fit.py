"""Least squares without negative costs, its errors, and what a fit is judged by."""

import numpy as np
import pytest

from estimator.replay.calibrate_fit import fit_costs, goodness_of

RNG = np.random.default_rng(3)
COLUMNS = RNG.uniform(1.0, 50.0, (200, 3))


def test_exact_seconds_give_exact_costs() -> None:
    truth = np.array([0.2, 0.0, 0.03])
    costs = fit_costs(COLUMNS, COLUMNS @ truth)
    np.testing.assert_allclose(costs.values, truth, atol=1e-9)
    assert costs.error_of((1.0, 0.0, 0.0)) < 1e-6


def test_no_cost_is_negative_and_the_others_take_its_place() -> None:
    seconds = 3.0 + COLUMNS @ np.array([0.2, -0.05, 0.1])
    costs = fit_costs(COLUMNS, seconds)
    assert (costs.values >= 0.0).all()
    assert costs.values[1] == 0.0
    assert costs.values[0] > 0.1


def test_a_tenth_of_the_requests_that_hang_move_nothing_much() -> None:
    truth = np.array([0.2, 0.1, 0.03])
    seconds = COLUMNS @ truth * (1.0 + 0.01 * RNG.standard_normal(len(COLUMNS)))
    seconds[::10] *= 4.0
    np.testing.assert_allclose(fit_costs(COLUMNS, seconds).values, truth, rtol=0.1)


def test_the_error_is_about_what_the_estimate_strays_by() -> None:
    truth = np.array([0.2, 0.1, 0.03])
    found, told = [], []
    for _ in range(100):
        noise = 1.0 + 0.05 * RNG.standard_normal(len(COLUMNS))
        costs = fit_costs(COLUMNS, COLUMNS @ truth * noise)
        found.append(costs.values[0])
        told.append(costs.error_of((1.0, 0.0, 0.0)))
    assert 0.7 < np.mean(told) / np.std(found) < 1.4


def test_columns_in_proportion_are_known_in_their_sum_alone() -> None:
    columns = np.column_stack((COLUMNS[:, 0], COLUMNS[:, 1], 4.0 * COLUMNS[:, 1]))
    costs = fit_costs(columns, columns @ np.array([0.2, 0.1, 0.05]))
    assert costs.error_of((0.0, 1.0, 0.0)) == float("inf")
    assert costs.error_of((0.0, 1.0, 1.0)) == float("inf")
    assert costs.error_of((1.0, 0.0, 0.0)) < 1e-6
    assert costs.error_of((0.0, 1.0, 4.0)) < 1e-6
    assert costs.values[1] + 4.0 * costs.values[2] == pytest.approx(0.3)


def test_goodness_tells_medians_quantiles_and_where_it_is_off() -> None:
    fitted = np.linspace(1.0, 2.0, 101)
    concurrency = np.where(np.arange(101) < 50, 1.5, 6.0)
    measured = np.where(concurrency > 4.0, 1.1 * fitted, fitted)
    fit = goodness_of(measured, fitted, concurrency)
    assert fit.median_abs_ln == pytest.approx(np.log(1.1))
    assert [(band.low, band.high, band.n) for band in fit.by_concurrency] == [
        (1.0, 2.0, 50),
        (4.0, 8.0, 51),
    ]
    assert [band.median_ln for band in fit.by_concurrency] == pytest.approx([0.0, np.log(1.1)])
    assert fit.quantiles[1].fitted_s == pytest.approx(1.5)
    assert fit.quantiles[1].measured_s == pytest.approx(1.65)
    assert 0.5 < fit.r_squared < 1.0
