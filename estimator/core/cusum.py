"""Page-Hinkley's two-sided test, and where the shift that it finds began.

Owns the sums that tell what was before a shift and what came after. Knows nothing of what they
mean.
"""

# ruff: noqa: SLF001 - river offers no state of its own; `Cusum` reads the fields of its
# PageHinkley as of 0.26, and the round trip in tests/unit/core/test_shift.py fails if they move.

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Self

if TYPE_CHECKING:  # see load_detector
    from river.drift import PageHinkley

# Below this share of the threshold there is no sign of a shift.
_CALM: Final = 1.0 / 3.0
# Batches, their sum, amounts, expected amounts and units.
Segment = tuple[float, float, float, float, float]
_EMPTY: Final[Segment] = (0.0, 0.0, 0.0, 0.0, 0.0)
# A tolerance that a large change stays above from its first batch on, so that the noise before it
# is not taken for a part of it.
_STEEP: Final = 1.25
# Page-Hinkley's own mean takes every value in, the shifted ones too, which hides half a shift that
# comes early. It is held at 0 by this count, and values come less a mean that waits.
_FOR_EVER: Final = 1e300
_TINY: Final = 1e-12


def load_detector() -> "type[PageHinkley]":
    """Give river's detector, importing it on the first call.

    That takes a second, most of it for scipy, which river's other detectors need. The sidecar
    calls it in a thread while it serves already; otherwise the first watch does.
    """
    from river.drift import PageHinkley  # noqa: PLC0415 # see above

    detector: type[PageHinkley] = PageHinkley
    return detector


# Value, amount, expected amount, units.
Row = tuple[float, float, float, float]


class Shift(NamedTuple):
    """A mean that has shifted.

    Attributes
    ----------
    mean : float
        The mean before it, in what was tested.
    before, after : float
        Σ expected / Σ units and Σ amount / Σ units since it happened.
    z : float
        The difference of the means after and before in its standard errors, signed.
    completions : int
        Values since it happened, as Page-Hinkley places it.
    """

    mean: float
    before: float
    after: float
    z: float
    completions: int


class Cusum:
    """Page-Hinkley's two-sided test of values of variance 1, with what came since the change.

    Parameters
    ----------
    threshold, tolerance : float
        λ and δ.
    known : int
        Values before the first one whose mean is 0.

    Notes
    -----
    The mean without a shift takes a value in only once there is no evidence of one: with 40
    batches before a change of 0.95 deviations, 97 % instead of 94 % were seen within 20 more.
    River's own forgetting of sums (α = 0.9999) is off: a sum that falls by δ a step stops falling
    at δ / (1 - α), after 10,000 steps, and from then on every wave of noise is tested without δ.
    """

    __slots__ = (
        "_is_calm", "_mean", "_n", "_narrow", "_pending", "_steep", "_test", "_wide", "known",
        "threshold", "tolerance",
    )  # fmt: skip

    def __init__(self, *, threshold: float, tolerance: float, known: int) -> None:
        self.threshold = threshold
        self.tolerance = tolerance
        self.known = known
        # For each side, what came since Page-Hinkley's statistic was last 0, and since the
        # same with a larger tolerance was, and that statistic.
        self._wide = [_EMPTY, _EMPTY]
        self._narrow = [_EMPTY, _EMPTY]
        self._steep = [0.0, 0.0]
        # The mean without a shift, of so many values; and those since there is some evidence,
        # with their sum, which are no part of it until the evidence is gone.
        self._n = float(known)
        self._mean = 0.0
        self._pending = [0.0, 0.0]
        self._is_calm = True
        self._test = load_detector()(
            min_instances=0, delta=tolerance, threshold=threshold, alpha=1.0
        )
        self._test._x_mean = type(self._test._x_mean)._from_state(_FOR_EVER, 0.0)

    @property
    def is_calm(self) -> bool:
        """Whether there is little evidence of a shift."""
        return self._is_calm

    def update(
        self, value: float, size: int, amount: float, expected: float, units: float
    ) -> Shift | None:
        """Take the value of one batch of ``size``; give the shift that it completes, if any."""
        # This is called once in four completions of every stream: written for speed.
        if self._is_calm:
            self._n += 1.0
            self._mean += (value - self._mean) / self._n
        else:
            self._pending = [self._pending[0] + 1.0, self._pending[1] + value]
        test = self._test
        test.update(value - self._mean)
        rise = test._sum_increase - test._min_increase
        fall = test._max_decrease - test._sum_decrease
        if rise > 0.0:
            self._follow(0, value, amount, expected, units)
        elif self._wide[0] is not _EMPTY:
            self._forget(0)
        if fall > 0.0:
            self._follow(1, value, amount, expected, units)
        elif self._wide[1] is not _EMPTY:
            self._forget(1)
        if test.drift_detected:
            return self._describe(0 if rise > self.threshold else 1, size)
        limit = _CALM * self.threshold
        calm = rise < limit and fall < limit
        if calm and not self._is_calm:
            n, total = self._pending
            self._n += n
            self._mean += (total - n * self._mean) / self._n
            self._pending = [0.0, 0.0]
        self._is_calm = calm
        return None

    def _forget(self, side: int) -> None:
        self._wide[side] = self._narrow[side] = _EMPTY
        self._steep[side] = 0.0

    def _follow(
        self, side: int, value: float, amount: float, expected: float, units: float
    ) -> None:
        batch = (1.0, value, amount, expected, units)
        self._wide[side] = _sum(self._wide[side], batch)
        deviation = value - self._mean
        steep = self._steep[side] + (-deviation if side else deviation) - _STEEP
        self._steep[side] = max(steep, 0.0)
        self._narrow[side] = _sum(self._narrow[side], batch) if steep > 0.0 else _EMPTY

    def _describe(self, side: int, size: int) -> Shift:
        found = [self._since(self._wide[side], size)]
        if self._narrow[side] is not _EMPTY:
            found.append(self._since(self._narrow[side], size))
        return max(found, key=lambda shift: abs(shift.z))

    def _since(self, segment: Sequence[float], size: int) -> Shift:
        n_after, total, amount, expected, units = segment
        # All values less those since.
        n_before = max(self._n + self._pending[0] - n_after, 1.0)
        before = (self._mean * self._n + self._pending[1] - total) / n_before
        units = max(units, _TINY)
        return Shift(
            mean=before,
            before=expected / units,
            after=amount / units,
            z=(total / n_after - before) / math.sqrt(1.0 / n_after + 1.0 / n_before),
            completions=size * int(n_after),
        )

    def state(self) -> list[Any]:
        """Give what was learned as JSON (hence Any); None stands for infinity."""
        test = self._test
        low = None if test._min_increase == math.inf else test._min_increase
        return [
            self._n, self._mean, self._pending, self._is_calm, test._sum_increase,
            test._sum_decrease, low, test._max_decrease, self._wide, self._narrow, self._steep,
        ]  # fmt: skip

    def restore(self, state: Sequence[Any]) -> Self:
        """Take on what `state` gave (JSON, hence Any); return self."""
        test = self._test
        (
            self._n, self._mean, pending, self._is_calm, test._sum_increase,
            test._sum_decrease, low, test._max_decrease, wide, narrow, steep,
        ) = state  # fmt: skip
        self._pending = list(pending)
        test._min_increase = math.inf if low is None else low
        self._wide, self._narrow = _segments(wide), _segments(narrow)
        self._steep = list(steep)
        return self


def _sum(segment: Segment, batch: Segment) -> Segment:
    a, b, c, d, e = segment
    f, g, h, i, j = batch
    return a + f, b + g, c + h, d + i, e + j


def _segments(rows: Sequence[Sequence[float]]) -> list[Segment]:
    # The empty one is told by identity.
    return [_sum(_EMPTY, (a, b, c, d, e)) if a else _EMPTY for a, b, c, d, e in rows]
