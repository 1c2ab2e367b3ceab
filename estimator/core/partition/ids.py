"""Names of queues that outlive a refit: the same class keeps its name."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray


def overlaps(
    old: NDArray[np.intp], new: NDArray[np.intp], n_old: int, n_new: int
) -> NDArray[np.float64]:
    """Give how many points are in each old and each new queue, shape (n_old, n_new)."""
    counts = np.bincount(old * n_new + new, minlength=n_old * n_new)
    return counts.reshape(n_old, n_new).astype(np.float64)


def carried(overlap: NDArray[np.float64]) -> list[int | None]:
    """Match new queues with old ones, in order, by the most points they share.

    Parameters
    ----------
    overlap : ndarray of float64, shape (n_old, n_new)
        Points in both, as `overlaps` gives.

    Returns
    -------
    list of int or None
        The old queue of each new one, ascending; None for one that is new.

    Notes
    -----
    The alignment of both orders that keeps the most points in a queue of the same name; a match
    must hold half of one of the two. Dynamic programming, O(n_old · n_new).
    """
    n_old, n_new = overlap.shape
    of_old, of_new = overlap.sum(axis=1), overlap.sum(axis=0)
    least = 0.5 * np.minimum(of_old[:, None], of_new[None, :])
    gain = np.where((overlap >= least) & (overlap > 0.0), overlap, 0.0)
    best = np.zeros((n_old + 1, n_new + 1))
    for i in range(n_old):
        for j in range(n_new):
            best[i + 1, j + 1] = max(best[i, j + 1], best[i + 1, j], best[i, j] + gain[i, j])
    matches: list[int | None] = [None] * n_new
    i, j = n_old, n_new
    while i and j:
        if best[i, j] == best[i - 1, j]:
            i -= 1
        elif best[i, j] == best[i, j - 1]:
            j -= 1
        else:
            i, j = i - 1, j - 1
            matches[j] = i
    return matches


def named(
    matches: Sequence[int | None], old_ids: Sequence[str], next_number: int
) -> tuple[tuple[str, ...], int]:
    """Give the new queues' names and the next free number; a name is never used again."""
    names: list[str] = []
    for match in matches:
        if match is None:
            names.append(f"q{next_number}")
            next_number += 1
        else:
            names.append(old_ids[match])
    return tuple(names), next_number
