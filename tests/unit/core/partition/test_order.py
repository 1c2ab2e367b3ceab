"""How many components: by BIC, from which starts."""

import numpy as np
import pytest

from estimator.core.partition.em import histogram
from estimator.core.partition.mixture import Array, Mixture
from estimator.core.partition.order import best_mixture, bic, grown, penalty


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
    points = histogram(x)
    assert bic(helped, points, len(x)) <= bic(alone, points, len(x)) + 1e-9


def test_the_penalty_is_schwarzs_for_few_points_and_a_share_for_many() -> None:
    three = mixture([0.4, 0.3, 0.3], [0.0, 1.2, 3.0], [0.3, 0.3, 0.6])
    assert penalty(three, 500) == pytest.approx(8 * np.log(500))
    assert penalty(three, 10_000) == pytest.approx(2 * 10_000 * 0.006 * 3 - np.log(10_000))


def test_a_mixture_grows_where_work_is_that_it_does_not_know() -> None:
    known = mixture([0.6, 0.4], [0.0, 2.0], [0.3, 0.4])
    new = 5.0 + 0.2 * np.random.default_rng(5).standard_normal(20)
    x = np.concatenate([drawn(known, 4000, 4), new])
    one = grown(known, histogram(x))
    assert one.means[-1] == pytest.approx(5.0, abs=0.5)
    assert one.weights.sum() == pytest.approx(1.0)
    found = best_mixture(x, max_components=8, seed=0, start=known)
    assert len(found.means) == 3
    assert found.weights[-1] == pytest.approx(20 / 4020, rel=0.05)


def test_the_order_of_the_points_is_nothing() -> None:
    x = drawn(mixture([0.5, 0.5], [0.0, 1.5], [0.2, 0.4]), 800, 6)
    shuffled = np.random.default_rng(0).permutation(x)
    one, two = (best_mixture(y, max_components=8, seed=0) for y in (x, shuffled))
    assert (one.means.tolist(), one.sds.tolist()) == (two.means.tolist(), two.sds.tolist())
