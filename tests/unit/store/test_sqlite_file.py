"""The store's file: schema, damage, other people's files, the lock."""

import sqlite3
from pathlib import Path

import pytest

from estimator.core.observation import Completion
from estimator.store import sqlite_file
from estimator.store.base import StoreError
from estimator.store.sqlite import SqliteStore, open_store
from estimator.store.sqlite_file import StoreLock, UnusableStoreError, set_aside

BATCH = [
    Completion(completion_id=f"boot-{n}", finished_s=float(n), request_hash="f" * 64)
    for n in range(1, 2001)
]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "kappad.db"


def filled(path: Path) -> str:
    store = SqliteStore(path)
    store.append(BATCH)
    store.close()
    return store.instance_id


def execute(path: Path, sql: str) -> list[tuple[object, ...]]:
    connection = sqlite3.connect(path, isolation_level=None)
    try:
        return connection.execute(sql).fetchall()
    finally:
        connection.close()


def set_aside_names(path: Path) -> list[str]:
    return sorted(p.name for p in path.parent.iterdir() if ".set-aside-" in p.name)


def assert_set_aside(path: Path, why: str) -> Path:
    """Open an unusable store, which must start empty and say so; give the old file."""
    store, warnings = open_store(path)
    try:
        assert store.count() == 0
        assert len(store.append(BATCH[:3]).accepted) == 3
    finally:
        store.close()
    [warning] = warnings
    assert why in warning
    [old] = [name for name in set_aside_names(path) if not name.endswith(("-wal", "-shm"))]
    assert old in warning
    # Never a crash loop: the next start is an ordinary one.
    store, warnings = open_store(path)
    try:
        assert (warnings, store.count()) == ([], 3)
    finally:
        store.close()
    return path.with_name(old)


def test_an_empty_file_is_migrated(path: Path) -> None:
    path.touch()
    store, warnings = open_store(path)
    store.close()
    assert warnings == []
    assert execute(path, "PRAGMA user_version") == [(len(sqlite_file._migrations()),)]
    assert execute(path, "PRAGMA journal_mode") == [("wal",)]
    assert execute(path, "PRAGMA quick_check") == [("ok",)]


def test_opening_again_changes_nothing(path: Path) -> None:
    instance_id = filled(path)
    schema = execute(path, "SELECT sql FROM sqlite_master ORDER BY name")
    before = path.read_bytes()
    store, warnings = open_store(path)
    try:
        assert (store.instance_id, warnings, store.count()) == (instance_id, [], len(BATCH))
        assert store.append(BATCH).duplicate_indices == tuple(range(len(BATCH)))
    finally:
        store.close()
    assert execute(path, "SELECT sql FROM sqlite_master ORDER BY name") == schema
    assert path.read_bytes() == before


def test_each_migration_is_applied_once_and_whole(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    filled(path)
    first = sqlite_file._migrations()
    second = "ALTER TABLE completion ADD COLUMN note TEXT;"
    broken = "CREATE TABLE half (n); INSERT INTO nowhere VALUES (1);"
    monkeypatch.setattr(sqlite_file, "_migrations", lambda: [*first, second, broken])
    with pytest.raises(StoreError, match="nowhere"):
        SqliteStore(path)
    assert execute(path, "PRAGMA user_version") == [(len(first) + 1,)]
    assert execute(path, "SELECT name FROM sqlite_master WHERE name = 'half'") == []
    monkeypatch.setattr(sqlite_file, "_migrations", lambda: [*first, second])
    store, warnings = open_store(path)
    try:
        assert (store.count(), warnings) == (len(BATCH), [])
    finally:
        store.close()


def test_a_drift_event_of_the_first_schema_is_read_on(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as then:
        newest = sqlite_file._migrations()
        then.setattr(sqlite_file, "_migrations", lambda: newest[:1])
        filled(path)
    execute(
        path,
        "INSERT INTO drift_event VALUES "
        "(1, 'e', 'kappa', 'm', '', '', NULL, 1.0, 2.0, 3.0, 9, 4.0)",
    )
    store, warnings = open_store(path)
    try:
        [(_, event)] = store.list_drifts()
        assert (event.after, event.completions_to_adapt, event.ended_s) == (3.0, 9, 4.0)
        assert (event.z, event.completions_to_detect, event.detail) == (0.0, 0, "")
        assert warnings == []
    finally:
        store.close()


def test_a_newer_schema_is_set_aside_untouched(path: Path) -> None:
    filled(path)
    execute(path, "PRAGMA user_version = 99")
    before = path.read_bytes()
    newest = len(sqlite_file._migrations())
    old = assert_set_aside(path, f"has schema 99, this program knows up to {newest}")
    assert old.read_bytes() == before


def test_a_file_that_is_no_database_is_set_aside(path: Path) -> None:
    path.write_bytes(b"something else entirely" * 500)
    old = assert_set_aside(path, "file is not a database")
    assert old.read_bytes() == b"something else entirely" * 500


def test_a_truncated_file_is_set_aside(path: Path) -> None:
    filled(path)
    with path.open("r+b") as file:
        file.truncate(path.stat().st_size // 2)
    assert_set_aside(path, "malformed")


def test_a_damaged_page_of_a_small_file_is_found_at_the_start(path: Path) -> None:
    filled(path)
    damage(path)
    assert_set_aside(path, "is damaged")


def test_a_damaged_page_found_in_use_is_set_aside_at_the_next_start(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    filled(path)
    damage(path)
    # As for a large file, which is not read through at the start.
    monkeypatch.setattr(sqlite_file, "_CHECKED_BYTES", 0)
    store, warnings = open_store(path)
    try:
        assert warnings == []
        with pytest.raises(UnusableStoreError, match=r"kappad\.db.*restart the sidecar"):
            store.read(limit=10_000)
    finally:
        store.close()
    assert_set_aside(path, "damage was found in it while it was in use")


def test_a_store_that_lacks_a_table_is_set_aside(path: Path) -> None:
    filled(path)
    execute(path, "DROP TABLE checkpoint")
    assert_set_aside(path, "it lacks checkpoint")


def damage(path: Path) -> None:
    with path.open("r+b") as file:
        size = path.stat().st_size
        for at in range(size // 3, 2 * size // 3, 4096):
            file.seek(at // 4096 * 4096)
            file.write(b"\xff" * 256)


def test_a_log_goes_with_the_file_that_is_set_aside(path: Path) -> None:
    filled(path)
    for companion in ("-wal", "-shm"):
        path.with_name(path.name + companion).write_bytes(b"log")
    first = set_aside(path)
    assert not path.exists()
    assert set_aside_names(path) == [first.name, f"{first.name}-shm", f"{first.name}-wal"]


def test_two_files_set_aside_within_a_second_keep_both(path: Path) -> None:
    path.write_bytes(b"one")
    first = set_aside(path)
    path.write_bytes(b"two")
    second = set_aside(path)
    assert (first.read_bytes(), second.read_bytes()) == (b"one", b"two")


def test_another_programs_database_is_refused_and_left_alone(path: Path) -> None:
    execute(path, "CREATE TABLE songs (title TEXT)")
    before = path.read_bytes()
    with pytest.raises(StoreError, match="another program's database; choose another"):
        open_store(path)
    assert path.read_bytes() == before
    assert set_aside_names(path) == []
    # The refusal gave the lock back.
    StoreLock(path).release()


def test_the_lock_is_given_back_by_a_store_that_fails_to_open(path: Path) -> None:
    path.write_bytes(b"no database" * 100)
    with pytest.raises(UnusableStoreError):
        SqliteStore(path)
    StoreLock(path).release()


def test_the_file_is_readable_by_its_owner_only(path: Path) -> None:
    filled(path)
    assert path.stat().st_mode & 0o777 == 0o600


def test_the_directory_is_made(tmp_path: Path) -> None:
    path = tmp_path / "state" / "deep" / "kappad.db"
    filled(path)
    assert path.is_file()


def test_a_held_write_transaction_is_reported(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite_file, "_BUSY_TIMEOUT_S", 0.0)
    store = SqliteStore(path)
    other = sqlite3.connect(path, isolation_level=None)
    try:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreError, match="another process holds a transaction"):
            store.append(BATCH[:1])
        other.execute("ROLLBACK")
        assert len(store.append(BATCH[:1]).accepted) == 1
    finally:
        other.close()
        store.close()
