"""A limit is read strictly, and the rate found for it is the one at which it begins to break."""

import pytest

from estimator.core.observation import Completion
from estimator.replay.capacity import Carried, Limit, carried, limit_of
from estimator.replay.profile import EngineProfile
from estimator.replay.rows import Rows, uniform_rows
from estimator.replay.runs import Point, Setup, capacity_rps, run_once
from estimator.replay.workload import Workload

# One slot, ten steps of 10 ms: an M/D/1 queue of 10 requests a second.
PROFILE = EngineProfile(name="single", slots=1, step_s=0.01)


def setup(n: int = 1500) -> Setup:
    rows = Rows("ten")
    rows.append(Completion(completion_id="x", audio_s=3.0, output_tokens=10))
    return Setup(profile=PROFILE, workload=Workload(files=(rows,), n=n), estimates="true")


@pytest.mark.parametrize(
    ("text", "limit"),
    [
        ("e2e_p90<2s", Limit("e2e_p90<2s", "e2e_s_p90", 2.0)),
        (" ttft_p50 < 250 ms ", Limit("ttft_p50<250ms", "ttft_s_p50", 0.25)),
        ("e2e_mean<1.5e-1s", Limit("e2e_mean<1.5e-1s", "e2e_s_mean", 0.15)),
        ("max_wait<30s", Limit("max_wait<30s", "max_wait_s", 30.0)),
    ],
)
def test_a_limit_is_a_metric_a_number_and_a_unit(text: str, limit: Limit) -> None:
    assert limit_of(text) == limit


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is not of the form e2e_p90<2s"),
        ("e2e_p90>2s", "is not of the form"),
        ("e2e_p95<2s", "is on 'e2e_p95'; use ttft_p50, .*, max_wait"),
        ("e2e_p90<2", "has the unit ''; use s or ms"),
        ("e2e_p90<2min", "has the unit 'min'"),
        ("e2e_p90<-2s", "is '-2'; it must be a number above 0"),
        ("e2e_p90<1.2.3s", "it must be a number above 0"),
        ("e2e_p90<0s", "it must be a number above 0"),
        ("e2e_p90<infs", "is not of the form"),
    ],
)
def test_what_is_no_limit_is_refused(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        limit_of(text)


def test_capacity_is_what_an_engine_without_a_pause_serves() -> None:
    assert capacity_rps(PROFILE, setup().workload, seed=0) == pytest.approx(10.0)


def test_capacity_of_batches_that_start_and_end_together_is_exact() -> None:
    # The quarter of the 2,000 requests that does not count ends within a batch.
    profile = EngineProfile(name="batch", slots=48, step_s=0.01)
    assert capacity_rps(profile, setup().workload, seed=0) == pytest.approx(480.0, rel=1e-12)


def test_capacity_of_a_batch_is_that_of_the_formula() -> None:
    profile = EngineProfile(
        name="batch", slots=32, step_s=0.008, per_sequence_s=0.0001, admission_s=0.005
    )
    workload = Workload(files=(uniform_rows(),), n=100)
    # Each token takes its share of a full step; each admission holds up everyone.
    seconds = workload.mean_tokens * (0.008 / 32 + 0.0001) + 0.005
    assert capacity_rps(profile, workload, seed=0) == pytest.approx(1 / seconds, rel=0.03)


def test_the_rate_found_is_that_of_the_formula() -> None:
    limit = limit_of("e2e_mean<200ms")
    found = carried(setup(4000), limit, policy="fcfs", seeds=(0, 1), capacity_rps=10.0)
    # Pollaczek-Khinchine with a constant service D of 0.1 s: D + ρD/(2(1 - ρ)) = 0.2 at ρ = 2/3.
    assert found.load == pytest.approx(2 / 3, abs=0.03)
    assert found.rate_rps == pytest.approx(10 * found.load)
    assert found.bound == "limit"
    assert found.value_s < 0.2


def test_a_little_more_than_the_rate_found_breaks_the_limit() -> None:
    limit = limit_of("e2e_p90<400ms")
    found = carried(setup(), limit, policy="sjf", seeds=(5,), capacity_rps=10.0)
    above = found.load + 0.011
    run = run_once(setup(), "sjf", Point(10.0 * above, above), 5)
    assert run.figures.e2e_s.p90 >= 0.4


def test_a_limit_below_the_service_time_is_unreachable() -> None:
    limit = limit_of("e2e_p50<99ms")
    found = carried(setup(100), limit, policy="fcfs", seeds=(0,), capacity_rps=10.0)
    assert (found.bound, found.rate_rps, found.pods(5.0)) == ("unreachable", 0.0, None)
    assert found.value_s == pytest.approx(0.1, rel=0.1)


def test_no_pod_carries_more_than_the_engine_serves() -> None:
    limit = limit_of("max_wait<3000s")
    found = carried(setup(100), limit, policy="fcfs", seeds=(0,), capacity_rps=10.0)
    assert (found.bound, found.rate_rps) == ("engine", 10.0)


def test_pods_are_rounded_up() -> None:
    found = Carried("sjf", 4.0, 0.5, 1.0, "limit")
    assert [found.pods(rate) for rate in (0.1, 4.0, 4.1, 20.0)] == [1, 1, 2, 5]
