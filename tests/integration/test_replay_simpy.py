"""The twin against a second model of the same engine that shares no code with it."""

import math
import random
import statistics
from collections.abc import Callable

import pytest

from estimator.replay.job import Job
from estimator.replay.profile import EngineProfile
from tests.support.simpy_engine import (
    Call,
    Rank,
    Served,
    StepEngine,
    first_come,
    highest_ratio,
    shortest,
)
from tests.support.twin import run_twin

PROFILE = EngineProfile(
    name="two models",
    slots=12,
    step_s=0.008,
    per_sequence_s=0.0003,
    admission_s=0.011,
    per_prompt_token_s=0.00007,
)
RANKS: dict[str, Rank] = {"fcfs": first_come, "sjf": shortest, "hrrn": highest_ratio}
# Student's t of two samples of 20, 99.5 %, at the 38 degrees of freedom of equal variances.
T_38 = 2.712
REPLICATIONS = 20


def draw_jobs(
    seed: int, count: int, rate: float, prompt: Callable[[random.Random], int]
) -> list[Job]:
    rng = random.Random(seed)
    jobs, at_s = [], 0.0
    for index in range(count):
        at_s += rng.expovariate(rate)
        tokens = 1 + round(rng.lognormvariate(3.0, 0.8))
        jobs.append(Job(index, round(at_s * 1e9), tokens, None, prompt(rng)))
    return jobs


def second_model(jobs: list[Job], rank: Rank) -> list[Served]:
    engine = StepEngine(
        slots=12,
        step_ns=8_000_000,
        per_sequence_ns=300_000,
        admission_ns=11_000_000,
        per_prompt_token_ns=70_000,
        rank=rank,
    )
    return engine.serve(
        Call(
            job.arrival_ns,
            job.prompt_tokens,
            job.output_tokens,
            # Seconds in a full batch, as the true estimates of the twin are.
            0.011 + 0.00007 * job.prompt_tokens + job.output_tokens * (0.008 + 0.0003 * 12),
        )
        for job in jobs
    )


@pytest.mark.parametrize("policy", ["fcfs", "sjf", "hrrn"])
@pytest.mark.parametrize(("rate", "seed"), [(24.0, 1), (40.0, 2)])
def test_request_by_request_both_models_give_the_same_nanoseconds(
    policy: str, rate: float, seed: int
) -> None:
    jobs = draw_jobs(seed, 700, rate, lambda rng: rng.randint(1, 200))
    run = run_twin(jobs, PROFILE, policy)
    twin = [Served(o.admitted_ns or 0, o.first_token_ns or 0, o.finished_ns) for o in run.outcomes]
    assert twin == second_model(jobs, RANKS[policy])
    # There was a queue, so that the order mattered.
    assert run.totals.most_waiting > 10


def test_arrivals_at_one_instant_and_at_the_end_of_a_step_are_taken_alike() -> None:
    # Three come at once; the next two with the very end of the first step and of the second.
    step_ns = 8_000_000 + 3 * (300_000 + 11_000_000 + 70_000)
    second_ns = step_ns + 8_000_000 + 4 * 300_000 + 11_070_000
    arrivals = [5, 5, 5, 5 + step_ns, 5 + second_ns]
    jobs = [Job(i, at_ns, 4, None, 1) for i, at_ns in enumerate(arrivals)]
    run = run_twin(jobs, PROFILE)
    twin = [Served(o.admitted_ns or 0, o.first_token_ns or 0, o.finished_ns) for o in run.outcomes]
    assert twin == second_model(jobs, first_come)
    assert [o.admitted_ns for o in run.outcomes] == arrivals


def figures(sojourns_s: list[float]) -> tuple[float, float, float]:
    cuts = statistics.quantiles(sojourns_s, n=10)
    return statistics.fmean(sojourns_s), cuts[4], cuts[8]


def agree(ours: list[float], theirs: list[float], factor: float = 1.0) -> bool:
    """Say whether two samples of 20 may have one mean, by a two-sided 99 % interval."""
    ours = [factor * one for one in ours]
    spread = (statistics.variance(ours) + statistics.variance(theirs)) / REPLICATIONS
    return abs(statistics.fmean(ours) - statistics.fmean(theirs)) <= T_38 * math.sqrt(spread)


@pytest.mark.parametrize("policy", ["fcfs", "sjf"])
def test_independent_draws_agree_in_mean_median_and_p90_within_their_interval(policy: str) -> None:
    ours, theirs = [], []
    for seed in range(REPLICATIONS):
        jobs = draw_jobs(100 + seed, 400, 24.0, lambda rng: rng.randint(1, 200))
        ours.append(figures(run_twin(jobs, PROFILE, policy).sojourns_s))
        jobs = draw_jobs(900 + seed, 400, 24.0, lambda rng: rng.randint(1, 200))
        served = second_model(jobs, RANKS[policy])
        pairs = zip(served, jobs, strict=True)
        theirs.append(figures([(s.finished_ns - job.arrival_ns) / 1e9 for s, job in pairs]))
    for mine, other in zip(zip(*ours, strict=True), zip(*theirs, strict=True), strict=True):
        assert agree(list(mine), list(other))
        assert not agree(list(mine), list(other), factor=1.5)
