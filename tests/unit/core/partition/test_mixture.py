"""Mixtures of log work: density, moments, separation."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from estimator.core.partition.mixture import Mixture, pooled, separations


def mixture(weights: list[float], means: list[float], sds: list[float]) -> Mixture:
    return Mixture.sorted(*(np.array(row) for row in (weights, means, sds)))


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
