"""The contract of a store: history first, everything else can be rebuilt from it.

Every method may be called from one thread at a time (the learner's). Methods raise
`StoreError` where the world is at fault (disk full, read-only); nothing is half written.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, Protocol

from estimator.core.drift_event import DriftEvent
from estimator.core.observation import Completion
from sched_client.model import Mode, Partition

__all__ = [
    "KEPT_CHECKPOINTS",
    "AppendResult",
    "Checkpoint",
    "KappaPoint",
    "ModeChange",
    "PartitionRecord",
    "RequestName",
    "Store",
    "StoreError",
    "StoredCompletion",
]


# One being damaged must not mean a replay from nothing; each may hold megabytes.
KEPT_CHECKPOINTS: Final = 3


class StoreError(Exception):
    """The store could not read or write; the message names the file and the remedy."""


class StoredCompletion(NamedTuple):
    """A completion with the row id that orders the history."""

    row_id: int
    completion: Completion


class RequestName(NamedTuple):
    """What tells one stored request from another; the hash is empty where none was sent."""

    row_id: int
    completion_id: str
    request_hash: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AppendResult:
    """What became of a batch; indices are into the batch.

    Attributes
    ----------
    accepted : tuple of StoredCompletion
        New rows, committed.
    duplicate_indices : tuple of int
        Known ids: counted once, not learned again.
    too_old_indices : tuple of int
        Finished before the retention window, so that a duplicate could not be recognised.
    """

    accepted: tuple[StoredCompletion, ...]
    duplicate_indices: tuple[int, ...] = ()
    too_old_indices: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """The learner's state after a row of the history.

    Attributes
    ----------
    row_id : int
        The last row that the state has learned.
    state : Mapping
        JSON-serialisable; its ``schema`` entry is the state's own version. An iterator in it
        stands for a list, and is read once by the store that saves it.
    snapshot_version : int
        The last version published; versions go on from here.
    created_s : float
        Unix time.
    """

    row_id: int
    state: Mapping[str, Any]  # Any: JSON, whose shape the core owns.
    snapshot_version: int
    created_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class KappaPoint:
    """κ of one key at one moment."""

    model: str
    task: str
    language: str
    timestamps: bool | None
    recorded_s: float
    kappa_tokens_per_s: float
    intercept_tokens: float
    sample_count: int
    snapshot_version: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ModeChange:
    """One switch of the mode, with who asked and why."""

    changed_s: float
    mode: Mode
    previous_mode: Mode
    actor: str
    reason: str
    request_id: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionRecord:
    """One partition that came into force.

    Attributes
    ----------
    model : str
        Served model's name.
    number : int
        Counts a model's revisions up from 1.
    partition : Partition
        The queues.
    reason : str
        Why the model was fitted: ``first``, ``count``, ``likelihood``, ``drift`` or ``rates``.
    text : str
        What changed and why, for a person.
    completions, points : int
        The model's completions then, and the points that were fitted to.
    fit_s : float
        Seconds that the fit took.
    installed_s : float
        Unix time.
    snapshot_version : int
        The newest snapshot then.
    """

    model: str
    number: int
    partition: Partition
    reason: str
    text: str
    completions: int
    points: int
    fit_s: float
    installed_s: float
    snapshot_version: int


class Store(Protocol):
    """Everything that survives a restart.

    Attributes
    ----------
    instance_id : str
        Made when the store is made; changes only when history is reset.
    """

    instance_id: str

    def append(self, completions: Sequence[Completion]) -> AppendResult:
        """Commit a batch; on return the accepted rows are durable as `docs` states."""

    def read(self, *, after_row_id: int = 0, limit: int = 1000) -> list[StoredCompletion]:
        """Give rows in order, at most ``limit``, with ids above ``after_row_id``."""

    def count(self) -> int:
        """Give the number of retained completions."""

    def last_row_id(self) -> int:
        """Give the highest row id ever given, 0 for none."""

    def find(self, completion_id: str) -> StoredCompletion | None:
        """Look one completion up by its id."""

    def read_request_names(
        self, *, before_row_id: int | None = None, limit: int = 1000
    ) -> list[RequestName]:
        """Give names newest first, at most ``limit``, with row ids below ``before_row_id``."""

    def save_checkpoint(self, checkpoint: Checkpoint) -> None:
        """Keep a checkpoint; a bounded number of older ones stays readable."""

    def load_checkpoint(self) -> Checkpoint | None:
        """Give the newest readable checkpoint, skipping a damaged one."""

    def append_kappa_points(self, points: Sequence[KappaPoint]) -> None:
        """Record κ history (bounded for each key)."""

    def list_kappa_points(
        self,
        *,
        model: str = "",
        language: str = "",
        before_id: int | None = None,
        limit: int = 1000,
    ) -> list[tuple[int, KappaPoint]]:
        """Give history newest first with row ids; empty filters match all."""

    def save_drift(self, event: DriftEvent) -> None:
        """Record a drift event, or its end."""

    def list_drifts(
        self, *, before_id: int | None = None, limit: int = 1000
    ) -> list[tuple[int, DriftEvent]]:
        """Give events newest first with row ids that do not change when an end is set."""

    def append_partition(self, record: PartitionRecord) -> None:
        """Record a partition that came into force (bounded in all)."""

    def list_partitions(
        self, *, model: str = "", before_id: int | None = None, limit: int = 1000
    ) -> list[tuple[int, PartitionRecord]]:
        """Give partitions newest first with row ids; an empty model matches all."""

    def append_mode_change(self, change: ModeChange) -> None:
        """Record a switch of the mode."""

    def list_mode_changes(self, *, limit: int = 100) -> list[ModeChange]:
        """Give the switches, newest first."""

    def find_mode_change(self, request_id: str) -> ModeChange | None:
        """Find the switch that carried a request id, so that a repetition changes nothing."""

    def close(self) -> None:
        """Finish writing and release the file; further calls raise StoreError."""
