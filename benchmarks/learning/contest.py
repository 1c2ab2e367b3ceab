"""The contest: every learner over the same streams, beside the references.

A learner's error where nothing changes, completions to find a large change, cost and memory.
"""

import json
import statistics
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from benchmarks.learning.material import LARGE_CHANGE, changes, finite, quantiles
from estimator.core.learner import Learner
from estimator.evaluation import metrics
from estimator.evaluation.candidates import CANDIDATES
from estimator.evaluation.prequential import Run, run
from estimator.evaluation.references import CumulativeLeastSquares, CumulativeRatio, ToldRatio
from estimator.evaluation.scenarios import Stream, Trace, in_trace_order, resampled
from estimator.evaluation.subjects import LearnerSubject, PipelineSubject, Subject

N_SEEDS: Final = 3
N_CHANGE_SEEDS: Final = 8
N_STATIONARY: Final = 1000
# Completions that a learner may take to settle before its error counts.
N_SETTLE: Final = 100
REFERENCES: Final[dict[str, Callable[[], Learner]]] = {
    "reference: cumulative Σn/Σd": CumulativeRatio,
    "reference: cumulative least squares": CumulativeLeastSquares,
    "reference: told of the change": ToldRatio,
}
PIPELINE: Final = "pipeline (kappad)"

Figures = dict[str, float | None]


def subjects() -> dict[str, Callable[[], Subject]]:
    """Give what runs: references, candidates, and the pipeline as it is shipped."""

    def of(factory: Callable[[], Learner]) -> Callable[[], Subject]:
        return lambda: LearnerSubject(factory)

    learners = {**REFERENCES, **CANDIDATES}
    return {**{name: of(one) for name, one in learners.items()}, PIPELINE: PipelineSubject}


def _error(subject: Subject, stream: Stream) -> float:
    return metrics.mae(metrics.scored(run(subject, stream).records[N_SETTLE:]))


def stationary_streams(traces: Sequence[Trace]) -> dict[str, list[Stream]]:
    """Give i.i.d. resamples of each trace: as many seeds of 1,000 completions."""
    return {
        trace.name: [
            in_trace_order([resampled(trace, seed, N_STATIONARY)]) for seed in range(N_SEEDS)
        ]
        for trace in traces
    }


def _errors(make: Callable[[], Subject], streams: dict[str, list[Stream]]) -> dict[str, float]:
    return {
        name: statistics.fmean(_error(make(), stream) for stream in row)
        for name, row in streams.items()
    }


def _over(errors: dict[str, float], reference: dict[str, float]) -> list[float]:
    return [errors[name] / reference[name] for name in errors]


def _adaptation(runs: Iterable[Run]) -> Figures:
    # The second segment's: the first starts from the prior.
    crossings = [one.crossings[1] for one in runs]
    cross, stay = (
        quantiles(one.to_cross for one in crossings),
        quantiles(one.to_stay for one in crossings),
    )
    return {
        "cross_p50": finite(cross[0]),
        "cross_p90": finite(cross[1]),
        "stay_p50": finite(stay[0]),
        "stay_p90": finite(stay[1]),
    }


def _cost_us(make: Callable[[], Subject], stream: Stream) -> float:
    """Give the least CPU time of three passes of learning alone, a completion."""
    least = float("inf")
    for _ in range(3):
        subject = make()
        start = time.thread_time()
        for completion, _segment in stream.items:
            subject.learn(completion, ())
        least = min(least, 1e6 * (time.thread_time() - start) / len(stream.items))
    return least


def _state_numbers(factory: Callable[[], Learner], stream: Stream) -> tuple[int, int]:
    """Give the length of the state after half of the completions and after all."""
    learner = factory()
    early = 0
    for n, (completion, _segment) in enumerate(stream.items, start=1):
        learner.learn_one({"size": completion.audio_s or 0.0}, float(completion.output_tokens))
        if n == N_STATIONARY // 2:
            early = len(json.dumps(learner.state()).split(","))
    return early, len(json.dumps(learner.state()).split(","))


def measure(traces: Sequence[Trace]) -> dict[str, Figures]:
    """Run the contest.

    Returns
    -------
    dict of str to dict
        By learner. ``iid_over_…`` are means over traces of the mean absolute error over the
        reference's, after 100 completions; ``cross`` and ``stay`` pool all changes of ×1.5 and
        more, language hidden; None is "not within the completions watched".
    """
    shuffled = stationary_streams(traces)
    in_order = {trace.name: [in_trace_order([trace])] for trace in traces}
    altered = [
        change.stream(seed)
        for change in changes(traces, LARGE_CHANGE)
        for seed in range(N_CHANGE_SEEDS)
    ]
    made = subjects()
    ratio, line = (made[name] for name in list(REFERENCES)[:2])
    base = {
        "iid_over_cumulative": (shuffled, _errors(ratio, shuffled)),
        "iid_over_cumulative_line": (shuffled, _errors(line, shuffled)),
        "in_order_over_cumulative": (in_order, _errors(ratio, in_order)),
    }
    probe = shuffled[traces[0].name][0]
    table: dict[str, Figures] = {}
    for name, make in made.items():
        errors = {id(streams): _errors(make, streams) for streams in (shuffled, in_order)}
        figures: Figures = {}
        for column, (streams, reference) in base.items():
            ratios = _over(errors[id(streams)], reference)
            figures[column] = statistics.fmean(ratios)
            figures[f"{column}_worst"] = max(ratios)
        figures |= _adaptation(run(make(), stream) for stream in altered)
        figures["learn_us"] = _cost_us(make, probe)
        factory = {**REFERENCES, **CANDIDATES}.get(name)
        if factory is not None:
            early, late = _state_numbers(factory, probe)
            figures["state_numbers"], figures["state_growth"] = late, late - early
        table[name] = figures
    return table


def over_told(table: dict[str, Figures], name: str) -> Figures:
    """Give a learner's completions to adapt over the told learner's."""
    told = table["reference: told of the change"]
    result: Figures = {}
    for column in ("cross_p50", "cross_p90", "stay_p50", "stay_p90"):
        own, reference = table[name][column], told[column]
        result[f"{column}_over_told"] = own / reference if own is not None and reference else None
    return result
