"""A test of whether the mean of a stream has shifted: standardize, batch, Page-Hinkley.

Owns the statistics that every kind of drift is tested with. Knows nothing of what they mean.
"""

import math
from collections.abc import Iterable, Sequence
from typing import Any, Final, Self

from estimator.core.cusum import Cusum, Row, Shift

# A deviation beyond so many counts as that many: loops and empty transcripts are heavy tails.
# 2, 2.5 and 3 kept 0.96 to 1.09 of a deviation on eight traces; 3 let tails through.
_CLIP: Final = 2.5
# Deviations are summed by so many before Page-Hinkley sees them: sums are nearer to normal, so
# one threshold fits all traces, and a test costs a quarter. It delays an event by 1.5 on average.
BATCH: Final = 4
# Mean of |z| for a normal z that counts as at most 3.
_MEAN_ABSOLUTE: Final = 0.797
_SCALE_CLIP: Final = 3.0
_SCALE_RATE: Final = 1.0 / 200.0
_SCALE_AFTER: Final = 199
# The scale is taken to be larger by so many over the count: a scale of few values may be small.
_SCALE_DOUBT: Final = 2.0
_FIRST_SCALE: Final = 0.3
# Bounds an exponent; no level changes by e⁵⁰.
_MAX_LOG: Final = 50.0
# An amount beyond so many deviations counts as that many: loops must not make the level after.
_AMOUNT_CLIP: Final = 6.0
_TINY: Final = 1e-12


class ShiftTest:
    """Tell when the mean of a stream of logarithms has shifted; begin again after each shift.

    Parameters
    ----------
    threshold, tolerance : float
        Page-Hinkley's λ and δ, in standard deviations of a sum of four.
    least_scale : float
        Values are standardized by at least so much, > 0.
    settle : int
        Values that centre and scale are learned from before anything is tested.
    batch : int
        Values that are summed before they are tested, ≥ 1.

    Attributes
    ----------
    scale_ : float
        Robust standard deviation: the mean absolute deviation of clipped values over 0.797.

    Notes
    -----
    Each value less the mean of the first ``settle`` ones, over the scale, clipped at 2.5, summed
    by four and divided by 2 has variance near 1 whatever the stream: Page's two-sided CUSUM of
    that has one curve of false events against delay (docs/drift.md). The mean goes on being
    learned while nothing shifts, so an error of the centre is not a shift.

    References
    ----------
    Page (1954), Continuous inspection schemes, Biometrika 41. Hawkins (1987), Self-starting CUSUM
    charts for location and scale, The Statistician 36.
    """

    __slots__ = (
        "_amount", "_center", "_cusum", "_expected", "_in_batch", "_n", "_sum", "_units",
        "batch", "least_scale", "scale_", "settle", "threshold", "tolerance",
    )  # fmt: skip

    def __init__(
        self,
        *,
        threshold: float,
        tolerance: float,
        least_scale: float,
        settle: int = 32,
        batch: int = BATCH,
    ) -> None:
        self.batch = batch
        self.threshold = threshold
        self.tolerance = tolerance
        self.least_scale = least_scale
        self.settle = settle
        self.restart()

    def restart(self) -> None:
        """Forget everything."""
        self._n = 0
        self._center = 0.0
        self.scale_ = _FIRST_SCALE
        self._cusum: Cusum | None = None
        self._in_batch = 0
        self._sum = self._amount = self._expected = self._units = 0.0

    @property
    def is_settled(self) -> bool:
        """Whether shifts are tested for already."""
        return self._n >= self.settle

    @property
    def scale(self) -> float:
        """What values are standardized by."""
        return max(self.scale_, self.least_scale)

    @property
    def is_calm(self) -> bool:
        """Whether shifts are tested for and there is little evidence of one."""
        return self._cusum is not None and self._cusum.is_calm

    def update(self, rows: Iterable[Row]) -> Shift | None:
        """Take some values; give the shift that they complete, if any.

        Parameters
        ----------
        rows : iterable of (value, amount, expected, units)
            ``value`` is tested: a finite logarithm of what ``amount`` is in proportion to;
            ``amount`` and ``units`` are what a level is made of, and ``expected`` is what the
            amount would be at a value of 0; all ≥ 0.

        Notes
        -----
        Several at a time, because a call costs as much as the arithmetic of three.
        """
        n, center, scale, least = self._n, self._center, self.scale_, self.least_scale
        settle, total, in_batch = self.settle, self._sum, self._in_batch
        amounts, expectations, units = self._amount, self._expected, self._units
        for value, amount, expected, unit in rows:
            n += 1
            deviation = value - center
            if n <= settle:
                center += deviation / n
                deviation = value - center
            spread = -deviation if deviation < 0.0 else deviation
            if spread > _SCALE_CLIP * scale:  # noqa: PLR1730 - min() takes as long as all of it
                spread = _SCALE_CLIP * scale
            rate = 1.0 / (n + 1.0) if n < _SCALE_AFTER else _SCALE_RATE
            scale += rate * (spread / _MEAN_ABSOLUTE - scale)
            if n <= settle:
                continue
            unit_scale = scale if scale > least else least  # noqa: FURB136 - as above
            z = deviation / (unit_scale * (1.0 + _SCALE_DOUBT / n))
            if z > _CLIP or z < -_CLIP:
                amount, z = self._clip(z, amount, expected)  # noqa: PLW2901 - the clipped one
            total += z
            amounts += amount
            expectations += expected
            units += unit
            in_batch += 1
        self._n, self._center, self.scale_ = n, center, max(scale, _TINY)
        self._sum, self._in_batch = total, in_batch
        self._amount, self._expected, self._units = amounts, expectations, units
        return None if in_batch < self.batch else self._test_batch()

    def _clip(self, z: float, amount: float, expected: float) -> tuple[float, float]:
        if abs(z) > _AMOUNT_CLIP:
            value = self._center + math.copysign(_AMOUNT_CLIP, z) * self.scale
            amount = expected * math.exp(max(min(value, _MAX_LOG), -_MAX_LOG))
        return amount, math.copysign(_CLIP, z)

    def _test_batch(self) -> Shift | None:
        cusum = self._cusum
        if cusum is None:
            cusum = self._cusum = self._new_cusum()
        shift = cusum.update(
            self._sum / math.sqrt(self._in_batch), self._in_batch,
            self._amount, self._expected, self._units,
        )  # fmt: skip
        self._in_batch = 0
        self._sum = self._amount = self._expected = self._units = 0.0
        if shift is None:
            return None
        # Levels are means, and the mean of a log-normal is e^(σ²/2) times its median.
        median = self._center + shift.mean * self.scale / math.sqrt(self.batch)
        before = shift.before * math.exp(min(median + 0.5 * self.scale_**2, _MAX_LOG))
        self.restart()
        return shift._replace(before=before)

    def _new_cusum(self) -> Cusum:
        # The values that the centre was learned from have a mean of 0.
        return Cusum(
            threshold=self.threshold, tolerance=self.tolerance, known=self.settle // self.batch
        )

    def state(self) -> list[Any]:
        """Give what was learned as JSON (hence Any)."""
        return [
            self._n, self._center, self.scale_, self._in_batch, self._sum, self._amount,
            self._expected, self._units,
            None if self._cusum is None else self._cusum.state(),
        ]  # fmt: skip

    def restore(self, state: Sequence[Any]) -> Self:
        """Take on what `state` gave (JSON, hence Any); return self."""
        (
            self._n, self._center, self.scale_, self._in_batch, self._sum, self._amount,
            self._expected, self._units, cusum,
        ) = state  # fmt: skip
        self._cusum = None if cusum is None else self._new_cusum().restore(cusum)
        return self
