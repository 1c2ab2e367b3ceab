"""What ``kappad evaluate`` tells: the figures of one or more runs, as plain data.

Owns the names in DESIGN.md's ``evaluate --json``.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from estimator.core.learner import Learner
from estimator.evaluation import metrics
from estimator.evaluation.prequential import Raised, Run, hindsight_of, run
from estimator.evaluation.references import CumulativeRatio
from estimator.evaluation.scenarios import (
    Stream,
    Trace,
    in_completion_order,
    in_trace_order,
    leading,
    resampled,
    without_language,
)
from estimator.evaluation.subjects import LearnerSubject, PipelineSubject, Subject

Order = Literal["trace", "completion"]
ORDERS: Final[tuple[Order, ...]] = ("trace", "completion")


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """How traces become streams.

    Attributes
    ----------
    order : {"trace", "completion"}
        Whether each request finishes before the next is admitted, or 64 run at once.
    language_hidden : bool
        Whether every completion's language is dropped.
    resamples : int
        0 for the files' own order, else that many shuffles of each file, seeds 1, 2, ….
    n : int or None
        Completions of each file, all by default: the first ones, or as many drawn.
    """

    order: Order = "trace"
    language_hidden: bool = False
    resamples: int = 0
    n: int | None = None

    def streams(self, traces: Sequence[Trace]) -> Iterable[Stream]:
        """Make the streams: one, or one a seed."""
        if self.language_hidden:
            traces = [without_language(trace) for trace in traces]
        make = in_completion_order if self.order == "completion" else in_trace_order
        if self.resamples == 0:
            yield make([trace if self.n is None else leading(trace, self.n) for trace in traces])
        for seed in range(1, self.resamples + 1):
            yield make([_drawn(trace, seed, self.n) for trace in traces])


def _drawn(trace: Trace, seed: int, n: int | None) -> Trace:
    count = len(trace) if n is None else min(n, len(trace))
    return resampled(trace, seed, count) if trace.completions else trace


def evaluate(
    traces: Sequence[Trace],
    setting: Setting,
    *,
    contest: Mapping[str, Callable[[], Learner]] | None = None,
    on_run: Callable[[int], None] | None = None,
) -> dict[str, object]:
    """Run the pipeline over traces and give the figures.

    Parameters
    ----------
    traces : sequence of Trace
        Follow one another.
    setting : Setting
        Order, language, resamples.
    contest : mapping of str to callable, optional
        Learners to run over the same streams.
    on_run : callable, optional
        Told after each run how many completions it had.

    Returns
    -------
    dict of str to object
        The document of DESIGN.md, "evaluate --json"; with ``contest`` a list of that name. NaN
        where there was nothing to judge. Over several resamples errors are pooled, completions to
        adapt are medians, and the index of a drift event counts within its own run.
    """
    done: list[Run] = []
    rivals: dict[str, list[Run]] = {"cumulative": []}
    factories: dict[str, Callable[[], Learner]] = {"cumulative": CumulativeRatio}
    for name, factory in (contest or {}).items():
        rivals[name], factories[name] = [], factory

    def run_one(subject: Subject, stream: Stream) -> Run:
        result = run(subject, stream)
        if on_run is not None:
            on_run(len(stream.items))
        return result

    for stream in setting.streams(traces):
        done.append(run_one(PipelineSubject(), stream))
        for name, factory in factories.items():
            rivals[name].append(run_one(LearnerSubject(factory), stream))
    reference = _mae(rivals["cumulative"])
    document = _figures(done, reference)
    document["p90_coverage"] = metrics.coverage(_scored(done))
    document["segments"] = _segments(traces, done)
    document["drift_events"] = [
        _event(raised) for one in done for raised in one.events if raised.event.ended_s is None
    ]
    if contest is not None:
        table = {"pipeline": done, **rivals}
        document["contest"] = [_rival(name, runs, reference) for name, runs in table.items()]
    return document


def _scored(runs: Iterable[Run]) -> list[metrics.Record]:
    return [record for one in runs for record in one.records if record.is_scored]


def _mae(runs: Iterable[Run]) -> float:
    return metrics.mae(_scored(runs))


def _figures(runs: Sequence[Run], reference: float) -> dict[str, object]:
    records = _scored(runs)
    mae, oracle = metrics.mae(records), metrics.oracle_mae(records)
    return {
        "n": len(records),
        "mae_tokens": mae,
        "oracle_mae_tokens": oracle,
        "mae_ratio_to_oracle": metrics.ratio(mae, oracle),
        "mae_ratio_to_cumulative": metrics.ratio(mae, reference),
        "mape": metrics.mape(records),
    }


def _segments(traces: Sequence[Trace], runs: Sequence[Run]) -> list[dict[str, object]]:
    return [
        {
            "file": trace.name,
            "n": sum(one.hindsights[index].n for one in runs),
            "kappa_hindsight": (
                runs[0].hindsights[index].kappa if len(runs) == 1 else hindsight_of(trace).kappa
            ),
            "completions_to_cross_10_percent": _typical(
                one.crossings[index].to_cross for one in runs
            ),
            "completions_to_stay_20": _typical(one.crossings[index].to_stay for one in runs),
        }
        for index, trace in enumerate(traces)
    ]


def _typical(counts: Iterable[int | None]) -> int | None:
    median = metrics.quantile(counts, 0.5)
    return int(median) if median - median == 0.0 else None


def _event(raised: Raised) -> dict[str, object]:
    event = raised.event
    return {
        "index": raised.position,
        "kind": event.kind,
        "key": {
            "model": event.model,
            "task": event.task,
            "language": event.language,
            "timestamps": event.timestamps,
        },
        "before": event.before,
        "after": event.after,
    }


def _rival(name: str, runs: Sequence[Run], reference: float) -> dict[str, object]:
    # The first segment starts from a prior; a change is what follows.
    crossings = [crossing for one in runs for crossing in one.crossings[1:]]
    return {
        "learner": name,
        **_figures(runs, reference),
        "changes": len(crossings),
        "median_completions_to_cross_10_percent": _typical(one.to_cross for one in crossings),
        "median_completions_to_stay_20": _typical(one.to_stay for one in crossings),
    }
