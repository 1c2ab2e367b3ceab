"""Coverage of the quantiles, where nothing changes and after a change, and what it costs.

Widths are held against `estimator.evaluation.coverage.FixedResiduals`: all past residuals of a
learner that never forgets.
"""

from collections.abc import Callable, Sequence
from typing import Final

from benchmarks.learning.material import N_BEFORE, changes
from estimator.evaluation import metrics
from estimator.evaluation.coverage import FixedResiduals, intervals_of
from estimator.evaluation.metrics import Record
from estimator.evaluation.prequential import run
from estimator.evaluation.scenarios import Stream, Trace, in_trace_order, resampled
from estimator.evaluation.subjects import PipelineSubject, Subject

N_SEEDS: Final = 20
N: Final = 500
N_SETTLE: Final = 100
# Completions after a change in which coverage is promised.
AFTER: Final = slice(N_BEFORE + 20, N_BEFORE + 220)
N_LONG: Final = 12_000
# Coverage is promised after all of the real changes, ×1.2 to ×1.9, not only after the large ones.
LEAST_CHANGE: Final = 1.2


def _records(stream: Stream, make: Callable[[], Subject] = PipelineSubject) -> list[Record]:
    return metrics.scored(run(make(), stream).records)


def _figures(own: Sequence[Record], fixed: Sequence[Record]) -> dict[str, float]:
    ours, theirs = intervals_of(own), intervals_of(fixed)
    return {
        "p50_coverage": ours.p50,
        "p90_coverage": ours.p90,
        "p99_coverage": ours.p99,
        "fixed_p90_coverage": theirs.p90,
        "width_over_fixed": ours.excess_ratio / theirs.excess_ratio,
        "pinball_over_fixed": ours.pinball_ratio / theirs.pinball_ratio,
    }


def measure_stationary(traces: Sequence[Trace]) -> dict[str, dict[str, float]]:
    """Give by trace: 20 resamples after 100 completions, with the cold start, and a long run."""
    table: dict[str, dict[str, float]] = {}
    for trace in traces:
        streams = [in_trace_order([resampled(trace, seed, N)]) for seed in range(N_SEEDS)]
        rows = [_records(stream) for stream in streams]
        settled = [record for row in rows for record in row[N_SETTLE:]]
        fixed = [record for one in streams for record in _records(one, FixedResiduals)[N_SETTLE:]]
        long = _records(in_trace_order([resampled(trace, 1, N_LONG)]))
        table[trace.name] = {
            **_figures(settled, fixed),
            "p90_with_cold_start": metrics.coverage([record for row in rows for record in row]),
            "p90_long_run": metrics.coverage(long),
        }
    return table


def measure_in_order(traces: Sequence[Trace]) -> dict[str, dict[str, float]]:
    """Give by trace the same of the file's own order, after 100 completions."""
    table: dict[str, dict[str, float]] = {}
    for trace in traces:
        stream = in_trace_order([trace])
        own, fixed = (_records(stream, make) for make in (PipelineSubject, FixedResiduals))
        table[trace.name] = _figures(own[N_SETTLE:], fixed[N_SETTLE:])
    return table


def measure_after_changes(traces: Sequence[Trace]) -> dict[str, float]:
    """Give coverage over completions 20 to 220 after changes of ×1.2 and more, 20 seeds a pair."""
    pairs: list[float] = []
    own: list[Record] = []
    for change in changes(traces, LEAST_CHANGE):
        records = [
            record for seed in range(N_SEEDS) for record in _records(change.stream(seed))[AFTER]
        ]
        pairs.append(metrics.coverage(records))
        own += records
    fixed = [
        record
        for change in changes(traces, LEAST_CHANGE)
        for record in _records(change.stream(0), FixedResiduals)[AFTER]
    ]
    return {
        **_figures(own, fixed),
        "p90_coverage_least_pair": min(pairs),
        "p90_coverage_most_pair": max(pairs),
    }
