"""Finds an engine's costs from the paper's FCFS numbers alone.

Owns the objective and the search. SJF's and HRRN's numbers are never looked at here.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Final

from estimator.replay.paper import (
    WORKLOADS,
    Cell,
    Numbers,
    Speech,
    SyntheticTokens,
    logs_of,
    predict,
    workload_of,
)
from estimator.replay.profile import EngineProfile

__all__ = ["Found", "Start", "fit", "minimise", "objective", "with_costs"]

# Errors beyond this count in proportion: each number is one run of 500 requests.
_HUBER: Final = 0.25
# Nelder and Mead's own coefficients (The Computer Journal 7, 1965).
_REFLECT, _EXPAND, _CONTRACT, _SHRINK = 1.0, 2.0, 0.5, 0.5
# Width of the first simplex in logarithms, and where the search stops.
_FIRST_STEP: Final = 0.2
_WITHIN: Final = 1e-3


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """Where a search begins.

    Attributes
    ----------
    profile : EngineProfile
        Its costs that are not 0 are searched, each > 0; what is 0 stays 0.
    factor : float
        Scale of the synthetic clips' tokens, see `workload_of`.
    synthetic : {"speech", "seconds"}
        See there.
    """

    profile: EngineProfile
    factor: float
    synthetic: SyntheticTokens


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """Where a search ended, what the objective is there, and how many were tried."""

    profile: EngineProfile
    factor: float
    loss: float
    tried: int


COSTS: Final = ("step_s", "per_sequence_s", "admission_s", "mixed_step_s", "request_overhead_s")


def objective(logs: Sequence[float]) -> float:
    """Sum Huber's function of ln ratios.

    Examples
    --------
    >>> objective([0.25, -0.5])
    0.5
    """
    return math.fsum(
        one * one / (2.0 * _HUBER) if abs(one) < _HUBER else abs(one) - _HUBER / 2.0
        for one in logs
    )


def fit(
    published: Mapping[Cell, Numbers],
    speech: Speech,
    start: Start,
    *,
    seeds: Sequence[int],
    rounds: int,
    on_round: Callable[[float], object] = lambda _: None,
) -> Found:
    """Search for the costs under which the FCFS numbers come out.

    Parameters
    ----------
    published : Mapping of Cell to Numbers
        Any cells; those of other policies than fcfs are left out.
    speech : Speech
        LibriSpeech.
    start : Start
        Where to begin.
    seeds : sequence of int
        Runs that a number is the median of.
    rounds : int
        Objectives to work out, about; each costs 12 runs of 500 requests a seed.
    on_round : callable, optional
        Takes each objective.
    """
    fcfs = {cell: numbers for cell, numbers in published.items() if cell.policy == "fcfs"}
    names = [name for name in COSTS if getattr(start.profile, name) > 0.0]

    def at(point: Sequence[float]) -> tuple[EngineProfile, float]:
        *costs, factor = map(math.exp, point)
        return with_costs(start.profile, dict(zip(names, costs, strict=True))), factor

    def loss_at(point: Sequence[float]) -> float:
        profile, factor = at(point)
        workloads = {
            name: workload_of(name, speech, factor=factor, synthetic=start.synthetic)
            for name in WORKLOADS
        }
        loss = objective(logs_of(predict(fcfs, profile, workloads, seeds), fcfs))
        on_round(loss)
        return loss

    first = [math.log(getattr(start.profile, name)) for name in names] + [math.log(start.factor)]
    point, loss, tried = minimise(loss_at, first, rounds=rounds)
    profile, factor = at(point)
    return Found(profile=profile, factor=factor, loss=loss, tried=tried)


def with_costs(profile: EngineProfile, costs: Mapping[str, float]) -> EngineProfile:
    """Give the profile with these seconds, by field."""
    values = asdict(profile) | dict(costs)
    return EngineProfile.from_mapping(values, origin=profile.name)


def minimise(
    function: Callable[[Sequence[float]], float], first: Sequence[float], *, rounds: int
) -> tuple[list[float], float, int]:
    """Minimise without derivatives, by Nelder and Mead's simplex.

    Parameters
    ----------
    function : callable
        Of a point.
    first : sequence of float
        A corner of the first simplex; the others lie 0.2 further along one axis each.
    rounds : int
        Values of the function after which no further step is begun.

    Returns
    -------
    tuple of (list of float, float, int)
        The best point, its value, and how many values were worked out.
    """
    n = len(first)
    tried = 0

    def value(point: list[float]) -> tuple[float, list[float]]:
        nonlocal tried
        tried += 1
        return function(point), point

    def moved(step: float) -> tuple[float, list[float]]:
        worst = simplex[-1][1]
        return value([c + step * (c - w) for c, w in zip(centre, worst, strict=True)])

    corners = [[x + _FIRST_STEP * (i == j) for i, x in enumerate(first)] for j in range(-1, n)]
    simplex = sorted(value(corner) for corner in corners)
    while tried < rounds and _spread(simplex) > _WITHIN:
        centre = [math.fsum(x) / n for x in zip(*(p for _, p in simplex[:-1]), strict=True)]
        reflected = moved(_REFLECT)
        if reflected[0] < simplex[0][0]:
            simplex[-1] = min(reflected, moved(_EXPAND))
        elif reflected[0] < simplex[-2][0]:
            simplex[-1] = reflected
        else:
            inside = reflected[0] >= simplex[-1][0]
            contracted = moved(-_CONTRACT if inside else _CONTRACT)
            if contracted[0] < min(reflected[0], simplex[-1][0]):
                simplex[-1] = contracted
            else:
                best = simplex[0][1]
                simplex[1:] = [
                    value([b + _SHRINK * (x - b) for b, x in zip(best, point, strict=True)])
                    for _, point in simplex[1:]
                ]
        simplex.sort()
    return simplex[0][1], simplex[0][0], tried


def _spread(simplex: Sequence[tuple[float, list[float]]]) -> float:
    """Give how far the corners lie apart along any axis."""
    corners = [point for _, point in simplex]
    n = len(corners[0])
    return max(max(c[j] for c in corners) - min(c[j] for c in corners) for j in range(n))
