"""The smaller tables of the SQLite store: checkpoints, κ history, drift events, modes.

Each is bounded by a named limit. Knows rows and SQL; the transactions are `SqliteStore`'s.
"""

import abc
import hashlib
import json
import sqlite3
from collections import Counter
from collections.abc import Sequence
from contextlib import AbstractContextManager
from operator import attrgetter
from typing import Any, Final

from estimator.core.drift_event import DriftEvent
from estimator.store.base import (
    KEPT_CHECKPOINTS,
    Checkpoint,
    KappaPoint,
    ModeChange,
    PartitionRecord,
)
from estimator.store.sqlite_file import Synchronous
from estimator.store.sqlite_partitions import insert_partition, select_partitions
from estimator.store.sqlite_rows import Code, Labels
from estimator.store.state_text import text_of

__all__ = ["SqliteHistory", "checksum"]

_DRIFT_COLUMNS: Final = (
    "event_id, kind, model, task, language, timestamps, detected_s, before, after, "
    "completions_to_adapt, ended_s, z, completions_to_detect, detail"
)
_MODE_COLUMNS: Final = "changed_s, mode, previous_mode, actor, reason, request_id"
# A row that is above every real one: "from the newest on".
_NO_BOUND: Final = 2**62

_numbers_of: Final = attrgetter(
    "recorded_s", "kappa_tokens_per_s", "intercept_tokens", "sample_count", "snapshot_version"
)

_KappaKey = tuple[Code, Code, Code, int | None]


def checksum(row_id: int, snapshot_version: int, created_s: float, state: str) -> str:
    """Give the SHA-256 of a checkpoint, its row and version included."""
    digest = hashlib.sha256(f"{row_id} {snapshot_version} {created_s!r} ".encode())
    digest.update(state.encode("utf-8", "surrogatepass"))
    return digest.hexdigest()


class SqliteHistory(abc.ABC):
    """The part of `SqliteStore` that is not completions; parameters as there."""

    _labels: Labels

    def __init__(
        self,
        *,
        max_kappa_points_per_key: int,
        max_kappa_points: int,
        max_drift_events: int,
        max_partitions: int,
        max_mode_changes: int,
        synchronous: Synchronous,
    ) -> None:
        self.max_kappa_points_per_key = max_kappa_points_per_key
        self.max_kappa_points = max_kappa_points
        self.max_drift_events = max_drift_events
        self.max_partitions = max_partitions
        self.max_mode_changes = max_mode_changes
        self.synchronous = synchronous
        for name in (
            "kappa_points_per_key", "kappa_points", "drift_events", "partitions", "mode_changes",
        ):  # fmt: skip
            if getattr(self, f"max_{name}") < 1:
                raise ValueError(
                    f"max_{name} is {getattr(self, f'max_{name}')}, it must be at least 1"
                )
        # Points retained for each key, so that only a key that is full costs a deletion.
        self._n_points: Counter[_KappaKey] = Counter()

    @abc.abstractmethod
    def _reading(self) -> AbstractContextManager[sqlite3.Connection]:
        """Give the connection, translating its errors."""

    @abc.abstractmethod
    def _writing(self) -> AbstractContextManager[sqlite3.Connection]:
        """Give the connection within a transaction."""

    def _load_history(self, connection: sqlite3.Connection) -> None:
        self._n_points = Counter(
            {
                (model, task, language, timestamps): count
                for model, task, language, timestamps, count in connection.execute(
                    "SELECT model, task, language, timestamps, COUNT(*) FROM kappa_point "
                    "GROUP BY model, task, language, timestamps"
                )
            }
        )

    def save_checkpoint(self, checkpoint: Checkpoint) -> None:
        """Keep a checkpoint, and two older ones."""
        state = text_of(checkpoint.state, strict=False)
        row = (checkpoint.row_id, checkpoint.snapshot_version, float(checkpoint.created_s), state)
        with self._writing() as connection:
            # Python keeps a statement, and SQLite a copy of what is bound to it: 12 MiB of text.
            # The second execution inserts nothing and lets go of it.
            for values, wanted in (((*row, checksum(*row)), 1), ((0, 0, 0.0, "", ""), 0)):
                connection.execute(
                    "INSERT INTO checkpoint (row_id, snapshot_version, created_s, state, sha256) "
                    "SELECT ?, ?, ?, ?, ? WHERE ?",
                    (*values, wanted),
                )
            connection.execute(
                "DELETE FROM checkpoint WHERE checkpoint_id <= "
                "(SELECT MAX(checkpoint_id) FROM checkpoint) - ?",
                (KEPT_CHECKPOINTS,),
            )

    def load_checkpoint(self) -> Checkpoint | None:
        """Give the newest readable checkpoint, skipping a damaged one."""
        with self._reading() as connection:
            rows = connection.execute(
                "SELECT row_id, snapshot_version, created_s, state, sha256 FROM checkpoint "
                "ORDER BY checkpoint_id DESC"
            )
            for *values, sha256 in rows:
                row_id, snapshot_version, created_s, text = values
                if not isinstance(text, str) or checksum(*values) != sha256:
                    continue
                try:
                    state = json.loads(text)
                except ValueError:
                    continue
                return Checkpoint(
                    row_id=row_id,
                    state=state,
                    snapshot_version=snapshot_version,
                    created_s=created_s,
                )
        return None

    def append_kappa_points(self, points: Sequence[KappaPoint]) -> None:
        """Record κ history; the oldest points of a full key go, then the oldest of all."""
        counts = self._n_points.copy()
        with self._writing() as connection:
            keys = list(map(self._key_of, points))
            connection.executemany(
                "INSERT INTO kappa_point (model, task, language, timestamps, recorded_s, "
                "kappa_tokens_per_s, intercept_tokens, sample_count, snapshot_version) "
                "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
                [(*key, *_numbers_of(point)) for key, point in zip(keys, points, strict=True)],
            )
            counts.update(keys)
            for key in dict.fromkeys(keys):
                excess = counts[key] - self.max_kappa_points_per_key
                if excess > 0:
                    self._delete_oldest_of_key(connection, key, excess)
                    counts[key] -= excess
            self._delete_oldest_of_all(connection, counts)
        self._n_points = counts

    def _key_of(self, point: KappaPoint) -> _KappaKey:
        timestamps = None if point.timestamps is None else int(point.timestamps)
        labels = self._labels
        return labels[point.model], labels[point.task], labels[point.language], timestamps

    @staticmethod
    def _delete_oldest_of_key(connection: sqlite3.Connection, key: _KappaKey, excess: int) -> None:
        connection.execute(
            "DELETE FROM kappa_point WHERE point_id IN (SELECT point_id FROM kappa_point "
            "WHERE model = ? AND task = ? AND language = ? AND timestamps IS ? "
            "ORDER BY point_id LIMIT ?)",
            (*key, excess),
        )

    def _delete_oldest_of_all(
        self, connection: sqlite3.Connection, counts: Counter[_KappaKey]
    ) -> None:
        excess = counts.total() - self.max_kappa_points
        if excess <= 0:
            return
        rows = connection.execute(
            "SELECT point_id, model, task, language, timestamps FROM kappa_point "
            "ORDER BY point_id LIMIT ?",
            (excess,),
        ).fetchall()
        for _, *key in rows:
            gone = (key[0], key[1], key[2], key[3])
            counts[gone] -= 1
            if not counts[gone]:
                del counts[gone]
        connection.execute("DELETE FROM kappa_point WHERE point_id <= ?", (rows[-1][0],))

    def list_kappa_points(
        self,
        *,
        model: str = "",
        language: str = "",
        before_id: int | None = None,
        limit: int = 1000,
    ) -> list[tuple[int, KappaPoint]]:
        """Give history newest first with row ids; empty filters match all."""
        where = ["point_id < ?"]
        # Any: codes and numbers.
        values: list[Any] = [_NO_BOUND if before_id is None else before_id]
        for column, name in (("model", model), ("language", language)):
            if name:
                where.append(f"{column} = ?")
                # get: a name that was never stored must not become a label by being asked for.
                values.append(self._labels.get(name, name))
        with self._reading() as connection:
            rows = connection.execute(
                "SELECT point_id, model, task, language, timestamps, recorded_s, "  # noqa: S608 - column names above
                "kappa_tokens_per_s, intercept_tokens, sample_count, snapshot_version "
                f"FROM kappa_point WHERE {' AND '.join(where)} ORDER BY point_id DESC LIMIT ?",
                (*values, limit),
            )
            return [(row[0], self._point_of(row)) for row in rows]

    def _point_of(self, row: tuple[Any, ...]) -> KappaPoint:  # Any: a row of mixed types.
        text = self._labels.text
        return KappaPoint(
            model=text(row[1]),
            task=text(row[2]),
            language=text(row[3]),
            timestamps=None if row[4] is None else bool(row[4]),
            recorded_s=row[5],
            kappa_tokens_per_s=row[6],
            intercept_tokens=row[7],
            sample_count=row[8],
            snapshot_version=row[9],
        )

    def save_drift(self, event: DriftEvent) -> None:
        """Record a drift event; the same id again replaces it under the same row id."""
        with self._writing() as connection:
            connection.execute(
                f"INSERT INTO drift_event ({_DRIFT_COLUMNS}) "  # noqa: S608 - constants
                "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) "
                "ON CONFLICT (event_id) DO UPDATE SET "
                "kind = excluded.kind, model = excluded.model, task = excluded.task, "
                "language = excluded.language, timestamps = excluded.timestamps, "
                "detected_s = excluded.detected_s, before = excluded.before, "
                "after = excluded.after, completions_to_adapt = excluded.completions_to_adapt, "
                "ended_s = excluded.ended_s, z = excluded.z, "
                "completions_to_detect = excluded.completions_to_detect, "
                "detail = excluded.detail",
                (
                    event.event_id,
                    event.kind,
                    event.model,
                    event.task,
                    event.language,
                    event.timestamps,
                    event.detected_s,
                    event.before,
                    event.after,
                    event.completions_to_adapt,
                    event.ended_s,
                    event.z,
                    event.completions_to_detect,
                    event.detail,
                ),
            )
            connection.execute(
                "DELETE FROM drift_event WHERE drift_id <= "
                "(SELECT MAX(drift_id) FROM drift_event) - ?",
                (self.max_drift_events,),
            )

    def list_drifts(
        self, *, before_id: int | None = None, limit: int = 1000
    ) -> list[tuple[int, DriftEvent]]:
        """Give events newest first with row ids that do not change when an end is set."""
        with self._reading() as connection:
            rows = connection.execute(
                f"SELECT drift_id, {_DRIFT_COLUMNS} FROM drift_event "  # noqa: S608 - constants
                "WHERE drift_id < ? ORDER BY drift_id DESC LIMIT ?",
                (_NO_BOUND if before_id is None else before_id, limit),
            )
            return [
                (
                    row[0],
                    DriftEvent(
                        event_id=row[1],
                        kind=row[2],
                        model=row[3],
                        task=row[4],
                        language=row[5],
                        timestamps=None if row[6] is None else bool(row[6]),
                        detected_s=row[7],
                        before=row[8],
                        after=row[9],
                        completions_to_adapt=row[10],
                        ended_s=row[11],
                        z=row[12],
                        completions_to_detect=row[13],
                        detail=row[14],
                    ),
                )
                for row in rows
            ]

    def append_partition(self, record: PartitionRecord) -> None:
        """Record a partition that came into force; the oldest of all go."""
        with self._writing() as connection:
            insert_partition(connection, record, self.max_partitions)

    def list_partitions(
        self, *, model: str = "", before_id: int | None = None, limit: int = 1000
    ) -> list[tuple[int, PartitionRecord]]:
        """Give partitions newest first with row ids; an empty model matches all."""
        before = _NO_BOUND if before_id is None else before_id
        with self._reading() as connection:
            return select_partitions(connection, model=model, before_id=before, limit=limit)

    def append_mode_change(self, change: ModeChange) -> None:
        """Record a switch of the mode, synced to the disk whatever ``synchronous`` says.

        An acknowledged ``off`` that comes back as ``on`` after a power failure would be worse
        than the milliseconds of a sync.
        """
        with self._reading() as connection:
            connection.execute("PRAGMA synchronous = FULL")
        try:
            with self._writing() as connection:
                connection.execute(
                    f"INSERT INTO mode_change ({_MODE_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?)",  # noqa: S608 - constants
                    (
                        change.changed_s,
                        change.mode,
                        change.previous_mode,
                        change.actor,
                        change.reason,
                        change.request_id,
                    ),
                )
                connection.execute(
                    "DELETE FROM mode_change WHERE change_id <= "
                    "(SELECT MAX(change_id) FROM mode_change) - ?",
                    (self.max_mode_changes,),
                )
        finally:
            with self._reading() as connection:
                connection.execute(f"PRAGMA synchronous = {self.synchronous}")

    def list_mode_changes(self, *, limit: int = 100) -> list[ModeChange]:
        """Give the switches, newest first."""
        with self._reading() as connection:
            rows = connection.execute(
                f"SELECT {_MODE_COLUMNS} FROM mode_change "  # noqa: S608 - constants
                "ORDER BY change_id DESC LIMIT ?",
                (limit,),
            )
            return [_mode_change(row) for row in rows]

    def find_mode_change(self, request_id: str) -> ModeChange | None:
        """Find the newest switch that carried a request id; an empty id finds none."""
        with self._reading() as connection:
            row = connection.execute(
                f"SELECT {_MODE_COLUMNS} FROM mode_change "  # noqa: S608 - constants
                "WHERE request_id = ? AND request_id <> '' ORDER BY change_id DESC LIMIT 1",
                (request_id,),
            ).fetchone()
            return None if row is None else _mode_change(row)


def _mode_change(row: tuple[Any, ...]) -> ModeChange:  # Any: a row of mixed types.
    return ModeChange(
        changed_s=row[0],
        mode=row[1],
        previous_mode=row[2],
        actor=row[3],
        reason=row[4],
        request_id=row[5],
    )
