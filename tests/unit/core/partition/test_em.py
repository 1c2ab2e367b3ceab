"""EM on a histogram: its likelihood, its invariances, and the reference's own result."""

import warnings
from itertools import pairwise
from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.exceptions import ConvergenceWarning
from sklearn.mixture import GaussianMixture

from estimator.core.partition import em as expectation
from estimator.core.partition.em import Histogram, em, histogram, mean_log_likelihood, spread_start
from estimator.core.partition.mixture import Array, Mixture

VALUES = st.lists(st.floats(-5.0, 5.0), min_size=30, max_size=200)


def two_classes(n: int, seed: int) -> Array:
    rng = np.random.default_rng(seed)
    which = rng.integers(0, 2, n)
    return 1.5 * which + np.array([0.25, 0.4])[which] * rng.standard_normal(n)


@given(VALUES, st.integers(1, 64))
@settings(max_examples=60, deadline=None)
def test_a_histogram_keeps_the_moments(values: list[float], bins: int) -> None:
    x = np.array(values)
    points = histogram(x, bins)
    assert points.weights.sum() == pytest.approx(1.0)
    assert (points.weights > 0.0).all()
    assert (np.diff(points.means) > 0.0).all()
    mean = points.weights @ points.means
    assert mean == pytest.approx(x.mean(), abs=1e-9)
    within = points.weights @ (points.variances + (points.means - mean) ** 2)
    assert within == pytest.approx(x.var(), abs=1e-9)


@given(st.integers(0, 10_000), st.integers(4, 60), st.integers(1, 5), st.booleans())
@settings(max_examples=60, deadline=None)
def test_the_likelihood_never_falls_and_weights_sum_to_one(
    seed: int, n: int, k: int, tied: bool
) -> None:
    rng = np.random.default_rng(seed)
    # Every point a bin of its own, so that a bin's mean says all of it.
    x = np.unique(rng.uniform(-5.0, 5.0, n))
    points = Histogram(weights=rng.dirichlet(np.ones(len(x))), means=x, variances=np.zeros(len(x)))
    start = spread_start(points, min(k, len(x)), rng)
    found = em(points, start, tied=tied, tolerance=np.inf)  # a single step
    likelihoods = []
    # What is added to variances keeps them from 0, at the cost of the likelihood.
    with mock.patch.object(expectation, "LEAST_VARIANCE", 0.0):
        for _ in range(12):
            if found.sds.min() < 0.02:  # it shrinks to a single point
                break
            likelihoods.append(mean_log_likelihood(found, points))
            found = em(points, found, tied=tied, tolerance=np.inf)  # a single step
            assert found.weights.sum() == pytest.approx(1.0)
    assert all(after >= before - 1e-9 for before, after in pairwise(likelihoods))


@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize("n", [500, 10_000])
def test_it_finds_what_scikit_learn_finds(n: int, tied: bool) -> None:
    x = two_classes(n, 1)
    start = Mixture.sorted(np.array([0.5, 0.5]), np.array([-0.2, 1.0]), np.array([0.4, 0.4]))
    ours = em(histogram(x), start, tied=tied, tolerance=1e-7)
    model = GaussianMixture(
        2,
        covariance_type="tied" if tied else "full",
        tol=1e-7,
        max_iter=500,
        reg_covar=1e-4,
        means_init=start.means[:, None],
        random_state=0,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(x[:, None])
    order = np.argsort(model.means_[:, 0])
    sds = np.sqrt(np.broadcast_to(model.covariances_.reshape(-1), 2))[order]
    assert ours.means == pytest.approx(model.means_[order, 0], abs=2e-3)
    assert ours.sds == pytest.approx(sds, abs=2e-3)
    assert ours.weights == pytest.approx(model.weights_[order], abs=2e-3)


@given(st.floats(-8.0, 8.0), st.integers(0, 100))
@settings(max_examples=20, deadline=None)
def test_other_units_move_the_components_along(shift: float, seed: int) -> None:
    x = two_classes(400, seed)
    start = Mixture.sorted(np.array([0.5, 0.5]), np.array([0.0, 1.5]), np.array([0.3, 0.3]))
    moved = Mixture.sorted(start.weights, start.means + shift, start.sds)
    one, two = em(histogram(x), start), em(histogram(x + shift), moved)
    assert two.means - shift == pytest.approx(one.means, abs=1e-3)
    assert two.sds == pytest.approx(one.sds, abs=1e-3)


def test_a_start_has_as_many_centres_as_asked_for() -> None:
    points = histogram(two_classes(500, 2))
    for k in range(1, 9):
        start = spread_start(points, k, np.random.default_rng(k))
        assert len(start.means) == k
        assert start.weights.min() > 0.0
        assert start.weights.sum() == pytest.approx(1.0)


def test_centres_are_spread_by_squared_distance() -> None:
    # Three far heaps: whatever is drawn first, the others are the next two centres.
    x = np.concatenate([np.full(400, 0.0), np.full(5, 50.0), np.full(5, 100.0)])
    points = histogram(x, bins=10)
    for seed in range(20):
        start = spread_start(points, 3, np.random.default_rng(seed))
        assert sorted(start.means) == pytest.approx([0.0, 50.0, 100.0])


def test_it_stops_at_its_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(expectation, "MAX_ITERATIONS", 1)
    points = histogram(two_classes(500, 3))
    start = spread_start(points, 2, np.random.default_rng(0))
    one = em(points, start, tolerance=0.0)
    monkeypatch.setattr(expectation, "MAX_ITERATIONS", 50)
    many = em(points, start, tolerance=0.0)
    assert mean_log_likelihood(many, points) > mean_log_likelihood(one, points)
