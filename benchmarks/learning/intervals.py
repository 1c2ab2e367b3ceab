"""Coverage of the quantiles, where nothing changes and after a change, and what it costs."""

import statistics
from collections.abc import Sequence
from typing import Final

from benchmarks.learning.material import LARGE_CHANGE, N_BEFORE, changes
from estimator.evaluation import metrics
from estimator.evaluation.metrics import Record
from estimator.evaluation.prequential import run
from estimator.evaluation.scenarios import Trace, in_trace_order, resampled
from estimator.evaluation.subjects import PipelineSubject

N_SEEDS: Final = 20
N_CHANGE_SEEDS: Final = 8
N: Final = 600
N_SETTLE: Final = 100
# Completions after a change in which coverage is promised.
AFTER: Final = slice(N_BEFORE + 20, N_BEFORE + 220)
N_LONG: Final = 12_000


def _records(trace: Trace) -> list[Record]:
    return metrics.scored(run(PipelineSubject(), in_trace_order([trace])).records)


def over_fixed(records: Sequence[Record]) -> float:
    """Give the mean p90 over that of a fixed interval of the same coverage.

    The fixed one is the prediction times one ratio, the quantile of all actual over predicted
    tokens at the coverage that was reached, known in hindsight.
    """
    reached = metrics.coverage(records)
    ratio = metrics.quantile((one.actual / one.predicted for one in records), reached)
    fixed = statistics.fmean(ratio * one.predicted for one in records)
    return statistics.fmean(one.p90 for one in records) / fixed


def _figures(records: Sequence[Record]) -> dict[str, float]:
    return {
        "p50_coverage": metrics.coverage(records, "p50"),
        "p90_coverage": metrics.coverage(records, "p90"),
        "p99_coverage": metrics.coverage(records, "p99"),
        "p90_over_prediction": metrics.mean_width(records),
        "p90_over_fixed": over_fixed(records),
    }


def measure(traces: Sequence[Trace]) -> dict[str, dict[str, float]]:
    """Give coverage and width by trace: 20 resamples, a long run, and the file's own order.

    A cold start's first 100 completions are left out of the first two only where the name says
    so; the last row pools completions 20 to 220 after every change of ×1.5 and more.
    """
    table: dict[str, dict[str, float]] = {}
    for trace in traces:
        rows = [_records(resampled(trace, seed, N)) for seed in range(N_SEEDS)]
        settled = [record for row in rows for record in row[N_SETTLE:]]
        figures = _figures(settled)
        everything = [record for row in rows for record in row]
        figures["p90_coverage_with_cold_start"] = metrics.coverage(everything)
        figures["p90_coverage_long_run"] = metrics.coverage(_records(resampled(trace, 1, N_LONG)))
        figures["p90_coverage_in_order"] = metrics.coverage(_records(trace)[N_SETTLE:])
        table[trace.name] = figures
    after: list[Record] = []
    for change in changes(traces, LARGE_CHANGE):
        for seed in range(N_CHANGE_SEEDS):
            after += metrics.scored(run(PipelineSubject(), change.stream(seed)).records[AFTER])
    table["20 to 220 after a change"] = _figures(after)
    return table
