"""How far κ is off after the first completions of 64 requests that start together.

Three learners over the same resamples of each trace: one that is taught in the trace's own order,
one that is taught as requests finish, and one that is told as well what still runs. Off is the
relative error of the estimate at the trace's mean length, against κ in hindsight. What is promised
is measured over as many resamples as it takes to know it, with its standard error. Beside them
those who know everything of a trace but its level, or of all traces but which of them it is and at
what level (`benchmarks.learning.cold_start_oracle`).
"""

import math
import statistics
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from benchmarks.learning.cold_start_oracle import KnowsAllButTheLevel, tokens_of_one_of
from estimator.core.observation import Completion
from estimator.evaluation.prequential import hindsight_of, kappa_at, run
from estimator.evaluation.scenarios import (
    DEFAULT_SLOTS,
    Finish,
    Running,
    Stream,
    Trace,
    in_completion_order,
    in_trace_order,
    resampled,
)
from estimator.evaluation.subjects import PipelineSubject, size_of

N_SEEDS: Final = 20
# More where something was promised, 5 % on the worst trace: single runs are off by 4 to 14 %, so
# that the mean of 60 is known to 0.5 to 1.7 points, and that of 240 to 0.3 to 0.9. The constants
# were chosen on the seeds from 60 to 539, three quarters of these among them; seeds that had no
# say, from 2,000 on, come out no worse (docs/learning.md).
N_PROMISED_SEEDS: Final = 240
# Of those who know a trace, 7 % and 1 point.
N_ORACLE_SEEDS: Final = 60
# Those who know eight traces weigh each of them.
N_SET_SEEDS: Final = 30
# Completions after which the estimate is looked at.
AFTER: Final = (5, 10, 20, 40, 64, 100)
ORDERS: Final = ("trace order", "completion order, blind", "completion order")
# What is promised of, and after how many they who know a trace are asked.
_ASKED_AFTER: Final = 10

Off = dict[int, list[float]]


def off_by(
    trace: Trace, order: str, *, n_seeds: int = N_SEEDS, after: Sequence[int] = AFTER
) -> Off:
    """Give the relative errors of κ after the first completions, one for each seed.

    Parameters
    ----------
    trace : Trace
        Where resamples come from.
    order : str
        One of `ORDERS`.
    n_seeds : int
        Resamples.
    after : sequence of int
        Completions, among `AFTER`.
    """
    known = hindsight_of(trace)
    off: Off = {n: [] for n in after}
    for seed in range(n_seeds):
        part = [resampled(trace, seed, AFTER[-1] + DEFAULT_SLOTS)]
        stream = in_trace_order(part) if order == ORDERS[0] else in_completion_order(part)
        subject = PipelineSubject(sees_running=order != ORDERS[1])

        def look(n: int, completion: Completion, subject: PipelineSubject = subject) -> None:
            if n in off:
                kappa = kappa_at(subject, completion, known.mean_size)
                off[n].append(kappa / known.kappa - 1.0)

        run(subject, _until(stream, max(after)), on_learned=look)
    return off


def _until(stream: Stream, n: int) -> Stream:
    """Give a stream up to its n-th finish: nothing after it is looked at."""
    finishes = [at for at, event in enumerate(stream.events) if isinstance(event, Finish)]
    return replace(stream, events=stream.events[: finishes[n - 1] + 1])


def _first_finishers(trace: Trace, seed: int) -> tuple[list[tuple[float, float]], list[Running]]:
    """Give sizes and tokens of the first ten to finish, and what runs then."""
    stream = in_completion_order([resampled(trace, seed, AFTER[-1] + DEFAULT_SLOTS)])
    finishes = [event for event in stream.events if isinstance(event, Finish)][:_ASKED_AFTER]
    completions = [stream.items[event.position].completion for event in finishes]
    done = [(size_of(one), float(one.output_tokens)) for one in completions]
    return done, stream.running_of(finishes[-1])


def measure_promised(traces: Sequence[Trace]) -> dict[str, dict[str, float]]:
    """Give what one who is told what runs is off by after the first ten, over many resamples."""
    off = {}
    for trace in traces:
        row = off_by(trace, ORDERS[-1], n_seeds=N_PROMISED_SEEDS, after=(_ASKED_AFTER,))
        off[trace.name] = row[_ASKED_AFTER]
    return _by_trace(off)


def measure_oracle(traces: Sequence[Trace]) -> dict[str, dict[str, float]]:
    """Give what one who knows all but the level is off by, by trace and over all."""
    by_trace = {}
    for trace in traces:
        oracle = KnowsAllButTheLevel(trace)
        by_trace[trace.name] = [
            oracle.off(*_first_finishers(trace, seed)) for seed in range(N_ORACLE_SEEDS)
        ]
    return _by_trace(by_trace)


def measure_set_oracles(traces: Sequence[Trace]) -> tuple[dict[str, dict[str, float]], ...]:
    """Give the same of who knows that it is one of the traces, and one of the others."""
    oracles = [KnowsAllButTheLevel(trace) for trace in traces]
    among: dict[str, list[float]] = {}
    beside: dict[str, list[float]] = {}
    for at, trace in enumerate(traces):
        known = hindsight_of(trace)
        others = [i for i in range(len(traces)) if i != at]
        for seed in range(N_SET_SEEDS):
            found = _first_finishers(trace, seed)
            evidences = [oracle.evidence(*found) for oracle in oracles]
            for table, chosen in ((among, range(len(traces))), (beside, others)):
                tokens = tokens_of_one_of(
                    [oracles[i] for i in chosen], [evidences[i] for i in chosen], known.mean_size
                )
                off = tokens / (known.kappa * known.mean_size) - 1.0
                table.setdefault(trace.name, []).append(off)
    return _by_trace(among), _by_trace(beside)


def _by_trace(off: dict[str, list[float]]) -> dict[str, dict[str, float]]:
    every = [value for values in off.values() for value in values]
    return {name: _figures({_ASKED_AFTER: row}) for name, row in {**off, "all": every}.items()}


def measure(traces: Sequence[Trace]) -> dict[str, dict[str, float]]:
    """Give mean and median absolute errors, by trace and order, and over all traces."""
    table: dict[str, dict[str, float]] = {}
    for order in ORDERS:
        every: Off = {n: [] for n in AFTER}
        for trace in traces:
            off = off_by(trace, order)
            table[f"{trace.name}, {order}"] = _figures(off)
            for n, values in off.items():
                every[n] += values
        table[f"all, {order}"] = _figures(every)
    return table


def _figures(off: Off) -> dict[str, float]:
    row = {}
    for n, values in off.items():
        row[f"bias_after_{n}"] = statistics.fmean(values)
        row[f"bias_error_after_{n}"] = statistics.stdev(values) / math.sqrt(len(values))
        row[f"absolute_after_{n}"] = statistics.median(map(abs, values))
    return row
