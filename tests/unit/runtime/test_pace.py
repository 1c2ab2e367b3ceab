"""Something costly is repeated as often as its share of the time allows."""

import pytest

from estimator.runtime.pace import Pace


def test_the_first_is_due_at_once() -> None:
    assert Pace(share=0.1, least_s=1.0, most_s=2.0).next_at == 0.0


@pytest.mark.parametrize(
    ("took_s", "wait_s"), [(0.0, 0.2), (0.01, 0.2), (0.02, 0.4), (0.05, 1.0), (5.0, 1.0)]
)
def test_the_next_waits_for_its_share_within_the_bounds(took_s: float, wait_s: float) -> None:
    pace = Pace(share=0.05, least_s=0.2, most_s=1.0)
    pace.took(100.0, 100.0 + took_s)
    assert pace.next_at == pytest.approx(100.0 + wait_s)
