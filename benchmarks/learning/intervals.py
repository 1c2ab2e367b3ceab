"""Coverage of the quantiles, where nothing changes and after a change, and what it costs."""

import statistics
from collections.abc import Callable, Sequence
from typing import Final

from benchmarks.learning.material import N_BEFORE, changes
from estimator.evaluation import metrics
from estimator.evaluation.coverage import FixedResiduals, intervals_of
from estimator.evaluation.metrics import Record
from estimator.evaluation.prequential import run
from estimator.evaluation.scenarios import Trace, in_trace_order, resampled
from estimator.evaluation.subjects import PipelineSubject, Subject

N_SEEDS: Final = 20
N: Final = 600
N_SETTLE: Final = 100
# Completions after a change in which coverage is promised.
AFTER: Final = slice(N_BEFORE + 20, N_BEFORE + 220)
N_LONG: Final = 12_000
# Changes after which coverage is promised: κ by at least so much.
LEAST_CHANGE: Final = 1.2


def _records(trace: Trace, make: Callable[[], Subject] = PipelineSubject) -> list[Record]:
    return metrics.scored(run(make(), in_trace_order([trace])).records)


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


def _beside_fixed(trace: Trace, settled: Sequence[Record]) -> dict[str, float]:
    """Give what the interval is worth beside all past residuals of a learner that never forgets.

    ``excess_ratio`` is what p90 holds beyond what came, and the pinball loss is least for the true
    quantile, so that coverage is not bought with width.
    """
    own = intervals_of(settled)
    fixed = intervals_of(
        [
            record
            for seed in range(N_SEEDS)
            for record in _records(resampled(trace, seed, N), FixedResiduals)[N_SETTLE:]
        ]
    )
    return {
        "p90_coverage_shorter_half": own.shorter_p90,
        "p90_coverage_longer_half": own.longer_p90,
        "p90_excess_ratio": own.excess_ratio,
        "fixed_p90_coverage": fixed.p90,
        "fixed_p90_excess_ratio": fixed.excess_ratio,
        "p90_pinball_over_fixed": own.pinball_ratio / fixed.pinball_ratio,
    }


def _after_changes(traces: Sequence[Trace]) -> dict[str, dict[str, float]]:
    """Give coverage 20 to 220 after each change: all pooled, and the pairs with least and most."""
    pairs = {
        f"{change.before.name} to {change.after.name}": [
            record
            for seed in range(N_SEEDS)
            for record in metrics.scored(
                run(PipelineSubject(), change.stream(seed)).records[AFTER]
            )
        ]
        for change in changes(traces, LEAST_CHANGE)
    }
    ranked = sorted(pairs, key=lambda name: metrics.coverage(pairs[name]))
    everything = [record for records in pairs.values() for record in records]
    return {
        "20 to 220 after a change": _figures(everything),
        **{f"20 to 220 after {name}": _figures(pairs[name]) for name in (ranked[0], ranked[-1])},
    }


def measure(traces: Sequence[Trace]) -> dict[str, dict[str, float]]:
    """Give coverage and width by trace: 20 resamples, a long run, and the file's own order.

    A cold start's first 100 completions are counted only where the name says so. The last rows are
    completions 20 to 220 after every change of ×1.2 and more, language hidden.
    """
    table: dict[str, dict[str, float]] = {}
    for trace in traces:
        rows = [_records(resampled(trace, seed, N)) for seed in range(N_SEEDS)]
        settled = [record for row in rows for record in row[N_SETTLE:]]
        figures = _figures(settled) | _beside_fixed(trace, settled)
        everything = [record for row in rows for record in row]
        figures["p90_coverage_with_cold_start"] = metrics.coverage(everything)
        figures["p90_coverage_long_run"] = metrics.coverage(_records(resampled(trace, 1, N_LONG)))
        figures["p90_coverage_in_order"] = metrics.coverage(_records(trace)[N_SETTLE:])
        table[trace.name] = figures
    return table | _after_changes(traces)
