"""How far one residual may pull a fit: a running robust scale with a clip that yields to change.

Of the seconds of requests and of the learners that the core is held against; tokens have
`estimator.core.outliers`, for the mean of a mixture. Knows nothing of either.
"""

import math
from collections.abc import Sequence
from typing import Final, Self

# Normal consistency of the median absolute deviation: median|z| = 0.6745 for z ~ N(0, 1).
_MEDIAN_DEVIATION: Final = 0.6745
# The doubling of the clip stops here, so that it stays finite.
_MAX_STREAK: Final = 30
# Steps of the scale's stochastic approximation, in natural logarithms: 1/(k + 2) for the k-th
# residual down to this floor, which follows a change of spread within about 20 completions.
_SCALE_STEP: Final = 0.1
_UP: Final = math.exp(0.5 * _SCALE_STEP)
_DOWN: Final = math.exp(-0.5 * _SCALE_STEP)
# The smallest and largest scale. Noise-free data would drive it to 0, and then rounding
# errors would be outliers.
_MIN_SCALE: Final = 1e-3
_MAX_SCALE: Final = 1e6


class Temper:
    """Judge residuals one at a time.

    Parameters
    ----------
    scale : float
        Robust standard deviation of residuals over their unit, before any data, > 0.
    clip_deviations, gross_deviations : float
        See `estimator.core.config.CoreConfig`.

    Attributes
    ----------
    scale_ : float
        Running robust standard deviation: 1.4826 times the median of absolute residuals.
    streak_ : int
        Clipped residuals on the same side in a row, negative below.

    Notes
    -----
    A residual beyond ``clip_deviations`` is pulled in to it (Huber); a lone one beyond
    ``gross_deviations`` (a repetition loop of 444 tokens for a 2 s clip is at 100) teaches
    nothing. Each further one *on the same side in a row* doubles the clip: loops at a rate of 5 %
    seldom pair, while a change of level passes whole within a handful of completions.

    References
    ----------
    Huber (1964), Robust estimation of a location parameter. Hampel et al. (1986), ch. 2.6.
    """

    __slots__ = ("clip_deviations", "gross_deviations", "n_seen_", "scale_", "streak_")

    def __init__(
        self, scale: float, *, clip_deviations: float = 2.5, gross_deviations: float = 6.0
    ) -> None:
        self.clip_deviations = clip_deviations
        self.gross_deviations = gross_deviations
        self.scale_ = scale
        self.n_seen_ = 0
        self.streak_ = 0

    def judge(self, y: float, expected: float, unit: float) -> tuple[float | None, float]:
        """Give the value to learn in place of ``y``, and learn the spread from it.

        Parameters
        ----------
        y, expected : float
            What came and what was predicted.
        unit : float
            What a deviation is counted in at this prediction, > 0.

        Returns
        -------
        tuple of (float or None, float)
            The value to learn (None for a gross residual) and the deviation it was judged
            by, > 0.
        """
        deviation = self.scale_ * unit
        z = (y - expected) / deviation
        magnitude = -z if z < 0.0 else z
        self.spread(magnitude)
        if magnitude <= self.clip_deviations:
            self.streak_ = 0
            return y, deviation
        same_side = self.streak_ != 0 and (z > 0.0) == (self.streak_ > 0)
        length = min(abs(self.streak_) + 1, _MAX_STREAK) if same_side else 1
        self.streak_ = length if z > 0.0 else -length
        if magnitude > self.gross_deviations and length <= 1:
            return None, deviation
        limit = self.clip_deviations * 2.0 ** (length - 1)
        if magnitude <= limit:
            return y, deviation
        return expected + math.copysign(limit, z) * deviation, deviation

    def spread(self, magnitude: float) -> None:
        """Learn the spread alone from one absolute standardized residual."""
        n = self.n_seen_
        self.n_seen_ = n + 1
        step, scale = 1.0 / (n + 2.0), self.scale_
        if magnitude > _MEDIAN_DEVIATION:
            if scale < _MAX_SCALE:
                grow = math.exp(0.5 * step) if step > _SCALE_STEP else _UP
                self.scale_ = scale * grow
        elif scale > _MIN_SCALE:
            shrink = math.exp(-0.5 * step) if step > _SCALE_STEP else _DOWN
            self.scale_ = scale * shrink

    def state(self) -> list[float]:
        """Give what was learned, as numbers."""
        return [self.scale_, self.n_seen_, self.streak_]

    def restore(self, state: Sequence[float]) -> Self:
        """Take on what `state` gave; return self.

        Raises
        ------
        ValueError
            If the scale is not finite and > 0.
        """
        scale, n_seen, streak = state
        if not (math.isfinite(scale) and scale > 0.0):
            raise ValueError(f"a scale must be finite and > 0, not {scale}")
        self.scale_, self.n_seen_, self.streak_ = scale, int(n_seen), int(streak)
        return self
