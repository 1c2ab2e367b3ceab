"""When a model should be fitted again: by count, by a falling likelihood, on a drift.

Owns the counters of one model. Counts completions; knows no clock.
"""

import math
from typing import Any, Final

import numpy as np

from estimator.core.partition.config import PartitionConfig
from estimator.core.partition.mixture import Array
from estimator.core.partition.revision import Reason
from estimator.core.partition.sample import BLOCK

# Cusum of blocks' mean log likelihoods, standardized. Normal blocks pass the limit once in some
# 10^6 blocks (Siegmund's approximation); those of a mixture are skewed, hence so far out.
_LIMIT: Final = 10.0
_TOLERANCE: Final = 0.5
# After a drift the sample holds nothing of what is new: so many completions later it does.
_AFTER_DRIFT: Final = 2 * BLOCK
# Completions between two fits that something other than the count asks for, and the factor by
# which that grows while fits change nothing.
_LEAST_BETWEEN: Final = BLOCK
_BACK_OFF: Final = 2
# Of what is due by count, the first times come as the sample doubles.
_GROWTH: Final = 2


class Trigger:
    """Tell when one model is due.

    Attributes
    ----------
    n_seen_ : int
        Completions told.
    """

    __slots__ = (
        "_between", "_drift_at", "_falling", "_fitted_at", "_mean", "_sd", "_sum", "_tolerance",
        "config", "n_seen_",
    )  # fmt: skip

    def __init__(self, config: PartitionConfig) -> None:
        self.config = config
        self.n_seen_ = 0
        self._fitted_at = 0
        self._drift_at = -1
        self._between = _LEAST_BETWEEN
        # Of the likelihood that what is in force had at its fit, of blocks.
        self._mean, self._sd, self._tolerance = 0.0, 0.0, 0.0
        self._sum = 0.0
        self._falling = False

    def drift(self) -> None:
        """Note that a change was detected."""
        if self._drift_at < 0:
            self._drift_at = self.n_seen_

    def block(self, log_densities: Array) -> None:
        """Take the log density, by what is in force, of the latest `BLOCK` completions."""
        if self._sd <= 0.0:
            return
        z = (float(log_densities.mean()) - self._mean) / self._sd
        self._sum = max(0.0, self._sum - z - self._tolerance)
        if self._sum > _LIMIT:
            self._falling = True

    def reason(self, n_points: int) -> Reason | None:
        """Give why the model is due now, or None."""
        config, since = self.config, self.n_seen_ - self._fitted_at
        if n_points < config.least_points:
            return None
        if not self._fitted_at:
            return "first"
        if self._drift_at >= 0 and self.n_seen_ - self._drift_at >= _AFTER_DRIFT:
            return "drift"
        if self._falling and since >= self._between:
            return "likelihood"
        if since >= min(config.refit_every, (_GROWTH - 1) * self._fitted_at):
            return "count"
        return None

    def fitted(self, *, at: int, log_densities: Array, changed: bool) -> None:
        """Take note of a fit.

        Parameters
        ----------
        at : int
            Completions that had been told when its job was made.
        log_densities : ndarray of float64, shape (n,)
            Of its points, by what is in force now.
        changed : bool
            Whether that is new.
        """
        self._fitted_at = at
        if 0 <= self._drift_at <= at - _AFTER_DRIFT:
            # Its points held what is new; a fit for another reason may have come before them.
            self._drift_at = -1
        if changed:
            self._between = _LEAST_BETWEEN
        elif self._falling:
            self._between = min(self._between * _BACK_OFF, self.config.refit_every)
        self._falling, self._sum = False, 0.0
        self._mean = float(log_densities.mean())
        self._sd = float(log_densities.std()) / math.sqrt(BLOCK)
        # The mean itself is known no better than this, and a lasting error adds up.
        self._tolerance = _TOLERANCE + 2.0 * math.sqrt(BLOCK / len(log_densities))

    def state(self) -> list[Any]:
        """Give what was told as JSON (hence Any)."""
        return [
            self.n_seen_, self._fitted_at, self._drift_at, self._between, self._mean, self._sd,
            self._tolerance, self._sum, self._falling,
        ]  # fmt: skip

    def restore(self, state: list[Any]) -> None:
        """Take on what `state` gave (JSON, hence Any)."""
        (
            self.n_seen_, self._fitted_at, self._drift_at, self._between, self._mean, self._sd,
            self._tolerance, self._sum, self._falling,
        ) = state  # fmt: skip
        if not np.isfinite([self._mean, self._sd, self._tolerance, self._sum]).all():
            raise ValueError("the trigger holds values that are not finite")
