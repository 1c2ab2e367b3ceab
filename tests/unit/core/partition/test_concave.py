"""What is one class, by log-concave densities."""

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from estimator.core.partition.concave import fewest_classes, log_concave_likelihood
from estimator.core.partition.mixture import Array, Mixture
from estimator.core.partition.order import best_mixture
from estimator.core.partition.refine import density_cuts

Draw = Callable[[np.random.Generator, int], Array]
ONE_CLASS: dict[str, Draw] = {
    "uniform": lambda rng, n: np.log(rng.uniform(1.0, 30.0, n)),
    "log-uniform": lambda rng, n: rng.uniform(0.0, 4.0, n),
    "exponential": lambda rng, n: np.log(rng.exponential(1.0, n)),
    "Pareto": lambda rng, n: rng.exponential(1.0 / 1.5, n),
    "Weibull": lambda rng, n: np.log(rng.weibull(0.7, n)),
    "gamma": lambda rng, n: np.log(rng.gamma(2.0, 1.0, n)),
}


def cuts_of(x: Array) -> tuple[Array, Mixture, list[float]]:
    x = np.sort(x)
    mixture = best_mixture(x, max_components=8, seed=0)
    return x, mixture, [cut.at for cut in density_cuts(mixture, 2.0)]


def left_of(x: Array) -> list[float]:
    return fewest_classes(*cuts_of(x))


@pytest.mark.parametrize("shape", ONE_CLASS)
def test_one_class_that_is_not_log_normal_is_one(shape: str) -> None:
    for seed in range(3):
        assert left_of(ONE_CLASS[shape](np.random.default_rng(seed), 2000)) == []


def test_without_it_flat_work_falls_apart() -> None:
    _, _, cuts = cuts_of(ONE_CLASS["uniform"](np.random.default_rng(0), 2000))
    assert len(cuts) >= 2


@pytest.mark.parametrize("k", [2, 4, 6])
def test_classes_three_deviations_apart_stay(k: int) -> None:
    rng = np.random.default_rng(k)
    x = 0.9 * rng.integers(0, k, 2000) + 0.3 * rng.standard_normal(2000)
    assert left_of(x) == pytest.approx(0.45 + 0.9 * np.arange(k - 1), abs=0.1)


def test_two_flat_classes_are_two() -> None:
    rng = np.random.default_rng(1)
    short = rng.random(2000) < 0.5
    x = np.log(np.where(short, rng.uniform(1.0, 3.0, 2000), rng.uniform(9.0, 30.0, 2000)))
    (cut,) = left_of(x)
    assert np.log(3.0) < cut < np.log(9.0)


def test_a_few_of_another_class_beside_flat_work_are_not_lost_in_it() -> None:
    rng = np.random.default_rng(2)
    x = np.concatenate([rng.uniform(0.0, 4.0, 4066), 6.0 + 0.2 * rng.standard_normal(30)])
    (cut,) = left_of(x)
    assert 4.0 < cut < 6.0


def test_equal_work_and_empty_stretches_are_one_class() -> None:
    one = Mixture.sorted(np.array([0.5, 0.5]), np.array([0.0, 1.0]), np.array([0.1, 0.1]))
    assert fewest_classes(np.zeros(50), one, [0.5]) == []
    assert fewest_classes(np.zeros(50), one, [0.5, 0.7]) == []


def geometric(n: int) -> Array:
    return np.asarray(100.0 * 0.9 ** np.arange(n))


def test_a_log_concave_sequence_is_reached() -> None:
    normal = 1000.0 * np.exp(-0.5 * np.linspace(-3.0, 3.0, 40) ** 2)
    for counts in (np.full(30, 7.0), geometric(25), normal):
        itself = float(counts @ np.log(counts / counts.sum()))
        assert log_concave_likelihood(counts) == pytest.approx(itself, abs=0.5)
        assert log_concave_likelihood(counts) <= itself + 1e-6


def test_a_valley_is_filled() -> None:
    counts = np.array([50.0, 100.0, 50.0, 2.0, 50.0, 100.0, 50.0])
    itself = float(counts @ np.log(counts / counts.sum()))
    assert log_concave_likelihood(counts) < itself - 20.0


@given(st.lists(st.integers(0, 500), min_size=3, max_size=64).filter(any))
@settings(max_examples=60, deadline=None)
def test_it_lies_between_the_best_line_and_the_counts_themselves(values: list[int]) -> None:
    counts = np.array(values, dtype=np.float64)
    held = counts[counts > 0.0]
    found = log_concave_likelihood(counts)
    assert found <= float(held @ np.log(held / held.sum())) + 1e-6
    assert found >= -counts.sum() * np.log(len(counts)) - 1e-6
    # Seen from the other end it is the same.
    assert log_concave_likelihood(counts[::-1]) == pytest.approx(
        found, abs=0.5 + 1e-3 * held.sum()
    )
