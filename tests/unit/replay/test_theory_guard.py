"""The bound of docs/guard.md in the twin, request by request, with several slots.

Measured from what the twin tells of admissions and from the estimates of its outcomes: neither
the queue nor its ledger is asked.
"""

import math
import random
from collections.abc import Callable
from typing import NamedTuple

import pytest

from estimator.replay.estimates import TrueEstimates
from estimator.replay.job import NS_PER_S, Job
from estimator.replay.profile import EngineProfile
from sched_client.model import Settings
from tests.support.twin import UNGUARDED, Run, run_twin

PHI, BURST_REQUESTS = 0.3, 4.0
GUARDED = Settings(phi=PHI, burst_requests=BURST_REQUESTS)
# A token takes a step, whoever else runs: each slot is a server of its own.
SERVERS = EngineProfile(name="servers", slots=6, step_s=0.008)
# Steps that grow with the batch, and blocks for half of the slots: preemptions.
SCARCE = EngineProfile(
    name="scarce",
    slots=12,
    step_s=0.008,
    per_sequence_s=0.0005,
    admission_s=0.01,
    kv_blocks=30,
    blocks_per_admission=2,
)
# Sums of floats in two orders.
ROUNDING = 1.0 + 1e-9

Wrong = Callable[[random.Random, float], float]


def right(rng: random.Random, tokens: float) -> float:
    return tokens


def ten_times_wrong(rng: random.Random, tokens: float) -> float:
    return tokens * rng.choice([0.1, 1.0, 10.0])


def drawn(rng: random.Random, tokens: float) -> float:
    return rng.uniform(1.0, 400.0)


class Believed(TrueEstimates):
    """Estimates that are wrong in a way, the same for a job whenever it is asked about."""

    def __init__(self, profile: EngineProfile, settings: Settings, wrong: Wrong) -> None:
        super().__init__(profile, settings, mean_service_s=0.3)
        self._wrong = wrong

    def expected_tokens(self, job: Job) -> float:
        return self._wrong(random.Random(job.index), super().expected_tokens(job))


def draw_jobs(seed: int, count: int = 500) -> list[Job]:
    """Draw long overloads and lulls: bursts of up to 40 that come at once."""
    rng = random.Random(seed)
    jobs: list[Job] = []
    at_ns = 0
    while len(jobs) < count:
        at_ns += round(rng.expovariate(1.0 / 6e8))
        for _ in range(rng.choice([1, 2, 5, 40])):
            tokens = 1 + round(rng.lognormvariate(2.5, 1.0))
            leaves = at_ns + round(rng.expovariate(1.0 / 5e9)) + 1
            abort_ns = leaves if rng.random() < 0.1 else None
            priority = rng.choice([0, 0, 0, 1])
            jobs.append(
                Job(
                    len(jobs),
                    at_ns,
                    min(tokens, 120),
                    None,
                    4,
                    priority=priority,
                    abort_ns=abort_ns,
                )
            )
    return jobs


class Stay(NamedTuple):
    """The first wait of a job: the work ahead of it as it came, what was served, how long."""

    job: Job
    ahead_s: float
    served_s: float
    truly_ahead_s: float
    truly_served_s: float
    waited_s: float


def stays(run: Run, step_s: float) -> list[Stay]:
    """Go through arrivals, departures and first admissions in the twin's order."""
    # At one instant: who leaves, who comes, who is admitted.
    events = [(o.job.arrival_ns, 1, o.job.index) for o in run.outcomes]
    events += [(o.finished_ns, 0, o.job.index) for o in run.outcomes if o.admitted_ns is None]
    events += [
        (one.at_ns, 2 + place, one.number)
        for place, one in enumerate(run.admissions)
        if not one.preemptions
    ]
    believed = [outcome.estimate_service_s for outcome in run.outcomes]
    true = [outcome.job.output_tokens * step_s for outcome in run.outcomes]
    waiting = truly_waiting = served = truly_served = 0.0
    came: dict[int, tuple[float, float, float, float]] = {}
    found: list[Stay] = []
    for at_ns, what, index in sorted(events):
        if what == 1:
            came[index] = (waiting, served, truly_waiting, truly_served)
            waiting += believed[index]
            truly_waiting += true[index]
            continue
        waiting -= believed[index]
        truly_waiting -= true[index]
        if what:
            ahead, before, truly_ahead, truly_before = came[index]
            job = run.outcomes[index].job
            waited_s = (at_ns - job.arrival_ns) / NS_PER_S
            found.append(
                Stay(
                    job, ahead, served - before, truly_ahead, truly_served - truly_before, waited_s
                )
            )
            served += believed[index]
            truly_served += true[index]
    return found


def run_believed(
    seed: int, profile: EngineProfile, policy: str, wrong: Wrong, settings: Settings = GUARDED
) -> Run:
    estimates = Believed(profile, settings, wrong)
    return run_twin(draw_jobs(seed), profile, policy, settings=settings, estimates=estimates)


def burst_s(profile: EngineProfile) -> float:
    return Believed(profile, GUARDED, right).parameters.burst_work


@pytest.mark.parametrize("profile", [SERVERS, SCARCE], ids=["servers", "scarce"])
@pytest.mark.parametrize("wrong", [right, ten_times_wrong, drawn])
@pytest.mark.parametrize("policy", ["sjf", "hrrn"])
def test_nobody_sees_more_work_served_than_the_bound(
    policy: str, wrong: Wrong, profile: EngineProfile
) -> None:
    closest = 0.0
    for seed in range(3):
        run = run_believed(seed, profile, policy, wrong)
        assert (run.totals.preemptions > 0) is (profile is SCARCE)
        for stay in stays(run, profile.step_s):
            bound_s = (stay.ahead_s + burst_s(profile)) / (1.0 - PHI)
            assert stay.served_s <= bound_s * ROUNDING
            closest = max(closest, stay.served_s / bound_s)
    # Somebody came near it, so that it is not for want of load that it holds.
    assert closest > 0.5


@pytest.mark.parametrize("wrong", [right, ten_times_wrong])
@pytest.mark.parametrize("policy", ["sjf", "hrrn"])
def test_in_true_work_the_bound_widens_by_how_wrong_estimates_are(
    policy: str, wrong: Wrong
) -> None:
    factor = 1.0 if wrong is right else 10.0
    for stay in stays(run_believed(3, SERVERS, policy, wrong), SERVERS.step_s):
        bound_s = (factor**2 * stay.truly_ahead_s + factor * burst_s(SERVERS)) / (1.0 - PHI)
        assert stay.truly_served_s <= bound_s * ROUNDING


@pytest.mark.parametrize("policy", ["sjf", "hrrn"])
def test_with_servers_apart_the_bound_is_one_of_seconds(policy: str) -> None:
    # While r waits every slot works: its wait times the slots is at most what ran as it came,
    # and what was admitted since. With estimates right, that is the bound over the slots.
    run = run_believed(4, SERVERS, policy, right)
    slots, step_s = SERVERS.slots, SERVERS.step_s
    for stay in stays(run, step_s):
        came_ns = stay.job.arrival_ns
        left_s = math.fsum(
            (o.finished_ns - came_ns) / NS_PER_S
            for o in run.outcomes
            if o.admitted_ns is not None and o.admitted_ns < came_ns < o.finished_ns
        )
        assert left_s <= slots * 120 * step_s
        bound_s = left_s + (stay.ahead_s + burst_s(SERVERS)) / (1.0 - PHI)
        # Slots are filled between steps: what comes within one waits for its end.
        assert stay.waited_s <= (bound_s / slots + step_s) * ROUNDING


def test_without_the_guard_the_bound_is_broken() -> None:
    run = run_believed(0, SERVERS, "sjf", right, UNGUARDED)
    assert any(
        stay.served_s > (stay.ahead_s + burst_s(SERVERS)) / (1.0 - PHI)
        for stay in stays(run, SERVERS.step_s)
    )


@pytest.mark.parametrize("value", [math.nan, math.inf, 0.0, -1.0])
def test_an_estimate_that_is_no_number_of_seconds_is_refused(value: float) -> None:
    with pytest.raises(ValueError, match=r"service_s|tokens"):
        run_believed(0, SERVERS, "sjf", lambda *_: value)
