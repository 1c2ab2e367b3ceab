"""When a level (tokens per second of audio, seconds per token) has changed, and been followed."""

import math
from collections.abc import Sequence
from typing import Any, Final, NamedTuple, Self

from estimator.core.config import CoreConfig
from estimator.core.cusum import Row, Shift, load_detector
from estimator.core.drift_event import DriftEvent, DriftKind
from estimator.core.shift import BATCH, ShiftTest

# Re-exported for those that load the detector anyway.
__all__ = [
    "Change",
    "DriftEvent",
    "DriftKind",
    "LevelWatch",
    "Sample",
    "kappa_watch",
    "load_detector",
    "service_watch",
]


class Sample(NamedTuple):
    """What one completion was to a learner.

    Attributes
    ----------
    y : float
        What came, ≥ 0; the watch clips it by itself.
    expected, reference : float
        What the newest coefficients and those of `LevelWatch.reference_` predicted, ≥ 0. A
        reference that is ``y`` itself says that those coefficients cannot know.
    deviation : float
        The learner's deviation of such a residual, > 0; only a watch with ``most_scale`` heeds it.
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
    """A change that began, or the end of one.

    Attributes
    ----------
    begun : bool
        Whether it begins; else it has been followed.
    before, after : float
        The levels.
    completions : int
        Where it begins, completions since it happened, as far as can be told; where it ends,
        completions since it was detected.
    z : float
        Where it begins, the difference of the two levels in its standard errors; else 0.
    detail : str
        What moved, where the kind leaves that open.
    """

    begun: bool
    before: float
    after: float
    completions: int
    z: float = 0.0
    detail: str = ""

    @property
    def ratio(self) -> float:
        """The level after over the level before."""
        return self.after / max(self.before, _TINY)


# Keeps divisions finite; any real level is far above.
_TINY: Final = 1e-12
# Added to tokens before logarithms: an empty transcript is a small number, not minus infinity.
_HALF_TOKEN: Final = 0.5
# A change of at most so much is not worth an event, and ends one: DESIGN.md's ±10 %.
TOLERANCE_RATIO: Final = 0.1
# Completions (a multiple of 4) before the coefficients become the reference, at the start and
# after an event: what a learner that has just begun, or just dropped its past, knows is none.
_LEARN: Final = 16
# The shape of the reference is brought up to date after so many completions, then after twice as
# many, and so on: few times in all, so that their errors do not add up.
_FIRST_REFRESH: Final = 64
_REFRESH_GROWTH: Final = 2
# A refresh waits for a completion whose units are within so much of their mean, where both shapes
# are known best; the level is carried over there.
_TYPICAL_RATIO: Final = 0.25
_UNITS_RATE: Final = 0.01
# A residual of whose scale the reference's own error explains more than this is not tested.
_MOST_SLACK: Final = 0.7
# So many more completions that cannot be tested than can: the reference is of other work.
_MAX_SKIPPED: Final = 64
# Weight of the newest completion in the level seen while an event is open: about 20, so that its
# end is not an accident.
_SLOW: Final = 0.05
# What is this many times off what was expected counts as that many while an event is open.
_MAX_FACTOR: Final = 3.0
# Completions after a detection before it can be over.
_MIN_ADAPT: Final = 8
# κ's residuals spread by 0.14 to 0.38 of the estimate on eight traces; less would make an event
# of what speakers differ by.
_LEAST_KAPPA_SCALE: Final = 0.1
# Requests that run together share their steps, so residences wander together, by up to a fifth for
# a hundred completions where all slots are taken (benchmarks/service.py), and no threshold for
# independent residuals holds. So the service watch counts in fixed steps: with this scale and
# tolerance a fifth does not add up and a half does, and a lower threshold than κ's serves. Where
# the learner says that residuals wander more, they are shrunk, but not so far that a machine that
# is 1.5× slower would not be seen: on engine models at changing loads none gave 5 false events in
# 110,000 completions, this one 1, and no bound missed 60 completions twice as often.
_LEAST_SERVICE_SCALE: Final = 0.4
_MOST_SERVICE_SCALE: Final = 0.5
_SERVICE_TOLERANCE: Final = 1.0
_SERVICE_THRESHOLD_RATIO: Final = 0.65
_SERVICE_LEAST_CHANGE: Final = 0.2


class LevelWatch:
    """Tell when a level has changed, and when the learner has followed.

    Parameters
    ----------
    threshold, tolerance, least_scale : float
        See `estimator.core.shift.ShiftTest`; the scale is one of logarithms.
    pad : float
        Added to what came and to what was expected before logarithms are taken, ≥ 0.
    most_scale : float
        Where the learner says that residuals spread by more than ``least_scale``, they are taken
        to, up to this; 0 asks no learner.
    least_change : float
        A level that has moved by at most this share of itself is no event.

    Attributes
    ----------
    reference_ : list of float
        Coefficients of the learner that residuals are taken from; empty while it learns.

    Notes
    -----
    A `ShiftTest` of the logarithm of what came over what old coefficients expect: from the newest
    ones, a learner that forgets fast hides the change. Logarithms, because a factor moves a level
    by as many deviations up as down: ×1.5 and ÷1.5 are 0.95 of a deviation or more on each of
    eight traces. Completions of sizes that the reference has hardly seen are not tested, so that
    other lengths do not look like another level.
    """

    __slots__ = (
        "_adapting", "_before", "_buffer", "_expected", "_factor", "_n", "_next_refresh",
        "_offset", "_skipped", "_units", "_y", "least_change", "most_scale", "pad",
        "reference_", "test",
    )  # fmt: skip

    def __init__(
        self,
        *,
        threshold: float,
        tolerance: float,
        least_scale: float = _LEAST_KAPPA_SCALE,
        pad: float = 0.0,
        least_change: float = TOLERANCE_RATIO,
        most_scale: float = 0.0,
    ) -> None:
        self.most_scale = most_scale
        self.least_change = least_change
        self.pad = pad
        self.test = ShiftTest(threshold=threshold, tolerance=tolerance, least_scale=least_scale)
        self.reference_: list[float] = []
        # Completions since the last start, and what they teach of the reference.
        self._n = self._skipped = 0
        self._next_refresh = _FIRST_REFRESH
        self._offset, self._factor = 0.0, 1.0
        # What waits to be tested.
        self._buffer: list[Sample] = []
        # Running means: the units; and while an event is open, what came and was expected.
        self._units = self._y = self._expected = 0.0
        self._before = 0.0
        # Completions since the detection of the event that is open, or -1.
        self._adapting = -1

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
        buffer = self._buffer
        buffer.append(sample)
        return None if len(buffer) < BATCH else self._test(sample)

    def _test(self, newest: Sample) -> Change | None:
        """Test the completions that wait; several at a time cost much less than one by one."""
        buffer = self._buffer
        self._n = n = self._n + len(buffer)
        share = max(_UNITS_RATE, 1.0 / n) * len(buffer)
        self._units += min(share, 1.0) * (newest.units - self._units)
        if n <= _LEARN:
            buffer.clear()
            if n == _LEARN:
                self.reference_ = list(newest.coefficients)
            return None
        rows = self._rows()
        self._skipped = max(self._skipped + len(buffer) - 2 * len(rows), 0)
        buffer.clear()
        if self._skipped >= _MAX_SKIPPED:
            self._restart()
            return None
        shift = self.test.update(rows)
        if shift is not None:
            return self._conclude(shift)
        if n >= self._next_refresh and self.test.is_calm:
            self._refresh(newest)
        return None

    def _rows(self) -> list[Row]:
        """Give what waits as the test takes it, without what the reference cannot know."""
        most = _MOST_SLACK * self.test.scale if self.test.is_settled else math.inf
        pad, offset, factor = self.pad + _TINY, self._offset, self._factor
        least, most_scale = self.test.least_scale, self.most_scale
        rows = []
        for y, _, reference, deviation, slack, units, _ in self._buffer:
            if y == reference or slack > most * reference:
                continue
            value = math.log((y + pad) / (reference + pad)) + offset
            if most_scale > 0.0 and deviation > least * reference:
                value *= least / min(deviation / max(reference, _TINY), most_scale)
            rows.append((value, y, reference * factor, units))
        return rows

    def _refresh(self, newest: Sample) -> None:
        if abs(newest.units - self._units) > _TYPICAL_RATIO * self._units:
            return
        if newest.reference == newest.y:
            return
        pad = self.pad + _TINY
        self._offset += math.log((newest.expected + pad) / (newest.reference + pad))
        self._factor = math.exp(-self._offset)
        self._next_refresh *= _REFRESH_GROWTH
        self.reference_ = list(newest.coefficients)

    def _restart(self) -> None:
        self._n = self._skipped = 0
        self._next_refresh = _FIRST_REFRESH
        self._offset, self._factor = 0.0, 1.0
        self.reference_ = []
        self.test.restart()

    def _conclude(self, shift: Shift) -> Change | None:
        self._restart()
        if abs(shift.after - shift.before) <= self.least_change * shift.before:
            return None
        self._adapting, self._before = 0, shift.before
        return Change(
            begun=True,
            before=shift.before,
            after=shift.after,
            completions=shift.completions,
            z=abs(shift.z),
        )

    def _follow(self, sample: Sample) -> Change | None:
        self._adapting += 1
        share = max(_SLOW, 1.0 / self._adapting)
        # A loop of 444 tokens must not hold an event open, nor an empty transcript: it counts as
        # one token, which is the least that is ever expected.
        least = max(sample.expected / _MAX_FACTOR, 2.0 * self.pad)
        y = min(max(sample.y, least), sample.expected * _MAX_FACTOR)
        self._y += share * (y - self._y)
        self._expected += share * (sample.expected - self._expected)
        self._units += share * (sample.units - self._units)
        wrong = abs(self._y - self._expected) > TOLERANCE_RATIO * self._y
        if wrong or self._adapting < _MIN_ADAPT:
            return None
        completions, self._adapting = self._adapting, -1
        after = self._y / max(self._units, _TINY)
        return Change(begun=False, before=self._before, after=after, completions=completions)

    def state(self) -> list[Any]:
        """Give what was learned as JSON (hence Any)."""
        return [
            self._n, self._skipped, self._next_refresh, self._offset, self._units, self._y,
            self._expected, self._before, self._adapting, self.reference_,
            [sample[:-1] for sample in self._buffer], self.test.state(),
        ]  # fmt: skip

    def restore(self, state: Sequence[Any]) -> Self:
        """Take on what `state` gave (JSON, hence Any); return self."""
        (
            self._n, self._skipped, self._next_refresh, self._offset, self._units, self._y,
            self._expected, self._before, self._adapting, reference, buffer, test,
        ) = state  # fmt: skip
        self._factor = math.exp(-self._offset)
        self.reference_ = list(reference)
        # Only the newest sample's coefficients are ever asked for, and it has yet to come.
        self._buffer = [Sample(a, b, c, d, e, f, ()) for a, b, c, d, e, f in buffer]
        self.test.restore(test)
        return self


def kappa_watch(config: CoreConfig) -> LevelWatch:
    """Make a watch for the tokens of a key."""
    return LevelWatch(
        threshold=config.drift_threshold, tolerance=config.drift_tolerance, pad=_HALF_TOKEN
    )


def service_watch(config: CoreConfig) -> LevelWatch:
    """Make a watch for the seconds of a model's requests."""
    return LevelWatch(
        threshold=_SERVICE_THRESHOLD_RATIO * config.drift_threshold,
        tolerance=_SERVICE_TOLERANCE,
        least_scale=_LEAST_SERVICE_SCALE,
        least_change=_SERVICE_LEAST_CHANGE,
        most_scale=_MOST_SERVICE_SCALE,
    )
