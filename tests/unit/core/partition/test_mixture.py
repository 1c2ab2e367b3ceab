"""Mixtures of log work: their order, their moments, their starts."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from estimator.core.partition.mixture import (
    MAX_POINTS,
    Array,
    Mixture,
    best_mixture,
    bic,
    penalty,
    pooled,
    separations,
    thinned,
)


def mixture(weights: list[float], means: list[float], sds: list[float]) -> Mixture:
    return Mixture.sorted(*(np.array(row) for row in (weights, means, sds)))


def drawn(truth: Mixture, n: int, seed: int) -> Array:
    rng = np.random.default_rng(seed)
    which = rng.choice(len(truth.means), n, p=truth.weights)
    return truth.means[which] + truth.sds[which] * rng.standard_normal(n)


@pytest.mark.parametrize("sds", [[0.3, 0.3, 0.3], [0.15, 0.4, 0.25]])
def test_known_components_are_found(sds: list[float]) -> None:
    truth = mixture([0.5, 0.3, 0.2], [-1.0, 0.5, 2.0], sds)
    found = best_mixture(drawn(truth, 3000, 1), max_components=8, seed=0)
    assert found.means == pytest.approx(truth.means, abs=0.07)
    assert found.sds == pytest.approx(truth.sds, abs=0.05)
    assert found.weights == pytest.approx(truth.weights, abs=0.04)


def test_equal_deviations_are_told_from_unequal_ones() -> None:
    alike = mixture([0.5, 0.5], [0.0, 1.5], [0.3, 0.3])
    unlike = mixture([0.5, 0.5], [0.0, 1.5], [0.1, 0.4])
    assert best_mixture(drawn(alike, 2000, 2), max_components=4, seed=0).tied
    assert not best_mixture(drawn(unlike, 2000, 2), max_components=4, seed=0).tied


def test_equal_values_make_one_component() -> None:
    found = best_mixture(np.full(500, 1.5), max_components=8, seed=0)
    assert found.means == pytest.approx([1.5])
    assert np.isfinite(found.log_density(np.array([1.5, 9.0]))).all()


def test_a_known_start_is_not_lost() -> None:
    truth = mixture([0.4, 0.3, 0.3], [0.0, 1.2, 3.0], [0.3, 0.3, 0.6])
    x = drawn(truth, 2000, 3)
    alone = best_mixture(x, max_components=6, seed=0)
    helped = best_mixture(x, max_components=6, seed=0, start=truth)
    thin = thinned(x)
    assert bic(helped, thin, len(x)) <= bic(alone, thin, len(x)) + 1e-9


def test_the_density_is_the_textbooks() -> None:
    one = mixture([0.25, 0.75], [0.0, 2.0], [0.5, 1.0])
    x = np.linspace(-3.0, 6.0, 31)
    direct = sum(
        w * np.exp(-0.5 * ((x - m) / s) ** 2) / (s * np.sqrt(2.0 * np.pi))
        for w, m, s in zip(one.weights, one.means, one.sds, strict=True)
    )
    assert np.exp(one.log_density(x)) == pytest.approx(direct)
    assert one.responsibilities(x).sum(axis=1) == pytest.approx(1.0)


@given(
    st.lists(
        st.tuples(st.floats(0.01, 1.0), st.floats(-5.0, 5.0), st.floats(0.05, 2.0)),
        min_size=2,
        max_size=8,
    ),
    st.data(),
)
@settings(max_examples=60, deadline=None)
def test_joining_two_keeps_the_moments_of_all(
    rows: list[tuple[float, float, float]], data: st.DataObject
) -> None:
    weights, means, sds = (np.array(column) for column in zip(*rows, strict=True))
    whole = Mixture.sorted(weights / weights.sum(), means, sds)
    joined = whole.joined(data.draw(st.integers(0, len(rows) - 2)))
    assert len(joined.means) == len(rows) - 1
    assert (np.diff(joined.means) >= -1e-9).all()
    ours, theirs = (pooled(one.weights, one.means, one.sds) for one in (joined, whole))
    assert ours == pytest.approx(theirs, abs=1e-9)


def test_an_m_step_gives_the_moments_of_what_each_is_responsible_for() -> None:
    x = np.array([0.0, 1.0, 5.0, 7.0])
    hard = np.array([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0], [0.0, 1.0]])
    found = Mixture.moments(x, hard)
    assert found.means == pytest.approx([0.5, 6.0])
    assert found.sds == pytest.approx([0.5, 1.0], rel=1e-3)
    assert found.weights == pytest.approx([0.5, 0.5])


def test_separation_is_the_distance_in_deviations() -> None:
    assert separations(mixture([0.5, 0.5], [0.0, 0.9], [0.3, 0.3])) == pytest.approx([3.0])
    assert separations(mixture([0.5, 0.5], [0.0, 1.0], [0.6, 0.8])) == pytest.approx([2.0**0.5])


def test_thinning_keeps_the_extremes_and_the_quantiles() -> None:
    x = np.random.default_rng(4).standard_normal(10_000)
    thin = thinned(x)
    assert len(thin) == MAX_POINTS
    assert (thin[0], thin[-1]) == (x.min(), x.max())
    shares = np.linspace(0.05, 0.95, 19)
    assert np.quantile(thin, shares) == pytest.approx(np.quantile(x, shares), abs=0.01)
    assert thinned(x[:50]).tolist() == sorted(x[:50].tolist())


def test_the_penalty_is_schwarzs_for_few_points_and_a_share_for_many() -> None:
    three = mixture([0.4, 0.3, 0.3], [0.0, 1.2, 3.0], [0.3, 0.3, 0.6])
    assert penalty(three, 500) == pytest.approx(8 * np.log(500))
    assert penalty(three, 10_000) == pytest.approx(2 * 10_000 * 0.006 * 3 - np.log(10_000))
