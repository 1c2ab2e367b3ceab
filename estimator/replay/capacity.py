"""How many requests a second a pod carries within a limit, and how many pods a rate needs.

Owns the grammar of a limit and the search for the rate.
"""

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Final, Literal

from estimator.replay.figures import metric
from estimator.replay.runs import Point, Setup, run_once

_METRICS: Final = {
    **{
        f"{time}_{part}": f"{time}_s_{part}"
        for time in ("ttft", "e2e")
        for part in ("p50", "p90", "p99", "mean")
    },
    "max_wait": "max_wait_s",
}
_UNITS: Final = {"s": 1.0, "ms": 1e-3}
_LIMIT: Final = re.compile(r"\s*([a-z0-9_]+)\s*<\s*([0-9.eE+-]+)\s*([a-z]*)\s*")
# Loads between which a rate is looked for. An engine cannot carry more than what it serves when
# it is never idle, however well a short run looks: the queue only grows.
_LEAST_LOAD: Final = 0.01
_MOST_LOAD: Final = 1.0
# The rate is found to this share of the capacity; one run's own luck moves it by more.
TOLERANCE_RATIO: Final = 0.01


@dataclass(frozen=True, slots=True)
class Limit:
    """What must hold: a metric of `estimator.replay.figures.METRICS` below so many seconds."""

    text: str
    metric: str
    seconds: float


def limit_of(text: str) -> Limit:
    """Read a limit such as ``e2e_p90<2s`` or ``ttft_p50 < 500ms``.

    Raises
    ------
    ValueError
        Names the part that is wrong, and what it may be.

    Examples
    --------
    >>> limit_of("ttft_p90<500ms")
    Limit(text='ttft_p90<500ms', metric='ttft_s_p90', seconds=0.5)
    """
    match = _LIMIT.fullmatch(text)
    if match is None:
        raise ValueError(f"the limit {text!r} is not of the form e2e_p90<2s or ttft_p50<500ms")
    name, number, unit = match.groups()
    if name not in _METRICS:
        raise ValueError(f"the limit {text!r} is on {name!r}; use {', '.join(_METRICS)}")
    if unit not in _UNITS:
        raise ValueError(f"the limit {text!r} has the unit {unit!r}; use s or ms, as in 2s")
    try:
        seconds = float(number) * _UNITS[unit]
    except ValueError:
        seconds = math.nan
    if not 0.0 < seconds < math.inf:
        raise ValueError(f"the limit {text!r} is {number!r}; it must be a number above 0")
    return Limit("".join(text.split()), _METRICS[name], seconds)


@dataclass(frozen=True, slots=True)
class Carried:
    """What a pod carries under a policy.

    Attributes
    ----------
    policy : str
        The policy.
    rate_rps : float
        The highest rate found at which the limit holds; 0 if at none.
    load : float
        The rate over the capacity.
    value_s : float
        The limited metric there (at the lowest rate tried, where it holds at none), mean of the
        seeds.
    bound : {"limit", "engine", "unreachable"}
        What stops it: the limit; the capacity, at which the limit still holds; or nothing helps,
        as the limit is broken at a hundredth of the capacity too.
    """

    policy: str
    rate_rps: float
    load: float
    value_s: float
    bound: Literal["limit", "engine", "unreachable"]

    def pods(self, rate_rps: float) -> int | None:
        """Give the pods that carry a rate, None where none can."""
        return math.ceil(rate_rps / self.rate_rps) if self.rate_rps else None


def carried(
    setup: Setup,
    limit: Limit,
    *,
    policy: str,
    seeds: Sequence[int],
    capacity_rps: float,
    on_request: Callable[[], object] = lambda: None,
) -> Carried:
    """Search for the highest rate at which a limit holds, by bisection.

    Parameters
    ----------
    setup : Setup
        What is replayed on what.
    limit : Limit
        Must hold for the mean over the seeds.
    policy : str
        The policy.
    seeds : sequence of int
        The same requests, in the same pattern, at every rate: only the rate differs.
    capacity_rps : float
        What load 1 is, and the most that is tried.
    on_request : callable, optional
        Called as each request ends.

    Returns
    -------
    Carried
        To 1 % of the capacity.
    """

    def value_at(load: float) -> float:
        point = Point(load * capacity_rps, load)
        return fmean(
            metric(
                run_once(setup, policy, point, seed, on_request=on_request).figures, limit.metric
            )
            for seed in seeds
        )

    low, high = _LEAST_LOAD, _MOST_LOAD
    value_s = value_at(high)
    if value_s < limit.seconds:
        return Carried(policy, high * capacity_rps, high, value_s, "engine")
    value_s = value_at(low)
    if value_s >= limit.seconds:
        return Carried(policy, 0.0, 0.0, value_s, "unreachable")
    while high - low > TOLERANCE_RATIO:
        middle = (low + high) / 2
        value = value_at(middle)
        if value < limit.seconds:
            low, value_s = middle, value
        else:
            high = middle
    return Carried(policy, low * capacity_rps, low, value_s, "limit")
