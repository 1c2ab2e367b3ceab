"""A robust, forgetting regression of tokens on size, and the contract any such learner keeps.

Owns the mathematics of one key. Knows nothing of keys, completions or time.
"""

# ruff: noqa: FURB136, PLR1730 - min() and max() take as long as the arithmetic around them

import math
from collections.abc import Mapping, Sequence
from typing import Final, Protocol, Self, runtime_checkable

from river import base

from estimator.core.censored import Sums
from estimator.core.level import Level, Shape
from estimator.core.outliers import Outliers
from estimator.core.prior import Anchor

__all__ = ["AffineRegressor", "Anchor", "Learner"]

# A completion counts as its mean one does, more if it is shorter, and never more than this: short
# clips are many. Weighting lowered the error on seven of eight traces, by 0.7 % on average, and it
# bounds the leverage of one absurd duration.
_MAX_WEIGHT: Final = 4.0
# Share of the prior's weight that never fades: it holds the slope where one length alone is seen.
_LEAST_PULL: Final = 0.05
# Below this share of w·Σws² the sizes seen are one and the same, and the slope is the parent's.
_COLLINEAR: Final = 1e-12
# Sizes that callers say are held against those that were measured where more than half were.
_TRUST_STEP: Final = 0.02
_TRUSTED: Final = 50
_MOSTLY: Final = 0.5
# A size that was only said is not believed where tokens are so many times off what it lets expect.
_LEAST_SAID: Final = 0.25
_MOST_SAID: Final = 4.0
# Completions that the old line counts for when its level has changed: it holds the shape.
_SHAPE_WEIGHT: Final = 10.0


@runtime_checkable
class Learner(Protocol):
    """River's contract for a regressor of tokens on ``{"size": …}``, with a state.

    Both work before any data; predicting never mutates; the state is JSON-serialisable.
    """

    def learn_one(self, x: Mapping[str, float], y: float) -> None:
        """Learn one pair."""

    def predict_one(self, x: Mapping[str, float]) -> float:
        """Predict tokens; the prior before any data."""

    def state(self) -> list[float]:
        """Give what was fitted, as numbers."""

    def restore(self, state: Sequence[float]) -> Self:
        """Take on what `state` gave; return self."""


# river ships no types, so its base class is Any to mypy.
class AffineRegressor(base.Regressor):  # type: ignore[misc]
    """Robust regression ``y ≈ intercept + κ · size`` that follows changes of its level.

    Parameters
    ----------
    parent : AffineRegressor or Anchor
        Whose line counts as ``shrinkage`` completions.
    forgetting, shrinkage, level_shrinkage, change_hazard : float
        See `estimator.core.config.CoreConfig`.
    clip_deviations, gross_deviations : float
        See `estimator.core.config.CoreConfig`; of bounds, of said sizes, and of what the level is
        told. `estimator.core.outliers` has its own.

    Attributes
    ----------
    prior : Anchor
        What was believed of the key that has no parent, before any data.
    kappa_, intercept_ : float
        The line, κ ≥ 0; kept until the next completion, whatever the parent learns meanwhile, so
        that one completion moves the keys of its own chain only.
    temper : Outliers
        Spread of the residuals, in units of √tokens, and what of them is an outlier.
    pull_ : float
        Completions that the parent's line counts for now.
    weight_ : float
        Decayed number of completions.
    level : Level
        The factor on the line, and whether it has changed.
    trust_ : float
        Share of the latest fifty or so sizes that were measured, of all while they are fewer.

    Notes
    -----
    The posterior mean of river's ``BayesianLinearRegression`` for two features in closed form
    (tests/unit/core/test_learner.py holds the two together): the decayed sums Σw, Σws, Σws², Σwy,
    Σwsy plus ``shrinkage`` pseudo-completions on the parent's line, spread as the parent's sizes
    are. Sums add exactly, so parents and other processes need nothing else. River's own class
    took 12.3 µs a completion and 2.0 KB a key here, and its smoothing decays the unused part of
    its matrix to 0: NaN after 23,350 completions at 0.97.

    The line hardly forgets, which is what makes it as good as one that never does where nothing
    changes. What changes, where languages and speakers do, is how many tokens a second holds,
    seldom how a slope and an intercept share them: that is left to `Level`. When it drops its
    past, the line is scaled to the new level and keeps the weight of a few completions.

    References
    ----------
    Bishop (2006), Pattern Recognition and Machine Learning, eq. 3.50-3.51.
    Gelman & Hill (2007), Data analysis using regression, ch. 12 (partial pooling).
    """

    def __init__(
        self,
        *,
        parent: "AffineRegressor | Anchor",
        forgetting: float = 0.998,
        shrinkage: float = 1.0,
        level_shrinkage: float = 1.0,
        change_hazard: float = 1.0 / 30.0,
        clip_deviations: float = 2.5,
        gross_deviations: float = 6.0,
    ) -> None:
        self.parent = parent
        self.prior: Anchor = parent if isinstance(parent, Anchor) else parent.prior
        self.forgetting = forgetting
        self.shrinkage = shrinkage
        self.level_shrinkage = level_shrinkage
        self.change_hazard = change_hazard
        self.clip_deviations = clip_deviations
        self.gross_deviations = gross_deviations
        self.kappa_: float = parent.kappa_
        self.intercept_: float = parent.intercept_
        self.size_1_: float = parent.size_1_
        self.size_2_: float = parent.size_2_
        self.temper: Outliers = Outliers(parent.temper.scale_)
        self.level: Level = Level(
            hazard=change_hazard, forgetting=forgetting, pull=level_shrinkage
        )
        # A prior is a guess and fades as the first completions do; a parent goes on learning.
        self.pull_ = shrinkage
        self.weight_ = 0.0
        self._s = 0.0
        self._ss = 0.0
        self._y = 0.0
        self._sy = 0.0
        # The line without its factor, and the factor without the mixture.
        self._slope = self.kappa_
        self._base = self.intercept_
        self._factor = 1.0
        self.trust_ = 0.0
        # Count and sums that the parents have not been told yet.
        self._untold = [0.0] * _SUMS

    def predict_one(self, x: Mapping[str, float]) -> float:
        """Predict tokens for ``x["size"]``; the parent's line before any data."""
        return max(self.intercept_ + self.kappa_ * x["size"], 0.0)

    def learn_one(self, x: Mapping[str, float], y: float) -> None:
        """Learn that ``x["size"]`` produced ``y`` tokens."""
        self.teach(x["size"], y)

    def weight_of(self, size: float) -> float:
        """Give the weight of a completion: its variance grows with its tokens, in (0, 4]."""
        typical = self.intercept_ + self.kappa_ * self.size_1_
        expected = self.intercept_ + self.kappa_ * size
        return min(max(typical, 1.0) / max(expected, 1.0), _MAX_WEIGHT)

    def teach(self, size: float, y: float, *, trusted: bool = True) -> float:
        """Learn one completion.

        Parameters
        ----------
        size, y : float
            Its size and its tokens.
        trusted : bool
            Whether the size was measured. One that was only said, and contradicts what is known
            from mostly measured ones, teaches nothing: it is the size that is wrong.

        Returns
        -------
        float
            The robust deviation that it was judged by, > 0.
        """
        kappa, intercept = self.kappa_, self.intercept_
        expected = intercept + kappa * size
        if expected < 1.0:
            expected = 1.0
        # Nor is less than that learned: a level of 0 could not rise by any factor.
        if y < 1.0:
            y = 1.0
        temper = self.temper
        scale = temper.scale_
        if not self._believes(y, expected, trusted=trusted):
            return scale * math.sqrt(expected)
        typical = intercept + kappa * self.size_1_
        if typical < 1.0:
            typical = 1.0
        prior = self.prior
        value, deviation = temper.judge(
            y, expected, typical=typical, prior=prior.intercept_ + prior.kappa_ * size
        )
        if value is None:
            # Implausible.
            return deviation
        weight = typical / expected
        if weight > _MAX_WEIGHT:
            weight = _MAX_WEIGHT
        level = self.level
        if level.odds_ > 0.0:
            before = max(self._factor * (self._base + self._slope * size), 1.0)
            z = (y - before) / (scale * math.sqrt(before))
        else:
            z = (y - expected) / deviation
        clip = self.clip_deviations
        if z > clip:
            z = clip
        elif z < -clip:
            z = -clip
        self._add(size, value, weight)
        # For the parents, later.
        n, w, s, ss, ys, sy = self._untold
        ws = weight * size
        self._untold = [
            n + 1.0, w + weight, s + ws, ss + ws * size, ys + weight * value, sy + ws * value,
        ]  # fmt: skip
        if level.add(size, value, z):
            self._inspect(scale)
        self.solve()
        return deviation

    def _believes(self, y: float, expected: float, *, trusted: bool) -> bool:
        """Note whether a size was measured; say whether it is to be believed."""
        n_seen = self.temper.n_seen_
        step = 1.0 / (n_seen + 1.0) if n_seen < _TRUSTED else _TRUST_STEP
        if trusted:
            self.trust_ += step * (1.0 - self.trust_)
            return True
        self.trust_ -= step * self.trust_
        if self.trust_ <= _MOSTLY:
            return True
        limit = self.clip_deviations * self.temper.scale_ * math.sqrt(expected)
        is_likely = _LEAST_SAID * expected <= y <= _MOST_SAID * expected
        return is_likely and abs(y - expected) <= limit

    def _inspect(self, scale: float) -> None:
        typical = max(self._base + self._slope * self.size_1_, 1.0)
        dispersion = max(scale * scale, self.temper.dispersion_)
        shape = Shape(self._slope, self._base, typical, dispersion)
        if self.level.inspect(shape):
            self._rescale(self.level.factor(self._slope, self._base, typical))

    def _rescale(self, factor: float) -> None:
        """Keep the line's shape, at a new level, with the weight of a few completions."""
        own = self.weight_ + self.pull_
        keep = min(1.0, _SHAPE_WEIGHT / own)
        slope, base = factor * self._slope, factor * self._base
        w = keep * own
        s, ss = w * self.size_1_, w * self.size_2_
        self.weight_, self._s, self._ss = w, s, ss
        self._y = base * w + slope * s
        self._sy = base * s + slope * ss
        # The parent is at the old level; it still tells the slope where one length alone is seen.
        self.pull_ = _LEAST_PULL * self.shrinkage

    def absorb(self, size: float, y: float, w: float = 1.0) -> None:
        """Add to the sums of the line alone; `solve` puts them to use."""
        self._add(size, y, w)

    def teach_bound(self, size: float, y: float, share: float) -> None:
        """Learn what a lower bound is worth (`estimator.core.censored.Imputed`).

        Parameters
        ----------
        size, y : float
            Its size and the tokens imputed.
        share : float
            Share of a completion that it is worth, in (0, 1].
        """
        expected = max(self._factor * (self._base + self._slope * size), 1.0)
        scale = self.temper.scale_
        clip = self.clip_deviations
        z = min(max((y - expected) / (scale * math.sqrt(expected)), -clip), clip)
        self._add(size, y, share * self.weight_of(size))
        # A parent has no completions of its own that a bound could stand beside.
        if self.level.weight > 0.0 and self.level.add(size, y, share * z, share):
            self._inspect(scale)
        self.solve()

    def _add(self, size: float, y: float, w: float) -> None:
        keep = self.forgetting
        if isinstance(self.parent, Anchor):
            self.pull_ = max(keep * self.pull_, _LEAST_PULL * self.shrinkage)
        ws = w * size
        self.weight_ = keep * self.weight_ + w
        self._s = keep * self._s + ws
        self._ss = keep * self._ss + ws * size
        self._y = keep * self._y + w * y
        self._sy = keep * self._sy + ws * y

    def take_untold(self) -> list[float]:
        """Give the count and sums of what was learned since the last call, for `add_sums`."""
        untold, self._untold = self._untold, [0.0] * _SUMS
        return untold

    def add_sums(self, sums: Sequence[float]) -> None:
        """Take what a child has learned since it last told: its count and its five sums."""
        n, w, s, ss, y, sy = sums
        keep = self.forgetting**n
        if isinstance(self.parent, Anchor):
            self.pull_ = max(keep * self.pull_, _LEAST_PULL * self.shrinkage)
        self.weight_ = keep * self.weight_ + w
        self._s = keep * self._s + s
        self._ss = keep * self._ss + ss
        self._y = keep * self._y + y
        self._sy = keep * self._sy + sy

    def sums(self) -> Sums:
        """Give the decayed sums of the completions alone, without the parent's line."""
        return Sums(self.weight_, self._s, self._ss, self._y, self._sy)

    def solve(self) -> None:
        """Fit the line to the sums and the parent's line, and its factor to the newest level."""
        parent, n0 = self.parent, self.pull_
        slope, base, size_1, size_2 = (
            parent.kappa_, parent.intercept_, parent.size_1_, parent.size_2_,
        )  # fmt: skip
        w = self.weight_ + n0
        s = self._s + n0 * size_1
        ss = self._ss + n0 * size_2
        y = self._y + n0 * (base + slope * size_1)
        sy = self._sy + n0 * (base * size_1 + slope * size_2)
        determinant = w * ss - s * s
        if determinant > _COLLINEAR * w * ss:
            slope = (w * sy - s * y) / determinant
            if slope < 0.0:
                slope = 0.0
        base = (y - slope * s) / w
        self._slope, self._base = slope, base
        self.size_1_ = s / w
        self.size_2_ = ss / w
        typical = y / w
        level = self.level
        factor = level.factor(slope, base, typical if typical > 0.0 else 0.0)
        self._factor = factor
        if level.odds_ > 0.0:
            factor = level.mixed(factor)
        self.kappa_ = factor * slope
        self.intercept_ = factor * base

    def state(self) -> list[float]:
        """Give what was fitted, as numbers."""
        return [
            self.kappa_, self.intercept_, self.size_1_, self.size_2_, self.weight_,
            self.pull_, self._s, self._ss, self._y, self._sy,
            self._slope, self._base, self._factor, self.trust_, *self._untold,
            *self.temper.state(),
            *self.level.state(),
        ]  # fmt: skip

    def restore(self, state: Sequence[float]) -> Self:
        """Take on what `state` gave; return self.

        Raises
        ------
        ValueError
            If the numbers are not this class's, or not finite.
        """
        if len(state) < _STATE_LENGTH or not all(map(math.isfinite, state)):
            raise ValueError(
                f"a regressor's state has at least {_STATE_LENGTH} finite numbers: {state}"
            )
        (
            self.kappa_, self.intercept_, self.size_1_, self.size_2_, self.weight_,
            self.pull_, self._s, self._ss, self._y, self._sy,
            self._slope, self._base, self._factor, self.trust_, *self._untold,
        ) = state[:_OWN]  # fmt: skip
        self.temper.restore(state[_OWN:_TEMPERED])
        self.level.restore(state[_TEMPERED:])
        return self


# The regressor's own numbers, then the temper's five, then the level's ten and its marks.
_SUMS: Final = 6
_OWN: Final = 14 + _SUMS
_TEMPERED: Final = _OWN + 5
_STATE_LENGTH: Final = _TEMPERED + 10
