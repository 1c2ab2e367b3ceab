"""One run of a workload through an engine under a policy, and what load 1 is.

Owns how a replay's settings become a simulation: which estimates, which guard, which requests.
"""

from array import array
from bisect import bisect_right
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, NamedTuple, get_args

from estimator.core.observation import Completion
from estimator.replay.arrivals import Arrivals
from estimator.replay.curves import Curves, curves_of
from estimator.replay.estimates import DurationEstimates, Estimating, TrueEstimates
from estimator.replay.figures import Figures, Recorder
from estimator.replay.job import NS_PER_S, Job
from estimator.replay.learned import LearnedEstimates, completion_from
from estimator.replay.outcome import Outcome
from estimator.replay.profile import EngineProfile
from estimator.replay.simulation import simulate
from estimator.replay.workload import Workload
from sched_client.model import Settings
from sched_client.policies import create_policy

EstimateKind = Literal["learned", "duration", "true"]
ESTIMATE_KINDS: Final[tuple[str, ...]] = get_args(EstimateKind)
BASELINE: Final = "fcfs"
# Requests of the saturated run that capacity is measured on: enough batches that the first and
# the last, which are not full of a mix, weigh little.
_SATURATED_BATCHES: Final = 40
_MIN_SATURATED: Final = 2000
_MAX_SATURATED: Final = 50_000
# What a warm start has learned from: enough for every key of a handful to be past its prior.
WARM_REQUESTS: Final = 2000
_WARM_LOAD: Final = 0.7
# No run has such a seed, so that nobody is served twice.
_PAST_SEED: Final = 10**9


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """All that a run depends on, but for policy, rate and seed.

    Attributes
    ----------
    profile : EngineProfile
        The engine.
    workload : Workload
        The requests.
    arrivals : Arrivals
        How they come.
    settings : Settings
        Guard and unit of work; mode and policy of it are not read.
    estimates : {"learned", "duration", "true"}
        What the policies order by.
    warm : bool
        ``learned`` begins with `WARM_REQUESTS` completions of the same mix, or of the first of
        files that follow one another.
    state : Mapping or None
        ``learned`` begins with what a sidecar had learned (`Pipeline.state`: JSON, hence Any).
    """

    profile: EngineProfile
    workload: Workload
    arrivals: Arrivals = field(default_factory=Arrivals)
    settings: Settings = field(default_factory=Settings)
    estimates: EstimateKind = "learned"
    warm: bool = False
    state: Mapping[str, Any] | None = None

    @property
    def start(self) -> str:
        """What is known before the first request: ``cold``, ``warm``, ``seed``, ``seed, warm``."""
        known = [name for name, has in (("seed", self.state), ("warm", self.warm)) if has]
        return ", ".join(known) or "cold"


class Point(NamedTuple):
    """How hard an engine is driven.

    Attributes
    ----------
    rate_rps : float
        Requests a second, in the mean.
    load : float
        The rate over the engine's capacity.
    """

    rate_rps: float
    load: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One run and what came of it; ``curves`` where they were to be kept."""

    policy: str
    point: Point
    seed: int
    figures: Figures
    curves: Curves | None = None


def uses_queues(policy: str, settings: Settings) -> bool:
    """Say whether a policy orders by fitted queues; others need not wait until they are found."""
    return policy == "ewsjf-paper" or (policy == "ewsjf" and settings.between != "halves")


def estimates_of(setup: Setup, point: Point, seed: int, *, queues: bool = False) -> Estimating:
    """Make a run's estimates, with nothing in them from another run.

    Parameters
    ----------
    setup : Setup
        What kind, and what was learned before.
    point : Point
        Gives the capacity that the past was served at a share of.
    seed : int
        Decides the past.
    queues : bool
        Find queues, for a policy that orders by them (`uses_queues`).
    """
    if setup.estimates == "learned":
        return LearnedEstimates(
            setup.settings,
            warm=_past(setup, point, seed) if setup.warm else (),
            state=setup.state,
            queues=queues,
            slot_context_tokens=setup.profile.slot_context_tokens,
        )
    tokens = setup.workload.mean_tokens
    prompt_tokens = round(setup.workload.mean_prompt_tokens)
    profile = setup.profile
    make = TrueEstimates if setup.estimates == "true" else DurationEstimates
    return make(
        profile,
        setup.settings,
        mean_service_s=profile.service_s(tokens, prompt_tokens, profile.slots),
        mean_tokens=tokens,
        queues=queues,
    )


def _past(setup: Setup, point: Point, seed: int) -> list[Completion]:
    """Serve what came before the run: first come, first served, unhurried."""
    workload = setup.workload
    past = Workload(
        # What follows another file had not begun.
        files=workload.files if workload.weights else workload.files[:1],
        n=WARM_REQUESTS,
        weights=workload.frequencies if workload.weights else (),
        resample=True,
    )
    completions: list[Completion] = []

    def on_outcome(outcome: Outcome) -> None:
        completions.append(completion_from(outcome, len(completions)))

    estimates = TrueEstimates(setup.profile)
    simulate(
        past.jobs(
            Arrivals(),
            rate_rps=_WARM_LOAD * point.rate_rps / point.load,
            seed=_PAST_SEED + seed,
        ),
        setup.profile,
        create_policy(BASELINE, estimates.parameters),
        estimates,
        on_outcome=on_outcome,
    )
    return completions


def run_once(
    setup: Setup,
    policy: str,
    point: Point,
    seed: int,
    *,
    keep_curves: bool = False,
    on_request: Callable[[], object] = lambda: None,
) -> Run:
    """Replay a workload once.

    Parameters
    ----------
    setup : Setup
        What is replayed on what.
    policy : str
        One of `sched_client.policies.POLICY_NAMES`.
    point : Point
        How hard.
    seed : int
        Which requests, and when; the same for every policy.
    keep_curves : bool
        Draw what came of it later on.
    on_request : callable, optional
        Called as each request ends.

    Returns
    -------
    Run

    Raises
    ------
    ValueError
        For an unknown policy, a rate out of limits, a request that the engine can never hold, or
        a run in which nobody stayed to the end.
    """
    recorder = Recorder(setup.profile)
    # First come, first served asks for no estimate; learning would only take its time.
    estimates: Estimating = (
        TrueEstimates(setup.profile)
        if policy == BASELINE
        else estimates_of(setup, point, seed, queues=uses_queues(policy, setup.settings))
    )

    def on_outcome(outcome: Outcome) -> None:
        recorder(outcome)
        on_request()

    totals = simulate(
        setup.workload.jobs(setup.arrivals, rate_rps=point.rate_rps, seed=seed),
        setup.profile,
        create_policy(policy, estimates.parameters),
        estimates,
        on_outcome=on_outcome,
    )
    return Run(
        policy=policy,
        point=point,
        seed=seed,
        figures=recorder.figures(totals),
        curves=curves_of(recorder) if keep_curves else None,
    )


def capacity_rps(profile: EngineProfile, workload: Workload, seed: int) -> float:
    """Measure what load 1 is: requests a second of an engine that is never out of work.

    Parameters
    ----------
    profile : EngineProfile
        The engine.
    workload : Workload
        Its requests are drawn at random, each file by its share, and are all there at once.
    seed : int
        Decides the draw.

    Returns
    -------
    float
        First come, first served. Counted from the end of the first quarter of the requests until
        the queue is empty, so that neither the first batches, which start together, nor the
        last, which are not full, count. Of those that end at one instant all count, or none.
    """
    n = max(_SATURATED_BATCHES * profile.slots, _MIN_SATURATED)
    n = min(n, max(_MAX_SATURATED, 4 * profile.slots))
    ends = array("q")
    empty_ns = 0

    def on_admission(job: Job, now_ns: int, preemptions: int) -> None:  # noqa: ARG001 - theirs
        nonlocal empty_ns
        empty_ns = now_ns

    estimates = TrueEstimates(profile)
    simulate(
        workload.saturated(n, seed),
        profile,
        create_policy(BASELINE, estimates.parameters),
        estimates,
        on_outcome=lambda outcome: ends.append(outcome.finished_ns),
        on_admission=on_admission,
    )
    first, last = bisect_right(ends, ends[n // 4 - 1]), bisect_right(ends, empty_ns)
    return (last - first) * NS_PER_S / (ends[last - 1] - ends[first - 1])
