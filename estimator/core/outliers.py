"""How far one completion may pull a mean: a scale that a second mode widens, and what comes again.

Owns what is an outlier among the tokens of one key. Knows nothing of the line that expects them.
"""

# ruff: noqa: FURB136, PLR1730 - min() and max() take as long as the arithmetic around them

import math
from collections.abc import Sequence
from typing import Final, Self

# Residuals beyond so many deviations are pulled in to it. The scale below widens for a second mode
# of at least E[min(z², c²)]/c² of the completions: 11 % at 3, 14 % at 2.5; loops are 5 %.
_CLIP: Final = 3.0
# 1/E[min(z², 3²)] of a normal: makes the winsorized variance that of the whole.
_CONSISTENT: Final = 1.0 / 0.99501
# Weight of one squared residual in the scale, 1/(k + 4) for the k-th, down to this: about 130
# completions, so that it wanders by 6 %, and what wanders more is mistaken for changes.
_LEAST_STEP: Final = 0.015
_PRIOR_COUNT: Final = 4.0
# A deviation is at least this share of what is expected: the same clips again and again say
# nothing of how far others spread. Eight traces have 0.15 to 0.48.
_LEAST_RELATIVE: Final = 0.1
# What a clip says of spreads, it says as one of so many typical ones at most. An hour of audio
# among utterances would make the least deviation ten times theirs and the dispersion fifty times,
# and nothing would be an outlier, or a change, for hundreds of completions.
_MOST_TYPICAL: Final = 4.0
# Relative deviation of a new key's level from what it starts with: languages differ by ×1.2 to
# ×2.4. It is added to the spread, and falls as 1/√n.
_LEVEL_DEVIATION: Final = 0.4
# Far below what was expected is an empty transcript or a length that lies; far above that, and
# above what the prior expects of speech, a repetition loop: they are at 7 to 55 times.
_LEAST_RATIO: Final = 0.2
_MOST_RATIO: Final = 4.0
_MOST_OF_PRIOR: Final = 3.0
# Shares of outliers on one side that contamination and a mode of its own have, and from what
# evidence on, in nats, they are believed to be a mode. What is implausible needs more.
_CONTAMINATION: Final = 0.06
_MODE: Final = 0.15
_OPEN: Final = 4.0
_OPEN_GROSS: Final = 7.0
_MOST_EVIDENCE: Final = 10.0
_OUTSIDE: Final = math.log(_MODE / _CONTAMINATION)
_INSIDE: Final = math.log((1.0 - _MODE) / (1.0 - _CONTAMINATION))
# Squared deviations of a mode that the scale has yet to learn of, at most.
_MOST_SQUARED: Final = 64.0


class Outliers:
    """Judge the tokens of one key, one completion at a time.

    Parameters
    ----------
    scale : float
        Standard deviation of tokens over the root of what is expected, before any data, > 0.

    Attributes
    ----------
    scale_ : float
        Running standard deviation of residuals, in units of √(expected tokens), > 0.
    dispersion_ : float
        Variance of a sum of tokens over its expectation, > 0. Above ``scale_²`` where long clips
        spread more than in proportion to their tokens' root.
    n_seen_ : int
        Residuals that the scale was learned from.

    Notes
    -----
    The scale is Huber's Proposal 2, followed by stochastic approximation: the variance of
    residuals pulled in to three of its own roots. A median of absolute residuals is 0 where three
    of four completions are one clip, and then every other one is an outlier for ever; this widens
    until the others are none. Where completions are of two densities the mean lies between
    them, and neither kind is an outlier of it.

    What lies beyond is counted on each side by a cumulative sum of log-likelihood ratios, of a
    Bernoulli share of 15 % against 6 %: contamination is rarer, and what comes more often is what
    the key's requests are like. Beyond 4 nats it is learned whole. Until then it is pulled in,
    or teaches nothing where it is implausible altogether; and no completion ever counts as more
    than four times what was expected, or three times what the prior does.

    References
    ----------
    Huber (1964), Robust estimation of a location parameter (Proposal 2). Page (1954), Continuous
    inspection schemes. Reynolds & Stoumbos (1999), A CUSUM chart for monitoring a proportion when
    inspecting continuously.
    """

    __slots__ = ("_above", "_below", "dispersion_", "n_seen_", "scale_")

    def __init__(self, scale: float) -> None:
        self.scale_ = scale
        self.dispersion_ = scale * scale
        self.n_seen_ = 0
        self._above = self._below = 0.0

    def judge(
        self, y: float, expected: float, *, typical: float, prior: float
    ) -> tuple[float | None, float]:
        """Give the value to learn in place of ``y``, and learn the spread from it.

        Parameters
        ----------
        y, expected : float
            The tokens that came, and that were expected, ≥ 1.
        typical : float
            Tokens expected of a mean completion, ≥ 1.
        prior : float
            Tokens that speech of this length is believed to have before any data.

        Returns
        -------
        tuple of (float or None, float)
            The value to learn (None for a gross one) and the deviation it was judged by, > 0.
        """
        n, scale = self.n_seen_, self.scale_
        known = scale * scale
        unknown = _LEVEL_DEVIATION * _LEVEL_DEVIATION * expected / (1.0 + n)
        squared = expected * (known + unknown)
        deviation = math.sqrt(squared)
        residual = y - expected
        limit = _CLIP * deviation
        above, below = self._above + _INSIDE, self._below + _INSIDE
        value: float | None = y
        z_squared = residual * residual / squared
        if residual > limit:
            above += _OUTSIDE - _INSIDE
            most = max(_MOST_RATIO * expected, _MOST_OF_PRIOR * prior)
            if above > _OPEN_GROSS or (above > _OPEN and y <= most):
                value = y if y < most else most
                z_squared = min((value - expected) ** 2 / squared, _MOST_SQUARED)
            else:
                value = expected + limit if y <= most else None
                z_squared = _CLIP * _CLIP
        elif y < _LEAST_RATIO * expected:
            below += _OUTSIDE - _INSIDE
            if below <= _OPEN_GROSS:
                value = None
            z_squared = min(z_squared, _MOST_SQUARED)
        elif residual < -limit:
            below += _OUTSIDE - _INSIDE
            if below <= _OPEN:
                value = expected - limit
                z_squared = _CLIP * _CLIP
            z_squared = min(z_squared, _MOST_SQUARED)
        if above > 0.0 or below > 0.0 or self._above > 0.0 or self._below > 0.0:
            self._above = min(max(above, 0.0), _MOST_EVIDENCE)
            self._below = min(max(below, 0.0), _MOST_EVIDENCE)
        if value is None:
            return None, deviation
        self.n_seen_ = n + 1
        step = 1.0 / (n + _PRIOR_COUNT)
        if step < _LEAST_STEP:
            step = _LEAST_STEP
        z_squared *= _CONSISTENT
        scale *= math.sqrt(1.0 + step * (z_squared - 1.0))
        most = _MOST_TYPICAL * typical
        says = expected if expected < most else most
        least = _LEAST_RELATIVE * math.sqrt(says)
        self.scale_ = scale if scale > least else least
        # Weighted by what is expected, as in a sum.
        step *= says / typical
        if step > 0.5:  # noqa: PLR2004 - one long clip is never most of it
            step = 0.5
        z_squared *= known + unknown * says / expected
        self.dispersion_ += step * (z_squared - self.dispersion_)
        return value, deviation

    def spread(self, magnitude: float) -> None:
        """Learn the spread alone from one absolute residual in units of the scale."""
        n = self.n_seen_
        self.n_seen_ = n + 1
        step = max(1.0 / (n + _PRIOR_COUNT), _LEAST_STEP)
        z = min(magnitude, _CLIP)
        scale = self.scale_ * math.sqrt(1.0 + step * (_CONSISTENT * z * z - 1.0))
        # Of one token, the least that is ever expected.
        self.scale_ = max(scale, _LEAST_RELATIVE)
        self.dispersion_ = self.scale_ * self.scale_

    def state(self) -> list[float]:
        """Give what was learned, as numbers."""
        return [self.scale_, self.dispersion_, self.n_seen_, self._above, self._below]

    def restore(self, state: Sequence[float]) -> Self:
        """Take on what `state` gave; return self.

        Raises
        ------
        ValueError
            If a spread is not finite and > 0, or evidence is not within its bounds.
        """
        scale, dispersion, n_seen, above, below = state
        if not (0.0 < scale < math.inf and 0.0 <= dispersion < math.inf):
            raise ValueError(f"spreads must be finite and > 0, not {scale} and {dispersion}")
        if not (n_seen >= 0 and 0.0 <= above <= _MOST_EVIDENCE and 0.0 <= below <= _MOST_EVIDENCE):
            raise ValueError(f"evidence must be in [0, {_MOST_EVIDENCE:g}], not {above}, {below}")
        self.scale_, self.dispersion_, self.n_seen_ = scale, dispersion, int(n_seen)
        self._above, self._below = above, below
        return self
