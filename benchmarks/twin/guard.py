"""The guard: what orders cost and gain with and without it, and whether its bound holds.

Three questions: percentiles and the longest wait against fcfs, for short runs, long runs and
bounded bursts; the bound of docs/guard.md for each request, counted beside the queue; and each
request's E2E over what the same request had first come, first served, by how wrong estimates are.
"""

import math
import random
from array import array
from typing import Final, NamedTuple

import numpy as np

from benchmarks.twin.material import (
    GUARDS,
    POLICIES,
    SPEECH,
    Row,
    Scene,
    Table,
    engine,
    scene,
)
from benchmarks.twin.witness import Witness
from estimator.replay.arrivals import BURST_MEAN_LOAD, Arrivals
from estimator.replay.estimates import Estimating, TrueEstimates
from estimator.replay.figures import Figures, change_of, metric
from estimator.replay.job import Job
from estimator.replay.outcome import Outcome
from estimator.replay.profile import EngineProfile
from sched_client.model import (
    GLOBAL_KEY,
    KappaEntry,
    PolicyParameters,
    Settings,
    Snapshot,
)
from sched_client.policies import WaitingEntry, create_policy
from sched_client.validity import invalid_reason

_LOAD: Final = 1.2
_METRICS: Final = ("e2e_s_p50", "e2e_s_p90", "e2e_s_p99", "e2e_s_mean", "max_wait_s")
_N_RATIOS: Final = 10_000
_RATIO_SEEDS: Final = 3
# Estimates ten times too high and too low, each as often.
_FACTORS: Final = (0.1, 10.0)
_MOST_TOKENS: Final = 448.0


class Case(NamedTuple):
    """Traffic on an engine, and how many seeds."""

    name: str
    engine: str
    n: int
    seeds: int
    load: float = _LOAD
    arrivals: Arrivals = Arrivals()


CASES: Final = (
    Case("load 1.2, 500", "decode-bound", 500, 20),
    Case("load 1.2, 10,000", "decode-bound", 10_000, 5),
    Case("load 1.2, 100,000", "decode-bound", 100_000, 2),
    Case("bursts, 10,000", "decode-bound", 10_000, 5, BURST_MEAN_LOAD, Arrivals(kind="bursts")),
    Case("load 1.2, 500", "a100-whisper-large-v3", 500, 20),
    Case("load 1.2, 10,000", "a100-whisper-large-v3", 10_000, 5),
    Case(
        "bursts, 10,000",
        "a100-whisper-large-v3",
        10_000,
        5,
        BURST_MEAN_LOAD,
        Arrivals(kind="bursts"),
    ),
)


def measure() -> Row:
    """Give the tables, and what the bound came to."""
    against, bound = _against_fcfs()
    ratios, wrong_bound = _ratios()
    witnesses = [*bound, *wrong_bound]
    return {
        "tables": {
            "the guard, percent against fcfs": against,
            "each request's E2E over its own under fcfs, decode-bound, load 1.2": ratios,
        },
        "bound": {
            "requests_checked": sum(one.checked for one in witnesses),
            "requests_beyond": sum(one.beyond for one in witnesses),
            "largest_share_of_bound": max(one.largest_share for one in witnesses),
        },
        "nan": refusals(),
    }


def _against_fcfs() -> tuple[Table, list[Witness]]:
    table: Table = {}
    witnesses: list[Witness] = []
    for case in CASES:
        at = scene(engine(case.engine), SPEECH, case.load, case.n, case.arrivals)
        base: list[Figures] = []
        found: dict[tuple[str, str], list[Figures]] = {}
        for seed in range(case.seeds):
            jobs = at.jobs(seed)
            base.append(at.fcfs(jobs))
            for policy in POLICIES:
                for guard, settings in GUARDS.items():
                    estimates = at.estimates("duration", settings, seed)
                    figures, witness = _witnessed(at, jobs, policy, estimates)
                    found.setdefault((policy, guard), []).append(figures)
                    if guard == "on":
                        witnesses.append(witness)
        for (policy, guard), figures_of in found.items():
            name = f"{case.engine}, {case.name} x {case.seeds}, {policy}, guard {guard}"
            table[name] = {what: _cell(figures_of, base, what) for what in _METRICS}
    return table, witnesses


def _witnessed(
    at: Scene, jobs: list[Job], policy: str, estimates: Estimating
) -> tuple[Figures, Witness]:
    witness = Witness(create_policy(policy, estimates.parameters), estimates.parameters)
    return at.run(jobs, witness, estimates), witness


def _cell(ours: list[Figures], theirs: list[Figures], what: str) -> str:
    change = change_of([metric(one, what) for one in ours], [metric(one, what) for one in theirs])
    if change.percent is None or change.low is None or change.high is None:
        return "-"
    return f"{change.percent:+.0f} [{change.low:+.0f}, {change.high:+.0f}]"


class WrongEstimates(TrueEstimates):
    """True lengths, spoilt in a way that is the same for a job whenever it is asked about.

    Parameters
    ----------
    profile, settings
        As `TrueEstimates`.
    mean_service_s : float
        Scales the guard's burst.
    how : {"right", "wrong by 10", "random"}
        As they are; each ten times too high or too low; drawn from all of Whisper's lengths.
    """

    def __init__(
        self, profile: EngineProfile, settings: Settings, *, mean_service_s: float, how: str
    ) -> None:
        super().__init__(profile, settings, mean_service_s=mean_service_s)
        self._how = how

    def expected_tokens(self, job: Job) -> float:
        """Give the spoilt length."""
        tokens = super().expected_tokens(job)
        if self._how == "right":
            return tokens
        rng = random.Random(job.index)
        if self._how == "random":
            return rng.uniform(1.0, _MOST_TOKENS)
        return max(tokens * rng.choice(_FACTORS), 0.1)


def _ratios() -> tuple[Table, list[Witness]]:
    at = scene(engine("decode-bound"), SPEECH, _LOAD, _N_RATIOS)
    workload, profile = at.workload, at.profile
    mean_s = profile.service_s(workload.mean_tokens, 0, profile.slots)
    table: Table = {}
    witnesses: list[Witness] = []
    for policy in POLICIES:
        for guard, settings in GUARDS.items():
            for how in ("right", "wrong by 10", "random"):
                ratios: list[float] = []
                for seed in range(_RATIO_SEEDS):
                    jobs = at.jobs(seed)
                    own = _e2e_by_index(at, jobs, "fcfs", TrueEstimates(profile))
                    estimates = WrongEstimates(profile, settings, mean_service_s=mean_s, how=how)
                    witness = Witness(
                        create_policy(policy, estimates.parameters), estimates.parameters
                    )
                    ratios += list(_e2e_by_index(at, jobs, witness, estimates) / own)
                    if guard == "on":
                        witnesses.append(witness)
                p50, p90, p99 = (float(one) for one in np.percentile(ratios, (50, 90, 99)))
                table[f"{policy}, guard {guard}, estimates {how}"] = {
                    "p50": p50,
                    "p90": p90,
                    "p99": p99,
                    "max": max(ratios),
                    "share_above_2": sum(one > 2.0 for one in ratios) / len(ratios),
                }
    return table, witnesses


def _e2e_by_index(
    at: Scene, jobs: list[Job], policy: str | Witness, estimates: Estimating
) -> "np.ndarray[tuple[int], np.dtype[np.float64]]":
    e2e = array("d", bytes(8 * len(jobs)))

    def see(outcome: Outcome) -> None:
        e2e[outcome.job.index] = outcome.finished_ns - outcome.job.arrival_ns

    at.run(jobs, policy, estimates, see=see)
    return np.frombuffer(e2e)


def refusals() -> Row:
    """Offer NaN where an estimate can come from; a client that is refused serves fcfs.

    Returns
    -------
    dict
        Whether each was refused; ``waiting_unchanged`` that the queue was as before.
    """
    parameters = PolicyParameters()
    good = WaitingEntry("good", enqueued_s=0.0, service_s=1.0, tokens=10.0)
    row: Row = {}
    for name in POLICIES:
        policy = create_policy(name, parameters)
        policy.add(good)
        refused = 0
        for value in (math.nan, math.inf, -1.0, 0.0):
            for bad in (good._replace(service_s=value), good._replace(tokens=value)):
                try:
                    policy.add(bad._replace(request_id="bad"))
                except ValueError:
                    refused += 1
        row[f"{name}_refused_of_8"] = refused
        row[f"{name}_waiting_unchanged"] = list(policy) == [good]
    snapshot = Snapshot(
        version=1,
        instance_id="benchmark",
        created_s=0.0,
        kappas={GLOBAL_KEY: KappaEntry(kappa_tokens_per_s=math.nan)},
    )
    row["snapshot_refused_because"] = invalid_reason(snapshot) or "taken"
    return row
