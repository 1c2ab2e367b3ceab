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
# standard deviations of theirs (Silverman's 0.9·n^-0.2).
_NEAREST: Final = 120
_WIDTH: Final = 0.35
_LEAST_WIDTH: Final = 0.2
# A logistic kernel of the same width as a normal one.
_LOGISTIC: Final = 1.702
# What nothing of the kind explains says no more than that.
_LEAST: Final = 1e-9


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
    """

    def __init__(self, trace: Trace) -> None:
        rows = sorted((size_of(one), float(one.output_tokens)) for one in trace.completions)
        self._sizes = [size for size, _ in rows]
        self._tokens = np.array([tokens for _, tokens in rows])
        design = np.stack([np.ones(len(rows)), np.array(self._sizes)], axis=1)
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
        kernel = _LOGISTIC * tail / (1.0 + tail) ** 2 / width
        density: Array = np.log(kernel.mean(axis=1) + _LEAST)
        return density

    def log_survival(self, size: float, tokens: float, factors: Array) -> Array:
        """Give the logarithm of the chance of more than so many tokens, by factor."""
        z, _ = self._deviations(size, tokens, factors)
        survival: Array = np.log((0.5 - 0.5 * np.tanh(0.5 * _LOGISTIC * z)).mean(axis=1) + _LEAST)
        return survival

    def _clips(self, size: float) -> Array:
        middle = bisect.bisect(self._sizes, size)
        first = max(0, min(middle - _NEAREST // 2, len(self._sizes) - _NEAREST))
        clips: Array = self._tokens[first : first + _NEAREST]
        return clips

    def _deviations(self, size: float, tokens: float, factors: Array) -> tuple[Array, Array]:
        """Give by factor and clip of that length how far tokens lie off, and the unit of that."""
        clips = self._clips(size)
        scaled = factors[:, None]
        width = max(_WIDTH * float(clips.std()), _LEAST_WIDTH) * scaled
        deviations: Array = (tokens - scaled * clips) / width
        return deviations, width
