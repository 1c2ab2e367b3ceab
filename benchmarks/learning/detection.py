"""Drift events: what changes are reported, how soon, and what is reported without a change."""

import math
import random
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Final

from benchmarks.learning.material import (
    LARGE_CHANGE,
    N_BEFORE,
    changes,
    finite,
    relative_spread,
)
from estimator.core.drift_event import DriftKind
from estimator.core.observation import Completion
from estimator.evaluation.metrics import quantile
from estimator.evaluation.prequential import Run, run
from estimator.evaluation.scenarios import (
    DEFAULT_OVERHEAD_S,
    DEFAULT_SECONDS_PER_TOKEN,
    Trace,
    in_trace_order,
    resampled,
)
from estimator.evaluation.subjects import PipelineSubject

N_SEEDS: Final = 20
# Completions within which an event is promised: κ by the greater relative spread of the two
# traces, then mix and service.
KAPPA_NARROW: Final = 40
KAPPA_WIDE: Final = 80
NARROW: Final = 0.3
OTHERS: Final = 60
N_STATIONARY: Final = 25_000
# Before and after a change of mix or service.
N_LONG_BEFORE: Final = 600
N_AFTER: Final = 200
SLOWER: Final = 1.5
# Spread of service times about T = a + b·n, as in MLPerf's logs (R² = .999).
_SERVICE_SPREAD: Final = 0.03

Figures = dict[str, float | None]


def _begun(one: Run, kind: DriftKind | None = None) -> list[int]:
    return [
        raised.position
        for raised in one.events
        if raised.event.ended_s is None and kind in (None, raised.event.kind)
    ]


class _Delays:
    """Completions from a change to the first event of its kind."""

    def __init__(self) -> None:
        self.delays: list[float] = []
        self.early = 0
        self.other = 0

    def add(self, one: Run, kind: DriftKind, changed_at: int) -> None:
        positions = _begun(one, kind)
        self.early += sum(position < changed_at for position in positions)
        after = (position - changed_at + 1 for position in positions if position >= changed_at)
        self.delays.append(min(after, default=math.inf))
        self.other += len(_begun(one)) - len(positions)

    def figures(self, limit: int) -> Figures:
        return {
            "changes": len(self.delays),
            f"reported_within_{limit}_ratio": (
                sum(delay <= limit for delay in self.delays) / max(len(self.delays), 1)
            ),
            "delay_p50": finite(quantile(self.delays, 0.5)),
            "delay_p99": finite(quantile(self.delays, 0.99)),
            "events_before": self.early,
            "events_of_other_kinds": self.other,
        }


def measure_kappa(traces: Sequence[Trace]) -> dict[str, Figures]:
    """Give how large changes are reported, language hidden, by how wide the traces spread."""
    spread = {trace.name: relative_spread(trace) for trace in traces}
    narrow, wide = _Delays(), _Delays()
    for change in changes(traces, LARGE_CHANGE):
        is_narrow = max(spread[change.before.name], spread[change.after.name]) <= NARROW
        for seed in range(N_SEEDS):
            found = run(PipelineSubject(), change.stream(seed))
            (narrow if is_narrow else wide).add(found, "kappa", N_BEFORE)
    return {"narrow": narrow.figures(KAPPA_NARROW), "wide": wide.figures(KAPPA_WIDE)}


def with_uniform_durations(trace: Trace, seed: int) -> Trace:
    """Give each completion a length of 5 to 30 s, and its tokens per second as they were."""
    rng = random.Random(f"{seed}/{trace.name}/uniform")

    def longer(one: Completion) -> Completion:
        audio_s = rng.uniform(5.0, 30.0)
        tokens = round(one.output_tokens * audio_s / (one.audio_s or 1.0))
        return replace(one, audio_s=audio_s, output_tokens=tokens)

    return Trace(f"{trace.name}, 5 to 30 s", tuple(longer(one) for one in trace.completions))


def with_service(trace: Trace, seed: int, *, factor: float = 1.0) -> Trace:
    """Give each completion the seconds of a machine that many times slower than the default."""
    rng = random.Random(f"{seed}/{trace.name}/service")

    def timed(one: Completion) -> Completion:
        seconds = DEFAULT_OVERHEAD_S + DEFAULT_SECONDS_PER_TOKEN * one.output_tokens
        noise = rng.lognormvariate(0.0, _SERVICE_SPREAD)
        return replace(one, service_s=factor * seconds * noise, concurrency=1.0)

    return Trace(trace.name, tuple(timed(one) for one in trace.completions))


def _parts(trace: Trace, seed: int) -> tuple[Trace, Trace]:
    drawn = resampled(trace, seed, N_LONG_BEFORE + N_AFTER).completions
    return Trace(trace.name, drawn[:N_LONG_BEFORE]), Trace(trace.name, drawn[N_LONG_BEFORE:])


def measure_others(trace: Trace) -> dict[str, Figures]:
    """Give how a change of lengths and one of speed are reported, 20 seeds each."""
    mix, service = _Delays(), _Delays()
    for seed in range(N_SEEDS):
        before, after = _parts(trace, seed)
        stream = in_trace_order([before, with_uniform_durations(after, seed)])
        mix.add(run(PipelineSubject(), stream), "mix", N_LONG_BEFORE)
        stream = in_trace_order(
            [with_service(before, seed), with_service(after, seed, factor=SLOWER)]
        )
        service.add(run(PipelineSubject(), stream), "service", N_LONG_BEFORE)
    return {"mix": mix.figures(OTHERS), "service": service.figures(OTHERS)}


def measure_stationary(traces: Iterable[Trace]) -> dict[str, float]:
    """Count events of any kind over i.i.d. completions, drawn with replacement."""
    n = false = 0
    for trace in traces:
        stream = in_trace_order([with_service(resampled(trace, 1, N_STATIONARY), 1)])
        n += len(stream.items)
        false += len(_begun(run(PipelineSubject(), stream)))
    return {"completions": n, "events": false, "events_per_200000": 200_000 * false / n}


def measure(traces: Sequence[Trace]) -> dict[str, object]:
    """Measure all of it."""
    return {
        "kappa": measure_kappa(traces),
        **measure_others(traces[0]),
        "stationary": measure_stationary(traces),
    }
