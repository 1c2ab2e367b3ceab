"""Robust recursive least squares."""

import math
from collections.abc import Mapping, Sequence
from typing import Final, Self

from estimator.core.robust import Temper
from sched_client.model import DEFAULT_KAPPA_TOKENS_PER_S, DEFAULT_MEAN_AUDIO_S

# Robust standard deviation of tokens over the estimate before any data.
_PRIOR_RELATIVE_ERROR: Final = 0.35
# The covariance starts as one completion of a mean clip would leave it, and is kept from growing
# without bound where one length alone is seen ("wind-up").
_MAX_COVARIANCE: Final = 1e3


class RobustRecursiveLeastSquares:
    """``n = a + κ·d`` by recursive least squares whose residuals are clipped.

    Parameters
    ----------
    forgetting : float
        Weight that a completion keeps after each later one, in (0, 1].
    prior_kappa : float
        κ before any data.

    Notes
    -----
    Variances grow with the mean, so a completion is divided by the root of what is expected of
    it. The size is counted in mean clips, so that both coefficients are of one scale.

    References
    ----------
    Haykin (2002), Adaptive filter theory, ch. 9. Zou, Chan & Ng (2000), A recursive least
    M-estimate algorithm for robust adaptive filtering, IEEE Trans. Circuits Syst. II 47.
    """

    def __init__(
        self, *, forgetting: float, prior_kappa: float = DEFAULT_KAPPA_TOKENS_PER_S
    ) -> None:
        self.forgetting = forgetting
        self.prior_kappa = prior_kappa
        mean = prior_kappa * DEFAULT_MEAN_AUDIO_S
        self._base = 0.0
        self._slope = mean
        # Var of the coefficients over that of a standardized residual.
        self._p = [mean, 0.0, mean]
        self._temper = Temper(_PRIOR_RELATIVE_ERROR * math.sqrt(mean))

    def learn_one(self, x: Mapping[str, float], y: float) -> None:
        """Learn one pair."""
        u = x["size"] / DEFAULT_MEAN_AUDIO_S
        expected = max(self._base + self._slope * u, 1.0)
        unit = math.sqrt(expected)
        value, _ = self._temper.judge(y, expected, unit)
        if value is None:
            return
        p_11, p_12, p_22 = self._p
        one, size = 1.0 / unit, u / unit
        g_1 = p_11 * one + p_12 * size
        g_2 = p_12 * one + p_22 * size
        gain = 1.0 / (self.forgetting + one * g_1 + size * g_2)
        residual = (value - self._base - self._slope * u) / unit
        self._base += gain * g_1 * residual
        self._slope += gain * g_2 * residual
        limit = _MAX_COVARIANCE * self.prior_kappa * DEFAULT_MEAN_AUDIO_S
        p_11 = (p_11 - gain * g_1 * g_1) / self.forgetting
        p_22 = (p_22 - gain * g_2 * g_2) / self.forgetting
        p_12 = (p_12 - gain * g_1 * g_2) / self.forgetting
        p_11, p_22 = (min(max(p, 0.0), limit) for p in (p_11, p_22))
        # Rounding and the limit must leave the matrix positive semi-definite.
        most = math.sqrt(p_11 * p_22)
        self._p = [p_11, min(max(p_12, -most), most), p_22]

    def predict_one(self, x: Mapping[str, float]) -> float:
        """Predict tokens, ≥ 0; the prior before any data."""
        return max(self._base + self._slope * x["size"] / DEFAULT_MEAN_AUDIO_S, 0.0)

    def state(self) -> list[float]:
        """Give what was fitted, as numbers."""
        return [self._base, self._slope, *self._p, *self._temper.state()]

    def restore(self, state: Sequence[float]) -> Self:
        """Take on what `state` gave; return self."""
        self._base, self._slope = state[:2]
        self._p = list(state[2:5])
        self._temper.restore(state[5:])
        return self
