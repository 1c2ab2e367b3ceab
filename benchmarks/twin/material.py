"""Mixes, runs and intervals that every part shares.

All policies of a comparison are given the very same jobs; what differs between seeds is which
requests are drawn and when they come.
"""

import math
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from statistics import fmean, stdev
from typing import Any, Final, NamedTuple

from estimator.replay.arrivals import Arrivals
from estimator.replay.estimates import Estimating, TrueEstimates
from estimator.replay.figures import Figures, Recorder, student_t
from estimator.replay.job import Job
from estimator.replay.outcome import Outcome
from estimator.replay.profile import EngineProfile, load_profile
from estimator.replay.rows import Rows, read_rows
from estimator.replay.runs import (
    BASELINE,
    EstimateKind,
    Point,
    Setup,
    capacity_rps,
    estimates_of,
)
from estimator.replay.simulation import simulate
from estimator.replay.workload import Workload
from sched_client.model import Settings
from sched_client.policies import Policy, create_policy

TRACES: Final = Path(__file__).parents[1] / "traces"
LIBRISPEECH: Final = "librispeech-test-clean"
POLICIES: Final = ("ewsjf", "sjf", "hrrn")
# The guard: production's default; and off, where a policy is always asked.
GUARDS: Final = {"on": Settings(), "off": Settings(burst_requests=math.inf, reorder_above=0)}
# vLLM gives every text request a limit, the context less the prompt; a trace of lengths has none,
# and without one an estimate stops at the 448 tokens of Whisper.
TEXT_MAX_TOKENS: Final = 4096
_CAPACITY_SEED: Final = 1
# Nothing but the encoder counts: each request costs the engine the same, whatever its length, so
# that no order can lower the mean wait (Kleinrock's conservation law). The first, four-number fit
# to Table 1 of arXiv 2603.11273; the calibrated profile of that engine has decoding in it.
ENCODER_BOUND: Final = EngineProfile(
    name="encoder-bound",
    slots=256,
    step_s=0.0015,
    admission_s=0.056,
    max_admissions_per_step=1,
)

Row = dict[str, Any]  # Any: JSON
Table = dict[str, Row]


class Mix(NamedTuple):
    """Traces, and how often a request comes from each."""

    name: str
    parts: tuple[tuple[str, float], ...]
    language_hidden: bool = False

    def workload(self, n: int) -> Workload:
        """Give ``n`` requests, each drawn with replacement."""
        return Workload(
            files=tuple(rows_of(name, self.language_hidden) for name, _ in self.parts),
            n=n,
            weights=tuple(weight for _, weight in self.parts),
        )


SPEECH: Final = Mix("LibriSpeech", ((LIBRISPEECH, 1.0),))


@cache
def rows_of(name: str, language_hidden: bool = False) -> Rows:  # noqa: FBT001, FBT002 - cached
    """Read a trace once."""
    return read_rows(TRACES / f"{name}.csv.gz", language_hidden=language_hidden)


class Scene(NamedTuple):
    """Requests on an engine at a rate: what policies are compared on."""

    profile: EngineProfile
    workload: Workload
    arrivals: Arrivals
    point: Point

    def jobs(self, seed: int) -> list[Job]:
        """Give a seed's requests."""
        jobs = self.workload.jobs(self.arrivals, rate_rps=self.point.rate_rps, seed=seed)
        return [limited(job) for job in jobs]

    def estimates(self, kind: EstimateKind, settings: Settings, seed: int) -> Estimating:
        """Make what a policy orders by, as `kappad replay` does; learned ones are cold."""
        setup = Setup(
            profile=self.profile, workload=self.workload, settings=settings, estimates=kind
        )
        return estimates_of(setup, self.point, seed)

    def fcfs(
        self, jobs: Sequence[Job], *, see: Callable[[Outcome], object] | None = None
    ) -> Figures:
        """Run the baseline."""
        return self.run(jobs, BASELINE, TrueEstimates(self.profile), see=see)

    def run(
        self,
        jobs: Sequence[Job],
        policy: str | Policy,
        estimates: Estimating,
        *,
        see: Callable[[Outcome], object] | None = None,
    ) -> Figures:
        """Replay jobs; ``see`` is told of each that ends."""
        recorder = Recorder(self.profile)

        def both(outcome: Outcome) -> None:
            recorder(outcome)
            if see is not None:
                see(outcome)

        if isinstance(policy, str):
            policy = create_policy(policy, estimates.parameters)
        totals = simulate(
            jobs,
            self.profile,
            policy,
            estimates,
            on_outcome=recorder if see is None else both,
        )
        return recorder.figures(totals)


def scene(
    profile: EngineProfile, mix: Mix, load: float, n: int, arrivals: Arrivals | None = None
) -> Scene:
    """Set requests on an engine at a load, by default Poisson."""
    workload = mix.workload(n)
    rate_rps = load * measured_capacity(profile, mix)
    return Scene(profile, workload, arrivals or Arrivals(), Point(rate_rps, load))


def engine(name: str) -> EngineProfile:
    """Give a profile of the twin's, or the encoder-bound one."""
    return ENCODER_BOUND if name == ENCODER_BOUND.name else load_profile(name)


@cache
def measured_capacity(profile: EngineProfile, mix: Mix) -> float:
    """Measure requests a second of an engine that is never out of work."""
    return capacity_rps(profile, mix.workload(1), _CAPACITY_SEED)


def limited(job: Job) -> Job:
    """Give a text request the limit that vLLM gives it."""
    if job.audio_s is not None or job.max_tokens is not None:
        return job
    return job._replace(max_tokens=TEXT_MAX_TOKENS)


class Interval(NamedTuple):
    """A mean over seeds with its 95 % interval (Student); one seed has none."""

    mean: float
    low: float
    high: float


def interval(values: Sequence[float]) -> Interval:
    """Give the mean over seeds and how sure it is.

    Examples
    --------
    >>> interval([2.0, 2.0, 2.0])
    Interval(mean=2.0, low=2.0, high=2.0)
    """
    middle = fmean(values)
    if len(values) == 1:
        return Interval(middle, math.nan, math.nan)
    half = student_t(len(values) - 1) * stdev(values) / math.sqrt(len(values))
    return Interval(middle, middle - half, middle + half)


def shown(one: Interval, digits: int = 1, unit: str = "") -> str:
    """Write an interval as a cell of a table.

    Examples
    --------
    >>> shown(Interval(2.0, 1.5, 2.5), 1, " %")
    '2.0 % [1.5, 2.5]'
    """
    low, high = (f"{value:.{digits}f}" for value in one[1:])
    return f"{one.mean:.{digits}f}{unit} [{low}, {high}]"
