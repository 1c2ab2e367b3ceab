"""From cuts to queues in seconds: boundaries, where work was seen, means and shares."""

from collections.abc import Sequence
from typing import Final

import numpy as np

from estimator.core.partition.mixture import Array
from estimator.core.partition.refine import Cut
from sched_client.settings import Partition

# What a queue was seen to hold, a few stray points left out: they would hide the next one, for
# which a bubble is meant.
_EXTENT: Final = (0.005, 0.995)


def queues_of(x: Array, cuts: Sequence[Cut], queue_ids: Sequence[str]) -> Partition:
    """Describe the queues between cuts.

    Parameters
    ----------
    x : ndarray of float64, shape (n,)
        Log seconds of work, ascending; no queue is empty.
    cuts : sequence of Cut
        Ascending, one fewer than ``queue_ids``.
    queue_ids : sequence of str
        Names, shortest work first.

    Returns
    -------
    Partition
        In seconds. Lowers and uppers are the 0.5th and 99.5th percentile of a queue's points.
    """
    parts = np.split(x, np.searchsorted(x, [cut.at for cut in cuts], side="left"))
    extents = [np.exp(np.quantile(part, _EXTENT)) for part in parts]
    return Partition(
        boundaries_s=tuple(float(np.exp(cut.at)) for cut in cuts),
        queue_ids=tuple(queue_ids),
        lowers_s=tuple(float(low) for low, _ in extents),
        uppers_s=tuple(float(high) for _, high in extents),
        means_s=tuple(float(np.exp(part).mean()) for part in parts),
        shares=tuple(len(part) / len(x) for part in parts),
    )
