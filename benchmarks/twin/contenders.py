"""Who competes: an order with its settings, where its queues come from, and who made it.

Times are the twin's; every contender of a comparison is given the same jobs.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from itertools import pairwise
from typing import Final, NamedTuple

import numpy as np

from benchmarks.baselines.cuts import NAMES, cut_policy
from benchmarks.baselines.vllm_pr import vllm_pr33392
from benchmarks.twin.material import GUARDS, Scene
from estimator.replay.estimates import Estimating
from estimator.replay.figures import Figures
from estimator.replay.job import Job
from estimator.replay.outcome import Outcome
from estimator.replay.request import Request
from estimator.replay.runs import EstimateKind, Setup, estimates_of
from sched_client.model import Partition, PolicyParameters, Settings
from sched_client.policies import Policy, create_policy
from sched_client.policies.waiting import Waiting

VLLM_PR: Final = "vllm-pr33392"
# Jobs whose work tells the quantiles that queues are cut at; no run has this seed.
_SAMPLE_SEED: Final = 12_345
_SAMPLE: Final = 30_000
# b₀ of those that are not told another one, in mean requests; production's is larger.
BURST: Final = 12.0


class Contender(NamedTuple):
    """An order under settings.

    Attributes
    ----------
    name : str
        For a row of a table.
    policy : str
        One of `sched_client.policies.POLICY_NAMES`, of `benchmarks.baselines.cuts`, or `VLLM_PR`.
    settings : Settings
        Guard, and what an order is told.
    cuts : tuple of float
        Quantiles of the estimated work at which queues are cut, known beforehand.
    fitted : bool
        Queues as the sidecar finds them while the run goes on; without cuts either, there is one.
    """

    name: str
    policy: str
    settings: Settings
    cuts: tuple[float, ...] = ()
    fitted: bool = False


def guarded(phi: float, burst_requests: float = BURST, **others: object) -> Settings:
    """Give production's settings with another guard and whatever else is said."""
    return replace(Settings(), phi=phi, burst_requests=burst_requests, **others)  # type: ignore[arg-type]  # names of Settings


def two_halves(phi: float, share: float = 0.48, burst_requests: float = BURST) -> Settings:
    """Give ewsjf in halves."""
    return guarded(
        phi, burst_requests, between="halves", short_share=share, short_share_most=share
    )


def aging(power: float, phi: float, burst_requests: float) -> Settings:
    """Give ewsjf with heads that age by a power of their queue's work; each arrival is ordered."""
    return guarded(
        phi, burst_requests, reorder_above=0, reorder_until=0, between="score",
        w_urgency=0.0, aging_rate=1.0, aging_power=power,
    )  # fmt: skip


UNGUARDED: Final = GUARDS["off"]
# Production's default; why: the tables of this benchmark.
HALVES: Final = Contender("ewsjf, halves (default)", "ewsjf", Settings())
SJF: Final = Contender("sjf, φ .3 b₀ 12", "sjf", guarded(0.3))
HRRN: Final = Contender("hrrn, φ .3 b₀ 12", "hrrn", guarded(0.3))
SJF_UNGUARDED: Final = Contender("sjf, no guard", "sjf", UNGUARDED)
HRRN_UNGUARDED: Final = Contender("hrrn, no guard", "hrrn", UNGUARDED)
FITTED: Final = Contender(
    "ewsjf, fitted queues, shortest first, φ .28 b₀ 12", "ewsjf",
    guarded(0.28, between="shortest"), fitted=True,
)  # fmt: skip
FITTED_SCORE: Final = Contender(
    "ewsjf, fitted queues, score inside and between, φ .28 b₀ 12", "ewsjf",
    guarded(0.28, within="score", between="score"), fitted=True,
)  # fmt: skip
PAPER: Final = Contender("ewsjf-paper, no guard", "ewsjf-paper", UNGUARDED, fitted=True)
VLLM: Final = Contender("vLLM PR #33392, no guard", VLLM_PR, UNGUARDED)


def run(
    at: Scene,
    jobs: Sequence[Job],
    contender: Contender,
    kind: EstimateKind,
    seed: int,
    *,
    see: Callable[[Outcome], object] | None = None,
) -> Figures:
    """Replay jobs under a contender; ``see`` is told of each that ends."""
    estimates, policy = _made(at, contender, kind, seed, jobs)
    return at.run(jobs, policy, estimates, see=see)


def _made(
    at: Scene, contender: Contender, kind: EstimateKind, seed: int, jobs: Sequence[Job]
) -> tuple[Estimating, Policy]:
    setup = Setup(
        profile=at.profile, workload=at.workload, settings=contender.settings, estimates=kind
    )
    estimates = estimates_of(setup, at.point, seed, queues=contender.fitted)
    parameters = estimates.parameters
    if contender.cuts:
        parameters = replace(parameters, partition=cut(at, kind, contender.cuts))
    if contender.policy == VLLM_PR:
        return estimates, _pull_request(parameters, contender, jobs)
    if contender.policy in NAMES:
        return estimates, cut_policy(contender.policy, parameters)
    return estimates, create_policy(contender.policy, parameters)


def _pull_request(
    parameters: PolicyParameters, contender: Contender, jobs: Sequence[Job]
) -> Policy:
    # Its length is the prompt's; a transcription's prompt says nothing, so its expected tokens.
    lengths = {str(job.index): job.prompt_tokens for job in jobs if job.audio_s is None}

    def length_of(item: Waiting) -> float:
        return lengths.get(item.request_id, item.tokens)

    unguarded = math.isinf(contender.settings.burst_requests)
    return vllm_pr33392(parameters, length_of, guarded=not unguarded)


@cache
def cut(at: Scene, kind: EstimateKind, cuts: tuple[float, ...]) -> Partition:
    """Cut queues at quantiles of the estimated work of a sample that no run has."""
    works = works_of(at, kind, at.jobs(_SAMPLE_SEED)[:_SAMPLE])
    bounds = np.quantile(works, cuts)
    edges = (0.0, *bounds, math.inf)
    means = tuple(
        float(works[(works > low) & (works <= high)].mean()) for low, high in pairwise(edges)
    )
    return Partition(
        boundaries_s=tuple(map(float, bounds)),
        queue_ids=tuple(f"q{index}" for index in range(len(means))),
        means_s=means,
    )


def works_of(at: Scene, kind: EstimateKind, jobs: Sequence[Job]) -> np.ndarray:
    """Give the work of jobs in seconds at full slots, as it is estimated at their arrival."""
    estimates = at.estimates(kind, Settings(), 0)
    works = np.empty(len(jobs))
    for index, job in enumerate(jobs):
        request = Request(job)
        estimates.first(request)
        works[index] = request.service_s
    return works
