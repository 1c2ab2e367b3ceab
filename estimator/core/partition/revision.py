"""What a fit came to: a partition with its history, and a status in words."""

from dataclasses import dataclass
from typing import Literal

from sched_client.settings import Partition

Reason = Literal["first", "count", "likelihood", "drift", "rates"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionRevision:
    """One partition that came into force.

    Attributes
    ----------
    model : str
        Served model's name.
    number : int
        Counts a model's revisions up from 1.
    partition : Partition
        The queues, in seconds of work.
    reason : {"first", "count", "likelihood", "drift", "rates"}
        Why the model was fitted.
    text : str
        What changed and why, for a person.
    completions : int
        The model's completions observed when it came into force.
    points : int
        Points that it was fitted to.
    """

    model: str
    number: int
    partition: Partition
    reason: Reason
    text: str
    completions: int
    points: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionStatus:
    """How a model's partition stands.

    Attributes
    ----------
    model : str
        Served model's name.
    text : str
        For a person: what holds, and where there is one queue, why.
    completions, points : int
        Completions observed, and points in the sample.
    fits, revisions : int
        Fits done, and how many of them changed the partition.
    """

    model: str
    text: str
    completions: int
    points: int
    fits: int
    revisions: int
