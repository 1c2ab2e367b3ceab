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
    spreads_of,
    workload_of,
)
from estimator.replay.profile import EngineProfile
from estimator.replay.workload import Workload

__all__ = ["Found", "Start", "fit", "minimise", "objective", "with_costs"]

# A published number's error: the luck of its one run, and what no such model gets right, in
# quadrature. Beyond so many of these it counts in proportion (Huber).
_MODEL_ERROR: Final = 0.1
_HUBER: Final = 1.5
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
    factor, power : float
        Of the synthetic clips' tokens, see `workload_of`, > 0.
    synthetic : {"speech", "seconds"}
        See there.
    """

    profile: EngineProfile
    factor: float
    power: float
    synthetic: SyntheticTokens = "speech"


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """Where a search ended, what the objective is there, and how many were tried."""

    profile: EngineProfile
    factor: float
    power: float
    loss: float
    tried: int


COSTS: Final = ("step_s", "per_sequence_s", "admission_s", "mixed_step_s", "request_overhead_s")


def objective(logs: Sequence[float], spreads: Sequence[float]) -> float:
    """Sum Huber's function of ln ratios over their errors.

    Parameters
    ----------
    logs : sequence of float
        ln(predicted / published).
    spreads : sequence of float
        Of each, what one run of 500 requests leaves to luck.

    Examples
    --------
    >>> round(objective([0.1], [0.0]), 3), round(objective([0.3], [0.0]), 3)
    (0.333, 2.25)
    """
    scaled = (
        abs(one) / math.hypot(spread, _MODEL_ERROR)
        for one, spread in zip(logs, spreads, strict=True)
    )
    return math.fsum(
        one * one / (2.0 * _HUBER) if one < _HUBER else one - _HUBER / 2.0 for one in scaled
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

    def at(point: Sequence[float]) -> tuple[EngineProfile, float, float]:
        *costs, factor, power = map(math.exp, point)
        return with_costs(start.profile, dict(zip(names, costs, strict=True))), factor, power

    def workloads(factor: float, power: float) -> dict[str, Workload]:
        return {
            name: workload_of(name, speech, factor=factor, power=power, synthetic=start.synthetic)
            for name in WORKLOADS
        }

    spreads = spreads_of(fcfs, start.profile, workloads(start.factor, start.power), seeds)

    def loss_at(point: Sequence[float]) -> float:
        profile, factor, power = at(point)
        logs = logs_of(predict(fcfs, profile, workloads(factor, power), seeds), fcfs)
        loss = objective(logs, spreads)
        on_round(loss)
        return loss

    costs = [getattr(start.profile, name) for name in names]
    first = [math.log(one) for one in (*costs, start.factor, start.power)]
    point, loss, tried = minimise(loss_at, first, rounds=rounds)
    profile, factor, power = at(point)
    return Found(profile=profile, factor=factor, power=power, loss=loss, tried=tried)


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
