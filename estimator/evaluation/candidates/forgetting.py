"""Least squares with one forgetting rate."""

from collections.abc import Mapping, Sequence
from typing import Final, Literal, Self

from sched_client.model import DEFAULT_KAPPA_TOKENS_PER_S, DEFAULT_MEAN_AUDIO_S

# What a completion weighs: alike ("squares"), or by the variance of counts, 1/size ("ratio").
Weighting = Literal["ratio", "squares"]
# Shorter than any clip: bounds the weight of 1/size.
_LEAST_SIZE: Final = 0.05
# Spread of the sizes that the prior is believed at, over their mean.
_PRIOR_SPREAD: Final = 0.7
# Below this share of w·Σws² the sizes seen are one and the same: no slope can be told.
_COLLINEAR: Final = 1e-12


class ForgettingRegressor:
    """``n = a + κ·d`` or ``n = κ·d`` from decayed sums, not robust.

    Parameters
    ----------
    forgetting : float
        Weight that a completion keeps after each later one, in (0, 1].
    weighting : {"ratio", "squares"}
        ``ratio`` without an intercept is Σn/Σd.
    with_intercept : bool
        Whether the line may miss the origin.
    prior_kappa : float
        κ before any data; it counts as one completion, which fades as the first do.

    References
    ----------
    Haykin (2002), Adaptive filter theory, ch. 9: exponentially weighted least squares.
    """

    def __init__(
        self,
        *,
        forgetting: float,
        weighting: Weighting,
        with_intercept: bool,
        prior_kappa: float = DEFAULT_KAPPA_TOKENS_PER_S,
    ) -> None:
        self.forgetting = forgetting
        self.weighting = weighting
        self.with_intercept = with_intercept
        self.prior_kappa = prior_kappa
        mean = DEFAULT_MEAN_AUDIO_S
        self._w = 0.0
        self._s = self._ss = self._y = self._sy = 0.0
        for size in (mean * (1.0 - _PRIOR_SPREAD), mean * (1.0 + _PRIOR_SPREAD)):
            self._add(size, prior_kappa * size, 0.5, 1.0)

    def _add(self, size: float, y: float, share: float, keep: float) -> None:
        w = share / max(size, _LEAST_SIZE) if self.weighting == "ratio" else share
        self._w = keep * self._w + w
        self._s = keep * self._s + w * size
        self._ss = keep * self._ss + w * size * size
        self._y = keep * self._y + w * y
        self._sy = keep * self._sy + w * size * y

    def learn_one(self, x: Mapping[str, float], y: float) -> None:
        """Learn one pair."""
        self._add(x["size"], y, 1.0, self.forgetting)

    def predict_one(self, x: Mapping[str, float]) -> float:
        """Predict tokens, ≥ 0; the prior before any data."""
        w, s, ss, y, sy = self._w, self._s, self._ss, self._y, self._sy
        slope, base = sy / ss, 0.0
        if self.with_intercept:
            determinant = w * ss - s * s
            if determinant > _COLLINEAR * w * ss:
                slope = (w * sy - s * y) / determinant
                base = (y - slope * s) / w
        return max(base + slope * x["size"], 0.0)

    def state(self) -> list[float]:
        """Give what was fitted, as numbers."""
        return [self._w, self._s, self._ss, self._y, self._sy]

    def restore(self, state: Sequence[float]) -> Self:
        """Take on what `state` gave; return self."""
        self._w, self._s, self._ss, self._y, self._sy = state
        return self
