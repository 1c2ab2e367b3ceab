"""How far κ is off after the first completions of 64 requests that start together.

Three learners over the same resamples of each trace: one that is taught in the trace's own order,
one that is taught as requests finish, and one that is told as well what still runs. Off is the
relative error of the estimate at the trace's mean length, against κ in hindsight. Beside them one
who knows everything of a trace but its level (`benchmarks.learning.cold_start_oracle`).
"""

import statistics
from collections.abc import Sequence
from typing import Final

from benchmarks.learning.cold_start_oracle import KnowsAllButTheLevel
from estimator.core.observation import Completion
from estimator.evaluation.prequential import hindsight_of, kappa_at, run
from estimator.evaluation.scenarios import (
    DEFAULT_SLOTS,
    Finish,
    Trace,
    in_completion_order,
    in_trace_order,
    resampled,
)
from estimator.evaluation.subjects import PipelineSubject, size_of

N_SEEDS: Final = 20
# More where something was promised: single runs are off by 10 %, so that the mean of 20 is known
# to 2 points.
N_PROMISED_SEEDS: Final = 60
# Completions after which the estimate is looked at.
AFTER: Final = (5, 10, 20, 40, 64, 100)
ORDERS: Final = ("trace order", "completion order, blind", "completion order")
# After so many the one who knows all but the level is asked: what is promised of.
_ASKED_AFTER: Final = 10

Off = dict[int, list[float]]


def off_by(trace: Trace, order: str, *, n_seeds: int = N_SEEDS) -> Off:
    """Give the relative errors of κ after the first completions, one for each seed.

    Parameters
    ----------
    trace : Trace
        Where resamples come from.
    order : str
        One of `ORDERS`.
    n_seeds : int
        Resamples.
    """
    known = hindsight_of(trace)
    off: Off = {n: [] for n in AFTER}
    for seed in range(n_seeds):
        part = [resampled(trace, seed, AFTER[-1] + DEFAULT_SLOTS)]
        stream = in_trace_order(part) if order == ORDERS[0] else in_completion_order(part)
        subject = PipelineSubject(sees_running=order != ORDERS[1])

        def look(n: int, completion: Completion, subject: PipelineSubject = subject) -> None:
            if n in off:
                kappa = kappa_at(subject, completion, known.mean_size)
                off[n].append(kappa / known.kappa - 1.0)

        run(subject, stream, on_learned=look)
    return off


def oracle_off_by(trace: Trace, *, n_seeds: int = N_PROMISED_SEEDS) -> list[float]:
    """Give what one who knows all but the level is off by, over the same resamples."""
    oracle = KnowsAllButTheLevel(trace)
    off = []
    for seed in range(n_seeds):
        stream = in_completion_order([resampled(trace, seed, AFTER[-1] + DEFAULT_SLOTS)])
        finishes = [event for event in stream.events if isinstance(event, Finish)][:_ASKED_AFTER]
        completions = [stream.items[event.position].completion for event in finishes]
        done = [(size_of(one), float(one.output_tokens)) for one in completions]
        off.append(oracle.off(done, stream.running_of(finishes[-1])))
    return off


def measure_oracle(traces: Sequence[Trace]) -> dict[str, dict[str, float]]:
    """Give that one's mean and median absolute errors, by trace and over all."""
    by_trace = {trace.name: oracle_off_by(trace) for trace in traces}
    by_trace["all"] = [value for values in by_trace.values() for value in values]
    return {name: _figures({_ASKED_AFTER: values}) for name, values in by_trace.items()}


def measure(traces: Sequence[Trace]) -> dict[str, dict[str, float]]:
    """Give mean and median absolute errors, by trace and order, and over all traces."""
    table: dict[str, dict[str, float]] = {}
    for order in ORDERS:
        every: Off = {n: [] for n in AFTER}
        n_seeds = N_PROMISED_SEEDS if order == ORDERS[-1] else N_SEEDS
        for trace in traces:
            off = off_by(trace, order, n_seeds=n_seeds)
            table[f"{trace.name}, {order}"] = _figures(off)
            for n, values in off.items():
                every[n] += values
        table[f"all, {order}"] = _figures(every)
    return table


def _figures(off: Off) -> dict[str, float]:
    row = {}
    for n, values in off.items():
        row[f"bias_after_{n}"] = statistics.fmean(values)
        row[f"absolute_after_{n}"] = statistics.median(map(abs, values))
    return row
