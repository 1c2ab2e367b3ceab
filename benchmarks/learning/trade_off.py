"""How soon a change can be found at what error where nothing changes: the core beside filters.

Three Bayesian filters that have little or nothing to learn. All know the level before the change
and what clips hold on either side of it, from the whole traces in hindsight, and the hazard; what
they know of the new level is what they are named after. The core knows none of it. Each is run
over the same changes of ×1.5 and more at several hazards: the error over the 200 completions
before the change, over that of Σn/Σd, and completions to cross into ±10 % and to stay there after
it. A hazard is a point of a curve. Whoever has more to find out than a filter has does no better
than its curve, but by luck.
"""

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, NamedTuple

import numpy as np

from benchmarks.learning.material import (
    LARGE_CHANGE,
    N_BEFORE,
    Change,
    changes,
    finite,
    quantiles,
)
from benchmarks.learning.noise import Array, Noise
from estimator.core.config import CoreConfig
from estimator.evaluation.metrics import Crossing
from estimator.evaluation.prequential import hindsight_of, run
from estimator.evaluation.references import CumulativeRatio
from estimator.evaluation.scenarios import Stream, Trace
from estimator.evaluation.subjects import LearnerSubject, PipelineSubject, Subject, size_of

N_SEEDS: Final = 8
N_SETTLE: Final = 100
HAZARDS: Final = (1 / 100, 1 / 30, 1 / 10, 1 / 5)
OWN_HAZARDS: Final = (1 / 50, 1 / 30, 1 / 20)
OWN: Final = "core"
# A range of levels, as wide as the traces' and so much wider, in so many steps.
_WIDER: Final = 1.15
_STEPS: Final = 25
_NOTHING: Final = np.array([1.0])

Figures = dict[str, float | None]


class Filtered(NamedTuple):
    """A stream as a filter sees it.

    Attributes
    ----------
    likelihood : array
        By completion and state, over the likeliest state's; the first state is "unchanged".
    expected : array
        Tokens by completion and state.
    at_mean : array
        κ by state, at the mean length after the change.
    kappa : float
        κ after the change, in hindsight.
    tokens : array
        By completion.
    """

    likelihood: Array
    expected: Array
    at_mean: Array
    kappa: float
    tokens: Array


def filtered(stream: Stream, before: Noise, after: Noise, factors: Array) -> Filtered:
    """Prepare a stream for a filter that believes in these factors on what comes after."""
    sizes = np.array([size_of(one) for one, _ in stream.items])
    tokens = np.array([float(one.output_tokens) for one, _ in stream.items])
    nats = np.array(
        [
            np.concatenate((before.log_density(s, y, _NOTHING), after.log_density(s, y, factors)))
            for s, y in zip(sizes.tolist(), tokens.tolist(), strict=True)
        ]
    )
    known = hindsight_of(stream.segments[1])
    mean = np.array([known.mean_size])

    def by_state(at: Array) -> Array:
        changed = after.expected(at)[:, None] * factors
        return np.concatenate((before.expected(at)[:, None], changed), axis=1)

    return Filtered(
        np.exp(nats - nats.max(axis=1, keepdims=True)),
        by_state(sizes),
        by_state(mean)[0] / known.mean_size,
        known.kappa,
        tokens,
    )


def follow(seen: Filtered, hazard: float) -> tuple[Array, Array]:
    """Filter one stream.

    Parameters
    ----------
    seen : Filtered
        What is filtered.
    hazard : float
        Probability of a change to any other state at each completion.

    Returns
    -------
    tuple of array
        By completion the absolute error of its prediction, and κ as estimated after it: medians
        of the posterior, which err least.
    """
    n_states = len(seen.at_mean)
    posterior = np.zeros(n_states)
    posterior[0] = 1.0
    order = np.argsort(seen.at_mean, kind="stable")
    errors, kappas = [], []
    for likelihood, expected, tokens in zip(
        seen.likelihood, seen.expected, seen.tokens.tolist(), strict=True
    ):
        prior = (1.0 - hazard) * posterior + hazard * (1.0 - posterior) / (n_states - 1)
        rank = np.argsort(expected, kind="stable")
        errors.append(abs(tokens - expected[rank][_middle(prior[rank])]))
        posterior = prior * likelihood
        posterior /= posterior.sum()
        kappas.append(seen.at_mean[order][_middle(posterior[order])])
    return np.array(errors), np.array(kappas)


def _middle(weights: Array) -> int:
    below = np.cumsum(weights)
    return int(np.searchsorted(below, 0.5 * below[-1]))


def crossing_of(kappas: Sequence[float], target: float) -> Crossing:
    """Count completions until estimates after a change, the first of them after one, are right."""
    crossing = Crossing(target)
    # Nothing is known before the first.
    crossing.update(math.inf)
    for kappa in kappas:
        crossing.update(kappa)
    return crossing


def _figures(errors: Sequence[float], crossings: Sequence[Crossing]) -> Figures:
    cross = quantiles(one.to_cross for one in crossings)
    stay = quantiles(one.to_stay for one in crossings)
    return {
        "error_before": math.fsum(errors) / len(errors),
        "cross_p50": finite(cross[0]),
        "cross_p90": finite(cross[1]),
        "stay_p50": finite(stay[0]),
        "stay_p90": finite(stay[1]),
    }


def _subject(
    make: Callable[[], Subject], streams: Sequence[Stream]
) -> list[tuple[float, Crossing]]:
    found = []
    for stream in streams:
        one = run(make(), stream)
        records = one.records[N_SETTLE:N_BEFORE]
        error = math.fsum(abs(row.actual - row.predicted) for row in records) / len(records)
        found.append((error, one.crossings[1]))
    return found


def _filters(
    traces: Sequence[Trace], pairs: Sequence[Change], streams: Sequence[Stream]
) -> dict[str, list[Filtered]]:
    """Give every stream as each filter sees it."""
    noises = {trace.name: Noise(trace) for trace in traces}
    kappas = {trace.name: hindsight_of(trace).kappa for trace in traces}
    levels = np.array(sorted(kappas.values()))
    least, most = math.log(levels[0] / _WIDER), math.log(levels[-1] * _WIDER)
    among = {
        "both levels": None,
        "the set of levels": levels,
        "their range": np.exp(np.linspace(least, most, _STEPS)),
    }
    return {
        name: [
            filtered(
                stream,
                noises[pair.before.name],
                noises[pair.after.name],
                _NOTHING if known is None else known / kappas[pair.after.name],
            )
            for pair, stream in zip(pairs, streams, strict=True)
        ]
        for name, known in among.items()
    }


def measure(traces: Sequence[Trace]) -> dict[str, Figures]:
    """Give each filter's, and the core's, errors and completions to adapt, by hazard."""
    pairs = [one for one in changes(traces, LARGE_CHANGE) for _ in range(N_SEEDS)]
    streams = [pair.stream(i % N_SEEDS) for i, pair in enumerate(pairs)]
    base = [error for error, _ in _subject(partial(LearnerSubject, CumulativeRatio), streams)]
    table: dict[str, Figures] = {}
    for name, rows in _filters(traces, pairs, streams).items():
        for hazard in HAZARDS:
            errors, crossings = [], []
            for seen, reference in zip(rows, base, strict=True):
                off, kappas = follow(seen, hazard)
                errors.append(float(off[N_SETTLE:N_BEFORE].mean()) / reference)
                crossings.append(crossing_of(kappas[N_BEFORE:].tolist(), seen.kappa))
            table[f"knows {name}, hazard {_named(hazard)}"] = _figures(errors, crossings)
    for hazard in OWN_HAZARDS:
        found = _subject(partial(PipelineSubject, CoreConfig(change_hazard=hazard)), streams)
        ratios = [error / reference for (error, _), reference in zip(found, base, strict=True)]
        table[f"{OWN}, hazard {_named(hazard)}"] = _figures(ratios, [one for _, one in found])
    return table


def _named(hazard: float) -> str:
    return f"1/{round(1 / hazard)}"
