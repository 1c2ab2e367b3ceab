"""Quantiles of actual over estimated tokens, followed one completion at a time."""

import math
from collections.abc import Sequence
from typing import Final, Self

# Start: the ratios that `sched_client.model.KappaEntry` assumes before any data.
PRIOR_RATIOS: Final = (1.0, 1.5, 2.5)
# Steps in natural logarithms of the ratio. A rarer quantile needs a larger one, because its
# downward steps are (1 - level) of it: 0.1 falls from 2.5 to 1.5 in about 500 completions.
_STEPS: Final = (0.02, 0.05, 0.1)
# The first steps are up to so many times larger, 1 + _WARM_UP / (n + 1) for the n-th.
_WARM_UP: Final = 8.0
# A ratio beyond e^±5 says the estimate was absurd, not how wide the interval must be.
_MAX_LOG: Final = 5.0


class RatioQuantiles:
    """p50, p90 and p99 of actual over estimated tokens.

    Parameters
    ----------
    parent : RatioQuantiles, optional
        Where to start from; the prior ratios if there is none.

    Notes
    -----
    Stochastic approximation of each quantile of the log ratio, ``q += γ (level - [r <= q])``: the
    update of adaptive conformal inference, whose long-run coverage is the level whatever the
    residuals do, at any constant γ. Crossing quantiles are pushed apart, never sorted.

    References
    ----------
    Gibbs & Candès (2021), Adaptive conformal inference under distribution shift, eq. 2.
    """

    __slots__ = ("n_seen_", "q50_", "q90_", "q99_")

    def __init__(self, parent: "RatioQuantiles | None" = None) -> None:
        self.n_seen_ = 0
        if parent is None:
            self.q50_, self.q90_, self.q99_ = map(math.log, PRIOR_RATIOS)
        else:
            self.q50_, self.q90_, self.q99_ = parent.q50_, parent.q90_, parent.q99_

    def learn_one(self, log_ratio: float) -> None:
        """Learn the natural logarithm of one actual over its estimate, finite."""
        r = log_ratio
        if not -_MAX_LOG <= r <= _MAX_LOG:
            r = math.copysign(_MAX_LOG, r)
        gain = 1.0 + _WARM_UP / (self.n_seen_ + 1.0)
        self.n_seen_ += 1
        step_50, step_90, step_99 = _STEPS
        self.q50_ += gain * step_50 * (0.5 if r > self.q50_ else -0.5)
        self.q90_ += gain * step_90 * (0.9 if r > self.q90_ else -0.1)
        self.q99_ += gain * step_99 * (0.99 if r > self.q99_ else -0.01)
        self.q90_ = max(self.q90_, self.q50_)
        self.q99_ = max(self.q99_, self.q90_)

    def ratios(self) -> tuple[float, float, float]:
        """Give p50, p90 and p99 as ratios, > 0 and not decreasing."""
        return math.exp(self.q50_), math.exp(self.q90_), math.exp(self.q99_)

    def state(self) -> list[float]:
        """Give what was learned, as numbers."""
        return [self.n_seen_, self.q50_, self.q90_, self.q99_]

    def restore(self, state: Sequence[float]) -> Self:
        """Take on what `state` gave; return self.

        Raises
        ------
        ValueError
            If the numbers are not finite and in order.
        """
        n_seen, q50, q90, q99 = state
        if not (all(map(math.isfinite, state)) and q50 <= q90 <= q99):
            raise ValueError(f"quantiles must be finite and ascending: {state}")
        self.n_seen_, self.q50_, self.q90_, self.q99_ = int(n_seen), q50, q90, q99
        return self
