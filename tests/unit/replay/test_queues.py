"""Queues in virtual time: found in what arrives or completes, and handed to the policy."""

import random

import pytest

from estimator.core.observation import Completion
from estimator.core.pipeline import Pipeline
from estimator.replay.estimates import DurationEstimates, TrueEstimates
from estimator.replay.job import NS_PER_S, Job
from estimator.replay.learned import LearnedEstimates
from estimator.replay.outcome import Outcome
from estimator.replay.profile import EngineProfile
from estimator.replay.queues import ArrivedWork, fit_due
from estimator.replay.request import Request
from estimator.replay.runs import uses_queues
from estimator.replay.simulation import simulate
from sched_client.model import SINGLE_QUEUE, Settings
from sched_client.policies import POLICY_NAMES, create_policy

PROFILE = EngineProfile(name="test", slots=4, step_s=0.01)


def two_classes(n: int, seed: int = 1) -> list[float]:
    """Draw sizes around 2 and 20, 10 σ apart."""
    rng = random.Random(seed)
    return [rng.choice((2.0, 20.0)) * rng.lognormvariate(0.0, 0.2) for _ in range(n)]


def jobs(n: int) -> list[Job]:
    sizes = two_classes(n)
    return [
        Job(index, index * NS_PER_S // 20, round(10 * size), size)
        for index, size in enumerate(sizes)
    ]


def test_two_classes_of_arrivals_are_told_apart_at_a_boundary_between_them() -> None:
    work = ArrivedWork()
    assert work.partition is SINGLE_QUEUE
    taken = [work.take("m", size / 100.0) for size in two_classes(600)]
    assert any(taken)
    assert not any(taken[:199])
    (bound,) = work.partition.boundaries_s
    assert 0.03 < bound < 0.13
    assert work.partition.means_s == pytest.approx((0.02, 0.2), rel=0.1)


def test_one_class_of_arrivals_stays_one_queue() -> None:
    rng = random.Random(2)
    work = ArrivedWork()
    for _ in range(600):
        work.take("m", rng.lognormvariate(0.0, 0.3))
    assert work.partition.boundaries_s == ()


@pytest.mark.parametrize("kind", [TrueEstimates, DurationEstimates])
def test_fixed_estimates_hand_over_the_queues_they_found(kind: type[TrueEstimates]) -> None:
    estimates, plain = kind(PROFILE, queues=True), kind(PROFILE)
    before = estimates.parameters
    requests = [Request(job) for job in jobs(400)]
    for request in requests:
        estimates.first(request)
        plain.first(Request(request.job))
    partition = estimates.parameters.partition
    assert estimates.parameters is not before
    assert len(partition.queue_ids) == 2
    last = requests[-1]
    assert last.queue_id == partition.queue_of(last.service_s)
    assert plain.parameters.partition is SINGLE_QUEUE


def test_learned_estimates_publish_the_queues_they_found() -> None:
    estimates, plain = LearnedEstimates(queues=True, flush_s=0.0), LearnedEstimates(flush_s=0.0)
    requests = []
    for job in jobs(500):
        for one in (estimates, plain):
            request = Request(job)
            one.first(request)
            end_ns = job.arrival_ns + job.produced_tokens * NS_PER_S // 1000
            outcome = Outcome(
                job, job.arrival_ns, job.arrival_ns, end_ns, job.produced_tokens, 0, 1.0,
                request.tokens, request.service_s, "stop",
            )  # fmt: skip
            one.finished(request, outcome)
            one.wake(end_ns, waiting=list, running=list, revise=lambda _: None)
        requests.append(request)
    partition = estimates.parameters.partition
    assert len(partition.queue_ids) == 2
    assert estimates.snapshot.partitions == {requests[0].job.model: partition}
    assert plain.snapshot.partitions == {}


def test_what_was_learned_before_has_its_queues_from_the_first_request_on() -> None:
    past = [
        Completion(
            completion_id=str(index),
            audio_s=size,
            output_tokens=round(10 * size),
            predicted_tokens=10.0 * size,
            finished_s=float(index),
            service_s=0.1 * size,
            concurrency=1.0,
        )
        for index, size in enumerate(two_classes(400))
    ]
    warm = LearnedEstimates(queues=True, warm=past)
    assert len(warm.parameters.partition.queue_ids) == 2
    seeded = LearnedEstimates(queues=True, state=warm.pipeline.state())
    assert seeded.parameters.partition == warm.parameters.partition


def test_all_that_is_due_is_fitted_and_then_nothing_is() -> None:
    pipeline = Pipeline()
    for index, size in enumerate(two_classes(600)):
        pipeline.learn_one(
            Completion(
                completion_id=str(index),
                model=f"m{index % 2}",
                audio_s=size,
                output_tokens=round(10 * size),
                finished_s=float(index),
            )
        )
    fit_due(pipeline)
    assert set(pipeline.partitions()) == {"m0", "m1"}
    assert pipeline.due_fit() is None


@pytest.mark.parametrize(
    "policy", [name for name in POLICY_NAMES if uses_queues(name, Settings(between="score"))]
)
def test_policies_with_queues_run_to_the_end_over_a_change_of_queues(policy: str) -> None:
    ended: list[Outcome] = []
    estimates = TrueEstimates(PROFILE, queues=True)
    created = create_policy(policy, estimates.parameters)
    simulate(jobs(500), PROFILE, created, estimates, on_outcome=ended.append)
    assert sorted(one.job.index for one in ended) == list(range(500))
    assert len(estimates.parameters.partition.queue_ids) == 2


def test_orders_without_fitted_queues_need_not_wait_for_them() -> None:
    score, halves = Settings(between="score"), Settings(between="halves")
    assert [name for name in POLICY_NAMES if uses_queues(name, score)] == ["ewsjf", "ewsjf-paper"]
    assert [name for name in POLICY_NAMES if uses_queues(name, halves)] == ["ewsjf-paper"]
