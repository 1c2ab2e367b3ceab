"""What the twin makes of a recording of a real engine; needs no vLLM.

Calibrates on one run as ``kappad calibrate`` does, then replays the exact arrivals of the others
through the production policies, and compares P50 and P90.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import numpy as np

from estimator.core.observation import Completion
from estimator.replay.calibrate import Calibration, calibrate
from estimator.replay.calibrate_export import read_export
from estimator.replay.estimates import Estimating, TrueEstimates
from estimator.replay.job import NS_PER_S, Job
from estimator.replay.learned import LearnedEstimates
from estimator.replay.outcome import Outcome
from estimator.replay.profile import EngineProfile
from estimator.replay.simulation import simulate
from sched_client.policies import create_policy

RECORDING: Final = "recording.json"
_QUANTILES: Final = (50, 90)


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """One run of a recording.

    Attributes
    ----------
    number : int
        Its place in the recording.
    mode : str
        ``shadow``: first come, first served; ``on``: the sidecar's policy.
    load, rate_rps : float
        Over the measured capacity, and in requests a second.
    rows : list of (float, Completion)
        What the engine reported.
    due_s, latency_s : tuple of float
        When each caller sent, and how long it waited for its answer.
    audio_s : tuple of float
        Of each caller's clip.
    tokens : tuple of int
        Of its transcript.
    """

    number: int
    mode: str
    load: float
    rate_rps: float
    rows: list[tuple[float, Completion]]
    due_s: tuple[float, ...]
    latency_s: tuple[float, ...]
    audio_s: tuple[float, ...]
    tokens: tuple[int, ...]

    def jobs(self) -> list[Job]:
        """Give the callers' requests as they were due."""
        first = self.rows[0][1]
        order = sorted(range(len(self.due_s)), key=lambda at: self.due_s[at])
        return [
            Job(
                index,
                round(self.due_s[at] * NS_PER_S),
                self.tokens[at],
                self.audio_s[at],
                first.prompt_tokens,
                model=first.model,
                language=first.language,
                timestamps=first.timestamps,
            )
            for index, at in enumerate(order)
        ]


def read_recording(folder: Path) -> tuple[int, list[Recorded]]:
    """Read a recording: the engine's slots, and its runs."""
    document = json.loads((folder / RECORDING).read_text(encoding="utf-8"))
    runs = [
        Recorded(
            number=number,
            mode=run["mode"],
            load=run["load"],
            rate_rps=run["rate_rps"],
            rows=read_export(folder / run["file"]),
            due_s=tuple(run["due_s"]),
            latency_s=tuple(run["latency_s"]),
            audio_s=tuple(run["audio_s"]),
            tokens=tuple(run["tokens"]),
        )
        for number, run in enumerate(document["runs"])
    ]
    return int(document["slots"]), runs


def calibrated(run: Recorded, slots: int) -> tuple[Calibration, EngineProfile]:
    """Fit a profile to one run, with what its callers saw on top of the engine.

    What a request takes outside the engine is what the twin leaves of this run's mean latency.
    What callers waited beyond the engine's own figures would count too much: an engine notes an
    arrival when a step has ended, and the twin counts that wait itself.
    """
    found = calibrate([run.rows], name="recorded", slots=slots, source=f"run {run.number}")
    inside_s = predicted_s(replace(run, mode="shadow"), found.profile, ())
    outside_s = float(np.mean(run.latency_s) - np.mean(inside_s))
    return found, replace(found.profile, request_overhead_s=max(outside_s, 0.0))


def predicted_s(
    run: Recorded, profile: EngineProfile, before: Iterable[Completion]
) -> list[float]:
    """Replay a run's arrivals; give each caller's seconds.

    Parameters
    ----------
    run : Recorded
        Only its arrivals and lengths are used.
    profile : EngineProfile
        Of another run.
    before : iterable of Completion
        What the sidecar had learned by then.
    """
    outcomes: list[Outcome] = []
    estimates: Estimating = TrueEstimates(profile)
    if run.mode == "on":
        estimates = LearnedEstimates(warm=before)
    policy = create_policy("sjf" if run.mode == "on" else "fcfs", estimates.parameters)
    simulate(run.jobs(), profile, policy, estimates, on_outcome=outcomes.append)
    return [
        (one.finished_ns - one.job.arrival_ns) / NS_PER_S + profile.request_overhead_s
        for one in outcomes
    ]


def predict_folder(folder: Path) -> dict[str, Any]:  # Any: JSON
    """Calibrate on the first run and on the second; predict the others."""
    slots, runs = read_recording(folder)
    result: dict[str, Any] = {"requests": [len(run.rows) for run in runs], "slots": slots}
    for source in runs[:2]:
        found, profile = calibrated(source, slots)
        predictions = {_name_of(run): _compared(run, profile, runs) for run in runs}
        title = f"calibrated on {_name_of(source)}: callers' seconds"
        result[f"calibrated_on_run_{source.number}"] = {
            "profile": json.loads(profile.to_json()),
            "median_abs_ln": found.goodness.median_abs_ln,
            "p90_abs_ln": found.goodness.p90_abs_ln,
            "r_squared": found.goodness.r_squared,
            "worst_error_at_another_rate": _worst(runs, source, predictions, mode="shadow"),
            "worst_error_in_mode_on": _worst(runs, source, predictions, mode="on"),
            "tables": {title: predictions},
        }
    return result


def _name_of(run: Recorded) -> str:
    return f"run {run.number}, load {run.load:g}, mode {run.mode}"


def _worst(
    runs: Sequence[Recorded],
    source: Recorded,
    predictions: Mapping[str, Mapping[str, float]],
    *,
    mode: str,
) -> float:
    """Give the largest relative error of P50 and P90 over the other runs in a mode."""
    return max(
        (
            abs(predictions[_name_of(run)][f"p{q}_ratio"] - 1.0)
            for run in runs
            if run.mode == mode and run.number != source.number
            for q in _QUANTILES
        ),
        default=0.0,
    )


def _compared(run: Recorded, profile: EngineProfile, runs: Sequence[Recorded]) -> dict[str, float]:
    before = [one for other in runs[: run.number] for _, one in other.rows]
    twin_s = predicted_s(run, profile, before)
    row: dict[str, float] = {}
    for q in _QUANTILES:
        measured = float(np.percentile(run.latency_s, q))
        ours = float(np.percentile(twin_s, q))
        row |= {f"p{q}_s": measured, f"p{q}_twin_s": ours, f"p{q}_ratio": ours / measured}
    return row
