"""κ of the first finishers by one who knows everything of a trace but its level.

How many tokens clips of a length hold, and how far they spread, is taken from the whole trace in
hindsight; what is to be found is one factor on all of it. No learner knows as much, so what this
one is off by is what the first of concurrent requests cannot tell.
"""

import bisect
import math
from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from estimator.evaluation.metrics import Hindsight
from estimator.evaluation.prequential import hindsight_of
from estimator.evaluation.scenarios import Running, Trace
from estimator.evaluation.subjects import size_of

_Array = NDArray[np.float64]

# Factors that are weighed, and how widely they are believed: languages differ by ×1.2 to ×1.9.
_FACTORS: Final = np.exp(np.linspace(math.log(0.4), math.log(2.5), 81))[:, None]
_PRIOR_DEVIATION: Final = 0.5
# Clips of about the same length that a distribution is made of, and its kernel's width in
# standard deviations of theirs (Silverman's 0.9·n^-0.2).
_NEAREST: Final = 120
_WIDTH: Final = 0.35
_LEAST_WIDTH: Final = 0.2
# A logistic kernel of the same width as a normal one.
_LOGISTIC: Final = 1.702
# What nothing of the kind explains says no more than that.
_LEAST: Final = 1e-9


class KnowsAllButTheLevel:
    """The posterior median of a factor, given a trace's own distribution.

    Parameters
    ----------
    trace : Trace
        What clips hold is taken from all of it.
    """

    def __init__(self, trace: Trace) -> None:
        rows = sorted((size_of(one), float(one.output_tokens)) for one in trace.completions)
        self._sizes = [size for size, _ in rows]
        self._tokens = np.array([tokens for _, tokens in rows])
        self.known: Hindsight = hindsight_of(trace)

    def off(self, done: Sequence[tuple[float, float]], running: Sequence[Running]) -> float:
        """Give the relative error of κ after completions and beside what runs.

        Parameters
        ----------
        done : sequence of (float, float)
            Sizes and tokens.
        running : sequence of Running
            With their tokens so far.
        """
        nats = -0.5 * (np.log(_FACTORS[:, 0]) / _PRIOR_DEVIATION) ** 2
        for size, tokens in done:
            z, width = self._deviations(size, tokens)
            # The kernel's density, of a mean over all clips alike.
            density = np.exp(-_LOGISTIC * np.abs(z)) / (1.0 + np.exp(-_LOGISTIC * np.abs(z))) ** 2
            nats += np.log((density / width).mean(axis=1) + _LEAST)
        for one in running:
            # What has not finished with so many tokens may hold just as many: all of these
            # started at the same moment, and the next to finish may do so at this one.
            z, _ = self._deviations(size_of(one.completion), one.tokens - 0.5)
            beyond = 0.5 - 0.5 * np.tanh(0.5 * _LOGISTIC * z)
            nats += np.log(beyond.mean(axis=1) + _LEAST)
        below = np.cumsum(np.exp(nats - nats.max()))
        return float(_FACTORS[int(np.searchsorted(below, 0.5 * below[-1])), 0]) - 1.0

    def _deviations(self, size: float, tokens: float) -> tuple[_Array, _Array]:
        """Give by factor and clip of that length how far tokens lie off, and the unit of that."""
        middle = bisect.bisect(self._sizes, size)
        first = max(0, min(middle - _NEAREST // 2, len(self._sizes) - _NEAREST))
        clips = self._tokens[first : first + _NEAREST]
        width = max(_WIDTH * float(clips.std()), _LEAST_WIDTH) * _FACTORS
        deviations: _Array = (tokens - _FACTORS * clips) / width
        return deviations, width
