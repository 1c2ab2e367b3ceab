"""The store that survives a restart: one SQLite file in WAL mode.

Owns the completions; `estimator.store.sqlite_history` owns the smaller tables, and
`estimator.store.sqlite_file` the file. docs/store.md says what survives which failure.
"""

import contextlib
import itertools
import json
import sqlite3
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from operator import attrgetter
from pathlib import Path
from typing import Final, TypedDict, Unpack

from estimator.core.observation import Completion
from estimator.store.base import AppendResult, RequestName, StoredCompletion, StoreError
from estimator.store.sqlite_file import (
    StoreLock,
    Synchronous,
    UnusableStoreError,
    connect,
    explain,
    mark_damaged,
    set_aside,
    transaction,
)
from estimator.store.sqlite_history import SqliteHistory
from estimator.store.sqlite_rows import (
    INSERT_COMPLETION,
    SELECT_COMPLETION,
    Labels,
    decode,
    encode,
)

__all__ = ["SqliteStore", "StoreOptions", "open_store"]

# Deleted beyond what came in, when the limit was lowered: about 10 ms an append.
_CATCH_UP_ROWS: Final = 1024
_finished_s_of: Final = attrgetter("finished_s")


class StoreOptions(TypedDict, total=False):
    """The keyword arguments of `SqliteStore`, for those that pass them on."""

    max_completions: int
    max_kappa_points_per_key: int
    max_kappa_points: int
    max_drift_events: int
    max_partitions: int
    max_mode_changes: int
    synchronous: Synchronous
    now_s: Callable[[], float]


class SqliteStore(SqliteHistory):
    """History in a file of SQLite.

    Parameters
    ----------
    path : Path or str
        The file; created with its directory if absent. ``<path>.lock`` is held for life.
    max_completions : int
        Completions retained, ≥ 1; the oldest rows go first.
    max_kappa_points_per_key, max_kappa_points : int
        κ points retained for each key and in all, ≥ 1.
    max_drift_events, max_partitions, max_mode_changes : int
        Rows retained, ≥ 1.
    synchronous : {"NORMAL", "FULL"}
        An acknowledged completion survives the death of the process with either. A power
        failure may take those since the last sync of the log with NORMAL (as a rule the last
        30 s, never a part of a batch, never older ones), none with FULL, which costs one sync
        of the disk for each append. Switches of the mode are always synced. docs/store.md.
    now_s : callable
        Unix time; an end that lies after it does not move the retention horizon.
    lock : StoreLock, optional
        One for ``path`` that is held already; an open store takes it over, a failed one does not.

    Raises
    ------
    UnusableStoreError
        If the file is damaged or newer than this program; `open_store` sets it aside.
    StoreError
        If it is in use, not writable, the disk is full, or it is another program's.

    Notes
    -----
    Memory does not grow with the rows: SQLite's cache is 8 MiB, and at most 16,384 labels are
    held. Nothing is read at the start but the first and last row and the small tables.
    """

    def __init__(
        self,
        path: Path | str,
        *,
        max_completions: int = 1_000_000,
        max_kappa_points_per_key: int = 2_000,
        max_kappa_points: int = 200_000,
        max_drift_events: int = 10_000,
        max_partitions: int = 10_000,
        max_mode_changes: int = 1_000,
        synchronous: Synchronous = "NORMAL",
        now_s: Callable[[], float] = time.time,
        lock: StoreLock | None = None,
    ) -> None:
        if max_completions < 1:
            raise ValueError(f"max_completions is {max_completions}, it must be at least 1")
        super().__init__(
            max_kappa_points_per_key=max_kappa_points_per_key,
            max_kappa_points=max_kappa_points,
            max_drift_events=max_drift_events,
            max_partitions=max_partitions,
            max_mode_changes=max_mode_changes,
            synchronous=synchronous,
        )
        self.path = Path(path)
        self.max_completions = max_completions
        self._now_s = now_s
        self._connection: sqlite3.Connection | None = None
        _make_directory(self.path)
        self._lock = lock or StoreLock(self.path)
        try:
            self._connection = connect(self.path, synchronous=synchronous)
            self._load()
        except BaseException:
            self._close_connection()
            if lock is None:
                self._lock.release()
            raise

    def _load(self) -> None:
        with self._reading() as connection:
            self._labels = Labels(connection)
            meta = dict(connection.execute("SELECT name, value FROM meta"))
            first, last = connection.execute(
                "SELECT (SELECT MIN(row_id) FROM completion), (SELECT MAX(row_id) FROM completion)"
            ).fetchone()
            self._first: int = first or 1
            self._last: int = last or 0
            self._horizon_s: float = meta.get("horizon_s", float("-inf"))
            self._load_history(connection)
        if "instance_id" not in meta:
            meta["instance_id"] = str(uuid.uuid4())
            with self._writing() as connection:
                connection.execute(
                    "INSERT INTO meta VALUES ('instance_id', ?)", (meta["instance_id"],)
                )
        self.instance_id: str = meta["instance_id"]

    @contextlib.contextmanager
    def _reading(self) -> Iterator[sqlite3.Connection]:
        if self._connection is None:
            raise StoreError(f"store {self.path} is closed; open it again")
        try:
            yield self._connection
        except sqlite3.Error as error:
            explained = explain(error, self.path)
            if isinstance(explained, UnusableStoreError):
                mark_damaged(self.path)
            raise explained from error

    @contextlib.contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        with self._reading() as connection:
            with transaction(connection):
                yield connection
                self._labels.write(connection)
            self._labels.committed()

    def append(self, completions: Sequence[Completion]) -> AppendResult:
        """Commit a batch in one transaction, and trim what exceeds the limit.

        Parameters
        ----------
        completions : sequence of Completion
            Valid (`violation_of` gives None) and with a ``finished_s``; any number.

        Returns
        -------
        AppendResult
            Known ids are duplicates, whatever their ``finished_s``. An unknown one that finished
            at or before the horizon, the latest end among the trimmed rows, is too old.

        Raises
        ------
        StoreError
            If it could not be committed; then nothing of the batch is stored, and the same call
            may be made again.
        """
        if not completions:
            return AppendResult(accepted=())
        received_s = self._now_s()
        with self._writing() as connection:
            # One in the future was made while our own clock ran ahead: it would refuse everything.
            horizon_s = self._horizon_s if self._horizon_s <= received_s else float("-inf")
            result = self._insert(connection, completions, horizon_s, received_s)
            n_new = len(result.accepted)
            last = self._last + n_new
            first = self._first_kept(last, n_new)
            if first > self._first:
                horizon_s = self._trim(connection, first, horizon_s, received_s)
        self._first, self._last, self._horizon_s = first, last, horizon_s
        return result

    def _insert(
        self,
        connection: sqlite3.Connection,
        completions: Sequence[Completion],
        horizon_s: float,
        received_s: float,
    ) -> AppendResult:
        """Insert what is new; nearly always all is, so that is tried first.

        The unique index looks each id up anyway; looking them up before, too, took a fifth of
        the time of an append.
        """
        if min(map(_finished_s_of, completions)) > horizon_s:
            all_new = tuple(map(StoredCompletion, itertools.count(self._last + 1), completions))
            try:
                self._insert_rows(connection, all_new, received_s)
            except sqlite3.IntegrityError:
                connection.execute("DELETE FROM completion WHERE row_id > ?", (self._last,))
            else:
                return AppendResult(accepted=all_new)
        result = self._classify(connection, completions, horizon_s)
        self._insert_rows(connection, result.accepted, received_s)
        return result

    def _insert_rows(
        self,
        connection: sqlite3.Connection,
        rows: Sequence[StoredCompletion],
        received_s: float,
    ) -> None:
        labels = self._labels
        connection.executemany(
            INSERT_COMPLETION, [encode(stored, labels, received_s) for stored in rows]
        )

    def _classify(
        self,
        connection: sqlite3.Connection,
        completions: Sequence[Completion],
        horizon_s: float,
    ) -> AppendResult:
        ids = json.dumps([completion.completion_id for completion in completions])
        known = {
            row[0]
            for row in connection.execute(
                "SELECT completion_id FROM completion "
                "WHERE completion_id IN (SELECT value FROM json_each(?))",
                (ids,),
            )
        }
        accepted: list[StoredCompletion] = []
        duplicates: list[int] = []
        too_old: list[int] = []
        row_id = self._last
        for index, completion in enumerate(completions):
            if completion.completion_id in known:
                duplicates.append(index)
            elif completion.finished_s <= horizon_s:
                too_old.append(index)
            else:
                known.add(completion.completion_id)
                row_id += 1
                accepted.append(StoredCompletion(row_id, completion))
        return AppendResult(
            accepted=tuple(accepted),
            duplicate_indices=tuple(duplicates),
            too_old_indices=tuple(too_old),
        )

    def _first_kept(self, last: int, n_new: int) -> int:
        """Give the oldest row that may stay."""
        excess = last - self._first + 1 - self.max_completions
        return self._first + max(min(excess, n_new + _CATCH_UP_ROWS), 0)

    @staticmethod
    def _trim(
        connection: sqlite3.Connection, first: int, horizon_s: float, received_s: float
    ) -> float:
        """Delete the rows before ``first``; give the new horizon."""
        (newest_s,) = connection.execute(
            "SELECT MAX(COALESCE(horizon_s, finished_s)) FROM completion "
            "WHERE row_id < ? AND COALESCE(horizon_s, finished_s) <= ?",
            (first, received_s),
        ).fetchone()
        if newest_s is not None:
            horizon_s = max(horizon_s, newest_s)
        connection.execute("DELETE FROM completion WHERE row_id < ?", (first,))
        connection.execute("INSERT OR REPLACE INTO meta VALUES ('horizon_s', ?)", (horizon_s,))
        return horizon_s

    def read(self, *, after_row_id: int = 0, limit: int = 1000) -> list[StoredCompletion]:
        """Give rows in order, at most ``limit``, with ids above ``after_row_id``."""
        with self._reading() as connection:
            rows = connection.execute(
                f"{SELECT_COMPLETION} WHERE row_id > ? ORDER BY row_id LIMIT ?",
                (after_row_id, limit),
            )
            return [decode(row, self._labels) for row in rows]

    def read_request_names(
        self, *, before_row_id: int | None = None, limit: int = 1000
    ) -> list[RequestName]:
        """Give names newest first, at most ``limit``, with row ids below ``before_row_id``."""
        before = self._last + 1 if before_row_id is None else before_row_id
        with self._reading() as connection:
            rows = connection.execute(
                "SELECT row_id, completion_id, request_hash FROM completion "
                "WHERE row_id < ? ORDER BY row_id DESC LIMIT ?",
                (before, limit),
            )
            return list(map(RequestName._make, rows))

    def find(self, completion_id: str) -> StoredCompletion | None:
        """Look one completion up by its id."""
        with self._reading() as connection:
            row = connection.execute(
                f"{SELECT_COMPLETION} WHERE completion_id = ?", (completion_id,)
            ).fetchone()
            return None if row is None else decode(row, self._labels)

    def count(self) -> int:
        """Give the number of retained completions."""
        with self._reading():
            return self._last - self._first + 1

    def last_row_id(self) -> int:
        """Give the highest row id ever given, 0 for none."""
        with self._reading():
            return self._last

    def close(self) -> None:
        """Finish writing and release the file and the lock; a second call does nothing."""
        self._close_connection()
        self._lock.release()

    def _close_connection(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            # Closing copies the log into the file; on a full disk the log stays, and is read.
            with contextlib.suppress(sqlite3.Error):
                connection.close()


def _make_directory(path: Path) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StoreError(
            f"store {path}: its directory cannot be made: {error.strerror}; make the parent "
            "writable for this user, or choose another --state-dir"
        ) from error


def open_store(path: Path | str, **options: Unpack[StoreOptions]) -> tuple[SqliteStore, list[str]]:
    """Open a store, or set an unusable one aside and start a fresh one.

    Parameters
    ----------
    path : Path or str
        As for `SqliteStore`.
    **options
        As for `SqliteStore`.

    Returns
    -------
    store : SqliteStore
        Open.
    warnings : list of str
        For the caller to log: what was set aside, why, and under which name. Empty if all is
        well.

    Raises
    ------
    StoreError
        If it is in use, not writable, the disk is full, or it is another program's.
    """
    path = Path(path)
    _make_directory(path)
    lock = StoreLock(path)
    try:
        try:
            return SqliteStore(path, lock=lock, **options), []
        except UnusableStoreError as error:
            target = set_aside(path)
            warning = (
                f"{error}; it was set aside as {target.name} and a new, empty store was started: "
                "what was learned is lost until completions teach it again"
            )
            return SqliteStore(path, lock=lock, **options), [warning]
    except BaseException:
        lock.release()
        raise
