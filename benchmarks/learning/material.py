"""The traces of ``benchmarks/traces`` and the streams that every part measures on."""

import math
import statistics
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from estimator.evaluation.metrics import quantile
from estimator.evaluation.prequential import hindsight_of
from estimator.evaluation.references import CumulativeLeastSquares
from estimator.evaluation.scenarios import (
    Stream,
    Trace,
    in_completion_order,
    in_trace_order,
    ordered_pairs,
    read_trace,
    resampled,
    without_language,
)
from estimator.evaluation.subjects import size_of

TRACES: Final = Path(__file__).parents[1] / "traces"
SPEECH: Final = (
    "librispeech-test-clean", "librispeech-dev-clean", "aishell1-test", "commonvoice-id",
    "ud-french-parisstories", "ud-naija-spoken", "quechua-iwslt2023", "tedxjp10k-ja-chars",
)  # fmt: skip
# Completions before a change, and those watched after it.
N_BEFORE: Final = 300
N_AFTER: Final = 240
# A change that counts for the promises.
LARGE_CHANGE: Final = 1.5
# The median absolute deviation of a normal, to its standard deviation.
_NORMAL: Final = 1.4826


def speech() -> list[Trace]:
    """Read the traces of speech."""
    return [read_trace(TRACES / f"{name}.csv.gz", name=name) for name in SPEECH]


class Change(NamedTuple):
    """Two traces that follow one another, and by how much κ changes: the greater over the less."""

    before: Trace
    after: Trace
    factor: float

    def stream(self, seed: int, order: str = "trace") -> Stream:
        """Give random slices of the two, language hidden."""
        parts = [
            without_language(resampled(self.before, seed, N_BEFORE)),
            without_language(resampled(self.after, seed, N_AFTER)),
        ]
        return in_completion_order(parts) if order == "completion" else in_trace_order(parts)


def changes(traces: Sequence[Trace], least: float) -> Iterator[Change]:
    """Yield every ordered pair whose κ differs by at least a factor."""
    kappas = {trace.name: hindsight_of(trace).kappa for trace in traces}
    for before, after in ordered_pairs(traces):
        factor = kappas[after.name] / kappas[before.name]
        factor = max(factor, 1.0 / factor)
        if factor >= least:
            yield Change(before, after, factor)


def finite(value: float) -> float | None:
    """Give a number as JSON has it: None, "not within the completions watched", for infinity."""
    return value if math.isfinite(value) else None


def quantiles(counts: Iterable[int | None]) -> tuple[float, float]:
    """Give the median and the 90th percentile; infinite for never."""
    values = list(counts)
    return quantile(values, 0.5), quantile(values, 0.9)


def relative_spread(trace: Trace) -> float:
    """Give the robust standard deviation of tokens over their least-squares line."""
    line = CumulativeLeastSquares()
    for one in trace.completions:
        line.learn_one({"size": size_of(one)}, float(one.output_tokens))
    off = (
        abs(one.output_tokens / max(line.predict_one({"size": size_of(one)}), 1.0) - 1.0)
        for one in trace.completions
    )
    return _NORMAL * statistics.median(off)
