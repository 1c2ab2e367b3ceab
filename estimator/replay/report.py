"""A replay as a document: every policy over the same requests, at each rate, for each seed.

Owns which runs are made and how they are summed up; the keys of ``kappad replay --json``.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, fields
from statistics import fmean
from typing import Any, Final

from estimator.replay.capacity import TOLERANCE_RATIO, Carried, Limit
from estimator.replay.figures import (
    GROUP_METRICS,
    GROUP_SPREADS,
    METRICS,
    SPREADS,
    Figures,
    change_of,
    metric,
)
from estimator.replay.runs import BASELINE, Point, Run, Setup, run_once

# Of the settings: a run is always on, under its own policy.
_NOT_REPLAYED: Final = ("mode", "policy")


def replay(
    setup: Setup,
    *,
    policies: Sequence[str],
    points: Sequence[Point],
    seeds: Sequence[int],
    keep_curves: bool = False,
    on_request: Callable[[], object] = lambda: None,
) -> list[Run]:
    """Run every policy at every point with every seed.

    Parameters
    ----------
    setup : Setup
        What is replayed on what.
    policies : sequence of str
        In this order; `with_baseline` puts fcfs first.
    points, seeds : sequence
        At least one each.
    keep_curves : bool
        Keep what can be drawn of the first seed's runs.
    on_request : callable, optional
        Called as each request ends.

    Returns
    -------
    list of Run
        By point, then seed, then policy.

    Raises
    ------
    ValueError
        As `estimator.replay.runs.run_once`.
    """
    return [
        run_once(
            setup,
            policy,
            point,
            seed,
            keep_curves=keep_curves and seed == seeds[0],
            on_request=on_request,
        )
        for point in points
        for seed in seeds
        for policy in policies
    ]


def with_baseline(policies: Sequence[str]) -> tuple[str, ...]:
    """Put fcfs first, each policy once.

    Examples
    --------
    >>> with_baseline(["sjf", "hrrn", "sjf"])
    ('fcfs', 'sjf', 'hrrn')
    """
    return tuple(dict.fromkeys((BASELINE, *policies)))


def document_of(
    runs: Sequence[Run], setup: Setup, capacity_rps: float
) -> dict[str, Any]:  # Any: the document of `--json`
    """Sum up runs as ``replay --json`` prints them.

    Parameters
    ----------
    runs : sequence of Run
        As `replay` gives them, fcfs among them at each point and seed.
    setup : Setup
        What was replayed on what.
    capacity_rps : float
        What load 1 is.

    Returns
    -------
    dict
        See docs/commands.md.
    """
    return {
        **_head(setup, capacity_rps),
        "runs": [_run(one) for one in runs],
        "summary": summary_of(runs),
    }


def capacity_document(
    found: Sequence[Carried],
    limit: Limit,
    setup: Setup,
    capacity_rps: float,
    *,
    rates: Sequence[float],
    seeds: Sequence[int],
) -> dict[str, Any]:  # Any: as above
    """Give what ``replay --capacity --json`` prints.

    Parameters
    ----------
    found : sequence of Carried
        One of each policy.
    limit : Limit
        What had to hold.
    setup, capacity_rps
        As for `document_of`.
    rates : sequence of float
        For which pods are counted.
    seeds : sequence of int
        What was averaged over.

    Returns
    -------
    dict
        See docs/commands.md.
    """
    return {
        **_head(setup, capacity_rps),
        "limit": limit.text,
        "seed_count": len(seeds),
        "tolerance_rps": TOLERANCE_RATIO * capacity_rps,
        "capacity": [
            {
                "policy": one.policy,
                "rate_rps": one.rate_rps,
                "load": one.load,
                "value_s": one.value_s,
                "bound": one.bound,
                "pods": [{"rate_rps": rate, "pod_count": one.pods(rate)} for rate in rates],
            }
            for one in found
        ],
    }


def _head(setup: Setup, capacity_rps: float) -> dict[str, Any]:  # Any: as above
    settings = setup.settings
    return {
        "engine": setup.profile.name,
        "capacity_rps": capacity_rps,
        "workload": setup.workload.describe(),
        "assumption": setup.workload.assumption,
        "arrivals": asdict(setup.arrivals),
        "estimates": setup.estimates,
        "start": setup.start,
        "order_by": settings.order_by,
        "phi": settings.phi,
        "reorder_above": settings.reorder_above,
        "burst_requests": _or_none(settings.burst_requests),
        "settings": {
            one.name: _or_none(getattr(settings, one.name))
            for one in fields(settings)
            if one.name not in _NOT_REPLAYED
        },
    }


def _or_none(value: object) -> object:
    """Give null for what JSON cannot say."""
    return None if isinstance(value, float) and math.isinf(value) else value


def _run(run: Run) -> dict[str, Any]:  # Any: as above
    return {
        "policy": run.policy,
        "rate_rps": run.point.rate_rps,
        "load": run.point.load,
        "seed": run.seed,
        **asdict(run.figures),
    }


def summary_of(runs: Sequence[Run]) -> list[dict[str, Any]]:  # Any: as above
    """Give each policy's means over the seeds at each point, and how they compare with fcfs.

    Returns
    -------
    list of dict
        By point, then policy, in the order of the runs.
    """
    groups: dict[tuple[Point, str], list[Run]] = {}
    for run in runs:
        groups.setdefault((run.point, run.policy), []).append(run)
    return [
        _summary(of_policy, groups[point, BASELINE]) for (point, _), of_policy in groups.items()
    ]


def _summary(runs: Sequence[Run], baseline: Sequence[Run]) -> dict[str, Any]:  # Any: as above
    figures = [run.figures for run in runs]
    theirs = [run.figures for run in baseline]
    grouped = all(one.group_count for one in (*figures, *theirs))
    names = (*METRICS, *GROUP_METRICS) if grouped else METRICS
    means = {name: fmean(metric(one, name) for one in figures) for name in names}
    against = {name: _change(name, figures, theirs) for name in names}
    first = runs[0]
    spreads = {
        spread: {part: means[f"{spread}_{part}"] for part in ("p50", "p90", "p99", "mean")}
        if grouped or spread in SPREADS
        else None
        for spread in (*SPREADS, *GROUP_SPREADS)
    }
    rest = {name: means[name] for name in METRICS if not name.startswith(SPREADS)}
    return {
        "policy": first.policy,
        "rate_rps": first.point.rate_rps,
        "load": first.point.load,
        "seed_count": len(runs),
        **spreads,
        **rest,
        "preemption_count": fmean(one.preemption_count for one in figures),
        "aborted_count": fmean(one.aborted_count for one in figures),
        "group_count": fmean(one.group_count for one in figures),
        "percent_against_fcfs": against,
    }


def _change(
    name: str, ours: Sequence[Figures], theirs: Sequence[Figures]
) -> dict[str, float | None]:
    change = change_of([metric(one, name) for one in ours], [metric(one, name) for one in theirs])
    return asdict(change)
