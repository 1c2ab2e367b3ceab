"""What a run is summed up in: quantiles, extremes, throughput, and how sure a difference is.

A percentile is numpy's: linear between the two nearest of the sorted values, exact over all
requests (`numpy.percentile`, method ``linear``). Times hold the engine's constant overhead.
"""

import math
from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, stdev
from typing import Final

import numpy as np

from estimator.replay.callers import Callers
from estimator.replay.job import NS_PER_S
from estimator.replay.outcome import Outcome, Totals
from estimator.replay.profile import EngineProfile

METRICS: Final = (
    "ttft_s_p50", "ttft_s_p90", "ttft_s_p99", "ttft_s_mean",
    "e2e_s_p50", "e2e_s_p90", "e2e_s_p99", "e2e_s_mean",
    "max_wait_s", "slowdown_p50", "slowdown_p99", "throughput_rps", "mean_batch",
)  # fmt: skip
SPREADS: Final = ("ttft_s", "e2e_s")
# Where requests belong to groups.
GROUP_SPREADS: Final = ("caller_s", "group_s")
GROUP_METRICS: Final = tuple(
    f"{spread}_{part}" for spread in GROUP_SPREADS for part in ("p50", "p90", "p99", "mean")
)
_QUANTILES: Final = (50, 90, 99)


@dataclass(frozen=True, slots=True)
class Spread:
    """Quantiles and mean of one quantity, in its unit."""

    p50: float
    p90: float
    p99: float
    mean: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """What came of a run.

    Attributes
    ----------
    n : int
        Requests that finished; the figures are theirs.
    aborted_count : int
        Requests whose caller left.
    ttft_s, e2e_s : Spread
        From arrival to the first token, and to the end.
    max_wait_s : float
        The longest time from an arrival to the first admission, or to an abort before it.
    slowdown_p50, slowdown_p99 : float
        E2E over what the same request takes on an idle engine.
    throughput_rps : float
        Finished requests over the seconds from the first arrival to the last end.
    mean_batch : float
        Running requests, averaged over the time in which the engine made steps.
    preemption_count : int
        How often a request lost its place in the engine.
    group_count : int
        Files of two pieces and more of which all have ended.
    caller_s, group_s : Spread or None
        From a caller's arrival to its last answer: of all callers, a file being one, and of the
        ``group_count``; None without any.
    """

    n: int
    aborted_count: int
    ttft_s: Spread
    e2e_s: Spread
    max_wait_s: float
    slowdown_p50: float
    slowdown_p99: float
    throughput_rps: float
    mean_batch: float
    preemption_count: int
    group_count: int = 0
    caller_s: Spread | None = None
    group_s: Spread | None = None


def metric(figures: Figures, name: str) -> float:
    """Give one of `METRICS`, or of `GROUP_METRICS` where there are groups."""
    for spread in (*SPREADS, *GROUP_SPREADS):
        if name.startswith(f"{spread}_"):
            return float(getattr(getattr(figures, spread), name.removeprefix(f"{spread}_")))
    return float(getattr(figures, name))


class Recorder:
    """Takes a run's outcomes as they come; holds 32 bytes of each, and more of each group.

    Parameters
    ----------
    profile : EngineProfile
        Gives what a request takes alone, and the time outside the engine.

    Attributes
    ----------
    finished_s, ttft_s, e2e_s : array of float
        Of the requests that finished, in the order in which they did; ``finished_s`` is when the
        caller has the answer.
    """

    def __init__(self, profile: EngineProfile) -> None:
        self.finished_s = array("d")
        self.ttft_s = array("d")
        self.e2e_s = array("d")
        self._slowdown = array("d")
        self._profile = profile
        self._max_wait_ns = 0
        self._callers = Callers()

    def __call__(self, outcome: Outcome) -> None:
        """Take one outcome."""
        job, admitted_ns, first_ns, finished_ns, tokens, *_ = outcome
        arrival_ns = job.arrival_ns
        waited_ns = (finished_ns if admitted_ns is None else admitted_ns) - arrival_ns
        self._max_wait_ns = max(self._max_wait_ns, waited_ns)
        if job.group_id:
            self._callers.take(outcome)
        if outcome.finish == "aborted" or first_ns is None:
            return
        if job.group_id:
            self._callers.at.append(len(self.e2e_s))
        profile = self._profile
        overhead_s = profile.request_overhead_s
        e2e_s = (finished_ns - arrival_ns) / NS_PER_S + overhead_s
        self.finished_s.append(finished_ns / NS_PER_S + overhead_s)
        self.ttft_s.append((first_ns - arrival_ns) / NS_PER_S + overhead_s)
        self.e2e_s.append(e2e_s)
        alone_s = profile.service_s(tokens, job.prompt_tokens) + overhead_s
        self._slowdown.append(e2e_s / alone_s)

    def figures(self, totals: Totals) -> Figures:
        """Sum up a run that has ended.

        Raises
        ------
        ValueError
            If no request finished.
        """
        n = len(self.e2e_s)
        if n == 0:
            raise ValueError("no request finished: every caller left before the end")
        slowdown = np.percentile(np.frombuffer(self._slowdown), (50, 99))
        callers, files = array("d"), array("d")
        if self._callers:
            overhead_s = self._profile.request_overhead_s
            callers, files = self._callers.latencies(self.e2e_s, overhead_s)
        return Figures(
            n=n,
            aborted_count=totals.aborted,
            ttft_s=spread_of(self.ttft_s),
            e2e_s=spread_of(self.e2e_s),
            max_wait_s=self._max_wait_ns / NS_PER_S,
            slowdown_p50=float(slowdown[0]),
            slowdown_p99=float(slowdown[1]),
            throughput_rps=n * NS_PER_S / max(totals.last_end_ns - totals.first_arrival_ns, 1),
            mean_batch=totals.running_ns / max(totals.busy_ns, 1),
            preemption_count=totals.preemptions,
            group_count=len(files),
            caller_s=spread_of(callers) if files else None,
            group_s=spread_of(files) if files else None,
        )


def spread_of(values: "array[float]") -> Spread:
    """Give quantiles and mean.

    Examples
    --------
    >>> spread_of(array("d", [1.0, 2.0, 3.0])).p90
    2.8
    """
    numbers = np.frombuffer(values)
    p50, p90, p99 = (float(one) for one in np.percentile(numbers, _QUANTILES))
    return Spread(p50, p90, p99, float(np.mean(numbers)))


@dataclass(frozen=True, slots=True)
class Change:
    """By how many percent a figure is above another's, over paired seeds.

    Attributes
    ----------
    percent : float or None
        From the mean of the log ratios; None where a figure is 0.
    low, high : float or None
        The 95 % interval of that mean; None with one seed.
    """

    percent: float | None
    low: float | None = None
    high: float | None = None


def change_of(values: Sequence[float], against: Sequence[float]) -> Change:
    """Compare a figure with that of another policy, seed by seed.

    Parameters
    ----------
    values, against : sequence of float
        The figure of each seed, in the same order: both policies saw the same requests.

    Returns
    -------
    Change
        exp of the mean log ratio and of its Student interval, as percentages.

    Examples
    --------
    >>> change_of([2.0], [1.0])
    Change(percent=100.0, low=None, high=None)
    """
    if not all(one > 0.0 for one in (*values, *against)):
        return Change(None)
    logs = [math.log(ours / theirs) for ours, theirs in zip(values, against, strict=True)]
    middle = fmean(logs)
    if len(logs) == 1:
        return Change(_percent(middle))
    half = student_t(len(logs) - 1) * stdev(logs) / math.sqrt(len(logs))
    return Change(_percent(middle), _percent(middle - half), _percent(middle + half))


def _percent(log_ratio: float) -> float:
    return 100.0 * math.expm1(log_ratio)


def student_t(degrees: int) -> float:
    """Give Student's t at 97.5 % for at least one degree of freedom."""
    # Here and not above: it takes a third of a second, and a single seed needs none.
    from scipy.special import stdtrit  # type: ignore[import-untyped]  # noqa: PLC0415

    return float(stdtrit(degrees, 0.975))
