"""The store's file: lock, connection, schema, damage, and what an error means.

Owns everything about the file that is not about its rows. Imports the standard library and the
store's contract only.
"""

import contextlib
import fcntl
import os
import sqlite3
from collections.abc import Iterator
from datetime import UTC, datetime
from importlib.resources import files
from pathlib import Path
from typing import Final, Literal

from estimator.store.base import StoreError

__all__ = [
    "StoreLock",
    "Synchronous",
    "UnusableStoreError",
    "connect",
    "explain",
    "mark_damaged",
    "set_aside",
    "transaction",
]

Synchronous = Literal["NORMAL", "FULL"]

# "kapp": tells our file from another program's database.
_APPLICATION_ID: Final = 0x6B617070
# A full check reads every page: 60 ms for this size, seconds for a million rows.
_CHECKED_BYTES: Final = 32 * 2**20
# A person with a database tool may hold the file for a moment; longer is an error to report.
_BUSY_TIMEOUT_S: Final = 2.0
_TABLES: Final = frozenset(
    {"meta", "label", "completion", "kappa_point", "drift_event", "mode_change", "checkpoint"}
)
# Since its third version.
_LATER_TABLES: Final = {3: "partition_revision"}
_CACHE_KIB: Final = 8192
_WAL_LIMIT_BYTES: Final = 64 * 2**20
_UNUSABLE_CODES: Final = frozenset(
    {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_FORMAT}
)
_REMEDIES: Final = {
    sqlite3.SQLITE_FULL: "the disk is full; free space, nothing else is needed",
    sqlite3.SQLITE_READONLY: "the file or its directory is read-only; make it writable for "
    "this user, or choose another --state-dir",
    sqlite3.SQLITE_PERM: "access is denied; make the file writable for this user",
    sqlite3.SQLITE_CANTOPEN: "it cannot be opened; make the directory writable for this user, "
    "or choose another --state-dir",
    sqlite3.SQLITE_IOERR: "the disk failed or is full; check its free space and the kernel log",
    sqlite3.SQLITE_BUSY: "another process holds a transaction on it; close that program",
    sqlite3.SQLITE_LOCKED: "another process holds a transaction on it; close that program",
    sqlite3.SQLITE_CORRUPT: "the file is damaged; restart the sidecar to set it aside",
    sqlite3.SQLITE_NOTADB: "the file is no database; restart the sidecar to set it aside",
}


class UnusableStoreError(StoreError):
    """The file is damaged or newer than this program: it can only be set aside."""


def explain(error: sqlite3.Error, path: Path) -> StoreError:
    """Turn an error of SQLite into one that names the file, the cause and the remedy."""
    code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF
    remedy = _REMEDIES.get(code, "this is unexpected; keep the file and report it")
    kind = UnusableStoreError if code in _UNUSABLE_CODES else StoreError
    return kind(f"store {path}: {error}; {remedy}")


class StoreLock:
    """An exclusive lock beside the store's file, held until released or the process dies.

    Parameters
    ----------
    path : Path
        The store's file; the lock is ``<path>.lock`` and stays there, empty of meaning.

    Raises
    ------
    StoreError
        If another process holds it, or the directory cannot be written.

    Notes
    -----
    ``flock`` on a file of its own: the kernel frees it on any death of the process, and it does
    not meddle with SQLite's POSIX locks on the database, which stays readable for tools.
    """

    def __init__(self, path: Path) -> None:
        name = f"{path}.lock"
        try:
            self._fd = os.open(name, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise StoreError(
                f"store {path}: {name} cannot be written: {error.strerror}; make the directory "
                "writable for this user, or choose another --state-dir"
            ) from error
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            owner = os.pread(self._fd, 20, 0).decode("ascii", "replace").strip() or "unknown"
            os.close(self._fd)
            raise StoreError(
                f"store {path} is in use by process {owner}; stop that one, or give this one "
                "another --state-dir"
            ) from error
        # For the message above only; a full disk must not stop the start here.
        with contextlib.suppress(OSError):
            os.ftruncate(self._fd, 0)
            os.pwrite(self._fd, f"{os.getpid()}\n".encode(), 0)

    def release(self) -> None:
        """Let another process have the store; a second call does nothing."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


@contextlib.contextmanager
def transaction(connection: sqlite3.Connection) -> Iterator[None]:
    """Commit what the block writes, or nothing of it."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        # A full disk has rolled back already.
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def connect(path: Path, *, synchronous: Synchronous) -> sqlite3.Connection:
    """Open the file, check it cheaply and bring its schema up to date.

    Parameters
    ----------
    path : Path
        Created if absent, in a directory that exists; readable by the owner only.
    synchronous : {"NORMAL", "FULL"}
        What a commit survives; docs/store.md.

    Returns
    -------
    sqlite3.Connection
        In autocommit mode, with bounded cache, no memory mapping.

    Raises
    ------
    UnusableStoreError
        If the file is damaged or newer; nothing was written to it.
    StoreError
        If it cannot be opened or written, or belongs to another program.
    """
    try:
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
    except OSError as error:
        raise StoreError(
            f"store {path}: {error.strerror}; make the file and its directory writable for this "
            "user, or choose another --state-dir"
        ) from error
    if _damage_mark(path).exists():
        raise UnusableStoreError(f"store {path}: damage was found in it while it was in use")
    connection = sqlite3.connect(
        path, timeout=_BUSY_TIMEOUT_S, isolation_level=None, check_same_thread=False
    )
    try:
        _refuse_unusable(connection, path)
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute(f"PRAGMA synchronous = {synchronous}")
        connection.execute(f"PRAGMA cache_size = -{_CACHE_KIB}")
        connection.execute("PRAGMA mmap_size = 0")
        # Trimmed rows hold nothing secret; overwriting them would double what a trim writes.
        connection.execute("PRAGMA secure_delete = OFF")
        connection.execute(f"PRAGMA journal_size_limit = {_WAL_LIMIT_BYTES}")
        _migrate(connection)
    except sqlite3.Error as error:
        connection.close()
        raise explain(error, path) from error
    except BaseException:
        connection.close()
        raise
    return connection


def _refuse_unusable(connection: sqlite3.Connection, path: Path) -> None:
    version: int = connection.execute("PRAGMA user_version").fetchone()[0]
    application: int = connection.execute("PRAGMA application_id").fetchone()[0]
    tables = {row[0] for row in connection.execute("SELECT name FROM sqlite_master")}
    if tables and application != _APPLICATION_ID:
        # Not ours to rename: refuse, whatever its version says.
        raise StoreError(f"store {path} is another program's database; choose another --state-dir")
    newest = len(_migrations())
    if version > newest:
        raise UnusableStoreError(
            f"store {path} has schema {version}, this program knows up to {newest}"
        )
    wanted = _TABLES.union(name for since, name in _LATER_TABLES.items() if since <= version)
    if version and not tables.issuperset(wanted):
        missing = ", ".join(sorted(wanted - tables))
        raise UnusableStoreError(f"store {path} is damaged: it lacks {missing}")
    if path.stat().st_size <= _CHECKED_BYTES:
        found: str = connection.execute("PRAGMA quick_check(1)").fetchone()[0]
        if found != "ok":
            raise UnusableStoreError(f"store {path} is damaged: {found.splitlines()[-1]}")


def _migrations() -> list[str]:
    """Give the numbered scripts, in order."""
    folder = files("estimator.store") / "migrations"
    names = sorted(entry.name for entry in folder.iterdir() if entry.name.endswith(".sql"))
    for number, name in enumerate(names, start=1):
        if not name.startswith(f"{number:04d}_"):
            raise RuntimeError(f"migrations are numbered without gaps; {name} is number {number}")
    return [(folder / name).read_text(encoding="utf-8") for name in names]


def _migrate(connection: sqlite3.Connection) -> None:
    done: int = connection.execute("PRAGMA user_version").fetchone()[0]
    for number, script in enumerate(_migrations()[done:], start=done + 1):
        try:
            connection.executescript(
                f"BEGIN IMMEDIATE;\n{script}\n"
                f"PRAGMA application_id = {_APPLICATION_ID};\n"
                f"PRAGMA user_version = {number};\nCOMMIT;"
            )
        except BaseException:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise


def mark_damaged(path: Path) -> None:
    """Leave word for the next start that the file is damaged.

    The checks at a start are cheap, so they would not find a damaged page in the middle of a
    large file, and every restart would fail again at the same page.
    """
    with contextlib.suppress(OSError):
        _damage_mark(path).touch()


def _damage_mark(path: Path) -> Path:
    return path.with_name(f"{path.name}.damaged")


def set_aside(path: Path) -> Path:
    """Rename the file and its companions; give the new name of the file.

    The caller holds the lock. The write-ahead log goes first: were the file renamed first and the
    process killed, the next start would delete the log as that of an empty file.

    Raises
    ------
    StoreError
        If the directory cannot be written.
    """
    stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
    target = path.with_name(f"{path.name}.set-aside-{stamp}")
    suffix = 1
    while target.exists():
        suffix += 1
        target = path.with_name(f"{path.name}.set-aside-{stamp}-{suffix}")
    try:
        for companion in ("-wal", "-shm", ""):
            source = path.with_name(path.name + companion)
            if source.exists():
                source.rename(target.with_name(target.name + companion))
        _damage_mark(path).unlink(missing_ok=True)
    except OSError as error:
        raise StoreError(
            f"store {path} cannot be renamed to {target.name}: {error.strerror}; make the "
            "directory writable for this user"
        ) from error
    return target
