"""A replay as a document: every policy over the same requests, at each rate, for each seed.

Owns which runs are made and how they are summed up; the keys of ``kappad replay --json``.
"""

from collections.abc import Callable, Sequence
from dataclasses import asdict
from statistics import fmean
from typing import Any, Final

from estimator.replay.figures import Figures, change_of
from estimator.replay.runs import BASELINE, Point, Run, Setup, run_once

METRICS: Final = (
    "ttft_s_p50", "ttft_s_p90", "ttft_s_p99", "ttft_s_mean",
    "e2e_s_p50", "e2e_s_p90", "e2e_s_p99", "e2e_s_mean",
    "max_wait_s", "slowdown_p50", "slowdown_p99", "throughput_rps", "mean_batch",
)  # fmt: skip
_SPREADS: Final = ("ttft_s", "e2e_s")


def replay(
    setup: Setup,
    *,
    policies: Sequence[str],
    points: Sequence[Point],
    seeds: Sequence[int],
    keep_first: bool = False,
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
    keep_first : bool
        Keep each request's times of the first seed's runs.
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
            keep=keep_first and seed == seeds[0],
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


def metric(figures: Figures, name: str) -> float:
    """Give one of `METRICS`."""
    for spread in _SPREADS:
        if name.startswith(f"{spread}_"):
            return float(getattr(getattr(figures, spread), name.removeprefix(f"{spread}_")))
    return float(getattr(figures, name))


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
    settings, arrivals = setup.settings, setup.arrivals
    return {
        "engine": setup.profile.name,
        "capacity_rps": capacity_rps,
        "workload": setup.workload.describe(),
        "arrivals": asdict(arrivals),
        "estimates": setup.estimates,
        "start": "warm" if setup.warm else "cold",
        "order_by": settings.order_by,
        "phi": settings.phi,
        "burst_requests": settings.burst_requests,
        "runs": [_run(one) for one in runs],
        "summary": summary_of(runs),
    }


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
    means = {name: fmean(metric(one, name) for one in figures) for name in METRICS}
    against = {
        name: asdict(
            change_of(
                [metric(one, name) for one in figures],
                [metric(run.figures, name) for run in baseline],
            )
        )
        for name in METRICS
    }
    first = runs[0]
    spreads = {
        spread: {part: means[f"{spread}_{part}"] for part in ("p50", "p90", "p99", "mean")}
        for spread in _SPREADS
    }
    rest = {name: means[name] for name in METRICS if not name.startswith(_SPREADS)}
    return {
        "policy": first.policy,
        "rate_rps": first.point.rate_rps,
        "load": first.point.load,
        "seed_count": len(runs),
        **spreads,
        **rest,
        "preemption_count": fmean(one.preemption_count for one in figures),
        "aborted_count": fmean(one.aborted_count for one in figures),
        "percent_against_fcfs": against,
    }
