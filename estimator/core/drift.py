"""Drift events, and the detector that raises them."""

# ruff: noqa: SLF001 - river offers no state of its own; `LevelWatch.state` reads the fields of its
# PageHinkley as of 0.26, and the round trip in tests/unit/core/test_drift.py fails if they move.

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple, Self

from river import drift, stats

DriftKind = Literal["kappa", "mix", "service"]


@dataclass(frozen=True, slots=True, kw_only=True)
class DriftEvent:
    """One change that was detected, with its end once adapted.

    Attributes
    ----------
    event_id : str
        Opaque and unique; the same id again replaces the event (to set its end).
    kind : {"kappa", "mix", "service"}
        What changed.
    model, task, language, timestamps
        The key it was seen on.
    detected_s : float
        Unix time of the completion that raised it.
    before, after : float
        The level before and after: for ``kappa`` tokens per second of audio at the key's mean
        size, for ``service`` seconds per token at the model's mean request; so both hold the
        intercept's share, without which a slope and an intercept could trade unseen.
    completions_to_adapt : int or None
        None until adapted.
    ended_s : float or None
        None until adapted.
    """

    event_id: str
    kind: DriftKind
    model: str
    task: str
    language: str
    timestamps: bool | None
    detected_s: float
    before: float
    after: float
    completions_to_adapt: int | None = None
    ended_s: float | None = None


class Change(NamedTuple):
    """What a `LevelWatch` saw: a change that began, or the end of one after so many."""

    begun: bool
    before: float
    after: float
    completions: int


# Keeps divisions finite; any real level is far above.
_TINY: Final = 1e-12
# A residual beyond so many deviations counts as that many, so that no single completion raises
# an event (λ = 10, δ = 0.5 need at least three).
_MAX_DEVIATIONS: Final = 4.0
# Completions of a key before its changes are watched; river's default.
_MIN_INSTANCES: Final = 30
# A change of at most so much is not worth an event, and ends one: DESIGN.md's ±10 %.
_TOLERANCE_RATIO: Final = 0.1
# Weight of the newest completion in the level seen lately: about 9 completions.
_FAST: Final = 0.2
# The same while an event is open: about 20, so that its end is not an accident.
_SLOW: Final = 0.05
# Completions after a detection before it can be over.
_MIN_ADAPT: Final = 8
# The level before a change is read this many to twice as many completions back.
_LAG: Final = 64


class LevelWatch:
    """Tell when a level (κ, seconds per token) has changed, and when the learner has followed.

    Parameters
    ----------
    threshold, tolerance : float
        Page-Hinkley's λ and δ, in robust deviations.

    Notes
    -----
    River's `PageHinkley` on standardized residuals, taken against the level of 64 to 128
    completions ago: against the newest level, a learner that forgets fast hides the change. The
    level after the change is the ratio of what came to what one unit of level would have given,
    over the last completions, so that it does not depend on how far the learner has followed.

    References
    ----------
    Page (1954), Continuous inspection schemes, Biometrika 41.
    """

    __slots__ = (
        "_adapting", "_before", "_lagged", "_n", "_pending", "_test", "_unit", "_y", "threshold",
        "tolerance",
    )  # fmt: skip

    def __init__(self, *, threshold: float, tolerance: float) -> None:
        self.threshold = threshold
        self.tolerance = tolerance
        self._test = self._new_test()
        self._n = 0
        self._y = 0.0
        self._unit = 0.0
        self._pending = self._lagged = self._before = 0.0
        # Completions since the detection of the event that is open, or -1.
        self._adapting = -1

    def _new_test(self) -> drift.PageHinkley:
        return drift.PageHinkley(
            min_instances=_MIN_INSTANCES, delta=self.tolerance, threshold=self.threshold
        )

    @property
    def is_open(self) -> bool:
        """Whether a change was detected that the learner has not followed yet."""
        return self._adapting >= 0

    def update(self, y: float, expected: float, deviation: float, level: float) -> Change | None:
        """Take one completion.

        Parameters
        ----------
        y, expected : float
            What came (after clipping) and what was predicted, ≥ 0.
        deviation : float
            The robust deviation of such a residual, > 0.
        level : float
            The learner's level when it predicted.

        Returns
        -------
        Change or None
            A change that begins or ends with this completion.
        """
        if self._n % _LAG == 0:
            self._lagged = level if self._n == 0 else self._pending
            self._pending = level
        self._n += 1
        share = _FAST if self._adapting < 0 else max(_SLOW, 1.0 / (self._adapting + 1))
        self._y += share * (y - self._y)
        self._unit += share * (expected / max(level, _TINY) - self._unit)
        seen = self._y / max(self._unit, _TINY)
        if self._adapting >= 0:
            return self._follow(seen, level)
        z = (y - expected * self._lagged / max(level, _TINY)) / deviation
        self._test.update(min(max(z, -_MAX_DEVIATIONS), _MAX_DEVIATIONS))
        if not self._test.drift_detected:
            return None
        before = self._lagged
        if abs(seen - before) <= _TOLERANCE_RATIO * before:
            return None
        self._adapting = 0
        self._before = before
        return Change(begun=True, before=before, after=seen, completions=0)

    def _follow(self, seen: float, level: float) -> Change | None:
        self._adapting += 1
        if self._adapting < _MIN_ADAPT or abs(seen - level) > _TOLERANCE_RATIO * seen:
            return None
        completions, self._adapting = self._adapting, -1
        self._n, self._test = 0, self._new_test()
        return Change(begun=False, before=self._before, after=level, completions=completions)

    def state(self) -> list[float | None]:
        """Give what was learned, as numbers; None stands for infinity."""
        test = self._test
        low = None if test._min_increase == math.inf else test._min_increase
        return [
            self._n, self._y, self._unit, self._pending, self._lagged, self._before,
            self._adapting, test._x_mean.n, test._x_mean.get(), test._sum_increase,
            test._sum_decrease, low, test._max_decrease, int(test.drift_detected),
        ]  # fmt: skip

    def restore(self, state: Sequence[float | None]) -> Self:
        """Take on what `state` gave; return self."""
        numbers = [math.inf if number is None else number for number in state]
        (
            n, self._y, self._unit, self._pending, self._lagged, self._before, adapting,
            mean_n, mean, increase, decrease, low, high, detected,
        ) = numbers  # fmt: skip
        self._n, self._adapting = int(n), int(adapting)
        test = self._test
        test._x_mean = stats.Mean._from_state(mean_n, mean)
        test._sum_increase, test._sum_decrease = increase, decrease
        test._min_increase, test._max_decrease = low, high
        test._drift_detected = bool(detected)
        return self
