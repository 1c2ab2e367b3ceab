"""A store that forgets when the process ends: for tests, the replay, and trials.

Behaves as `SqliteStore` does, which the conformance suite holds both to.
"""

import json
import time
import uuid
from collections import Counter, deque
from collections.abc import Callable, Sequence

from estimator.core.drift_event import DriftEvent
from estimator.core.observation import Completion
from estimator.store.base import (
    KEPT_CHECKPOINTS,
    AppendResult,
    Checkpoint,
    KappaPoint,
    ModeChange,
    PartitionRecord,
    RequestName,
    StoredCompletion,
    StoreError,
)
from estimator.store.state_text import text_of
from sched_client.model import Key

__all__ = ["MemoryStore"]


class MemoryStore:
    """History in memory.

    Parameters
    ----------
    max_completions : int
        Completions retained, ≥ 1; about 1 kB each.
    max_kappa_points_per_key, max_kappa_points : int
        κ points retained for each key and in all, ≥ 1.
    max_drift_events, max_partitions, max_mode_changes : int
        Rows retained, ≥ 1.
    now_s : callable
        Unix time; an end that lies after it does not move the retention horizon.
    """

    def __init__(
        self,
        *,
        max_completions: int = 100_000,
        max_kappa_points_per_key: int = 2_000,
        max_kappa_points: int = 200_000,
        max_drift_events: int = 10_000,
        max_partitions: int = 10_000,
        max_mode_changes: int = 1_000,
        now_s: Callable[[], float] = time.time,
    ) -> None:
        self.max_completions = max_completions
        self.max_kappa_points_per_key = max_kappa_points_per_key
        self.max_kappa_points = max_kappa_points
        self.max_drift_events = max_drift_events
        for name in ("completions", "kappa_points_per_key", "kappa_points", "drift_events"):
            if getattr(self, f"max_{name}") < 1:
                raise ValueError(
                    f"max_{name} is {getattr(self, f'max_{name}')}, it must be at least 1"
                )
        for name, limit in (("mode_changes", max_mode_changes), ("partitions", max_partitions)):
            if limit < 1:
                raise ValueError(f"max_{name} is {limit}, it must be at least 1")
        self.instance_id = str(uuid.uuid4())
        self._now_s = now_s
        self._closed = False
        # Row ids have no gaps: the rows are those from _first to _last.
        self._rows: dict[int, StoredCompletion] = {}
        self._row_of: dict[str, int] = {}
        self._received_s: dict[int, float] = {}
        self._first = 1
        self._last = 0
        self._horizon_s = float("-inf")
        self._checkpoints: deque[tuple[Checkpoint, str]] = deque(maxlen=KEPT_CHECKPOINTS)
        self._points: dict[int, KappaPoint] = {}
        self._n_points: Counter[Key] = Counter()
        self._last_point = 0
        self._drifts: dict[int, DriftEvent] = {}
        self._last_drift = 0
        self._partitions: deque[tuple[int, PartitionRecord]] = deque(maxlen=max_partitions)
        self._last_partition = 0
        self._modes: deque[ModeChange] = deque(maxlen=max_mode_changes)

    def _check_open(self) -> None:
        if self._closed:
            raise StoreError("store in memory is closed; make a new one")

    def append(self, completions: Sequence[Completion]) -> AppendResult:
        """Keep a batch; see `SqliteStore.append`."""
        self._check_open()
        received_s = self._now_s()
        if self._horizon_s > received_s:  # made while our own clock ran ahead
            self._horizon_s = float("-inf")
        accepted: list[StoredCompletion] = []
        duplicates: list[int] = []
        too_old: list[int] = []
        for index, completion in enumerate(completions):
            if completion.completion_id in self._row_of:
                duplicates.append(index)
            elif completion.finished_s <= self._horizon_s:
                too_old.append(index)
            else:
                self._last += 1
                stored = StoredCompletion(self._last, completion)
                self._rows[self._last] = stored
                self._row_of[completion.completion_id] = self._last
                self._received_s[self._last] = received_s
                accepted.append(stored)
        while len(self._rows) > self.max_completions:
            self._trim_oldest(received_s)
        return AppendResult(
            accepted=tuple(accepted),
            duplicate_indices=tuple(duplicates),
            too_old_indices=tuple(too_old),
        )

    def _trim_oldest(self, now_s: float) -> None:
        completion = self._rows.pop(self._first).completion
        del self._row_of[completion.completion_id]
        ended_s = min(completion.finished_s, self._received_s.pop(self._first))
        if ended_s <= now_s:
            self._horizon_s = max(self._horizon_s, ended_s)
        self._first += 1

    def read(self, *, after_row_id: int = 0, limit: int = 1000) -> list[StoredCompletion]:
        """Give rows in order, at most ``limit``, with ids above ``after_row_id``."""
        self._check_open()
        start = max(after_row_id + 1, self._first)
        return [self._rows[row] for row in range(start, min(start + limit, self._last + 1))]

    def count(self) -> int:
        """Give the number of retained completions."""
        self._check_open()
        return len(self._rows)

    def last_row_id(self) -> int:
        """Give the highest row id ever given, 0 for none."""
        self._check_open()
        return self._last

    def find(self, completion_id: str) -> StoredCompletion | None:
        """Look one completion up by its id."""
        self._check_open()
        row_id = self._row_of.get(completion_id)
        return None if row_id is None else self._rows[row_id]

    def read_request_names(
        self, *, before_row_id: int | None = None, limit: int = 1000
    ) -> list[RequestName]:
        """Give names newest first, at most ``limit``, with row ids below ``before_row_id``."""
        self._check_open()
        end = self._last + 1 if before_row_id is None else min(before_row_id, self._last + 1)
        rows = (self._rows[row] for row in range(end - 1, max(self._first, end - limit) - 1, -1))
        return [
            RequestName(row.row_id, row.completion.completion_id, row.completion.request_hash)
            for row in rows
        ]

    def save_checkpoint(self, checkpoint: Checkpoint) -> None:
        """Keep a checkpoint as JSON, as a file would."""
        self._check_open()
        self._checkpoints.append((checkpoint, text_of(checkpoint.state, strict=False)))

    def load_checkpoint(self) -> Checkpoint | None:
        """Give the newest checkpoint."""
        self._check_open()
        if not self._checkpoints:
            return None
        checkpoint, state = self._checkpoints[-1]
        return Checkpoint(
            row_id=checkpoint.row_id,
            state=json.loads(state),
            snapshot_version=checkpoint.snapshot_version,
            created_s=checkpoint.created_s,
        )

    def append_kappa_points(self, points: Sequence[KappaPoint]) -> None:
        """Record κ history; the oldest points of a full key go, then the oldest of all."""
        self._check_open()
        for point in points:
            key = _key_of(point)
            self._last_point += 1
            self._points[self._last_point] = point
            self._n_points[key] += 1
            if self._n_points[key] > self.max_kappa_points_per_key:
                self._drop_point(
                    next(i for i, kept in self._points.items() if _key_of(kept) == key)
                )
        while len(self._points) > self.max_kappa_points:
            self._drop_point(next(iter(self._points)))

    def _drop_point(self, point_id: int) -> None:
        self._n_points[_key_of(self._points.pop(point_id))] -= 1

    def list_kappa_points(
        self,
        *,
        model: str = "",
        language: str = "",
        before_id: int | None = None,
        limit: int = 1000,
    ) -> list[tuple[int, KappaPoint]]:
        """Give history newest first with row ids; empty filters match all."""
        self._check_open()
        return [
            (point_id, point)
            for point_id, point in reversed(self._points.items())
            if (before_id is None or point_id < before_id)
            and model in ("", point.model)
            and language in ("", point.language)
        ][:limit]

    def save_drift(self, event: DriftEvent) -> None:
        """Record a drift event; the same id again replaces it under the same row id."""
        self._check_open()
        for drift_id, known in self._drifts.items():
            if known.event_id == event.event_id:
                self._drifts[drift_id] = event
                return
        self._last_drift += 1
        self._drifts[self._last_drift] = event
        self._drifts.pop(self._last_drift - self.max_drift_events, None)

    def list_drifts(
        self, *, before_id: int | None = None, limit: int = 1000
    ) -> list[tuple[int, DriftEvent]]:
        """Give events newest first with row ids that do not change when an end is set."""
        self._check_open()
        return [
            (drift_id, event)
            for drift_id, event in reversed(self._drifts.items())
            if before_id is None or drift_id < before_id
        ][:limit]

    def append_partition(self, record: PartitionRecord) -> None:
        """Record a partition that came into force; the oldest of all go."""
        self._check_open()
        self._last_partition += 1
        self._partitions.append((self._last_partition, record))

    def list_partitions(
        self, *, model: str = "", before_id: int | None = None, limit: int = 1000
    ) -> list[tuple[int, PartitionRecord]]:
        """Give partitions newest first with row ids; an empty model matches all."""
        self._check_open()
        return [
            (row_id, record)
            for row_id, record in reversed(self._partitions)
            if (before_id is None or row_id < before_id) and model in ("", record.model)
        ][:limit]

    def append_mode_change(self, change: ModeChange) -> None:
        """Record a switch of the mode."""
        self._check_open()
        self._modes.append(change)

    def list_mode_changes(self, *, limit: int = 100) -> list[ModeChange]:
        """Give the switches, newest first."""
        self._check_open()
        return list(reversed(self._modes))[:limit]

    def find_mode_change(self, request_id: str) -> ModeChange | None:
        """Find the newest switch that carried a request id; an empty id finds none."""
        self._check_open()
        if not request_id:
            return None
        return next((c for c in reversed(self._modes) if c.request_id == request_id), None)

    def close(self) -> None:
        """Refuse further calls; what was stored is gone."""
        self._closed = True


def _key_of(point: KappaPoint) -> Key:
    return Key(point.model, point.task, point.language, point.timestamps)
