"""Streams of completions to measure learners on, made from traces.

Owns what follows what: a trace's own order or resamples of it, files one after another, and the
order in which concurrent requests finish. Deterministic: the same arguments give the same stream.
"""

import heapq
import itertools
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, NamedTuple

from estimator.core.observation import Completion
from estimator.traces import BadRow, TraceReader

# vLLM's requests in a batch on the accelerators that serve Whisper.
DEFAULT_SLOTS: Final = 64
# Seconds a request takes: whisper-large-v3 served by vLLM one at a time on RTX 4090 hosts, MLPerf
# v5.1 logs, fitted T = 0.030 + 0.0069…0.0090 · n with R² = .999.
DEFAULT_OVERHEAD_S: Final = 0.03
DEFAULT_SECONDS_PER_TOKEN: Final = 0.008


@dataclass(frozen=True, slots=True)
class Trace:
    """Completions under the name of the file they came from.

    Attributes
    ----------
    name : str
        The file.
    completions : tuple of Completion
        In an order that says nothing of when they finish.
    """

    name: str
    completions: tuple[Completion, ...]

    def __len__(self) -> int:
        return len(self.completions)


class Item(NamedTuple):
    """One completion of a stream and the index of the segment that it belongs to."""

    completion: Completion
    segment: int


class Running(NamedTuple):
    """A request that decodes while another finishes: what it will be, and its tokens so far.

    A learner may read the key, the audio and the prompt of ``completion``, ``tokens`` and
    ``started_s``, when it was admitted; the rest is the future.
    """

    completion: Completion
    tokens: int
    started_s: float = 0.0


class Finish(NamedTuple):
    """A request finishes: its item, when, and who runs on as pairs of item and admission."""

    position: int
    at_s: float
    running: tuple[tuple[int, float], ...]


class Admission(NamedTuple):
    """A request is admitted; this is when its estimate counts."""

    position: int


Event = Admission | Finish


@dataclass(frozen=True, slots=True, kw_only=True)
class Stream:
    """What a learner is run over.

    Attributes
    ----------
    segments : tuple of Trace
        One after another, the language already hidden where it is to be.
    items : tuple of Item
        The completions of all segments, in the order in which they are admitted.
    events : tuple of Admission or Finish
        Every item is admitted once and finishes once, later than that.
    overhead_s, seconds_per_token : float
        How fast requests decode; see `Stream.running_of`.
    """

    segments: tuple[Trace, ...]
    items: tuple[Item, ...]
    events: tuple[Event, ...]
    overhead_s: float = DEFAULT_OVERHEAD_S
    seconds_per_token: float = DEFAULT_SECONDS_PER_TOKEN

    def running_of(self, finish: Finish) -> list[Running]:
        """Give the requests that run while this one finishes, with their tokens so far."""
        return [
            Running(
                self.items[index].completion,
                self._tokens_after(index, finish.at_s - at_s),
                at_s,
            )
            for index, at_s in finish.running
        ]

    def _tokens_after(self, index: int, elapsed_s: float) -> int:
        # Rounding must not give a token of the future, nor the last one before the finish.
        decoded = int((elapsed_s - self.overhead_s) / self.seconds_per_token + 1e-9)
        return max(0, min(decoded, self.items[index].completion.output_tokens))


def read_trace(
    path: Path, *, name: str = "", on_bad_row: Callable[[BadRow], None] | None = None
) -> Trace:
    """Read a trace file whole.

    Parameters
    ----------
    path : Path
        CSV or JSON Lines, plain or gzipped (`estimator.traces`).
    name : str
        What the segment is called; the path where empty.
    on_bad_row : callable, optional
        Told of each row that is skipped.

    Raises
    ------
    TraceError
        The file cannot be read, or breaks off.
    """
    completions: list[Completion] = []
    for row in TraceReader(path):
        if isinstance(row, BadRow):
            if on_bad_row is not None:
                on_bad_row(row)
            continue
        completions.append(replace(row.completion, completion_id=f"row-{row.row}"))
    return Trace(name or str(path), tuple(completions))


def leading(trace: Trace, n: int) -> Trace:
    """Give the first ``n`` completions, all where there are fewer."""
    return Trace(trace.name, trace.completions[:n])


def resampled(trace: Trace, seed: int, n: int | None = None) -> Trace:
    """Draw ``n`` completions so that nothing depends on their order.

    Parameters
    ----------
    trace : Trace
        What is drawn from, not empty.
    seed : int
        Another seed, another draw.
    n : int, optional
        How many, as many as there are by default. Up to that, none comes twice (a shuffle); more
        are drawn with replacement.
    """
    rng = random.Random(f"{seed}/{trace.name}")  # noqa: S311 - a scenario, no secret
    pool = trace.completions
    n = len(pool) if n is None else n
    drawn = rng.sample(pool, n) if n <= len(pool) else rng.choices(pool, k=n)
    return Trace(trace.name, tuple(drawn))


def without_language(trace: Trace) -> Trace:
    """Give the trace as it looks to a sidecar that is told no languages."""
    hidden = tuple(replace(completion, language="") for completion in trace.completions)
    return Trace(trace.name, hidden)


def ordered_pairs(traces: Sequence[Trace]) -> Iterator[tuple[Trace, Trace]]:
    """Yield every pair of different traces, each in both orders."""
    return itertools.permutations(traces, 2)


def in_trace_order(segments: Sequence[Trace]) -> Stream:
    """Let each request finish before the next is admitted, segments one after another.

    Each completion gets an id of its own and finishes a second after the one before.
    """
    items = _items_of(segments)
    events: list[Event] = []
    for index in range(len(items)):
        events += (Admission(index), Finish(index, float(index), ()))
    return Stream(segments=tuple(segments), items=items, events=tuple(events))


def in_completion_order(
    segments: Sequence[Trace],
    *,
    slots: int = DEFAULT_SLOTS,
    overhead_s: float = DEFAULT_OVERHEAD_S,
    seconds_per_token: float = DEFAULT_SECONDS_PER_TOKEN,
) -> Stream:
    """Admit requests in trace order into concurrent slots and let them finish when they are done.

    Parameters
    ----------
    segments : sequence of Trace
        Their requests wait in one queue, none of it ever empty.
    slots : int
        Requests that run at once, ≥ 1.
    overhead_s, seconds_per_token : float
        A request of n tokens takes ``overhead_s + seconds_per_token · n``: all run at one speed.

    Notes
    -----
    A slot that becomes free is filled at once, so ``slots`` start together and short requests
    report first; from then on, whoever is longer than the others reports after younger ones.
    """
    items = _items_of(segments)
    waiting = iter(range(len(items)))
    events: list[Event] = []
    running: list[tuple[float, int, float]] = []  # a heap of finish, index, admission

    def admit(now_s: float) -> None:
        index = next(waiting, None)
        if index is not None:
            tokens = items[index].completion.output_tokens
            finish_s = now_s + overhead_s + seconds_per_token * tokens
            heapq.heappush(running, (finish_s, index, now_s))
            events.append(Admission(index))

    for _ in range(slots):
        admit(0.0)
    times = [(0.0, 0.0)] * len(items)
    while running:
        at_s, index, begun_s = heapq.heappop(running)
        times[index] = at_s, at_s - begun_s
        # By admission: the heap's own order would tell who finishes next.
        others = tuple(sorted((other, admitted_s) for _, other, admitted_s in running))
        events.append(Finish(index, at_s, others))
        admit(at_s)
    dated = tuple(
        Item(replace(item.completion, finished_s=at_s, service_s=took_s), item.segment)
        for item, (at_s, took_s) in zip(items, times, strict=True)
    )
    return Stream(
        segments=tuple(segments),
        items=dated,
        events=tuple(events),
        overhead_s=overhead_s,
        seconds_per_token=seconds_per_token,
    )


def _items_of(segments: Sequence[Trace]) -> tuple[Item, ...]:
    flat = [(one, segment) for segment, trace in enumerate(segments) for one in trace.completions]
    return tuple(
        Item(replace(one, completion_id=f"stream-{index}", finished_s=float(index)), segment)
        for index, (one, segment) in enumerate(flat)
    )
