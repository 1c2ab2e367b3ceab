"""Whether work is distributed otherwise."""

import numpy as np
import pytest

from estimator.core.partition.change import Reference
from estimator.core.partition.mixture import Array, Mixture

MIXTURE = Mixture.sorted(np.array([0.5, 0.5]), np.array([0.0, 3.0]), np.array([0.4, 0.4]))


def drawn(n: int, seed: int) -> Array:
    rng = np.random.default_rng(seed)
    return 3.0 * rng.integers(0, 2, n) + 0.4 * rng.standard_normal(n)


def change(x: Array, seed: int = 0, n: int = 4096) -> str:
    then = drawn(n, 1000 + seed)
    return Reference.of(then, MIXTURE.log_density(then)).change(x, MIXTURE.log_density(x))


def test_the_same_work_has_not_changed() -> None:
    assert {change(drawn(4096, seed), seed) for seed in range(60)} == {""}
    assert {change(drawn(4096, seed), seed, n=2048) for seed in range(20)} == {""}


@pytest.mark.parametrize(
    ("new", "what"),
    [
        (np.full(14, 6.0), "beyond"),
        (np.full(14, -3.0), "beyond"),
        (1.5 + 0.01 * np.arange(-15, 15), "expected"),
        (0.9 * np.ones(300), "likelihood"),
        (np.full(600, 3.0), "distribution"),
    ],
)
def test_each_kind_of_change_is_told(new: Array, what: str) -> None:
    for seed in range(4):
        x = np.concatenate([drawn(4096, seed), new])
        assert what in change(x, seed)


def test_a_shift_of_everything_is_told() -> None:
    assert change(drawn(4096, 1) + 0.15)


def test_equal_work_is_no_change() -> None:
    same = np.full(1000, 2.0)
    density = np.zeros(1000)
    assert not Reference.of(same, density).change(same, density - 1e-12)
