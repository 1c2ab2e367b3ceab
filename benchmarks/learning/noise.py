"""What clips of a length hold, as one knows it who has seen all of a trace.

The references that bound what a learner can do take it from here: they have nothing of it to find
out. Each completion that they are asked about is among those it is made of, which flatters them.
"""

import bisect
from typing import Final

import numpy as np
from numpy.typing import NDArray

from estimator.evaluation.scenarios import Trace
from estimator.evaluation.subjects import size_of

Array = NDArray[np.float64]

# Clips of about the same length that a distribution is made of, and its kernel's width in
# standard deviations of theirs (Silverman's 0.9·n^-0.2), in logarithms of tokens. Of tokens
# themselves it reaches below the fewest that clips hold, and of 64 at once those come first.
_NEAREST: Final = 120
_WIDTH: Final = 0.35
_LEAST_WIDTH: Final = 0.05
# A logistic kernel of the same width as a normal one.
_LOGISTIC: Final = 1.702
# What nothing of the kind explains says no more than that.
_LEAST: Final = 1e-9
# No logarithm of nothing.
_LEAST_TOKENS: Final = 0.5


class Noise:
    """Tokens of clips of a trace by their length, at any factor of them.

    Parameters
    ----------
    trace : Trace
        At least one completion, each with a size.

    Attributes
    ----------
    slope, intercept : float
        The least-squares line of tokens on sizes.

    Notes
    -----
    A local linear kernel estimate: clips of about a length, their tokens moved to that length
    along their own line. Where they are taken as they are, the shortest clips are believed to hold
    what longer ones do (Fan & Gijbels 1996, bias at the boundary). Clips of the same length are
    taken all or none: a part of them, sorted, is not a sample.
    """

    def __init__(self, trace: Trace) -> None:
        rows = sorted((size_of(one), float(one.output_tokens)) for one in trace.completions)
        self._listed = [size for size, _ in rows]
        self._sizes = np.array(self._listed)
        self._tokens = np.array([tokens for _, tokens in rows])
        design = np.stack([np.ones(len(rows)), self._sizes], axis=1)
        (intercept, slope), *_ = np.linalg.lstsq(design, self._tokens, rcond=None)
        self.slope, self.intercept = float(slope), float(intercept)

    def expected(self, sizes: Array) -> Array:
        """Give what the line expects of sizes, ≥ 0."""
        expected: Array = np.maximum(self.intercept + self.slope * sizes, 0.0)
        return expected

    def median(self, size: float) -> float:
        """Give the median of clips of about that size: what errs least, in absolute terms."""
        return float(np.median(self._clips(size)))

    def log_density(self, size: float, tokens: float, factors: Array) -> Array:
        """Give the logarithm of the density of a completion, by factor on all that clips hold."""
        z, width = self._deviations(size, tokens, factors)
        tail = np.exp(-_LOGISTIC * np.abs(z))
        kernel = _LOGISTIC * tail / (1.0 + tail) ** 2 / (width * max(tokens, _LEAST_TOKENS))
        density: Array = np.log(kernel.mean(axis=1) + _LEAST)
        return density

    def log_survival(self, size: float, tokens: float, factors: Array) -> Array:
        """Give the logarithm of the chance of more than so many tokens, by factor."""
        z, _ = self._deviations(size, tokens, factors)
        survival: Array = np.log((0.5 - 0.5 * np.tanh(0.5 * _LOGISTIC * z)).mean(axis=1) + _LEAST)
        return survival

    def _clips(self, size: float) -> Array:
        """Give the tokens of clips of about a size, as if they were of that size."""
        listed = self._listed
        middle = (bisect.bisect_left(listed, size) + bisect.bisect_right(listed, size)) // 2
        first = max(0, min(middle - _NEAREST // 2, len(listed) - _NEAREST))
        last = min(first + _NEAREST, len(listed)) - 1
        near = slice(
            bisect.bisect_left(listed, listed[first]), bisect.bisect_right(listed, listed[last])
        )
        tokens, off = self._tokens[near], self._sizes[near] - self._sizes[near].mean()
        varied, level = float(off @ off), float(tokens.mean())
        slope = max(float(off @ (tokens - level)) / varied, 0.0) if varied > 0.0 else 0.0
        here = max(level + slope * (size - float(self._sizes[near].mean())), 1.0)
        clips: Array = tokens * (here / np.maximum(level + slope * off, 1.0))
        return clips

    def _deviations(self, size: float, tokens: float, factors: Array) -> tuple[Array, float]:
        """Give by factor and clip of that length how far tokens lie off, and the unit of that."""
        clips = np.log(np.maximum(self._clips(size), _LEAST_TOKENS))
        width = max(_WIDTH * float(clips.std()), _LEAST_WIDTH)
        off = np.log(max(tokens, _LEAST_TOKENS)) - np.log(factors)[:, None] - clips
        return off / width, width
