"""Queues of like cost, found in what completes: sample, refine, prune, keep the names.

`PartitionTable` is the door. Pure: no clock, thread or file.
"""

from estimator.core.partition.config import PartitionConfig
from estimator.core.partition.fitting import Fit, FitJob, fit
from estimator.core.partition.revision import PartitionRevision, PartitionStatus
from estimator.core.partition.table import PartitionTable

__all__ = [
    "Fit",
    "FitJob",
    "PartitionConfig",
    "PartitionRevision",
    "PartitionStatus",
    "PartitionTable",
    "fit",
]
