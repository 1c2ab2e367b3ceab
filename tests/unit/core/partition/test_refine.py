"""Where one class is cut from another, and where it is not."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from estimator.core.partition.mixture import Array, Mixture
from estimator.core.partition.refine import _latency_limit, density_cuts, gap_cut, latency_cut

ALPHA = 1e-3


def mixture(weights: list[float], means: list[float], sds: list[float]) -> Mixture:
    return Mixture.sorted(*(np.array(row) for row in (weights, means, sds)))


def one_class(n: int, seed: int) -> Array:
    return np.sort(0.8 * np.random.default_rng(seed).standard_normal(n))


def fitted(x: Array) -> Mixture:
    return mixture([1.0], [float(x.mean())], [float(x.std())])


def test_alike_classes_are_cut_half_way() -> None:
    (cut,) = density_cuts(mixture([0.5, 0.5], [0.0, 1.2], [0.3, 0.3]), 2.0)
    assert cut.at == pytest.approx(0.6, abs=0.005)
    assert cut.why == "density"


def test_the_cut_is_where_the_posteriors_cross() -> None:
    # Equal deviations: at the middle plus s²/d · log(w₁/w₂).
    (cut,) = density_cuts(mixture([0.8, 0.2], [0.0, 1.2], [0.3, 0.3]), 2.0)
    assert cut.at == pytest.approx(0.6 + 0.09 / 1.2 * math.log(4.0), abs=0.005)


def test_what_overlaps_is_one_class() -> None:
    assert density_cuts(mixture([0.5, 0.5], [0.0, 0.5], [0.3, 0.3]), 2.0) == ()
    # The skewed shape that BIC makes of one peak and its tail.
    assert density_cuts(mixture([0.6, 0.4], [0.0, 0.4], [0.2, 0.6]), 2.0) == ()


def test_the_nearest_are_joined_and_the_others_stay_cut() -> None:
    three = mixture([0.3, 0.3, 0.4], [0.0, 0.3, 3.0], [0.3, 0.3, 0.3])
    (cut,) = density_cuts(three, 2.0)
    assert 1.0 < cut.at < 2.5


def test_a_component_that_is_nowhere_the_likelier_is_no_class() -> None:
    assert density_cuts(mixture([0.999, 0.001], [0.0, 1.0], [0.45, 0.45]), 2.0) == ()


@given(
    st.lists(
        st.tuples(st.floats(0.01, 1.0), st.floats(-5.0, 5.0), st.floats(0.05, 2.0)),
        min_size=1,
        max_size=8,
    )
)
@settings(max_examples=100, deadline=None)
def test_cuts_ascend_between_the_outer_means(rows: list[tuple[float, float, float]]) -> None:
    weights, means, sds = (np.array(column) for column in zip(*rows, strict=True))
    cuts = [cut.at for cut in density_cuts(Mixture.sorted(weights / weights.sum(), means, sds), 2)]
    assert cuts == sorted(set(cuts))
    assert all(means.min() < at < means.max() for at in cuts)


@pytest.mark.parametrize("n", [500, 2_000, 10_000])
def test_one_class_has_no_gap(n: int) -> None:
    largest = []
    for seed in range(40):
        x = one_class(n, seed)
        largest.append(float(np.diff(x).max() / np.diff(x).mean()))
        assert gap_cut(x, fitted(x), ALPHA) is None
    # "α times the mean gap" would have split each of them at any α that finds a gap at all.
    assert min(largest) > 10.0


@pytest.mark.parametrize("shape", ["uniform", "exponential", "two peaks", "skewed"])
def test_no_other_smooth_class_has_one(shape: str) -> None:
    for seed in range(30):
        rng = np.random.default_rng(seed)
        draws = {
            "uniform": rng.random(2000) * 3.0,
            "exponential": rng.exponential(1.0, 2000),
            "two peaks": rng.standard_normal(2000) + 2.5 * rng.integers(0, 2, 2000),
            "skewed": np.log(rng.gamma(0.5, 1.0, 2000)),
        }
        x = np.sort(draws[shape])
        assert gap_cut(x, fitted(x), ALPHA) is None


@pytest.mark.parametrize("width", [0.5, 1.0])
def test_a_hole_that_the_mixture_smooths_over_is_a_gap(width: float) -> None:
    found = 0
    for seed in range(20):
        x = one_class(2000, seed)
        x = np.sort(np.where(x > 0.3, x + width, x))
        at = gap_cut(x, fitted(x), ALPHA)
        found += at is not None and 0.3 < at < 0.3 + width + 0.02
    assert found == 20


def test_gaps_in_the_tails_and_between_whole_tokens_are_none() -> None:
    x = one_class(2000, 1)
    far = np.sort(np.concatenate([x, x.max() + 1.0 + 0.01 * np.arange(10)]))
    assert gap_cut(far, fitted(far), ALPHA) is None
    tokens = np.sort(np.log(np.random.default_rng(1).integers(1, 200, 5000)))
    assert gap_cut(tokens, fitted(tokens), ALPHA) is None
    assert gap_cut(np.zeros(1000), mixture([1.0], [0.0], [0.1]), ALPHA) is None


def test_the_limit_of_the_latency_test_is_that_of_its_null_distribution() -> None:
    # 5 % of the limit's own: 400 series of 1,000 would be outside once in 10,000.
    limit, exceeded = _latency_limit(0.05), 0
    for seed in range(400):
        y = np.random.default_rng(seed).standard_normal(1000)
        sums, size = np.cumsum(y), np.arange(1, 1000)
        difference = sums[:-1] / size - (sums[-1] - sums[:-1]) / (1000 - size)
        z = np.abs(difference) / np.sqrt(1.0 / size + 1.0 / (1000 - size))
        exceeded += bool(z[99:900].max() > limit)
    assert 4 <= exceeded <= 40


def test_one_class_is_not_split_by_its_latency() -> None:
    for seed in range(60):
        rng = np.random.default_rng(seed)
        x = np.sort(rng.standard_normal(1000))
        assert latency_cut(x, rng.standard_t(3, 1000), ALPHA, 1.01) is None


def test_a_part_that_takes_longer_is_cut_off() -> None:
    rng = np.random.default_rng(5)
    x = np.sort(rng.standard_normal(1000))
    ratios = 0.3 * rng.standard_normal(1000) + np.where(x > 0.5, math.log(2.0), 0.0)
    at = latency_cut(x, ratios, ALPHA, 1.5)
    assert at == pytest.approx(0.5, abs=0.1)
    assert latency_cut(x, ratios, ALPHA, 2.5) is None
    unknown = np.where(rng.random(1000) < 0.95, np.nan, ratios)
    assert latency_cut(x, unknown, ALPHA, 1.5) is None


def test_there_is_no_cut_between_equal_work() -> None:
    x = np.repeat([0.0, 1.0], 500)
    ratios = np.where(np.arange(1000) < 300, 0.0, 2.0)
    at = latency_cut(x, ratios, ALPHA, 1.5)
    assert at == pytest.approx(0.5)
