"""Bias and error where honest clips are of two densities, beside Σn/Σd and least squares."""

import math
import statistics
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Final, NamedTuple

from estimator.evaluation.mixtures import (
    AFTER_ONE_CLIP,
    NEW_LANGUAGES,
    STEADY,
    Workload,
    after_one_clip,
    new_language,
    steady,
)
from estimator.evaluation.references import CumulativeLeastSquares, CumulativeRatio
from estimator.evaluation.subjects import LearnerSubject, PipelineSubject, Subject

N_SEEDS: Final = 8
N: Final = 600
# Completions before errors count; the bias is looked up in the second half, every so often.
N_SETTLE: Final = 100
_EVERY: Final = 5
N_REPEATED: Final = 200
AFTER: Final = (10, 20, 40, 80)
# Completions of the language that is known and of the new one, and when the latter is looked up.
N_KNOWN: Final = 160
N_NEW: Final = 20
YOUNG: Final = (5, 10, 20)

SUBJECTS: Final[dict[str, Callable[[], Subject]]] = {
    "own": PipelineSubject,
    "ratio": lambda: LearnerSubject(CumulativeRatio),
    "line": lambda: LearnerSubject(CumulativeLeastSquares),
}
Figures = dict[str, float]


class _Look(NamedTuple):
    """The error of one prediction, and the mean that is told after it, over the true one."""

    error: float
    mean: float


def _run(make: Callable[[], Subject], workload: Workload, begin: int = 0) -> list[_Look]:
    subject, looks = make(), []
    for i, one in enumerate(workload.trace.completions):
        error = subject.predict(one).tokens - one.output_tokens if i >= begin else math.nan
        subject.learn(one, ())
        if i >= begin:
            # Estimates are lines, so that the mean one is that of the mean size.
            probe = replace(one, audio_s=workload.mean_size)
            looks.append(_Look(error, subject.predict(probe).tokens / workload.mean_tokens))
    return looks


def _runs(make: Callable[[], Subject], name: str) -> Iterator[list[_Look]]:
    for seed in range(N_SEEDS):
        yield _run(make, steady(name, seed, N))


def _steady(name: str) -> Figures:
    figures: Figures = {}
    errors: dict[str, tuple[float, float]] = {}
    for who, make in SUBJECTS.items():
        runs = list(_runs(make, name))
        off = [look.error for looks in runs for look in looks[N_SETTLE:]]
        errors[who] = (
            statistics.fmean(map(abs, off)),
            math.sqrt(statistics.fmean(e * e for e in off)),
        )
        means = [look.mean - 1.0 for looks in runs for look in looks[N // 2 :: _EVERY]]
        figures[f"bias_{who}"] = statistics.fmean(means)
        figures[f"off_{who}"] = statistics.fmean(map(abs, means))
    for who in ("ratio", "line"):
        figures[f"mae_over_{who}"] = errors["own"][0] / errors[who][0]
        figures[f"rmse_over_{who}"] = errors["own"][1] / errors[who][1]
    return figures


def measure_steady() -> dict[str, Figures]:
    """Give, by workload, how far the mean told is from the true one, and errors over references.

    ``bias`` is of the mean over seeds and the second half of 600 completions, ``off`` of its
    absolute value; mean absolute and root mean square errors are of single requests, after 100.
    """
    return {name: _steady(name) for name in STEADY}


def measure_after() -> dict[str, Figures]:
    """Give the bias so many completions after one clip, sent 200 times, is no longer alone."""
    table: dict[str, Figures] = {}
    for name in AFTER_ONE_CLIP:
        runs = [
            _run(PipelineSubject, after_one_clip(name, seed, N_REPEATED, N), N_REPEATED)
            for seed in range(N_SEEDS)
        ]
        figures = {f"bias_{k}": statistics.fmean(r[k - 1].mean for r in runs) - 1.0 for k in AFTER}
        late = [look.mean for looks in runs for look in looks[N // 2 :: _EVERY]]
        table[name] = figures | {"bias_late": statistics.fmean(late) - 1.0}
    return table


def measure_new() -> dict[str, Figures]:
    """Give a new language's bias and error over its first completions, in a model that is known.

    ``ratio`` is Σn/Σd of the same completions; before the first, it believes the prior.
    """
    table: dict[str, Figures] = {}
    for name in NEW_LANGUAGES:
        figures: Figures = {}
        for who in ("own", "ratio"):
            runs = [
                _run(SUBJECTS[who], new_language(name, seed, N_KNOWN, N_NEW), N_KNOWN)
                for seed in range(2 * N_SEEDS)
            ]
            for k in YOUNG:
                means = [looks[k - 1].mean - 1.0 for looks in runs]
                figures[f"bias_{who}_{k}"] = statistics.fmean(means)
                figures[f"off_{who}_{k}"] = statistics.fmean(map(abs, means))
        table[name] = figures
    return table


def worst_bias_over_line(table: dict[str, Figures]) -> float:
    """Give the largest difference from what least squares of the same completions are off by."""
    return max(abs(row["bias_own"] - row["bias_line"]) for row in table.values())
