"""What points are worth in seconds of work, as a request is estimated to be."""

from dataclasses import replace
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
    As `ServiceTime.service_s`: a boundary in these seconds routes what it estimates.
    """
    tokens, prompts = np.maximum(points[:, 0], 1.0), points[:, 1]
    seconds = (
        service.overhead_s
        + service.seconds_per_prompt_token * prompts
        + service.seconds_per_token * tokens
    )
    if service.slot_context_tokens > 0.0:
        seconds *= np.maximum((prompts + 0.5 * tokens) / service.slot_context_tokens, 1.0)
    return np.asarray(np.log(np.maximum(seconds, _LEAST_S)))


def log_ratio(points: Array, service: ServiceTime) -> Array:
    """Give log(observed / expected residence) of each point, NaN where nothing was observed.

    Notes
    -----
    Residence and not work: what a context holds of memory is in the one and not in what was seen.
    """
    log_seconds = log_work(points, replace(service, slot_context_tokens=0.0))
    observed = points[:, 2]
    known = observed > 0.0
    return np.where(known, np.log(np.where(known, observed, 1.0)) - log_seconds, np.nan)
