"""The detector that raises drift events."""

# ruff: noqa: SLF001 - river offers no state of its own; `LevelWatch.state` reads the fields of its
# PageHinkley as of 0.26, and the round trip in tests/unit/core/test_drift.py fails if they move.

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Self

from estimator.core.drift_event import DriftEvent, DriftKind

if TYPE_CHECKING:  # see load_detector
    from river.drift import PageHinkley

# The event is re-exported for those that load the detector anyway.
__all__ = ["Change", "DriftEvent", "DriftKind", "LevelWatch", "Sample", "load_detector"]


class Sample(NamedTuple):
    """What one completion was to a learner.

    Attributes
    ----------
    y : float
        What came, after clipping.
    expected, reference : float
        What the newest coefficients and those of `LevelWatch.reference_` predicted, ≥ 0.
    deviation : float
        The robust deviation of such a residual, > 0.
    slack : float
        How much of the residual from the reference its own error explains, ≥ 0.
    units : float
        What a level is counted by: seconds of audio, or tokens, ≥ 0.
    coefficients : sequence of float
        The learner's, when it predicted.
    """

    y: float
    expected: float
    reference: float
    deviation: float
    slack: float
    units: float
    coefficients: Sequence[float]


class Change(NamedTuple):
    """What a `LevelWatch` saw: a change that began, or the end of one after so many."""

    begun: bool
    before: float
    after: float
    completions: int


# Keeps divisions finite; any real level is far above.
_TINY: Final = 1e-12
# A residual beyond so many deviations counts as that many, so that no single completion raises
# an event: with λ = 12 and δ = 0.5 it takes at least four.
_MAX_DEVIATIONS: Final = 4.0
# Completions that Page-Hinkley sees before it speaks; river's default.
_MIN_INSTANCES: Final = 30
# A change of at most so much is not worth an event, and ends one: DESIGN.md's ±10 %.
_TOLERANCE_RATIO: Final = 0.1
# Weight of the newest completion in the level seen lately: about 9 completions.
_FAST: Final = 0.2
# The same while an event is open: about 20, so that its end is not an accident.
_SLOW: Final = 0.05
# Completions after a detection before it can be over.
_MIN_ADAPT: Final = 8
# Completions before anything is tested, at the start and after an event: what a learner that has
# just begun, or just dropped its past, knows is no reference.
_SETTLE: Final = 32
# The reference is what the learner knew this many to twice as many completions ago.
_LAG: Final = 64


def load_detector() -> "type[PageHinkley]":
    """Give river's detector, importing it on the first call.

    That takes a second, most of it for scipy, which river's other detectors need. The sidecar
    calls it in a thread while it serves already; otherwise the first watch does.
    """
    from river.drift import PageHinkley  # noqa: PLC0415 # see above

    detector: type[PageHinkley] = PageHinkley
    return detector


class LevelWatch:
    """Tell when a level (κ, seconds per token) has changed, and when the learner has followed.

    Parameters
    ----------
    threshold, tolerance : float
        Page-Hinkley's λ and δ, in robust deviations.

    Attributes
    ----------
    reference_ : list of float
        The learner's coefficients of 64 to 128 completions ago; empty while settling.

    Notes
    -----
    River's `PageHinkley` on standardized residuals from the reference: from the newest
    coefficients, a learner that forgets fast hides the change. Levels before and after are what
    the reference expects, and what came, of the same latest completions, each over their units
    (seconds of audio, tokens). What the reference cannot know, where lengths are new to it, is
    taken off each residual, so that other lengths alone seldom look like a change.

    References
    ----------
    Page (1954), Continuous inspection schemes, Biometrika 41.
    """

    __slots__ = (
        "_adapting", "_before", "_expected", "_n", "_pending", "_test", "_units", "_y",
        "reference_", "threshold", "tolerance",
    )  # fmt: skip

    def __init__(self, *, threshold: float, tolerance: float) -> None:
        self.threshold = threshold
        self.tolerance = tolerance
        self.reference_: list[float] = []
        self._pending: list[float] = []
        self._test = self._new_test()
        self._n = 0
        # Running means over the last completions: what came, what was expected, the units.
        self._y = self._expected = self._units = 0.0
        self._before = 0.0
        # Completions since the detection of the event that is open, or -1.
        self._adapting = -1

    def _new_test(self) -> "PageHinkley":
        return load_detector()(
            min_instances=_MIN_INSTANCES, delta=self.tolerance, threshold=self.threshold
        )

    @property
    def is_open(self) -> bool:
        """Whether a change was detected that the learner has not followed yet."""
        return self._adapting >= 0

    def update(self, sample: Sample) -> Change | None:
        """Take one completion.

        Parameters
        ----------
        sample : Sample
            What it was to the learner.

        Returns
        -------
        Change or None
            A change that begins or ends with this completion.
        """
        if self._adapting >= 0:
            return self._follow(sample)
        if self._n % _LAG == 0 and self._n > 0:
            self.reference_ = self._pending
            self._pending = list(sample.coefficients)
        self._n += 1
        self._average(_FAST, sample.y, sample.reference, sample.units)
        if self._n <= _SETTLE:
            if self._n == _SETTLE:
                self.reference_ = self._pending = list(sample.coefficients)
            return None
        residual = sample.y - sample.reference
        z = min(max(abs(residual) - sample.slack, 0.0) / sample.deviation, _MAX_DEVIATIONS)
        self._test.update(math.copysign(z, residual))
        if not self._test.drift_detected:
            return None
        units = max(self._units, _TINY)
        before, after = self._expected / units, self._y / units
        if abs(after - before) <= _TOLERANCE_RATIO * before:
            return None
        self._adapting, self._before = 0, before
        return Change(begun=True, before=before, after=after, completions=0)

    def _average(self, share: float, y: float, expected: float, units: float) -> None:
        self._y += share * (y - self._y)
        self._expected += share * (expected - self._expected)
        self._units += share * (units - self._units)

    def _follow(self, sample: Sample) -> Change | None:
        self._adapting += 1
        share = max(_SLOW, 1.0 / self._adapting)
        self._average(share, sample.y, sample.expected, sample.units)
        wrong = abs(self._y - self._expected) > _TOLERANCE_RATIO * self._y
        if wrong or self._adapting < _MIN_ADAPT:
            return None
        completions, self._adapting = self._adapting, -1
        self._n, self._test = 0, self._new_test()
        self.reference_ = []
        after = self._y / max(self._units, _TINY)
        return Change(begun=False, before=self._before, after=after, completions=completions)

    def state(self) -> list[Any]:
        """Give what was learned as JSON (hence Any); None stands for infinity."""
        test = self._test
        low = None if test._min_increase == math.inf else test._min_increase
        return [
            self._n, self._y, self._expected, self._units, self._before, self._adapting,
            test._x_mean.n, test._x_mean.get(), test._sum_increase, test._sum_decrease, low,
            test._max_decrease, int(test.drift_detected), self.reference_, self._pending,
        ]  # fmt: skip

    def restore(self, state: Sequence[Any]) -> Self:
        """Take on what `state` gave (JSON, hence Any); return self."""
        test = self._test
        (
            self._n, self._y, self._expected, self._units, self._before, self._adapting,
            mean_n, mean, test._sum_increase, test._sum_decrease, low,
            test._max_decrease, detected, reference, pending,
        ) = state  # fmt: skip
        test._x_mean = type(test._x_mean)._from_state(mean_n, mean)
        test._min_increase = math.inf if low is None else low
        test._drift_detected = bool(detected)
        self.reference_, self._pending = list(reference), list(pending)
        return self
