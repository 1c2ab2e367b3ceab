"""A run's outcomes are summed up exactly, and differences come with an honest interval."""

import math
import random
from array import array

import numpy as np
import pytest

from estimator.replay.curves import curves_of
from estimator.replay.figures import METRICS, Recorder, change_of, metric, spread_of, student_t
from estimator.replay.job import NS_PER_S, Job
from estimator.replay.outcome import Finish, Outcome, Totals
from estimator.replay.profile import EngineProfile

PROFILE = EngineProfile(name="x", slots=2, step_s=0.1, admission_s=0.5, request_overhead_s=1.0)


def outcome(
    arrival_s: float,
    admitted_s: float | None,
    first_s: float | None,
    finished_s: float,
    *,
    tokens: int = 5,
    finish: Finish = "stop",
) -> Outcome:
    def ns(seconds: float | None) -> int | None:
        return None if seconds is None else round(seconds * NS_PER_S)

    job = Job(0, round(arrival_s * NS_PER_S), tokens, audio_s=2.0)
    end = round(finished_s * NS_PER_S)
    return Outcome(job, ns(admitted_s), ns(first_s), end, tokens, 0, 1.0, 5.0, 1.0, finish)


def totals(**values: int) -> Totals:
    zero = dict.fromkeys(Totals._fields, 0)
    return Totals(**{**zero, **values})


def test_times_hold_the_overhead_outside_the_engine_and_waits_do_not() -> None:
    recorder = Recorder(PROFILE)
    recorder(outcome(10.0, 12.0, 12.6, 14.0))
    figures = recorder.figures(
        totals(
            finished=1,
            busy_ns=4 * NS_PER_S,
            running_ns=6 * NS_PER_S,
            first_arrival_ns=10 * NS_PER_S,
            last_end_ns=14 * NS_PER_S,
            preemptions=3,
        )
    )
    assert figures.ttft_s.p50 == pytest.approx(3.6)
    assert figures.e2e_s.mean == pytest.approx(5.0)
    assert figures.max_wait_s == pytest.approx(2.0)
    # Alone: 0.5 for the admission, 5 steps of 0.1, 1.0 outside.
    assert figures.slowdown_p50 == pytest.approx(5.0 / 2.0)
    assert figures.throughput_rps == pytest.approx(0.25)
    assert figures.mean_batch == pytest.approx(1.5)
    assert (figures.n, figures.preemption_count) == (1, 3)


def test_percentiles_are_linear_between_the_nearest_values() -> None:
    rng = random.Random(0)
    values = array("d", [rng.expovariate(1.0) for _ in range(1001)])
    spread = spread_of(values)
    ordered = sorted(values)
    assert (spread.p50, spread.p90, spread.p99) == (ordered[500], ordered[900], ordered[990])
    assert spread_of(array("d", [1.0, 2.0])).p90 == pytest.approx(1.9)


def test_who_left_counts_only_by_the_wait() -> None:
    recorder = Recorder(PROFILE)
    recorder(outcome(0.0, 0.0, 0.6, 1.0))
    recorder(outcome(0.0, None, None, 9.0, finish="aborted"))
    recorder(outcome(0.0, 1.0, 1.6, 30.0, finish="aborted"))
    figures = recorder.figures(totals(finished=1, aborted=2))
    assert (figures.n, figures.aborted_count) == (1, 2)
    assert figures.max_wait_s == pytest.approx(9.0)
    assert figures.e2e_s.p99 == pytest.approx(2.0)


def test_nobody_who_stayed_is_an_error() -> None:
    recorder = Recorder(PROFILE)
    recorder(outcome(0.0, None, None, 9.0, finish="aborted"))
    with pytest.raises(ValueError, match="no request finished"):
        recorder.figures(totals(aborted=1))


def test_every_metric_has_its_figure() -> None:
    recorder = Recorder(PROFILE)
    recorder(outcome(0.0, 0.5, 1.1, 2.0))
    figures = recorder.figures(totals(finished=1, busy_ns=1, running_ns=2, last_end_ns=NS_PER_S))
    assert metric(figures, "e2e_s_p90") == figures.e2e_s.p90
    assert metric(figures, "max_wait_s") == figures.max_wait_s
    assert all(math.isfinite(metric(figures, name)) for name in METRICS)


@pytest.mark.parametrize(
    ("degrees", "t"), [(1, 12.706), (2, 4.303), (5, 2.571), (10, 2.228), (29, 2.045)]
)
def test_students_t_is_that_of_the_tables(degrees: int, t: float) -> None:
    assert student_t(degrees) == pytest.approx(t, abs=5e-4)


def test_one_seed_has_no_interval() -> None:
    change = change_of([3.0], [2.0])
    assert change.percent == pytest.approx(50.0)
    assert (change.low, change.high) == (None, None)


def test_a_constant_ratio_is_certain_however_much_the_seeds_differ() -> None:
    change = change_of([2.0, 20.0, 200.0], [4.0, 40.0, 400.0])
    assert (change.percent, change.low, change.high) == pytest.approx((-50.0, -50.0, -50.0))


def test_a_figure_of_zero_has_no_ratio() -> None:
    assert change_of([1.0, 0.0], [1.0, 1.0]).percent is None


def test_the_interval_holds_the_truth_nineteen_times_of_twenty() -> None:
    rng = random.Random(7)
    held = 0
    for _ in range(1000):
        base = [rng.lognormvariate(0.0, 1.0) for _ in range(5)]
        ours = [one * 1.2 * rng.lognormvariate(0.0, 0.1) for one in base]
        change = change_of(ours, base)
        assert change.low is not None
        assert change.high is not None
        held += change.low <= 20.0 <= change.high
    # Binomial(1000, .95): a standard deviation of 7.
    assert 925 <= held <= 975


def test_curves_are_the_distribution_and_the_p90_of_each_window() -> None:
    recorder = Recorder(PROFILE)
    rng = random.Random(1)
    for index in range(4000):
        long = index >= 2000
        arrival_s = index / 10
        recorder(
            outcome(arrival_s, arrival_s, arrival_s, arrival_s + (9.0 if long else rng.random()))
        )
    curves = curves_of(recorder)
    assert curves.share_ratio[-1] == 1.0
    assert curves.e2e_s[-1] == pytest.approx(10.0)
    assert list(curves.e2e_s) == sorted(curves.e2e_s)
    assert np.interp(0.25, curves.share_ratio, curves.e2e_s) == pytest.approx(1.5, abs=0.05)
    assert len(curves.arrived_s) == len(curves.p90_s) == 60
    assert curves.p90_s[0] == pytest.approx(1.9, abs=0.1)
    assert curves.p90_s[-1] == pytest.approx(10.0)


def test_windows_are_of_arrivals_not_of_ends() -> None:
    recorder = Recorder(PROFILE)
    for index in range(400):
        # All end together, the first arrival is late; who came first has waited longest.
        recorder(outcome(500.0 + index / 10, 600.0, 600.0, 600.0))
    curves = curves_of(recorder)
    assert len(curves.p90_s) == 10
    assert curves.arrived_s[0] == pytest.approx(502.0, abs=0.1)
    assert curves.arrived_s[-1] == pytest.approx(537.9, abs=0.1)
    assert list(curves.p90_s) == sorted(curves.p90_s, reverse=True)


def test_one_request_can_be_drawn() -> None:
    recorder = Recorder(PROFILE)
    recorder(outcome(0.0, 0.5, 1.1, 2.0))
    curves = curves_of(recorder)
    assert len(curves.arrived_s) == 1
    assert set(curves.e2e_s) == {3.0}
