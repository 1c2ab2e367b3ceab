"""Fits an engine profile to completions that an engine reported, and says how well it fits.

Owns what is asked of the data before anything is believed. The seconds that requests spent in the
engine are taken apart into admissions, prompt tokens, steps and running requests per step; what
happened in the queue is not needed, so any policy may have been in force.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from estimator.core.observation import Completion
from estimator.replay.calibrate_fit import Costs, Goodness, fit_costs, goodness_of
from estimator.replay.calibrate_residence import Matrix, Residences, Vector, read_residences
from estimator.replay.profile import EngineProfile

__all__ = ["Calibration", "ThinDataError", "calibrate"]

Export = Sequence[tuple[float, Completion]]

MIN_REQUESTS: Final = 50
# What a typical request takes must be known so well, alone and where all slots are taken.
_MOST_ERROR_RATIO: Final = 0.2
# Reported concurrency over that of the rows: beyond these the rows are not one whole engine's.
_LEAST_SEEN, _MOST_SEEN = 0.8, 1.25
# Terms follow the costs and costs the terms; two or three rounds settle them.
_ROUNDS: Final = 6
# Waits beyond so many of the longest steps are for a slot, not for the end of a step.
_WAITED_STEPS: Final = 3.0
_MIN_WAITED: Final = 5
# A prompt whose length varies less than this is a constant part of an admission (Whisper's four).
_MIN_VARIATION: Final = 0.05
# A request that took longer than so many times the fitted seconds counts as one of these.
_MOST_LATE: Final = 3.0
_TINY_STEP_S: Final = 1e-9
_ADMISSION, _PROMPT, _STEP, _SEQUENCE = range(4)


class ThinDataError(Exception):
    """The exports do not tell what a profile needs; ``reasons`` say what is missing and why."""

    def __init__(self, *reasons: str) -> None:
        super().__init__("; ".join(reasons))
        self.reasons = reasons


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibration:
    """A profile and how far it can be trusted.

    Attributes
    ----------
    profile : EngineProfile
        What was fitted.
    n_left_out : int
        Requests whose seconds tell nothing of steps: aborted, failed, preempted, never run.
    goodness : Goodness
        Seconds in the engine, request by request.
    alone_error, full_error : float
        Standard error of what a request of median length takes, over that, alone and with all
        slots taken.
    admission_error_s : float
        Standard error of an admission's cost.
    overtaken_ratio : float
        Share of the admissions that went before somebody who had come earlier; 0 under fcfs.
    """

    profile: EngineProfile
    n_left_out: int
    goodness: Goodness
    alone_error: float
    full_error: float
    admission_error_s: float
    overtaken_ratio: float


def calibrate(
    exports: Sequence[Export],
    *,
    name: str,
    slots: int | None = None,
    source: str = "",
) -> Calibration:
    """Fit a profile.

    Parameters
    ----------
    exports : sequence of sequences of (float, Completion)
        Arrival, in seconds on the export's own clock, and what the engine reported. Each export
        is one engine's, whole: every request that was in it counts, also those that tell nothing
        of steps themselves.
    name, source : str
        The profile's.
    slots : int, optional
        vLLM's ``max_num_seqs``; taken from the exports where requests waited for a slot.

    Raises
    ------
    ThinDataError
        The exports do not tell the costs apart, or are not what they should be.
    """
    all_residences = _read(exports)
    n_usable = sum(int(one.usable.sum()) for one in all_residences)
    if n_usable < MIN_REQUESTS:
        raise ThinDataError(
            f"{n_usable} finished requests with seconds of service, {MIN_REQUESTS} are needed; "
            "export more of them"
        )
    _check_engine(all_residences)
    reasons: list[str] = []
    costs, columns, seconds = _fit(all_residences)
    n_slots = slots or _slots_of(all_residences, costs, reasons)
    length = float(np.median(columns[:, _STEP]))
    reasons += _doubts(costs, n_slots, length, columns)
    if reasons:
        raise ThinDataError(*reasons)
    fitted = np.maximum(columns @ costs.values, _TINY_STEP_S)
    admission_s, prompt_s, step_s, sequence_s = (float(one) for one in costs.values)
    limits = [one.admission_limit(n_slots) for one in all_residences]
    return Calibration(
        profile=EngineProfile(
            name=name,
            description=f"fitted by kappad calibrate to {n_usable:,} requests",
            source=source,
            slots=n_slots,
            step_s=max(step_s, _TINY_STEP_S),
            per_sequence_s=sequence_s,
            admission_s=admission_s,
            per_prompt_token_s=prompt_s,
            max_admissions_per_step=max((one for one in limits if one), default=None),
        ),
        n_left_out=sum(map(len, exports)) - n_usable,
        goodness=goodness_of(
            seconds,
            fitted,
            np.concatenate([one.mean_running()[one.usable] for one in all_residences]),
        ),
        alone_error=_request_error(costs, length, 1),
        full_error=_request_error(costs, length, n_slots),
        admission_error_s=costs.error_of((1.0, 0.0, 0.0, 0.0)),
        overtaken_ratio=_overtaken_ratio(all_residences),
    )


def _overtaken_ratio(all_residences: Sequence[Residences]) -> float:
    ratios = [one.overtaken_ratio for one in all_residences]
    return float(np.average(ratios, weights=[len(one.arrival_s) for one in all_residences]))


def _read(exports: Sequence[Export]) -> list[Residences]:
    try:
        return [read_residences(rows) for rows in exports]
    except ValueError as error:
        raise ThinDataError(str(error)) from error


def _check_engine(all_residences: Sequence[Residences]) -> None:
    """Raise ThinDataError where the rows cannot be all of one engine's."""
    known = [one.usable & (one.concurrency > 0.0) for one in all_residences]
    if not any(of_one.any() for of_one in known):
        return
    ratio = float(
        np.median(
            np.concatenate(
                [
                    one.mean_running()[of_one] / np.maximum(one.concurrency[of_one], 1.0)
                    for one, of_one in zip(all_residences, known, strict=True)
                ]
            )
        )
    )
    if ratio > _MOST_SEEN:
        raise ThinDataError(
            f"{ratio:.2f} times as many requests ran beside one another as the engine reported: "
            "the export holds several engines; export and calibrate each by itself"
        )
    if ratio < _LEAST_SEEN:
        raise ThinDataError(
            f"only {ratio:.2f} of the requests that the engine reported beside one another are in "
            "the export; export all of them, whatever their model or end"
        )


def _fit(all_residences: Sequence[Residences]) -> tuple[Costs, Matrix, Vector]:
    seconds = np.concatenate([one.service_s[one.usable] for one in all_residences])
    per_token = float(np.median(seconds) / 10.0)
    admission_s, step_s, sequence_s = 0.0, per_token, 0.0
    for _ in range(_ROUNDS):
        columns = np.vstack(
            [
                one.terms(admission_s, max(step_s, _TINY_STEP_S), sequence_s).columns()[one.usable]
                for one in all_residences
            ]
        )
        prompts = np.concatenate([one.prompt_tokens[one.usable] for one in all_residences])
        if prompts.std() <= _MIN_VARIATION * max(float(prompts.mean()), 1.0):
            columns[:, _PROMPT] = 0.0
        costs = fit_costs(columns, seconds)
        admission_s, _, step_s, sequence_s = (float(one) for one in costs.values)
    return costs.scaled(_level(seconds, columns @ costs.values)), columns, seconds


def _level(measured_s: Vector, fitted_s: Vector) -> float:
    """Give by what the fitted seconds fall short in their sum.

    Engines are now and then late and never early, and a robust fit leaves that out. What queues
    is the mean, so that must be right; who hung for many times as long still counts for little.
    """
    fitted_s = np.maximum(fitted_s, _TINY_STEP_S)
    return float(np.minimum(measured_s, _MOST_LATE * fitted_s).sum() / fitted_s.sum())


def _slots_of(all_residences: Sequence[Residences], costs: Costs, reasons: list[str]) -> int:
    """Take the most that ever ran for the slots, where somebody had to wait for one."""
    most = max(one.most_running for one in all_residences)
    step_s = float(costs.values[_STEP] + most * costs.values[_SEQUENCE])
    longest_s = float(costs.values[_ADMISSION]) + step_s
    waited = sum(
        int((one.admitted_s - one.arrival_s > _WAITED_STEPS * longest_s).sum())
        for one in all_residences
    )
    if waited < _MIN_WAITED:
        reasons.append(
            f"at most {most} ran at once and hardly anybody waited, so the engine may have more "
            "slots; give its max_num_seqs with --slots"
        )
    return most


def _request_error(costs: Costs, length: float, running: int) -> float:
    """Give the relative error of a request so long, with so many running."""
    weights = (1.0, 0.0, length, length * running)
    cost_s = float(costs.values @ weights)
    return costs.error_of(weights) / cost_s if cost_s > 0.0 else float("inf")


def _doubts(costs: Costs, slots: int, length: float, columns: Matrix) -> list[str]:
    """Say which costs the data does not tell."""
    mean = columns[:, _SEQUENCE] / np.maximum(columns[:, _STEP], 1.0)
    low, high = (float(one) for one in np.quantile(mean, (0.05, 0.95)))
    doubts = []
    for running, remedy in ((1, "a quiet hour"), (slots, "a busy hour")):
        error = _request_error(costs, length, running)
        if not error <= _MOST_ERROR_RATIO:
            known = "is not known at all" if np.isinf(error) else f"is known to {error:.0%} only"
            doubts.append(
                f"what a request takes with {running} running {known}: most requests ran beside "
                f"{low:.1f} to {high:.1f}, too alike to tell a step's fixed part from each "
                f"request's; add an export of {remedy}, or more requests"
            )
    error_s = costs.error_of((1.0, 0.0, 0.0, 0.0))
    typical_s = float(costs.values @ (1.0, 0.0, length, length))
    if not error_s <= _MOST_ERROR_RATIO * typical_s:
        doubts.append(
            "what an admission takes cannot be told from the steps: the requests' tokens are too "
            "much alike; add an export of shorter and longer ones"
        )
    return doubts
