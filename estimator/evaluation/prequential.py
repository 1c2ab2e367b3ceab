"""Run a subject over a stream: predict each completion before it is learned."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from estimator.core.drift_event import DriftEvent
from estimator.core.observation import Completion
from estimator.evaluation.metrics import Crossing, Hindsight, Record, hindsight
from estimator.evaluation.scenarios import Admission, Stream, Trace
from estimator.evaluation.subjects import LearnerSubject, Subject, size_of, teaches


class Raised(NamedTuple):
    """A drift event, with how many completions had been learned when it came."""

    position: int
    event: DriftEvent


@dataclass(slots=True)
class Run:
    """What came of one run.

    Attributes
    ----------
    records : list of Record
        One an item of the stream, in its order.
    hindsights : list of Hindsight
        One a segment.
    crossings : list of Crossing
        One a segment: how its κ was found.
    events : list of Raised
        Drift events, their ends too.
    """

    records: list[Record] = field(default_factory=list)
    hindsights: list[Hindsight] = field(default_factory=list)
    crossings: list[Crossing] = field(default_factory=list)
    events: list[Raised] = field(default_factory=list)


def hindsight_of(trace: Trace) -> Hindsight:
    """Give κ and the mean size of the completions of a segment that are scored."""
    return hindsight(
        (size_of(one), float(one.output_tokens)) for one in trace.completions if teaches(one)
    )


def kappa_at(subject: Subject, completion: Completion, size: float) -> float:
    """Give the estimate for the completion's key at a size, over that size."""
    if completion.kind == "text":
        size = max(round(size), 1)
        probe = replace(completion, prompt_tokens=int(size))
    else:
        probe = replace(completion, audio_s=size)
    return subject.predict(probe).tokens / size


def run(
    subject: Subject,
    stream: Stream,
    *,
    on_learned: Callable[[int, Completion], None] | None = None,
) -> Run:
    """Predict every request when it is admitted and learn it when it finishes.

    Parameters
    ----------
    subject : Subject
        Learns; goes on from where it stands.
    stream : Stream
        What happens.
    on_learned : callable, optional
        Told the number of completions learned and the last of them.

    Returns
    -------
    Run
        In a trace's own order, what is predicted rests on all before it; in completion order, on
        what has finished by then.

    Notes
    -----
    A segment's κ is looked up when its first request is admitted, and after each of its
    completions until it has stayed right; those of an earlier segment that finish in between are
    learned, not counted.
    """
    result = Run(hindsights=[hindsight_of(segment) for segment in stream.segments])
    result.crossings = [Crossing(known.kappa) for known in result.hindsights]
    is_told = isinstance(subject, LearnerSubject) and subject.is_told
    begun = -1
    n_learned = 0
    for event in stream.events:
        completion, segment = stream.items[event.position]
        crossing = result.crossings[segment]
        if isinstance(event, Admission):
            if segment > begun:
                if begun >= 0:
                    subject.change()
                begun = segment
                crossing.update(_probe(subject, completion, result.hindsights[segment]))
            result.records.append(_record(subject, completion, segment))
            continue
        if is_told and segment < begun:
            continue
        raised = subject.learn(
            completion, stream.running_of(event) if subject.sees_running else ()
        )
        result.events.extend(Raised(n_learned, one) for one in raised)
        n_learned += 1
        if not crossing.is_done:
            crossing.update(_probe(subject, completion, result.hindsights[segment]))
        if on_learned is not None:
            on_learned(n_learned, completion)
    return result


def _probe(subject: Subject, completion: Completion, known: Hindsight) -> float:
    if known.n == 0:
        return math.nan  # nothing of the segment can be judged
    return kappa_at(subject, completion, known.mean_size)


def _record(subject: Subject, completion: Completion, segment: int) -> Record:
    return Record(
        segment,
        size_of(completion),
        completion.output_tokens,
        *subject.predict(completion),
        is_scored=teaches(completion),
    )
