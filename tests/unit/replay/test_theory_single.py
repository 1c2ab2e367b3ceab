"""One slot: the twin is a queue with one server, whose waits are known."""

import math
import random
from collections.abc import Callable
from dataclasses import replace
from functools import cache

import pytest

from estimator.replay.job import Job
from estimator.replay.profile import EngineProfile
from sched_client.model import Settings
from tests.support.queueing import (
    Control,
    Interval,
    SizeClass,
    batched,
    controlled_mean,
    pollaczek_khinchine,
    residual_work,
    shortest_first,
    shortest_first_between,
)
from tests.support.twin import Run, poisson_jobs, run_twin

# A job of n tokens takes n milliseconds; at 1,000 tokens on average the grid of whole tokens
# shifts a mean by 5e-4, a hundredth of the intervals below.
SERVER = EngineProfile(name="one server", slots=1, step_s=0.001)
COUNT = 45_000

Draw = Callable[[random.Random], float]


def exponential(rng: random.Random) -> float:
    return rng.expovariate(1e-3)


def deterministic(rng: random.Random) -> float:
    return 1000.0


def hyperexponential(rng: random.Random) -> float:
    # Two exponential laws with balanced means; squared coefficient of variation 2.
    share = 0.5 * (1.0 + math.sqrt(1.0 / 3.0))
    mine = share if rng.random() < share else 1.0 - share
    return rng.expovariate(2e-3 * mine)


SIZES = [SizeClass(0.4, 0.25), SizeClass(0.4, 1.0), SizeClass(0.2, 2.5)]


def sized(rng: random.Random) -> float:
    return 1000.0 * rng.choices(SIZES, [size.probability for size in SIZES])[0].service


# Second moments, in s²; every mean but that of SIZES is 1 s.
SECOND: dict[Draw, float] = {exponential: 2.0, deterministic: 1.0, hyperexponential: 3.0}
SIZED_SECOND = math.fsum(size.probability * size.service**2 for size in SIZES)


def controls(jobs: list[Job], rate: float, mean: float, second: float) -> list[Control]:
    """Give what the draw of a seed can be corrected for; none of it comes from the twin."""
    arrivals = [job.arrival_ns / 1e9 for job in jobs]
    gaps = [after - before for before, after in zip([0.0, *arrivals], arrivals, strict=False)]
    services = [job.output_tokens / 1000.0 for job in jobs]
    known = [Control(gaps, 1.0 / rate)]
    if second > mean**2:
        known += [Control(services, mean), Control([s * s for s in services], second)]
    return known


def mean_wait(draw: Draw, rate: float, seed: int, profile: EngineProfile = SERVER) -> Interval:
    jobs = poisson_jobs(draw, rate, seed=seed, count=COUNT)
    waits = run_twin(jobs, profile).waits_s
    return controlled_mean(batched(waits), controls(jobs, rate, 1.0, SECOND[draw]))


@pytest.mark.parametrize("draw", [exponential, deterministic, hyperexponential])
def test_waits_follow_lindleys_recursion_to_the_nanosecond(draw: Draw) -> None:
    jobs = poisson_jobs(draw, 0.8, seed=3, count=3000)
    profile = replace(SERVER, admission_s=0.0123, per_sequence_s=0.0002)
    free_ns = 0
    for outcome in run_twin(jobs, profile).outcomes:
        job = outcome.job
        start_ns = max(free_ns, job.arrival_ns)
        free_ns = start_ns + 12_300_000 + 1_200_000 * job.output_tokens
        assert (outcome.admitted_ns, outcome.finished_ns) == (start_ns, free_ns)
        assert outcome.first_token_ns == start_ns + 12_300_000 + 1_200_000


@pytest.mark.parametrize(
    ("draw", "rate"), [(exponential, 0.6), (deterministic, 0.7), (hyperexponential, 0.5)]
)
def test_the_mean_wait_is_pollaczek_khinchines(draw: Draw, rate: float) -> None:
    measured = mean_wait(draw, rate, 1)
    assert measured.holds(pollaczek_khinchine(rate, 1.0, SECOND[draw]))
    assert measured.relative < 0.075


@pytest.mark.parametrize("step_s", [0.00097, 0.00103])
def test_a_service_three_percent_off_is_seen(step_s: float) -> None:
    # So that the test above could fail.
    measured = mean_wait(exponential, 0.6, 1, replace(SERVER, step_s=step_s))
    assert not measured.holds(pollaczek_khinchine(0.6, 1.0, 2.0))


SIZED_RATE = 0.6


@cache
def sized_run(policy: str) -> Run:
    return run_twin(poisson_jobs(sized, SIZED_RATE, seed=5, count=COUNT), SERVER, policy)


def wait_by_size(run: Run) -> list[Interval]:
    jobs = [outcome.job for outcome in run.outcomes]
    mean = math.fsum(size.probability * size.service for size in SIZES)
    known = controls(jobs, SIZED_RATE, mean, SIZED_SECOND)
    return [
        controlled_mean(
            batched(run.waits_s, [job.output_tokens == 1000 * size.service for job in jobs]), known
        )
        for size in SIZES
    ]


def test_shortest_first_makes_each_size_wait_as_cobhams_formula_says() -> None:
    expected = shortest_first(SIZED_RATE, SIZES)
    for measured, wait_s in zip(wait_by_size(sized_run("sjf")), expected, strict=True):
        assert measured.holds(wait_s)
        assert measured.relative < 0.15
    # It is not every order's formula.
    pairs = zip(wait_by_size(sized_run("fcfs")), expected, strict=True)
    assert not any(measured.holds(wait_s) for measured, wait_s in pairs)


def test_shortest_first_of_a_continuous_law_is_phipps_formula() -> None:
    rate = 0.7
    jobs = poisson_jobs(exponential, rate, seed=8, count=COUNT)
    waits = run_twin(jobs, SERVER, "sjf").waits_s
    known = controls(jobs, rate, 1.0, 2.0)

    def quantile(share: float) -> float:
        return -math.log1p(-share)

    for low, high in ((0.0, 0.5), (0.5, 0.8), (0.8, 0.95)):
        least, most = 1000.0 * quantile(low), 1000.0 * quantile(high)
        kept = [least < job.output_tokens <= most for job in jobs]
        measured = controlled_mean(batched(waits, kept), known)
        assert measured.holds(shortest_first_between(rate, 2.0, quantile, low, high))
        assert measured.relative < 0.15


GUARDED = Settings(phi=0.3, burst_requests=12.0)


def weighted_wait_ns2(run: Run) -> int:
    """Σ service · wait, exactly."""
    return sum(
        (o.finished_ns - o.admitted_ns) * (o.admitted_ns - o.job.arrival_ns)
        for o in run.outcomes
        if o.admitted_ns is not None
    )


def test_kleinrocks_conservation_law_holds_to_the_last_digit() -> None:
    # The work in the system is the same under every order that neither idles nor preempts, so on
    # the same arrivals Σ service · wait is one number, not only its mean.
    jobs = poisson_jobs(sized, 0.9, seed=6, count=4000)
    runs = [run_twin(jobs, SERVER, policy) for policy in ("fcfs", "sjf", "hrrn")]
    runs += [run_twin(jobs, SERVER, policy, settings=GUARDED) for policy in ("sjf", "hrrn")]
    assert len({weighted_wait_ns2(run) for run in runs}) == 1
    # They differ otherwise: without that, one order alone would pass.
    assert len({math.fsum(run.waits_s) for run in runs}) == len(runs)


def test_the_conserved_number_is_the_formulas() -> None:
    # Σ ρᵢ Wᵢ = ρ W₀ / (1 - ρ) (Kleinrock, vol. 2, eq. 3.20).
    run = sized_run("sjf")
    jobs = [outcome.job for outcome in run.outcomes]
    services = [job.output_tokens / 1000.0 for job in jobs]
    load = SIZED_RATE * math.fsum(size.probability * size.service for size in SIZES)
    products = [
        SIZED_RATE * service * wait for service, wait in zip(services, run.waits_s, strict=True)
    ]
    known = controls(jobs, SIZED_RATE, load / SIZED_RATE, SIZED_SECOND)
    measured = controlled_mean(batched(products), known)
    assert measured.holds(load * residual_work(SIZED_RATE, SIZED_SECOND) / (1.0 - load))
    assert measured.relative < 0.1
