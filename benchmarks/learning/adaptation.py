"""The pipeline as it is shipped, through changes and in the order in which requests finish."""

import statistics
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from benchmarks.learning.material import (
    LARGE_CHANGE,
    N_BEFORE,
    Change,
    changes,
    finite,
    quantiles,
    relative_spread,
)
from estimator.evaluation import metrics
from estimator.evaluation.prequential import Run, run
from estimator.evaluation.references import ToldRatio
from estimator.evaluation.scenarios import (
    Trace,
    in_completion_order,
    in_trace_order,
    resampled,
)
from estimator.evaluation.subjects import LearnerSubject, PipelineSubject, Subject

Figures = dict[str, float | None]

N_SEEDS: Final = 8
# Fewer in completion order: what runs is told and weighed with every completion there.
N_ORDER_SEEDS: Final = 3
# Smaller ones are within the tolerance of ±10 % from the start.
SMALL_CHANGE: Final = 1.15
# Completions after a change over which the error is compared.
N_ERROR: Final = 100
N_SETTLE: Final = 100
N_STEADY: Final = 600


def _summary(runs: Sequence[Run]) -> Figures:
    cross = quantiles(one.crossings[1].to_cross for one in runs)
    stay = quantiles(one.crossings[1].to_stay for one in runs)
    errors = (metrics.mae(one.records[N_BEFORE : N_BEFORE + N_ERROR]) for one in runs)
    return {
        "runs": len(runs),
        "cross_p50": finite(cross[0]),
        "cross_p90": finite(cross[1]),
        "stay_p50": finite(stay[0]),
        "stay_p90": finite(stay[1]),
        "mae_first_100": statistics.fmean(errors),
    }


def _runs(
    among: Iterable[Change],
    make: Callable[[], Subject],
    order: str = "trace",
    n_seeds: int = N_SEEDS,
) -> list[Run]:
    return [run(make(), change.stream(seed, order)) for change in among for seed in range(n_seeds)]


def measure_changes(traces: Sequence[Trace]) -> dict[str, Figures]:
    """Give completions to find a change, language hidden, for the pipeline and the references."""
    every = list(changes(traces, SMALL_CHANGE))
    large = [change for change in every if change.factor >= LARGE_CHANGE]
    small = [change for change in every if change.factor < LARGE_CHANGE]
    table: dict[str, Figures] = {}
    makers: dict[str, Callable[[], Subject]] = {
        "told": lambda: LearnerSubject(ToldRatio),
        "pipeline": PipelineSubject,
    }
    for name, make in makers.items():
        table[f"{name}, from x1.5, trace order"] = _summary(_runs(large, make))
        table[f"{name}, from x1.5, completion order"] = _summary(
            _runs(large, make, "completion", N_ORDER_SEEDS)
        )
        table[f"{name}, x1.15 to x1.5, trace order"] = _summary(
            _runs(small, make, n_seeds=N_ORDER_SEEDS)
        )
    return table


def measure_order(traces: Sequence[Trace]) -> dict[str, dict[str, float]]:
    """Compare completion order with trace order, by trace: the error after 100 completions."""
    table: dict[str, dict[str, float]] = {}
    for trace in traces:
        errors: dict[bool, list[float]] = {True: [], False: []}
        for seed in range(N_ORDER_SEEDS):
            part = [resampled(trace, seed, N_STEADY)]
            for concurrent, row in errors.items():
                stream = in_completion_order(part) if concurrent else in_trace_order(part)
                records = run(PipelineSubject(), stream).records
                row.append(metrics.mae(metrics.scored(records[N_SETTLE:])))
        table[trace.name] = {
            "mae_over_trace_order": statistics.fmean(errors[True])
            / statistics.fmean(errors[False]),
        }
    return table


def measure_file_order(traces: Sequence[Trace]) -> dict[str, dict[str, float]]:
    """Run each file in its own order: where speakers change, so does κ."""
    table = {}
    for trace in traces:
        one = run(PipelineSubject(), in_trace_order([trace]))
        records = metrics.scored(one.records[N_SETTLE:])
        table[trace.name] = {
            "mae_over_oracle": metrics.mae(records) / metrics.oracle_mae(records),
            "drift_events": sum(raised.event.ended_s is None for raised in one.events),
            "relative_spread": relative_spread(trace),
        }
    return table
