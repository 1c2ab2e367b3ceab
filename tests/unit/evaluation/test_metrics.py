import math

import pytest

from estimator.evaluation import metrics
from estimator.evaluation.metrics import Crossing, Record


def record(
    actual: int, predicted: float, *, size: float = 1.0, segment: int = 0, p90: float = math.nan
) -> Record:
    return Record(segment, size, actual, predicted, p90=p90)


def test_hindsight_is_the_ratio_of_sums_not_the_mean_of_ratios() -> None:
    known = metrics.hindsight([(1.0, 10.0), (3.0, 6.0)])
    assert known == (4.0, 2.0, 2)


def test_hindsight_of_nothing_is_no_number() -> None:
    known = metrics.hindsight([])
    assert known.n == 0
    assert math.isnan(known.kappa)


def test_mae_and_mape_by_hand() -> None:
    records = [record(10, 8.0), record(4, 7.0)]
    assert metrics.mae(records) == 2.5
    assert metrics.mape(records) == pytest.approx((0.2 + 0.75) / 2)


def test_an_empty_transcript_counts_as_one_token_in_the_relative_error() -> None:
    assert metrics.mape([record(0, 3.0)]) == 3.0


def test_oracle_knows_each_segment_apart() -> None:
    # κ = 2 in the first segment, with errors of 1 and 1; κ = 5 in the second, without.
    records = [
        record(3, 0.0, size=1.0),
        record(1, 0.0, size=1.0),
        record(5, 0.0, size=1.0, segment=1),
        record(10, 0.0, size=2.0, segment=1),
    ]
    assert metrics.oracle_mae(records) == 0.5


def test_coverage_counts_a_tie_as_covered() -> None:
    records = [record(5, 4.0, p90=5.0), record(6, 4.0, p90=5.0)]
    assert metrics.coverage(records) == 0.5


def test_width_is_relative_to_the_prediction() -> None:
    assert metrics.mean_width([record(5, 4.0, p90=6.0), record(5, 2.0, p90=5.0)]) == 2.0


def test_scored_leaves_out_what_cannot_be_judged() -> None:
    cut = Record(0, 1.0, 448, 3.0, is_scored=False)
    judged = record(1, 1.0)
    assert metrics.scored([cut, judged, cut]) == [judged]


def test_quantile_is_one_of_the_values_and_never_is_infinite() -> None:
    values = [1, 2, 3, None]
    assert metrics.quantile(values, 0.5) == 2
    assert metrics.quantile(values, 0.75) == 3
    assert metrics.quantile(values, 0.76) == math.inf
    assert metrics.quantile(values, 0.0) == 1


def test_crossing_counts_what_was_learned_before_the_first_right_estimate() -> None:
    crossing = Crossing(10.0, stay=2)
    for kappa in (5.0, 8.0, 9.0, 12.0, 10.9, 11.0, 9.1):
        crossing.update(kappa)
    assert crossing.to_cross == 2
    assert crossing.to_stay == 4


def test_crossing_before_anything_was_learned_is_zero() -> None:
    crossing = Crossing(10.0, stay=2)
    crossing.update(10.0)
    assert crossing.to_cross == 0
    assert not crossing.is_done
    crossing.update(10.0)
    assert crossing.to_stay == 0


def test_crossing_that_never_stays_is_none() -> None:
    crossing = Crossing(10.0, stay=3)
    for kappa in (10.0, 10.0, 12.0) * 4:
        crossing.update(kappa)
    assert crossing.to_cross == 0
    assert crossing.to_stay is None
