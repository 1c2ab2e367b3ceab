"""How soon a change can be found by one who knows everything but when it comes.

Shiryaev's posterior for one change between two known levels with known spreads. A learner must
find out the new level too, so what it takes here is out of reach for all of them.
"""

import math
import statistics
from collections.abc import Sequence
from typing import Final, NamedTuple

from benchmarks.learning.material import LARGE_CHANGE, changes, finite, quantiles
from estimator.evaluation.prequential import hindsight_of
from estimator.evaluation.scenarios import Stream, Trace

N_SEEDS: Final = 8
HAZARDS: Final = (1 / 30, 1 / 100, 1 / 300)
TOLERANCE_RATIO: Final = 0.1
# Residuals over √(expected tokens) are Student's t with so many degrees of freedom: tails as
# heavy as loops and hesitations make them.
_DEGREES: Final = 4.0
_NORMAL: Final = 1.4826
_MAX_NATS: Final = 30.0
_MAX_ODDS: Final = 1e9

Figures = dict[str, float | None]


class Known(NamedTuple):
    """A level, κ, and the robust deviation of residuals over √(expected tokens)."""

    kappa: float
    scale: float

    def log_likelihood(self, size: float, tokens: float) -> float:
        """Give the logarithm of Student's density of one completion, less a constant."""
        expected = self.kappa * size
        z = (tokens - expected) / (self.scale * math.sqrt(expected))
        tail = 0.5 * (_DEGREES + 1.0) * math.log1p(z * z / _DEGREES)
        return -math.log(self.scale) - 0.5 * math.log(expected) - tail


def _known(trace: Trace) -> Known:
    kappa = hindsight_of(trace).kappa
    off = [
        abs(one.output_tokens - kappa * one.audio_s) / math.sqrt(kappa * one.audio_s)
        for one in trace.completions
        if one.audio_s
    ]
    return Known(kappa, _NORMAL * statistics.median(off))


def _to_cross(stream: Stream, hazard: float) -> int | None:
    before, after = map(_known, stream.segments)
    odds, n = 0.0, 0
    for completion, segment in stream.items:
        size, tokens = completion.audio_s or 0.0, float(completion.output_tokens)
        nats = after.log_likelihood(size, tokens) - before.log_likelihood(size, tokens)
        odds = (odds + hazard) * math.exp(min(max(nats, -_MAX_NATS), _MAX_NATS))
        odds = min(odds, _MAX_ODDS)
        if segment == 0:
            continue
        n += 1
        estimate = (before.kappa + odds * after.kappa) / (1.0 + odds)
        if abs(estimate / after.kappa - 1.0) <= TOLERANCE_RATIO:
            return n
    return None


def measure(traces: Sequence[Trace]) -> dict[str, Figures]:
    """Give completions to cross into ±10 % after changes of ×1.5 and more, by hazard."""
    streams = [
        change.stream(seed) for change in changes(traces, LARGE_CHANGE) for seed in range(N_SEEDS)
    ]
    table: dict[str, Figures] = {}
    for hazard in HAZARDS:
        cross = quantiles(_to_cross(stream, hazard) for stream in streams)
        table[f"hazard 1/{round(1 / hazard)}"] = {
            "cross_p50": finite(cross[0]),
            "cross_p90": finite(cross[1]),
        }
    return table
