"""A drift in the middle of a run: κ, and the P90 of E2E, by window of arrivals.

First English clips and code completions, then, with no word of it, French clips and chats: no
language is told, and both kinds of text come as the same type. Both halves are as hard on the
engine, each at the same share of its own capacity.
"""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator
from statistics import fmean
from typing import Final, NamedTuple

import numpy as np

from benchmarks.twin.material import (
    GUARDS,
    LIBRISPEECH,
    Mix,
    Row,
    Scene,
    Table,
    engine,
    scene,
)
from estimator.core.drift_event import DriftEvent
from estimator.core.observation import Completion
from estimator.core.pipeline import Pipeline
from estimator.replay.job import NS_PER_S, Job
from estimator.replay.learned import EPOCH_S, LearnedEstimates
from estimator.replay.outcome import Outcome
from estimator.replay.runs import EstimateKind
from sched_client.model import Key

BEFORE: Final = Mix(
    "English clips, code", ((LIBRISPEECH, 3.0), ("azure-llm-2023-code", 1.0)), language_hidden=True
)
AFTER: Final = Mix(
    "French clips, chats",
    (("ud-french-parisstories", 3.0), ("azure-llm-2023-conv", 1.0)),
    language_hidden=True,
)
_N_EACH: Final = 6_000
_LOAD: Final = 1.1
_SEEDS: Final = 5
_WINDOWS_EACH: Final = 6
_POLICY: Final = "sjf"
_ENGINE: Final = "decode-bound"
_SPEECH: Final = Key("default", "transcribe")
_GUARD: Final = GUARDS["on"]


class WatchedPipeline(Pipeline):
    """The production learner, its drift events kept."""

    def __init__(self) -> None:
        super().__init__()
        # The first call gives all; a sidecar has told that to its engines.
        self.take_changes()
        self.events: dict[str, DriftEvent] = {}

    def learn_one(self, completion: Completion) -> tuple[DriftEvent, ...]:
        """Learn, and keep what was detected; an end replaces its beginning."""
        events = super().learn_one(completion)
        for event in events:
            self.events[event.event_id] = event
        return events


class Halves(NamedTuple):
    """Requests of both halves, when the second begins, and the windows' edges."""

    jobs: list[Job]
    change_ns: int
    edges_ns: list[int]

    def window_of(self, at_ns: int) -> int:
        """Give the window that a time is in."""
        return min(max(bisect_right(self.edges_ns, at_ns) - 1, 0), len(self.edges_ns) - 2)


def measure() -> Row:
    """Give the tables of windows and of drift events."""
    before = scene(engine(_ENGINE), BEFORE, _LOAD, _N_EACH)
    after = scene(engine(_ENGINE), AFTER, _LOAD, _N_EACH)
    cells: dict[int, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    events: list[DriftEvent] = []
    change_s = 0.0
    for seed in range(_SEEDS):
        halves = _joined(before, after, seed)
        watched = _one_seed(before, halves, seed, cells)
        if seed == 0:
            events, change_s = watched, halves.change_ns / NS_PER_S
    windows = {
        f"window {index + 1} of {len(cells)}, {'before' if index < _WINDOWS_EACH else 'after'}": {
            name: fmean(values) for name, values in cells[index].items()
        }
        for index in sorted(cells)
    }
    title = f"a drift in the middle, {_ENGINE}, {_POLICY}, guard on, mean of {_SEEDS} seeds"
    told = f"drift events of the first seed, the change at {change_s:.1f} s"
    return {
        "tables": {title: windows, told: _told(events, change_s)},
        "p90_s_after": _after(cells, "p90_s"),
        "mean_s_after": _after(cells, "mean_s"),
        "event_count_first_seed": len(events),
    }


def _joined(before: Scene, after: Scene, seed: int) -> Halves:
    """Let the second half follow the first, a gap later, the files told apart."""
    first, second = before.jobs(seed), after.jobs(seed)
    change_ns = first[-1].arrival_ns + round(NS_PER_S / before.point.rate_rps)
    moved = [
        job._replace(index=job.index + len(first), arrival_ns=job.arrival_ns + change_ns)
        for job in second
    ]
    end_ns = moved[-1].arrival_ns
    edges = [change_ns * step // _WINDOWS_EACH for step in range(_WINDOWS_EACH)]
    rest_ns = end_ns - change_ns
    edges += [change_ns + rest_ns * step // _WINDOWS_EACH for step in range(_WINDOWS_EACH + 1)]
    return Halves(first + moved, change_ns, edges)


def _one_seed(
    at: Scene, halves: Halves, seed: int, cells: dict[int, dict[str, list[float]]]
) -> list[DriftEvent]:
    """Run everything over one seed's requests, and put it into the cells of its windows."""
    learned = LearnedEstimates(_GUARD)
    pipeline = learned.pipeline = WatchedPipeline()
    kappas: dict[int, float] = {}
    outcomes: list[Outcome] = []

    def see(outcome: Outcome) -> None:
        outcomes.append(outcome)
        entry, _ = learned.snapshot.resolve(_SPEECH)
        mean_s = learned.snapshot.service_of(_SPEECH.model).mean_audio_s
        # What a clip of mean length is expected to say a second, its share of the intercept too.
        kappas[halves.window_of(outcome.finished_ns)] = (
            entry.kappa_tokens_per_s + entry.intercept_tokens / mean_s
        )

    fcfs: list[Outcome] = []
    at.fcfs(halves.jobs, see=fcfs.append)
    at.run(halves.jobs, _POLICY, learned, see=see)
    by_name = {"fcfs": fcfs, "learned": outcomes}
    for name, kind in _FIXED:
        by_name[name] = []
        estimates = at.estimates(kind, _GUARD, seed)
        at.run(halves.jobs, _POLICY, estimates, see=by_name[name].append)
    for index, kappa in kappas.items():
        cells[index]["kappa_learned"].append(kappa)
    for index, own in _by_window(halves, outcomes):
        cell = cells[index]
        clips = [one.job for one in own if one.job.audio_s is not None]
        texts = [one for one in own if one.job.audio_s is None]
        audio_s = sum(job.audio_s or 0.0 for job in clips)
        cell["kappa_actual"].append(sum(job.output_tokens for job in clips) / audio_s)
        cell["text_tokens_estimated"].append(fmean(one.estimate_tokens for one in texts))
        cell["text_tokens_actual"].append(fmean(one.job.output_tokens for one in texts))
    for name, ended in by_name.items():
        for index, own in _by_window(halves, ended):
            e2e_s = [(one.finished_ns - one.job.arrival_ns) / NS_PER_S for one in own]
            cells[index][f"{name}_p90_s"].append(float(np.percentile(e2e_s, 90)))
            cells[index][f"{name}_mean_s"].append(fmean(e2e_s))
    return list(pipeline.events.values())


_FIXED: Final[tuple[tuple[str, EstimateKind], ...]] = (("duration", "duration"), ("true", "true"))


def _by_window(halves: Halves, ended: list[Outcome]) -> Iterator[tuple[int, list[Outcome]]]:
    """Yield windows of arrivals, each with those who came in it."""
    windows: dict[int, list[Outcome]] = defaultdict(list)
    for one in ended:
        windows[halves.window_of(one.job.arrival_ns)].append(one)
    yield from sorted(windows.items())


def _after(cells: dict[int, dict[str, list[float]]], what: str) -> Row:
    """Give the mean of a figure over the windows after the change, by the estimates."""
    later = [cell for index, cell in cells.items() if index >= _WINDOWS_EACH]
    names = ("fcfs", "duration", "learned", "true")
    return {name: fmean(fmean(cell[f"{name}_{what}"]) for cell in later) for name in names}


def _told(events: list[DriftEvent], change_s: float) -> Table:
    table: Table = {}
    for number, event in enumerate(events, start=1):
        table[f"{number}: {event.kind} {event.task} {event.language or event.detail}".strip()] = {
            "after_change_s": event.detected_s - EPOCH_S - change_s,
            "before": event.before,
            "after": event.after,
            "completions_to_detect": event.completions_to_detect,
            "completions_to_adapt": event.completions_to_adapt,
        }
    return table
