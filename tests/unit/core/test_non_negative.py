import math
import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from estimator.core.non_negative import Matrix, fit_non_negative

PRIOR: Matrix = np.array([0.05, 0.01, 0.0, 0.0, 0.0])


def sums_of(rows: list[tuple[float, float, float, float]]) -> Matrix:
    """Sum rows of tokens, prompt, concurrency and seconds."""
    v = np.array([(1.0, n, p, k, n * k, s) for n, p, k, s in rows])
    sums: Matrix = v.T @ v
    return sums


def test_exact_coefficients_are_found() -> None:
    rng = random.Random(0)
    rows = []
    for _ in range(3_000):
        n, p, k = rng.uniform(1, 100), rng.uniform(0, 500), rng.uniform(1, 16)
        rows.append((n, p, k, 0.2 + 0.02 * n + 0.001 * p + 0.03 * k + 0.004 * n * k))
    coefficients = fit_non_negative(sums_of(rows), PRIOR, 1.0 / len(rows))
    assert coefficients == pytest.approx([0.2, 0.02, 0.001, 0.03, 0.004], rel=0.02)


def test_a_constant_prompt_keeps_its_prior_and_leaves_the_overhead_alone() -> None:
    rows = [(float(n), 4.0, 2.0, 0.3 + 0.02 * n) for n in range(1, 200)]
    c0, c1, c2, c3, c4 = fit_non_negative(sums_of(rows), PRIOR, 1.0 / len(rows))
    assert c2 == pytest.approx(0.0, abs=1e-6)
    assert c0 + 2.0 * c3 == pytest.approx(0.3, rel=0.05)
    assert c1 + 2.0 * c4 == pytest.approx(0.02, rel=0.02)


def test_a_start_below_zero_is_fitted_through_the_origin() -> None:
    rows = [(float(n), 4.0, 1.0, max(0.02 * n - 0.3, 0.001)) for n in range(20, 200)]
    coefficients = fit_non_negative(sums_of(rows), PRIOR, 1.0 / len(rows))
    assert coefficients[0] == 0.0
    predicted = coefficients[1] + coefficients[4]
    assert 0.015 < predicted < 0.02


def test_seconds_that_fall_with_tokens_give_no_negative_slope() -> None:
    rows = [(float(n), 4.0, 1.0 + n % 5, 5.0 - 0.02 * n) for n in range(1, 200)]
    coefficients = fit_non_negative(sums_of(rows), PRIOR, 1.0 / len(rows))
    assert min(coefficients) == 0.0
    assert coefficients[0] == pytest.approx(3.0, abs=0.1)


@given(
    st.lists(
        st.tuples(st.floats(0, 1e7), st.floats(0, 1e7), st.floats(1, 1e6), st.floats(1e-9, 6e5)),
        min_size=1,
        max_size=12,
    )
)
def test_any_rows_give_finite_coefficients_that_are_not_negative(
    rows: list[tuple[float, float, float, float]],
) -> None:
    coefficients = fit_non_negative(sums_of(rows), PRIOR, 2.0 / len(rows))
    assert all(math.isfinite(c) and c >= 0.0 for c in coefficients)
