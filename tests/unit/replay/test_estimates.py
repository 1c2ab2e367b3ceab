"""Estimates that nothing is learned for."""

import pytest

from estimator.replay.estimates import DurationEstimates, TrueEstimates
from estimator.replay.job import Job
from estimator.replay.profile import EngineProfile
from estimator.replay.request import Request
from sched_client.model import DEFAULT_TEXT_TOKENS, PolicyParameters, Settings

PROFILE = EngineProfile(name="p", slots=10, step_s=0.01, per_sequence_s=0.001, admission_s=0.5)


def _request(job: Job, estimates: TrueEstimates | DurationEstimates) -> Request:
    request = Request(job)
    estimates.first(request)
    return request


def test_true_estimates_are_what_will_come_out_in_the_profiles_seconds() -> None:
    request = _request(Job(0, 0, 30, 9.0, max_tokens=20), TrueEstimates(PROFILE))
    assert request.tokens == 20.0
    assert request.service_s == pytest.approx(0.5 + 20 * 0.02)


@pytest.mark.parametrize(
    ("job", "tokens"),
    [
        (Job(0, 0, 77, 10.0), 20.0),
        (Job(0, 0, 77, 0.1), 1.0),
        (Job(0, 0, 77, 10.0, max_tokens=5), 5.0),
        (Job(0, 0, 77, 1e4), 448.0),
        (Job(0, 0, 77, None), 2.0 * 7.4),
        (Job(0, 0, 77, 10.0, kind="detection"), 1.0),
        (Job(0, 0, 77, None, 900, task="text", kind="text"), DEFAULT_TEXT_TOKENS),
    ],
)
def test_duration_estimates_know_the_seconds_of_audio_alone(job: Job, tokens: float) -> None:
    request = _request(job, DurationEstimates(PROFILE, kappa_tokens_per_s=2.0))
    assert request.tokens == pytest.approx(tokens)


def test_the_guards_burst_is_so_many_mean_requests() -> None:
    settings = Settings(phi=0.2, burst_requests=5.0, guard_s=9.0, reorder_above=3)
    parameters = TrueEstimates(PROFILE, settings, mean_service_s=0.4, mean_tokens=30.0).parameters
    default = Settings()
    assert parameters == PolicyParameters(
        phi=0.2,
        burst_work=2.0,
        guard_s=9.0,
        reorder_above=3,
        reorder_until=default.reorder_until,
        between=default.between,
        short_share=default.short_share,
        short_share_most=default.short_share_most,
    )
    by_tokens = Settings(order_by="tokens", burst_requests=5.0)
    parameters = TrueEstimates(PROFILE, by_tokens, mean_service_s=0.4, mean_tokens=30.0).parameters
    assert (parameters.order_by, parameters.burst_work) == ("tokens", 150.0)
