"""What is believed of a key that has no parent, before any data."""

import math

from estimator.core.robust import Temper


class Anchor:
    """The line that a regressor shrinks toward when it has no parent: the prior.

    Parameters
    ----------
    kappa, intercept : float
        The line.
    mean_size, sd_size : float
        Where it is believed, > 0.
    relative_error : float
        Robust standard deviation of tokens over the line's tokens, > 0.
    """

    __slots__ = ("intercept_", "kappa_", "size_1_", "size_2_", "temper")

    def __init__(
        self,
        *,
        kappa: float,
        intercept: float,
        mean_size: float,
        sd_size: float,
        relative_error: float,
    ) -> None:
        self.kappa_ = kappa
        self.intercept_ = intercept
        self.size_1_ = mean_size
        self.size_2_ = mean_size * mean_size + sd_size * sd_size
        self.temper = Temper(relative_error * math.sqrt(max(intercept + kappa * mean_size, 1.0)))
