"""What it gives a caller that the pieces of a file count as one job.

Short clips (LibriSpeech's utterances) come beside files of 2 to 20 minutes, which are cut into
pieces of 28 to 30 s as vLLM cuts them; all pieces of a file come at once, and its caller waits for
the last. Each policy serves the same requests twice: the pieces as strangers, and as groups.
Estimates are by duration; the guard is production's, and off beside it.
"""

import random
from array import array
from dataclasses import replace
from functools import cache
from typing import Final, NamedTuple

import numpy as np

from benchmarks.twin.material import GUARDS, LIBRISPEECH, Row, Table, engine, rows_of
from estimator.replay.estimates import DurationEstimates, TrueEstimates
from estimator.replay.figures import Change, change_of
from estimator.replay.job import NS_PER_S, Job
from estimator.replay.outcome import Outcome
from estimator.replay.profile import EngineProfile
from estimator.replay.request import Request
from estimator.replay.simulation import simulate
from sched_client.model import Between, Partition, Settings
from sched_client.policies import create_policy

ENGINES: Final = ("decode-bound", "a100-whisper-large-v3")
LOADS: Final = (0.9, 1.2)
# What each is called, the policy, and by what ewsjf chooses among its queues.
POLICIES: Final[dict[str, tuple[str, Between]]] = {
    "sjf": ("sjf", "score"),
    "hrrn": ("hrrn", "score"),
    "ewsjf by score": ("ewsjf", "score"),
    "ewsjf by halves": ("ewsjf", "halves"),
}
N_CALLERS: Final = 2_000
N_SEEDS: Final = 5
# One caller in so many sends a file: half of all pieces are of files then.
CALLERS_A_FILE: Final = 18
# Log-uniform: as many files of 2 to 4 minutes as of 10 to 20.
FILE_S: Final = (120.0, 1200.0)
PIECE_S: Final = (28.0, 30.0)
_SATURATED: Final = 4_000
_FIGURES: Final = ("p50", "p90", "p99", "mean")
_WHO: Final = {"all": "everybody", "clips": "clips", "files": "files"}
_HOW: Final = {"pieces alone": False, "groups": True}


class Latency(NamedTuple):
    """What callers waited, in seconds from their arrival to their last answer."""

    everybody: tuple[float, ...]
    clips: tuple[float, ...]
    files: tuple[float, ...]


class Speech:
    """Draws utterances, and pieces of any length made of them."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self._rows = rows_of(LIBRISPEECH)

    def clip(self) -> tuple[float, int]:
        """Give the seconds and tokens of one utterance."""
        job = self._rows.job(int(self._rng.random() * len(self._rows)), 0, 0, 0)
        return job.audio_s or 0.0, job.output_tokens

    def piece(self, audio_s: float) -> tuple[float, int]:
        """Give as many seconds of utterances that follow one another."""
        seconds, tokens = 0.0, 0
        while seconds < audio_s:
            more_s, more = self.clip()
            seconds, tokens = seconds + more_s, tokens + more
        return audio_s, max(round(tokens * audio_s / seconds), 1)

    def file(self) -> list[tuple[float, int]]:
        """Give the pieces of a file."""
        rng = self._rng
        low, high = FILE_S
        left_s = low * (high / low) ** rng.random()
        pieces = []
        while left_s > 0.0:
            audio_s = min(rng.uniform(*PIECE_S), left_s)
            pieces.append(self.piece(audio_s))
            left_s -= audio_s
        return pieces


def callers(seed: int, n: int) -> list[list[tuple[float, int]]]:
    """Give the pieces that each caller sends."""
    rng = random.Random(f"{seed}/callers")
    speech = Speech(rng)
    return [
        speech.file() if rng.random() * CALLERS_A_FILE < 1.0 else [speech.clip()] for _ in range(n)
    ]


def jobs_of(seed: int, rate_rps: float, n: int = N_CALLERS) -> list[Job]:
    """Give the requests of so many callers, Poisson, at so many requests a second."""
    sent = callers(seed, n)
    rng = random.Random(f"{seed}/arrivals")
    callers_per_s = rate_rps * n / sum(map(len, sent))
    jobs: list[Job] = []
    at_s = 0.0
    for number, pieces in enumerate(sent):
        at_s += rng.expovariate(callers_per_s)
        group_id = f"file{number}" if len(pieces) > 1 else ""
        for audio_s, tokens in pieces:
            jobs.append(Job(len(jobs), round(at_s * NS_PER_S), tokens, audio_s, group_id=group_id))
    return jobs


def capacity_rps(profile: EngineProfile) -> float:
    """Measure requests a second where all are there at once, first come, first served."""
    jobs = [job._replace(arrival_ns=0) for job in jobs_of(-1, 1.0, _SATURATED)]
    ends = array("q")
    estimates = TrueEstimates(profile)
    simulate(
        jobs,
        profile,
        create_policy("fcfs", estimates.parameters),
        estimates,
        on_outcome=lambda outcome: ends.append(outcome.finished_ns),
    )
    first, last = len(ends) // 4, len(ends) * 3 // 4
    return (last - first) * NS_PER_S / (ends[last] - ends[first])


@cache
def queues_of(profile: EngineProfile) -> Partition:
    """Find the queues that a sidecar has found by the time that it knows the traffic."""
    estimates = DurationEstimates(profile, queues=True)
    for job in jobs_of(-1, 1.0, _SATURATED):
        estimates.first(Request(job))
    return estimates.parameters.partition


def serve(
    jobs: list[Job], profile: EngineProfile, policy: str, settings: Settings, *, grouped: bool
) -> Latency:
    """Serve requests, and give what callers waited."""
    mean = sum(job.output_tokens for job in jobs) / len(jobs)
    estimates = DurationEstimates(
        profile,
        settings,
        mean_service_s=profile.service_s(mean, 0, profile.slots),
    )
    if policy == "ewsjf":
        estimates.parameters = replace(estimates.parameters, partition=queues_of(profile))
    waited: dict[str, int] = {}

    def see(outcome: Outcome) -> None:
        job = outcome.job
        caller = groups[job.index] or str(job.index)
        waited[caller] = max(waited.get(caller, 0), outcome.finished_ns - job.arrival_ns)

    groups = [job.group_id for job in jobs]
    if not grouped:
        jobs = [job._replace(group_id="") for job in jobs]
    simulate(jobs, profile, create_policy(policy, estimates.parameters), estimates, on_outcome=see)
    clips = [one / NS_PER_S for name, one in waited.items() if name.isdecimal()]
    files = [one / NS_PER_S for name, one in waited.items() if not name.isdecimal()]
    return Latency(_spread(clips + files), _spread(clips), _spread(files))


def _spread(values: list[float]) -> tuple[float, ...]:
    return (*(float(one) for one in np.percentile(values, (50, 90, 99))), float(np.mean(values)))


def measure() -> Row:
    """Give what callers waited, and by how much groups change it."""
    waits: Table = {}
    changes: dict[str, dict[str, Change]] = {}
    for name in ENGINES:
        profile = engine(name)
        capacity = capacity_rps(profile)
        for load in LOADS:
            where = f"{name}, load {load:g}"
            seeds = [jobs_of(seed, load * capacity) for seed in range(N_SEEDS)]
            first = [serve(jobs, profile, "fcfs", Settings(), grouped=False) for jobs in seeds]
            waits[f"{where}, fcfs"] = _row(first)
            for called, (policy, between) in POLICIES.items():
                for guard, guarded in GUARDS.items():
                    settings = replace(guarded, between=between)
                    served = {
                        how: [serve(jobs, profile, policy, settings, grouped=grouped)
                              for jobs in seeds]
                        for how, grouped in _HOW.items()
                    }  # fmt: skip
                    which = f"{where}, {called}, guard {guard}"
                    for how, found in served.items():
                        waits[f"{which}, {how}"] = _row(found)
                    changes[which] = _changes(*served.values())
    means = {which: change["all mean"] for which, change in changes.items()}
    return {
        "tables": {
            f"seconds from a caller's arrival to the last answer, mean of {N_SEEDS} seeds": waits,
            "by how many percent groups change it": {
                which: {what: _cell(change) for what, change in of_which.items()}
                for which, of_which in changes.items()
            },
        },
        # The worst of all cells, and the worst end of any interval.
        "worst_mean_percent": max(_percent(one.percent) for one in means.values()),
        "worst_mean_percent_high": max(_percent(one.high) for one in means.values()),
    }


def _row(found: list[Latency]) -> Row:
    return {
        f"{name} {figure}": sum(getattr(one, who)[at] for one in found) / len(found)
        for name, who in _WHO.items()
        for at, figure in enumerate(_FIGURES)
    }


def _changes(alone: list[Latency], grouped: list[Latency]) -> dict[str, Change]:
    return {
        f"{name} {figure}": change_of(
            [getattr(one, who)[at] for one in grouped], [getattr(one, who)[at] for one in alone]
        )
        for name, who in _WHO.items()
        for at, figure in enumerate(_FIGURES)
    }


def _percent(value: float | None) -> float:
    return float("nan") if value is None else value


def _cell(change: Change) -> str:
    if change.percent is None or change.low is None or change.high is None:
        return "-"
    return f"{change.percent:+.0f} ± {(change.high - change.low) / 2:.0f}"
