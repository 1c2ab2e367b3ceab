"""What a new language inside a known model costs, beside one that starts from the prior."""

import random
import statistics
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from estimator.evaluation import metrics
from estimator.evaluation.prequential import Run, run
from estimator.evaluation.scenarios import Trace, in_trace_order, resampled
from estimator.evaluation.subjects import PipelineSubject

N_SEEDS: Final = 10
# Completions of each language that is known, and of the new one.
N_KNOWN: Final = 150
N_NEW: Final = 20


def _language(trace: Trace) -> str:
    return trace.completions[0].language


def _error(one: Run, segment: int) -> float:
    return metrics.mae([row for row in metrics.scored(one.records) if row.segment == segment])


def with_more_tokens(trace: Trace, factor: int) -> Trace:
    """Give the trace as a model would write it whose vocabulary needs that many more tokens."""
    return Trace(
        trace.name,
        tuple(replace(one, output_tokens=factor * one.output_tokens) for one in trace.completions),
    )


def measure(traces: Sequence[Trace]) -> dict[str, dict[str, float]]:
    """Give by language the error over its first 20 completions in a known model over a fresh one.

    ``oracle`` is the error of the 20 completions' own Σn/Σd over a fresh model's: what no learner
    of a ratio goes below. ``excess`` is what the known model has above it, over what a fresh one
    has.
    """
    table: dict[str, dict[str, float]] = {}
    totals = [0.0, 0.0, 0.0]
    for trace in traces:
        others = [one for one in traces if _language(one) != _language(trace)]
        known, fresh, oracle = [], [], []
        for seed in range(N_SEEDS):
            parts = [row for one in others for row in resampled(one, seed, N_KNOWN).completions]
            random.Random(seed).shuffle(parts)
            new = resampled(trace, seed, N_NEW)
            model = Trace("known", tuple(parts))
            known.append(_error(run(PipelineSubject(), in_trace_order([model, new])), 1))
            alone = run(PipelineSubject(), in_trace_order([new]))
            fresh.append(_error(alone, 0))
            oracle.append(metrics.oracle_mae(metrics.scored(alone.records)))
        means = [statistics.fmean(row) for row in (known, fresh, oracle)]
        totals = [total + mean for total, mean in zip(totals, means, strict=True)]
        table[trace.name] = _ratios(means)
    table["all"] = _ratios(totals)
    return table


def _ratios(means: Sequence[float]) -> dict[str, float]:
    known, fresh, oracle = means
    return {
        "known_over_fresh": known / fresh,
        "oracle_over_fresh": oracle / fresh,
        "excess_over_fresh": (known - oracle) / (fresh - oracle),
    }
