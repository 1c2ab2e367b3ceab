"""Fewer queues: none with too little in it, then none that says too little."""

from collections.abc import Sequence

import numpy as np

from estimator.core.partition.mixture import Array
from estimator.core.partition.refine import Cut


def prune(
    x: Array, cuts: Sequence[Cut], *, least_points: float, max_queues: int
) -> tuple[Cut, ...]:
    """Take out cuts until each queue holds enough and there are few enough.

    Parameters
    ----------
    x : ndarray of float64, shape (n,)
        Log work, ascending.
    cuts : sequence of Cut
        Ascending.
    least_points : float
        Least points of a queue.
    max_queues : int
        Most queues, ≥ 1.

    Notes
    -----
    A queue with too little in it goes to the neighbour whose mean is nearer. Then the adjacent
    pair of least utility becomes one: n₁n₂/(n₁ + n₂) · (m₁ − m₂)², the variance of log work that
    the cut explains. EWSJF's utility, (ρ₁ + ρ₂)/(|b₂ − b₁| + ε), is least for light queues that
    lie far apart, which are the ones that a cut between them is worth most for.

    References
    ----------
    Ward (1963), "Hierarchical grouping to optimize an objective function", JASA 58.
    """
    kept = list(cuts)
    while kept:
        counts, means = _queues(x, kept)
        lightest = int(counts.argmin())
        if counts[lightest] < least_points:
            kept.pop(_nearer_cut(lightest, counts, means))
        elif len(counts) > max_queues:
            left, right = counts[:-1], counts[1:]
            utility = left * right / (left + right) * np.diff(means) ** 2
            kept.pop(int(utility.argmin()))
        else:
            break
    return tuple(kept)


def _queues(x: Array, cuts: Sequence[Cut]) -> tuple[Array, Array]:
    """Give the points in each queue and their mean log work (that of its edge if empty)."""
    edges = np.searchsorted(x, [cut.at for cut in cuts], side="left")
    starts, ends = np.concatenate([[0], edges]), np.concatenate([edges, [len(x)]])
    sums = np.concatenate([[0.0], np.cumsum(x)])
    counts = (ends - starts).astype(np.float64)
    edge = np.array([cut.at for cut in cuts] + [cuts[-1].at])
    means = np.where(counts > 0.0, (sums[ends] - sums[starts]) / np.maximum(counts, 1.0), edge)
    return counts, means


def _nearer_cut(queue: int, counts: Array, means: Array) -> int:
    """Give the cut between a queue and the neighbour whose mean is nearer."""
    if queue == 0:
        return 0
    if queue == len(counts) - 1:
        return queue - 1
    below, above = means[queue] - means[queue - 1], means[queue + 1] - means[queue]
    return queue - 1 if below <= above else queue
