"""How far the newest completions lie from a line, as a factor, and when that factor changed.

Owns the mathematics of one level. Knows nothing of keys, parents or how the line was fitted.
"""

# ruff: noqa: FURB136 - max() takes as long as the arithmetic around it

import math
from array import array
from collections.abc import Sequence
from struct import Struct
from typing import Final, NamedTuple, Self

# A new level is believed to be 1.7, or 1/1.7, of the old one, each ± 1/√12 of itself: languages
# differ by ×1.2 to ×2.4, and what differs by less is not worth following. Where a prior of
# 1 ± 1/√4 crossed into ±10 % after 6 completions (median of changes of ×1.5 and more), this one
# does after 4; those of ×1.15 to ×1.5 are no slower.
_JUMP: Final = 1.7
_PRIOR_SHAPE: Final = 12.0
_RATE_UP: Final = _PRIOR_SHAPE / _JUMP
_RATE_DOWN: Final = _PRIOR_SHAPE * _JUMP
_CONSTANT_UP: Final = _PRIOR_SHAPE * math.log(_RATE_UP) - math.lgamma(_PRIOR_SHAPE)
_CONSTANT_DOWN: Final = _PRIOR_SHAPE * math.log(_RATE_DOWN) - math.lgamma(_PRIOR_SHAPE)
# A level is seldom left as soon as it is found: the hazard rises with its age up to so many
# completions. Always the same, it took 3 to 5 completions more to stay within ±10 % (P90), at the
# same error where nothing changes.
_RIPE: Final = 150.0
# Evidence of so many nats is certainty, and keeps exp finite.
_MAX_NATS: Final = 50.0
# The past is dropped at odds of 1000 to 1. Until then both levels are mixed by their odds, which
# a few more completions can still take back: dropping it at 9 to 1 cost 0.2 % more error where
# nothing changes, and gained nothing where something does.
_DROP_ODDS: Final = 999.0
# What stays at 4 to 1 until it is about to leave the window is believed too.
_LATE_ODDS: Final = 4.0
# Marks are kept for each of the last 6 completions, for every second one up to an age of 16, and
# for every fourth one up to 48.
_EACH: Final = 6
_SECOND: Final = 16
_FOURTH: Final = 48
_LATE_AGE: Final = _FOURTH - 6
# They are thinned once in so many completions.
_THIN_BY: Final = 8
# Numbers of a mark: index, and Σ1, Σs, Σy before it. An array takes bytes in half the time that
# it takes four numbers in.
_MARK: Final = 4
_packed: Final = Struct(f"{_MARK}d").pack
# Two cumulative sums of standardized residuals say whether the marks are worth a look. Changes
# worth following move residuals by 0.8 deviations and more, and half of that is the best slack
# (Page 1954). The marks are read once a sum is above what one completion can add to it twice, less
# a little: two that are pulled in at 2.5 deviations open it. At 3 the error where nothing changes
# was 0.4 % higher, and changes were crossed 0.3 completions earlier (mean).
_SLACK: Final = 0.4
_GATE: Final = 4.1
# A ratio within √2 of its standard errors is no evidence of a change: its Bayes factor is below 1.
_LEAST_CHI: Final = 2.0
# While the odds are above this, the marks are read at each completion.
_OPEN_ODDS: Final = 0.1


class Shape(NamedTuple):
    """The line that a level is a factor on.

    Attributes
    ----------
    slope, intercept : float
        The line.
    typical : float
        Tokens it expects of a mean completion, > 0.
    dispersion : float
        Variance of tokens over their mean, > 0.
    """

    slope: float
    intercept: float
    typical: float
    dispersion: float


class Level:
    """A factor on a line, averaged since it last changed.

    Parameters
    ----------
    hazard : float
        Weight of "it changed here" for each place in the window before any evidence, in (0, 1);
        less while the level is younger than 150 completions, in proportion to its age.
    forgetting : float
        Weight that a completion keeps after each later one, in (0, 1].
    pull : float
        Completions that a factor of 1 counts for until the first change, > 0.

    Attributes
    ----------
    odds_ : float
        That the level has changed within the window, to one.
    n_changes_ : int
        How often the past was dropped.

    Notes
    -----
    Bayesian online change-point detection with one place for the change at most. Tokens over
    their expectation are quasi-Poisson: against "nothing changed", a change k completions ago by
    a factor f ~ Gamma(α, α) has the Bayes factor

        Γ(α + Y)/Γ(α) · α^α / (α + M)^(α + Y) · e^M,

    where M and Y = r·M are the effective counts of the last k and r the ratio of their level to
    that of all before them; M carries the errors of both. The estimate mixes the old level and
    each new one by their posteriors, so it moves before anything is certain.

    Constant memory: sums at 27 marks at most, emptied whenever both cumulative sums are at 0,
    for then a change that began earlier is less likely than one that begins now.

    References
    ----------
    Adams & MacKay (2007), Bayesian online changepoint detection. Fearnhead & Liu (2007), On-line
    inference for multiple changepoint problems. Page (1954), Continuous inspection schemes.
    """

    __slots__ = (
        "_down", "_lift", "_marks", "_n", "_powers", "_s", "_up", "_w", "_y", "forgetting",
        "hazard", "n_changes_", "odds_", "pull_",
    )  # fmt: skip

    def __init__(self, *, hazard: float, forgetting: float, pull: float) -> None:
        self.hazard = hazard
        self.forgetting = forgetting
        self.pull_ = pull
        self.n_changes_ = 0
        self.odds_ = 0.0
        self._lift = 0.0
        self._w = self._s = self._y = 0.0
        self._n = 0
        self._up = self._down = 0.0
        self._marks = array("d")
        self._powers = _powers_of(forgetting)

    @property
    def weight(self) -> float:
        """Decayed number of completions since the last change."""
        return self._w

    def add(self, size: float, y: float, z: float, share: float = 1.0) -> bool:
        """Take one completion.

        Parameters
        ----------
        size, y : float
            Its size and its tokens, outliers pulled in.
        z : float
            Its residual from the old level in robust deviations, pulled in too.
        share : float
            Share of a completion that it is worth, in (0, 1].

        Returns
        -------
        bool
            Whether `inspect` has something to look at.
        """
        up = self._up + z - _SLACK
        down = self._down - z - _SLACK
        self._up = up = up if up > 0.0 else 0.0
        self._down = down = down if down > 0.0 else 0.0
        w, s, ys, marks = self._w, self._s, self._y, self._marks
        if up > 0.0 or down > 0.0:
            self._n = n = self._n + 1
            marks.frombytes(_packed(n, w, s, ys))
            if not n % _THIN_BY:
                self._thin()
        elif marks:
            del marks[:]
        keep = self.forgetting
        self._w = keep * w + share
        self._s = keep * s + share * size
        self._y = keep * ys + share * y
        self.pull_ *= keep
        if up > _GATE or down > _GATE or self.odds_ > _OPEN_ODDS:
            return True
        self.odds_ = self._lift = 0.0
        return False

    def _thin(self) -> None:
        n, marks = self._n, self._marks
        indices = marks[::_MARK]
        # From the end, so that what is deleted moves nothing that is still to be looked at.
        for i in range(len(indices) - _EACH - 1, -1, -1):
            index = indices[i]
            age = n - index
            if age > _FOURTH or index % (2.0 if age <= _SECOND else 4.0):
                del marks[_MARK * i : _MARK * (i + 1)]

    def inspect(self, shape: Shape) -> bool:
        """Weigh each place where the level may have changed.

        Parameters
        ----------
        shape : Shape
            The line.

        Returns
        -------
        bool
            Whether the past has just been dropped.
        """
        slope, intercept, typical, dispersion = shape
        powers, hazard, age = self._powers, self.hazard, self._w
        if age < _RIPE:
            hazard *= age / _RIPE
        exp, lgamma, log = math.exp, math.lgamma, math.log
        held = self.pull_ * typical
        came = self._y + held
        expected = intercept * self._w + slope * self._s + held
        newest = self._n + 1.0
        odds = lift = best = 0.0
        best_at: tuple[float, float, float, float] | None = None
        backwards = reversed(self._marks.tolist())
        for y, s, w, index in zip(backwards, backwards, backwards, backwards, strict=True):
            keep = powers[int(newest - index)]
            old = keep * y + held
            old_expected = keep * (intercept * w + slope * s) + held
            new_expected = expected - old_expected
            if old <= 0.0 or old_expected <= 0.0 or new_expected <= 0.0:
                continue
            level = old / old_expected
            new = level * new_expected
            ratio = (came - old) / new
            # Relative variance of the ratio where nothing changed, as counts.
            m = new * old / (dispersion * (new + old))
            off = ratio - 1.0
            if off * off * m < _LEAST_CHI:
                continue
            if off > 0.0:
                rate_after, constant = _RATE_UP + m, _CONSTANT_UP
            else:
                rate_after, constant = _RATE_DOWN + m, _CONSTANT_DOWN
            shape_after = _PRIOR_SHAPE + (ratio * m if ratio > 0.0 else 0.0)
            nats = lgamma(shape_after) + constant - shape_after * log(rate_after) + m
            weight = hazard * exp(nats if nats < _MAX_NATS else _MAX_NATS)
            odds += weight
            lift += weight * level * shape_after / rate_after
            if weight > best:
                best, best_at = weight, (index, w, s, y)
        self.odds_, self._lift = odds, lift
        if best_at is None:
            return False
        late = newest - best_at[0] >= _LATE_AGE
        if odds > _DROP_ODDS or (late and odds > _LATE_ODDS):
            self._drop(*best_at)
            return True
        return False

    def _drop(self, index: float, w: float, s: float, y: float) -> None:
        keep = self._powers[int(self._n + 1 - index)]
        self._w -= keep * w
        self._s -= keep * s
        self._y -= keep * y
        self.pull_ = 0.0
        self.n_changes_ += 1
        self.odds_ = self._lift = 0.0
        self._up = self._down = 0.0
        del self._marks[:]

    def factor(self, slope: float, intercept: float, typical: float) -> float:
        """Give the level since the last change over what the line expects, > 0."""
        held = self.pull_ * typical
        came = self._y + held
        # A line that starts below 0 can expect less than nothing of short clips.
        expected = intercept * self._w + slope * self._s + held
        return came / expected if came > 0.0 and expected > 0.0 else 1.0

    def mixed(self, factor: float) -> float:
        """Give a factor mixed with the new levels by the squares of their odds.

        Errors count by their size, and the best estimate of that kind is the posterior's median:
        it stays with the likelier level, where the mean would leave it early. Squares found a
        new level for good after 12 completions instead of 14, at the same error.
        """
        odds = self.odds_
        if odds == 0.0:
            return factor
        # The new levels' own mean is lift / odds.
        return (factor + odds * self._lift) / (1.0 + odds * odds)

    def state(self) -> list[float]:
        """Give what was learned, as numbers."""
        return [
            self._w, self._s, self._y, self.pull_, self._up, self._down, self.odds_, self._lift,
            self.n_changes_, self._n, *self._marks,
        ]  # fmt: skip

    def restore(self, state: Sequence[float]) -> Self:
        """Take on what `state` gave; return self.

        Raises
        ------
        ValueError
            If the marks are not whole, or too old.
        """
        (
            self._w, self._s, self._y, self.pull_, self._up, self._down, self.odds_, self._lift,
            n_changes, n, *marks,
        ) = state  # fmt: skip
        oldest = marks[0] if marks else n
        if len(marks) % _MARK or not 0.0 <= n - oldest < len(self._powers) - 1:
            raise ValueError(f"a level's marks are damaged: {marks}")
        self.n_changes_, self._n = int(n_changes), int(n)
        self._marks = array("d", marks)
        return self


_POWERS: Final[dict[float, tuple[float, ...]]] = {}


def _powers_of(forgetting: float) -> tuple[float, ...]:
    # Shared by all levels of one forgetting; a process knows a handful.
    found = _POWERS.get(forgetting)
    if found is None:
        found = _POWERS[forgetting] = tuple(forgetting**k for k in range(_FOURTH + 2 * _THIN_BY))
    return found
