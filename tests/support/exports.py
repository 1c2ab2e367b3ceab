"""Exports of a twin with known costs, for tests of calibration."""

import random

from estimator.core.observation import Completion
from estimator.replay.estimates import TrueEstimates
from estimator.replay.job import NS_PER_S, Job
from estimator.replay.learned import completion_from
from estimator.replay.outcome import Outcome
from estimator.replay.profile import EngineProfile
from estimator.replay.simulation import simulate
from sched_client.policies import create_policy


def exported(
    profile: EngineProfile,
    n: int,
    gap_s: float,
    *,
    seed: int = 1,
    policy: str = "fcfs",
    tokens: int | None = None,
    prompt_tokens: tuple[int, int] = (4, 4),
) -> list[tuple[float, Completion]]:
    """Serve ``n`` requests with gaps of ``gap_s`` in the mean; give what would be exported.

    Parameters
    ----------
    profile : EngineProfile
        The engine.
    n, gap_s, seed
        The arrivals, Poisson.
    policy : str
        What orders the queue, by true lengths.
    tokens : int, optional
        Of each; log-normal around 27 by default.
    prompt_tokens : tuple of (int, int)
        Least and most.
    """
    rng = random.Random(seed)
    now_s = 0.0
    jobs = []
    for index in range(n):
        now_s += rng.expovariate(1.0 / gap_s)
        length = max(1, int(rng.lognormvariate(3.3, 0.8))) if tokens is None else tokens
        prompt = rng.randint(*prompt_tokens)
        jobs.append(Job(index, int(now_s * NS_PER_S), length, length / 3.2, prompt))
    outcomes: list[Outcome] = []
    estimates = TrueEstimates(profile)
    queue = create_policy(policy, estimates.parameters)
    simulate(jobs, profile, queue, estimates, on_outcome=outcomes.append)
    return [
        (one.job.arrival_ns / NS_PER_S, completion_from(one, one.job.index)) for one in outcomes
    ]
