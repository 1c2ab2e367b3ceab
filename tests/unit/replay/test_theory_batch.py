"""Several slots: steps that are shared, and waits and sojourns that are known all the same."""

import math
import random
from collections.abc import Callable
from dataclasses import replace

import pytest

from estimator.replay.job import Job
from estimator.replay.profile import EngineProfile
from tests.support.queueing import (
    Control,
    Interval,
    batched,
    birth_death_sojourn,
    controlled_mean,
    erlang_c,
)
from tests.support.twin import Run, poisson_jobs, run_twin

COUNT = 40_000
MEAN_TOKENS = 1000
Draw = Callable[[random.Random], float]


def exponential(rng: random.Random) -> float:
    return rng.expovariate(1.0 / MEAN_TOKENS)


def two_sizes(rng: random.Random) -> float:
    return 400.0 if rng.random() < 0.75 else 2800.0


def mean_of(values: list[float], jobs: list[Job], rate: float) -> Interval:
    """Estimate a mean, corrected for the gaps and lengths that the seed drew."""
    arrivals = [job.arrival_ns / 1e9 for job in jobs]
    gaps = [after - before for before, after in zip([0.0, *arrivals], arrivals, strict=False)]
    lengths = [job.output_tokens / MEAN_TOKENS for job in jobs]
    return controlled_mean(batched(values), [Control(gaps, 1.0 / rate), Control(lengths, 1.0)])


# Steps cost the same however many run: each slot is a server of its own.
SERVERS = EngineProfile(name="four servers", slots=4, step_s=0.001)


def test_the_mean_wait_of_four_servers_is_erlangs() -> None:
    rate = 2.8
    jobs = poisson_jobs(exponential, rate, seed=21, count=COUNT)
    waits = run_twin(jobs, SERVERS).waits_s
    # Whoever comes within a step waits for its end, which no server of Erlang's does.
    measured = mean_of([wait_s - SERVERS.step_s / 2.0 for wait_s in waits], jobs, rate)
    assert measured.holds(erlang_c(rate, 1.0, SERVERS.slots))
    assert measured.relative < 0.2
    for servers in (3, 5):
        assert not measured.holds(erlang_c(rate, 1.0, servers))


# All that a step costs is shared: each running one gets an equal part of one server.
SHARED = EngineProfile(name="a shared server", slots=4096, step_s=0.0, per_sequence_s=0.001)


def test_sharing_makes_the_sojourn_proportional_to_the_length_whatever_the_law() -> None:
    # M/G/1 processor sharing: T(x) = x / (1 - ρ) (Kleinrock, vol. 2, eq. 4.17).
    rate = 0.6
    jobs = poisson_jobs(two_sizes, rate, seed=22, count=COUNT)
    sojourns = run_twin(jobs, SHARED).sojourns_s
    for tokens in (400, 2800):
        kept = [job.output_tokens == tokens for job in jobs]
        of_size = controlled_mean(batched(sojourns, kept))
        assert of_size.holds(tokens / MEAN_TOKENS / (1.0 - rate))
        assert of_size.relative < 0.06


BATCHING = EngineProfile(name="a batch", slots=16, step_s=0.008, per_sequence_s=0.0005)


def death_rate(running: int) -> float:
    """Ends a second with so many in the system: a token each step, the last in 1 of 1,000."""
    served = min(running, BATCHING.slots)
    return served / (MEAN_TOKENS * (BATCHING.step_s + BATCHING.per_sequence_s * served))


@pytest.mark.parametrize(("slower", "right"), [(1.0, True), (0.97, False), (1.03, False)])
def test_a_batch_whose_steps_grow_with_it_is_a_birth_death_queue(
    slower: float, right: bool
) -> None:
    rate = 0.85 * death_rate(BATCHING.slots)
    jobs = poisson_jobs(exponential, rate, seed=23, count=COUNT)
    profile = replace(
        BATCHING,
        step_s=slower * BATCHING.step_s,
        per_sequence_s=slower * BATCHING.per_sequence_s,
    )
    run = run_twin(jobs, profile)
    measured = mean_of(run.sojourns_s, jobs, rate)
    assert measured.holds(birth_death_sojourn(rate, death_rate, 4000)) is right
    assert measured.relative < 0.06


def areas_ns(run: Run) -> tuple[int, int]:
    """Sweep over all arrivals, admissions and ends: ∫ waiting dt and ∫ running dt."""
    events: list[tuple[int, int, int]] = []
    for outcome in run.outcomes:
        admitted_ns = outcome.admitted_ns
        assert admitted_ns is not None
        events += [(outcome.job.arrival_ns, 1, 0), (admitted_ns, -1, 1)]
        events.append((outcome.finished_ns, 0, -1))
    waiting = running = waited_ns = ran_ns = last_ns = 0
    for at_ns, waits, runs in sorted(events):
        waited_ns += waiting * (at_ns - last_ns)
        ran_ns += running * (at_ns - last_ns)
        waiting, running, last_ns = waiting + waits, running + runs, at_ns
    return waited_ns, ran_ns


@pytest.mark.parametrize("policy", ["fcfs", "sjf", "hrrn"])
def test_littles_law_holds_between_the_engines_own_count_and_the_outcomes(policy: str) -> None:
    # N = λ T for who runs: the integral that the engine keeps, and the sojourns of the outcomes.
    rate = 1.1 * death_rate(BATCHING.slots)
    jobs = poisson_jobs(exponential, rate, seed=24, count=3000)
    run = run_twin(jobs, replace(BATCHING, admission_s=0.03), policy)
    residences = [o.finished_ns - (o.admitted_ns or 0) for o in run.outcomes]
    waited_ns, ran_ns = areas_ns(run)
    assert run.totals.running_ns == sum(residences) == ran_ns
    assert waited_ns == sum((o.admitted_ns or 0) - o.job.arrival_ns for o in run.outcomes)
    assert waited_ns > 0
    # Each outcome's own concurrency, weighted by its residence, is ∫ running² dt.
    seen = math.fsum(
        o.concurrency * residence for o, residence in zip(run.outcomes, residences, strict=True)
    )
    assert seen == pytest.approx(squared_area_ns(run), rel=1e-9)


def squared_area_ns(run: Run) -> int:
    events = [(o.admitted_ns or 0, 1) for o in run.outcomes]
    events += [(o.finished_ns, -1) for o in run.outcomes]
    area_ns = running = last_ns = 0
    for at_ns, change in sorted(events):
        area_ns += running * running * (at_ns - last_ns)
        running, last_ns = running + change, at_ns
    return area_ns
