"""What a new language inside a known model costs, beside one that starts from the prior.

And beside what bounds it from below, for whoever has seen the language before: its median by
length; and all that its clips hold but one factor, which is believed to be what the other
languages' are.
"""

import math
import random
import statistics
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from benchmarks.learning.cold_start_oracle import KnowsAllButTheLevel, log_prior_of
from estimator.evaluation import metrics
from estimator.evaluation.prequential import Run, hindsight_of, run
from estimator.evaluation.scenarios import Trace, in_trace_order, resampled
from estimator.evaluation.subjects import PipelineSubject, size_of

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


def _floors(trace: Trace, new: Trace, others: Sequence[Trace]) -> tuple[float, float]:
    """Give the errors over new completions of who knows the language, and all but its level."""
    own = math.log(hindsight_of(trace).kappa)
    off = [math.log(hindsight_of(one).kappa) - own for one in others]
    log_prior = log_prior_of(math.exp(statistics.fmean(off)), statistics.stdev(off))
    oracle = KnowsAllButTheLevel(trace)
    known, leveled = [], []
    done: list[tuple[float, float]] = []
    for one in new.completions:
        size, tokens = size_of(one), float(one.output_tokens)
        median = oracle.noise.median(size)
        known.append(abs(tokens - median))
        leveled.append(abs(tokens - oracle.level(done, log_prior=log_prior) * median))
        done.append((size, tokens))
    return statistics.fmean(known), statistics.fmean(leveled)


def measure(traces: Sequence[Trace]) -> dict[str, dict[str, float]]:
    """Give by language the error over its first 20 completions in a known model over a fresh one.

    Beside it, over a fresh model's as well: ``oracle`` of the 20 completions' own Σn/Σd,
    ``language_known`` of the medians by length of the whole trace, and ``all_but_level`` of a
    Bayesian who knows all that clips of the language hold but a factor. ``excess`` is what the
    known model has above ``oracle``, over what a fresh one has.
    """
    table: dict[str, dict[str, float]] = {}
    every: list[Sequence[float]] = []
    for trace in traces:
        others = [one for one in traces if _language(one) != _language(trace)]
        rows = []
        for seed in range(N_SEEDS):
            parts = [row for one in others for row in resampled(one, seed, N_KNOWN).completions]
            random.Random(seed).shuffle(parts)
            new = resampled(trace, seed, N_NEW)
            model = Trace("known", tuple(parts))
            known = _error(run(PipelineSubject(), in_trace_order([model, new])), 1)
            alone = run(PipelineSubject(), in_trace_order([new]))
            oracle = metrics.oracle_mae(metrics.scored(alone.records))
            rows.append((known, _error(alone, 0), oracle, *_floors(trace, new, others)))
        means = [statistics.fmean(column) for column in zip(*rows, strict=True)]
        every.append(means)
        table[trace.name] = _ratios(means)
    table["all"] = _ratios([sum(column) for column in zip(*every, strict=True)])
    return table


def _ratios(means: Sequence[float]) -> dict[str, float]:
    known, fresh, oracle, language_known, all_but_level = means
    return {
        "known_over_fresh": known / fresh,
        "all_but_level_over_fresh": all_but_level / fresh,
        "language_known_over_fresh": language_known / fresh,
        "oracle_over_fresh": oracle / fresh,
        "excess_over_fresh": (known - oracle) / (fresh - oracle),
    }
