"""What points are worth in seconds of work, as a request is estimated to be."""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from sched_client.model import ServiceTime

Array = NDArray[np.float64]

# Keeps logarithms finite; `sched_client.model.evaluate` has the same floor.
_LEAST_S: Final = 1e-4


def log_work(points: Array, service: ServiceTime) -> Array:
    """Give log seconds of work of each point at some rates, shape (n,).

    Parameters
    ----------
    points : ndarray, shape (n, 3)
        Estimated output tokens, prompt tokens, observed seconds.
    service : ServiceTime
        The rates.

    Notes
    -----
    As `sched_client.model.evaluate`: a boundary in these seconds routes what it estimates.
    """
    seconds = (
        service.overhead_s
        + service.seconds_per_prompt_token * points[:, 1]
        + service.seconds_per_token * np.maximum(points[:, 0], 1.0)
    )
    return np.asarray(np.log(np.maximum(seconds, _LEAST_S)))


def log_ratio(points: Array, log_seconds: Array) -> Array:
    """Give log(observed seconds / work) of each point, NaN where nothing was observed."""
    observed = points[:, 2]
    known = observed > 0.0
    return np.where(known, np.log(np.where(known, observed, 1.0)) - log_seconds, np.nan)
