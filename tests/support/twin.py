"""Runs of the twin for tests: what was admitted when, and what became of each job."""

import math
import random
from collections.abc import Callable, Sequence
from typing import NamedTuple

from estimator.replay.estimates import Estimating, FixedEstimates, TrueEstimates
from estimator.replay.job import NS_PER_S, Job
from estimator.replay.outcome import Outcome, Totals
from estimator.replay.profile import EngineProfile
from estimator.replay.request import Request
from estimator.replay.simulation import simulate
from sched_client.model import Settings, Snapshot, evaluate, policy_parameters
from sched_client.policies import create_policy

UNGUARDED = Settings(burst_requests=math.inf, reorder_above=0)


class Admission(NamedTuple):
    """A job was admitted: which, when, and after how many preemptions."""

    number: int
    at_ns: int
    preemptions: int


class Run(NamedTuple):
    """What a run of the twin gave, outcomes in the order of the jobs."""

    outcomes: list[Outcome]
    admissions: list[Admission]
    totals: Totals

    @property
    def waits_s(self) -> list[float]:
        """Seconds from each arrival to its first admission; of jobs that were all admitted."""
        return [((o.admitted_ns or 0) - o.job.arrival_ns) / NS_PER_S for o in self.outcomes]

    @property
    def sojourns_s(self) -> list[float]:
        """Seconds from each arrival to its end."""
        return [(o.finished_ns - o.job.arrival_ns) / NS_PER_S for o in self.outcomes]


class SnapshotEstimates(FixedEstimates):
    """What the client inside vLLM makes of one snapshot that never changes."""

    def __init__(self, profile: EngineProfile, snapshot: Snapshot, model: str) -> None:
        super().__init__(profile, snapshot.settings)
        self.parameters = policy_parameters(snapshot, model)
        self._snapshot = snapshot

    def first(self, request: Request) -> None:
        estimate = evaluate(self._snapshot, request.job.features)
        request.tokens, request.service_s = estimate.tokens, estimate.service_s
        request.queue_id = estimate.queue_id


def run_twin(
    jobs: Sequence[Job],
    profile: EngineProfile,
    policy: str = "fcfs",
    *,
    settings: Settings = UNGUARDED,
    estimates: Estimating | None = None,
) -> Run:
    """Replay jobs, by default with the true lengths and without the guard."""
    estimates = estimates or TrueEstimates(profile, settings)
    outcomes: list[Outcome] = []
    admissions: list[Admission] = []
    totals = simulate(
        jobs,
        profile,
        create_policy(policy, estimates.parameters),
        estimates,
        on_outcome=outcomes.append,
        on_admission=lambda job, at_ns, times: admissions.append(
            Admission(job.index, at_ns, times)
        ),
    )
    outcomes.sort(key=lambda outcome: outcome.job.index)
    return Run(outcomes, admissions, totals)


def poisson_jobs(
    tokens: Callable[[random.Random], float], rate: float, *, seed: int, count: int
) -> list[Job]:
    """Draw jobs that arrive by a Poisson process of ``rate`` a second."""
    rng = random.Random(seed)
    jobs, at_s = [], 0.0
    for index in range(count):
        at_s += rng.expovariate(rate)
        jobs.append(Job(index, round(at_s * NS_PER_S), max(1, round(tokens(rng)))))
    return jobs
