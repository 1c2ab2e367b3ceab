"""Who ran beside whom, by hand."""

import numpy as np
import pytest

from estimator.core.observation import Completion
from estimator.replay.calibrate_residence import read_residences


def _row(
    number: int, arrival_s: float, wait_s: float, service_s: float, tokens: int = 10
) -> tuple[float, Completion]:
    one = Completion(
        completion_id=f"c-{number}", output_tokens=tokens, wait_s=wait_s, service_s=service_s
    )
    return arrival_s, one


# 0 runs from 0 to 10; 1 and 2 are admitted at 2, in one step; 1 ends at 6, 2 at 10; 3 takes 0's
# place at 10 and ends at 12.
ROWS = [
    _row(3, 4.0, 6.0, 2.0),
    _row(0, 0.0, 0.0, 10.0),
    _row(1, 1.5, 0.5, 4.0),
    _row(2, 1.0, 1.0, 8.0),
]


def test_rows_are_sorted_by_admission_and_counted() -> None:
    found = read_residences(ROWS)
    np.testing.assert_allclose(found.admitted_s, [0.0, 2.0, 2.0, 10.0])
    assert found.most_running == 3
    np.testing.assert_allclose(found.mean_running(), [(2 + 12 + 8) / 10, 3.0, (12 + 8) / 8, 1.0])


def test_an_admission_counts_for_all_in_its_step_and_not_for_who_ends_with_it() -> None:
    terms = read_residences(ROWS).terms(0.0, 1.0, 0.0)
    # Of 0: its own and the two at 2, not the one at 10. Of 1 and 2: both of their step.
    np.testing.assert_allclose(terms.admissions, [3.0, 2.0, 2.0, 1.0])


def test_company_is_counted_by_steps_and_not_by_time() -> None:
    # From 2 to 6 an admission of 3.8 s leaves 0.2 s for steps: that stretch hardly counts.
    terms = read_residences(ROWS).terms(1.9, 1.0, 0.0)
    beside = terms.sequence_steps / terms.steps
    spans = np.array([2.0 - 1.9, 4.0 - 3.8, 4.0])
    assert beside[0] == pytest.approx(spans @ [1.0, 3.0, 2.0] / spans.sum())


def test_within_a_step_nobody_is_overtaken() -> None:
    # 2 came before 1 and went with it; 3 waited long while nobody went.
    assert read_residences(ROWS).overtaken_ratio == 0.0
    assert read_residences([*ROWS, _row(4, 0.5, 20.0, 1.0)]).overtaken_ratio == 3 / 5


def test_a_limit_of_admissions_shows_where_somebody_waits_beside_a_free_slot() -> None:
    queue = [_row(i, 0.0, 1.0 * i, 3.5) for i in range(8)]
    assert read_residences(queue).admission_limit(slots=8) == 1
    # With four slots all are taken whenever one waits.
    assert read_residences(queue).admission_limit(slots=3) is None


def test_no_seconds_no_residences() -> None:
    with pytest.raises(ValueError, match="seconds of service"):
        read_residences([(0.0, Completion(completion_id="c"))])
