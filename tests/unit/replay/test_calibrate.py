"""Costs of an engine come back out of what it reported, and thin data is refused."""

from dataclasses import replace

import pytest

from estimator.core.observation import Completion
from estimator.replay.calibrate import ThinDataError, calibrate
from estimator.replay.profile import EngineProfile
from tests.support.exports import exported

ENGINE = EngineProfile(
    name="known",
    slots=16,
    step_s=0.006,
    per_sequence_s=0.0005,
    admission_s=0.030,
    max_admissions_per_step=1,
)
# At this gap the engine is about full, at the other one nearly idle.
BUSY_S, QUIET_S = 0.045, 0.3
COSTS = ("step_s", "per_sequence_s", "admission_s")


@pytest.mark.parametrize("policy", ["fcfs", "sjf", "hrrn"])
def test_costs_are_recovered_whatever_the_policy(policy: str) -> None:
    found = calibrate([exported(ENGINE, 400, BUSY_S, policy=policy)], name="found")
    for name in COSTS:
        assert getattr(found.profile, name) == pytest.approx(getattr(ENGINE, name), rel=0.02)
    assert (found.profile.slots, found.profile.max_admissions_per_step) == (16, 1)
    assert found.goodness.median_abs_ln < 0.005
    assert found.goodness.r_squared > 0.999
    assert (found.overtaken_ratio > 0.1) == (policy != "fcfs")


def test_a_quiet_and_a_busy_hour_are_taken_together() -> None:
    hours = [exported(ENGINE, 200, QUIET_S), exported(ENGINE, 200, BUSY_S, seed=2)]
    found = calibrate(hours, name="found")
    for name in COSTS:
        assert getattr(found.profile, name) == pytest.approx(getattr(ENGINE, name), rel=0.01)
    assert {band.low for band in found.goodness.by_concurrency} >= {1.0, 8.0}
    assert sum(band.n for band in found.goodness.by_concurrency) == found.goodness.n == 400


def test_what_prompt_tokens_cost_is_recovered_where_they_vary() -> None:
    engine = replace(ENGINE, per_prompt_token_s=0.0002, admission_s=0.004)
    found = calibrate([exported(engine, 400, 0.06, prompt_tokens=(10, 900))], name="found")
    assert found.profile.per_prompt_token_s == pytest.approx(0.0002, rel=0.02)
    assert found.profile.admission_s == pytest.approx(0.004, abs=0.001)


def test_what_varies_by_chance_is_averaged_out() -> None:
    rows = exported(ENGINE, 600, BUSY_S)
    # Every end as reported is up to 20 % of the residence off: ± 2 steps is more like an engine.
    noisy = [
        (at_s, replace(one, service_s=one.service_s * (1.0 + 0.1 * ((i * 7919) % 200 / 100 - 1))))
        for i, (at_s, one) in enumerate(rows)
    ]
    found = calibrate([noisy], name="found", slots=16)
    full_s = found.profile.step_s + 16 * found.profile.per_sequence_s
    assert full_s == pytest.approx(0.014, rel=0.1)
    assert found.profile.admission_s == pytest.approx(0.030, rel=0.15)
    assert 0.02 < found.goodness.median_abs_ln < 0.1


def test_an_engine_without_a_limit_of_admissions_shows_none() -> None:
    engine = replace(ENGINE, max_admissions_per_step=None)
    found = calibrate([exported(engine, 400, 0.04)], name="found")
    assert found.profile.max_admissions_per_step is None


def test_requests_that_tell_nothing_of_steps_still_count_as_company() -> None:
    rows = exported(ENGINE, 400, BUSY_S)
    spoilt = [
        (at_s, replace(one, finish_reason="aborted") if i % 5 == 0 else one)
        for i, (at_s, one) in enumerate(rows)
    ]
    found = calibrate([spoilt], name="found")
    assert (found.n_left_out, found.goodness.n) == (80, 320)
    assert found.profile.admission_s == pytest.approx(0.030, rel=0.02)


def _refused(*exports: list[tuple[float, Completion]], slots: int | None = None) -> str:
    with pytest.raises(ThinDataError) as caught:
        calibrate(exports, name="found", slots=slots)
    assert caught.value.reasons
    return str(caught.value)


def test_too_few_requests_are_refused() -> None:
    assert "49 finished requests" in _refused(exported(ENGINE, 49, BUSY_S))


def test_a_constant_concurrency_cannot_tell_the_cost_of_a_sequence() -> None:
    alone = [
        (
            10.0 * i,
            Completion(
                completion_id=f"c-{i}",
                output_tokens=5 + i % 40,
                service_s=0.03 + 0.0065 * (5 + i % 40),
                concurrency=1.0,
            ),
        )
        for i in range(100)
    ]
    message = _refused(alone, slots=16)
    assert "with 16 running is not known at all" in message
    assert "a busy hour" in message
    assert "with 1 running" not in message


def test_an_engine_that_never_was_full_needs_to_be_told_its_slots() -> None:
    rows = exported(ENGINE, 200, QUIET_S)
    assert "--slots" in _refused(rows)
    assert calibrate([rows], name="found", slots=16).profile.slots == 16


def test_equal_lengths_cannot_tell_an_admission_from_steps() -> None:
    # One at a time, all of 20 tokens: nothing differs between them.
    alike = exported(ENGINE, 100, 60.0, tokens=20)
    assert "admission" in _refused(alike, slots=16)


def test_several_engines_in_one_export_are_noticed() -> None:
    both = exported(ENGINE, 200, BUSY_S) + exported(ENGINE, 200, BUSY_S, seed=2)
    assert "several engines" in _refused(both, slots=16)


def test_an_export_of_some_of_the_requests_is_noticed() -> None:
    some = exported(ENGINE, 400, BUSY_S)[::2]
    assert "are in the export" in _refused(some, slots=16)


def test_a_trace_without_seconds_is_refused() -> None:
    rows = [(float(i), Completion(completion_id=f"c-{i}", output_tokens=9)) for i in range(99)]
    assert "seconds of service" in _refused(rows)


def test_an_engine_that_is_now_and_then_late_keeps_its_mean() -> None:
    rows = exported(ENGINE, 600, 2.0)
    late = [
        (at_s, replace(one, service_s=one.service_s * (2.0 if i % 7 == 0 else 1.0)))
        for i, (at_s, one) in enumerate(rows)
    ]
    found = calibrate([late], name="found", slots=16)
    # A robust fit alone would leave the late ones out; what queues is the mean.
    assert found.profile.service_s(27, 4) == pytest.approx(
        8 / 7 * ENGINE.service_s(27, 4), rel=0.04
    )
