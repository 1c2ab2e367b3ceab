"""What an export tells of an engine's steps: who ran beside whom, and who was admitted meanwhile.

Owns how admissions and ends in seconds become the terms of a regression. Knows no profile and
fits nothing.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from estimator.core.observation import Completion

__all__ = ["Residences", "Terms", "read_residences"]

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]
# Two admissions closer than this fell into one step, if no step is as short: a share of the least
# seconds per token seen, and never more than two milliseconds (a loop over a few requests).
_SAME_STEP_RATIO: Final = 0.2
_SAME_STEP_MOST_S: Final = 2e-3
_SAME_STEP_LEAST_S: Final = 2e-6
# Share of a stretch that is steps at the least, where admissions would take all of it.
_LEAST_DECODING: Final = 0.05
# Steps that must show a limit of admissions before it is believed.
_LEAST_SHOWN: Final = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Residences:
    """Requests of one export that were in the engine, by admission.

    Attributes
    ----------
    arrival_s, admitted_s, ended_s : ndarray of float64, shape (n,)
        On the export's clock.
    tokens, prompt_tokens : ndarray of float64, shape (n,)
        Tokens that came out, and prompt tokens that were computed.
    concurrency : ndarray of float64, shape (n,)
        What the engine reported, 0 where it did not.
    usable : ndarray of bool, shape (n,)
        Whether its seconds tell of steps: finished, produced something, never preempted.
    same_step_s : float
        Admissions closer than this fell into one step.
    """

    arrival_s: Vector
    admitted_s: Vector
    ended_s: Vector
    tokens: Vector
    prompt_tokens: Vector
    concurrency: Vector
    usable: NDArray[np.bool_]
    same_step_s: float

    @property
    def service_s(self) -> Vector:
        """Seconds from the first admission to the end."""
        return self.ended_s - self.admitted_s

    @property
    def most_running(self) -> int:
        """The most requests that were in the engine at once."""
        times, running, _ = self._changes()
        held = np.diff(times) > self.same_step_s
        return int(running[:-1][held].max(initial=0.0))

    def admission_limit(self, slots: int) -> int | None:
        """Give how many are admitted in a step at most, None where nothing shows a limit.

        Parameters
        ----------
        slots : int
            Most running requests.

        Notes
        -----
        A limit shows where somebody is left waiting although a slot is free.
        """
        near = self.same_step_s
        starts = np.flatnonzero(np.diff(self.admitted_s, prepend=-np.inf) > near)
        counts = np.diff(starts, append=len(self.admitted_s))
        at_s = self.admitted_s[starts]
        arrived = np.searchsorted(np.sort(self.arrival_s), at_s - near, "left")
        ended = np.searchsorted(np.sort(self.ended_s), at_s + near, "right")
        admitted = starts + counts
        left_waiting = (arrived > admitted) & (admitted - ended < slots)
        most = int(counts.max())
        shown = int((left_waiting & (counts == most)).sum())
        return most if shown >= _LEAST_SHOWN else None

    @property
    def overtaken_ratio(self) -> float:
        """Share of the admissions that went before somebody who had come earlier."""
        # The earliest arrival among those admitted later; within a step there is no order.
        after = np.searchsorted(self.admitted_s, self.admitted_s + self.same_step_s, "right")
        earliest = np.minimum.accumulate(self.arrival_s[::-1])[::-1]
        overtaken = np.append(earliest, np.inf)[after] < self.arrival_s
        return float(np.mean(overtaken))

    def mean_running(self) -> Vector:
        """Give the mean number of running requests of each residence, itself included."""
        times, running, _ = self._changes()
        integral = np.concatenate(([0.0], np.cumsum(running[:-1] * np.diff(times))))
        return self._between(times, integral) / np.maximum(self.service_s, self.same_step_s)

    def terms(self, admission_s: float, step_s: float, per_sequence_s: float) -> "Terms":
        """Give the regression's terms of each residence.

        Parameters
        ----------
        admission_s, step_s, per_sequence_s : float
            What is known so far: tells how many steps fell into each stretch of time, and so
            how many ran beside a request in its steps, not in its time.
        """
        times, running, admissions = self._changes()
        spans = np.diff(times)
        # A stretch begins with the admissions at its start, those of one step together; the rest
        # of it is steps.
        ends_group = spans > self.same_step_s
        group = np.concatenate(([0], np.cumsum(ends_group)))[:-1]
        begun = np.where(ends_group, np.bincount(group, admissions[:-1])[group], 0.0)
        decoding = np.maximum(spans - admission_s * begun, _LEAST_DECODING * spans)
        steps = decoding / (step_s + per_sequence_s * np.maximum(running[:-1], 1.0))
        counted = self._between(times, np.concatenate(([0.0], np.cumsum(steps))))
        beside = self._between(times, np.concatenate(([0.0], np.cumsum(steps * running[:-1]))))
        mean = np.where(counted > 0.0, beside / np.maximum(counted, 1e-12), 1.0)
        near = self.same_step_s
        first = np.searchsorted(self.admitted_s, self.admitted_s - near, "left")
        last = np.searchsorted(self.admitted_s, self.ended_s - near, "left")
        last = np.maximum(last, np.arange(len(self.admitted_s)) + 1)
        prompts = np.concatenate(([0.0], np.cumsum(self.prompt_tokens)))
        return Terms(
            admissions=(last - first).astype(np.float64),
            prompt_tokens=prompts[last] - prompts[first],
            steps=self.tokens,
            sequence_steps=self.tokens * np.maximum(mean, 1.0),
        )

    def _changes(self) -> tuple[Vector, Vector, Vector]:
        """Give the times at which somebody comes or goes, who runs from then on, who came."""
        n = len(self.admitted_s)
        times = np.concatenate((self.admitted_s, self.ended_s))
        change = np.concatenate((np.ones(n), -np.ones(n)))
        # What ends leaves before another takes its slot.
        order = np.lexsort((change, times))
        return times[order], np.cumsum(change[order]), (change[order] > 0.0).astype(np.float64)

    def _between(self, times: Vector, integral: Vector) -> Vector:
        start, end = (np.interp(at, times, integral) for at in (self.admitted_s, self.ended_s))
        difference: Vector = end - start
        return difference


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """What the seconds of residences are made of, one row for each.

    Attributes
    ----------
    admissions : ndarray of float64, shape (n,)
        Admissions that fell into its steps, its own included.
    prompt_tokens : ndarray of float64, shape (n,)
        Prompt tokens computed in these.
    steps : ndarray of float64, shape (n,)
        Its steps: one a token.
    sequence_steps : ndarray of float64, shape (n,)
        Running requests, summed over its steps.
    """

    admissions: Vector
    prompt_tokens: Vector
    steps: Vector
    sequence_steps: Vector

    def columns(self) -> Matrix:
        """Give them as columns: admissions, prompt tokens, steps, sequence steps."""
        return np.column_stack(
            (self.admissions, self.prompt_tokens, self.steps, self.sequence_steps)
        )


def read_residences(rows: Sequence[tuple[float, Completion]]) -> Residences:
    """Sort the completions of one export by admission.

    Parameters
    ----------
    rows : sequence of (float, Completion)
        Arrival on the export's clock and what became of the request. Those that never ran are
        left out.

    Raises
    ------
    ValueError
        If none ever ran.
    """
    ran = [(arrival_s, one) for arrival_s, one in rows if one.service_s > 0.0]
    if not ran:
        raise ValueError("no row has seconds of service; calibrate takes what kappad export wrote")
    ran.sort(key=lambda row: row[0] + row[1].wait_s)
    arrival_s = np.array([arrival_s for arrival_s, _ in ran])
    ones = [one for _, one in ran]
    service_s = np.array([one.service_s for one in ones])
    tokens = np.array([float(one.output_tokens) for one in ones])
    usable = np.array([_tells_of_steps(one) for one in ones])
    admitted_s = arrival_s + np.array([one.wait_s for one in ones])
    quickest = np.min((service_s / np.maximum(tokens, 1.0))[usable], initial=_SAME_STEP_MOST_S)
    return Residences(
        arrival_s=arrival_s,
        admitted_s=admitted_s,
        ended_s=admitted_s + service_s,
        tokens=tokens,
        prompt_tokens=np.array(
            [float(max(one.prompt_tokens - one.cached_prompt_tokens, 0)) for one in ones]
        ),
        concurrency=np.array([one.concurrency for one in ones]),
        usable=usable,
        same_step_s=max(
            min(_SAME_STEP_RATIO * float(quickest), _SAME_STEP_MOST_S), _SAME_STEP_LEAST_S
        ),
    )


def _tells_of_steps(one: Completion) -> bool:
    # A preempted request did part of its work twice, a beam step finds its encoder's work done,
    # a session waits for its caller, and who leaves does so within a step.
    return (
        one.finish_reason in ("stop", "length")
        and one.kind in ("transcription", "text", "detection")
        and one.output_tokens >= 1
        and not one.preemptions
    )
