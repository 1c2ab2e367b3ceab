"""What only the store in a file does: it comes back, and it fails without halves."""

import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from estimator.core.observation import Completion
from estimator.store.base import Checkpoint, KappaPoint, ModeChange, StoreError
from estimator.store.sqlite import SqliteStore

NOW_S = 1e6


def batch(first: int, size: int, **fields: Any) -> list[Completion]:
    return [
        Completion(completion_id=f"boot-{n}", finished_s=float(n), **fields)
        for n in range(first, first + size)
    ]


def checkpoint(version: int) -> Checkpoint:
    return Checkpoint(
        row_id=version, state={"schema": 1, "v": version}, snapshot_version=version, created_s=1.0
    )


Open = Callable[..., SqliteStore]


@pytest.fixture
def reopen(tmp_path: Path) -> Iterator[Open]:
    """Give a function that closes the store, if open, and opens it again."""
    current: list[SqliteStore] = []

    def open_again(**options: Any) -> SqliteStore:
        for store in current:
            store.close()
        current[:] = [SqliteStore(tmp_path / "kappad.db", now_s=lambda: NOW_S, **options)]
        return current[0]

    yield open_again
    for store in current:
        store.close()


def connection_of(store: SqliteStore) -> sqlite3.Connection:
    assert store._connection is not None
    return store._connection


def test_history_comes_back_after_a_restart(reopen: Open) -> None:
    store = reopen(max_completions=4)
    store.append(batch(1, 6, language="en", timestamps=False))
    point = KappaPoint(
        model="m",
        task="",
        language="",
        timestamps=True,
        recorded_s=1.0,
        kappa_tokens_per_s=3.0,
        intercept_tokens=0.0,
        sample_count=1,
        snapshot_version=1,
    )
    store.append_kappa_points([point])
    store.save_checkpoint(checkpoint(3))
    change = ModeChange(
        changed_s=1.0, mode="off", previous_mode="on", actor="a", reason="b", request_id="r"
    )
    store.append_mode_change(change)
    rows, instance_id = store.read(), store.instance_id

    store = reopen(max_completions=4)
    assert store.read() == rows
    assert store.instance_id == instance_id
    assert (store.count(), store.last_row_id()) == (4, 6)
    assert store.load_checkpoint() == checkpoint(3)
    assert store.list_kappa_points() == [(1, point)]
    assert store.find_mode_change("r") == change
    # The horizon too: 1 and 2 were trimmed before the restart.
    assert store.append(batch(1, 3)).too_old_indices == (0, 1)


def test_a_lowered_limit_is_reached_in_slices(reopen: Open) -> None:
    reopen().append(batch(1, 5_000))
    store = reopen(max_completions=10)
    assert store.count() == 5_000
    counts = []
    for n in range(6):
        store.append(batch(6_000 + n, 1))
        counts.append(store.count())
    assert counts == [3_976, 2_952, 1_928, 904, 10, 10]


def test_lowered_kappa_limits_are_reached(reopen: Open) -> None:
    points = [
        KappaPoint(
            model="m",
            task="t",
            language="en",
            timestamps=None,
            recorded_s=float(n),
            kappa_tokens_per_s=3.0,
            intercept_tokens=0.0,
            sample_count=1,
            snapshot_version=1,
        )
        for n in range(20)
    ]
    reopen().append_kappa_points(points)
    store = reopen(max_kappa_points_per_key=3)
    store.append_kappa_points(points[:1])
    assert [point.recorded_s for _, point in store.list_kappa_points()] == [0.0, 19.0, 18.0]


@pytest.mark.parametrize(
    "sql",
    [
        "UPDATE checkpoint SET state = '{' WHERE checkpoint_id = 3",
        'UPDATE checkpoint SET state = \'{"schema":1,"v":9}\' WHERE checkpoint_id = 3',
        "UPDATE checkpoint SET snapshot_version = 99 WHERE checkpoint_id = 3",
        "UPDATE checkpoint SET row_id = 99 WHERE checkpoint_id = 3",
        "UPDATE checkpoint SET state = x'00ff' WHERE checkpoint_id = 3",
        "UPDATE checkpoint SET sha256 = '' WHERE checkpoint_id = 3",
    ],
)
def test_a_damaged_checkpoint_is_skipped(reopen: Open, sql: str) -> None:
    store = reopen()
    for version in (1, 2, 3):
        store.save_checkpoint(checkpoint(version))
    connection_of(store).execute(sql)
    assert reopen().load_checkpoint() == checkpoint(2)


def test_three_checkpoints_are_kept(reopen: Open) -> None:
    store = reopen()
    for version in range(1, 8):
        store.save_checkpoint(checkpoint(version))
    rows = connection_of(store).execute("SELECT row_id FROM checkpoint").fetchall()
    assert rows == [(5,), (6,), (7,)]


def test_no_readable_checkpoint_is_none(reopen: Open) -> None:
    store = reopen()
    store.save_checkpoint(checkpoint(1))
    connection_of(store).execute("UPDATE checkpoint SET sha256 = ''")
    assert store.load_checkpoint() is None


def test_a_full_disk_leaves_nothing_of_the_batch(reopen: Open) -> None:
    store = reopen(max_completions=300)
    store.append(batch(1, 300, client_id="known"))
    rows = store.read()
    connection = connection_of(store)
    (pages,) = connection.execute("PRAGMA page_count").fetchone()
    connection.execute(f"PRAGMA max_page_count = {pages}")
    big = batch(301, 3_000, client_id="new", request_hash="f" * 64)
    for _ in range(2):
        with pytest.raises(StoreError, match=r"kappad\.db.*full.*free space"):
            store.append(big)
        assert store.read() == rows
        assert (store.count(), store.last_row_id()) == (300, 300)
    connection.execute("PRAGMA max_page_count = 1000000")
    assert len(store.append(big).accepted) == 3_000
    # The new name was numbered within the failed transaction: it must not point to nothing.
    assert reopen(max_completions=300).read()[-1].completion == big[-1]


def test_a_read_only_file_is_reported_and_recovers(reopen: Open) -> None:
    store = reopen()
    connection_of(store).execute("PRAGMA query_only = ON")
    with pytest.raises(StoreError, match=r"kappad\.db.*read-only.*--state-dir"):
        store.append(batch(1, 3))
    assert store.read() == []
    connection_of(store).execute("PRAGMA query_only = OFF")
    assert len(store.append(batch(1, 3)).accepted) == 3


def test_a_value_that_does_not_fit_leaves_nothing_of_the_batch(reopen: Open) -> None:
    store = reopen()
    with pytest.raises(OverflowError):
        store.append([*batch(1, 3), *batch(4, 1, output_tokens=2**70)])
    assert store.count() == 0
    assert [row.row_id for row in store.append(batch(1, 3)).accepted] == [1, 2, 3]


@pytest.mark.parametrize(("synchronous", "level"), [("NORMAL", 1), ("FULL", 2)])
def test_the_synchronous_mode_is_the_one_asked_for(
    reopen: Open, synchronous: str, level: int
) -> None:
    store = reopen(synchronous=synchronous)
    assert connection_of(store).execute("PRAGMA synchronous").fetchone() == (level,)


def test_a_mode_change_is_synced_and_other_writes_stay_as_configured(reopen: Open) -> None:
    store = reopen(synchronous="NORMAL")
    statements: list[str] = []
    connection_of(store).set_trace_callback(statements.append)
    store.append_mode_change(
        ModeChange(changed_s=1.0, mode="off", previous_mode="on", actor="a", reason="b")
    )
    connection_of(store).set_trace_callback(None)
    assert statements[0] == "PRAGMA synchronous = FULL"
    assert statements[-2:] == ["COMMIT", "PRAGMA synchronous = NORMAL"]
    assert connection_of(store).execute("PRAGMA synchronous").fetchone() == (1,)


def test_cache_and_mapping_are_bounded(reopen: Open) -> None:
    connection = connection_of(reopen())
    assert connection.execute("PRAGMA cache_size").fetchone() == (-8192,)
    assert connection.execute("PRAGMA mmap_size").fetchone() == (0,)


def test_another_program_can_read_the_rows_by_name(reopen: Open, tmp_path: Path) -> None:
    store = reopen()
    store.append(batch(1, 1, model="whisper", language="en", finish_reason="length"))
    reader = sqlite3.connect(f"file:{tmp_path / 'kappad.db'}?mode=ro", uri=True)
    try:
        assert reader.execute(
            "SELECT completion_id, model, task, language, finish_reason FROM completion_text"
        ).fetchall() == [("boot-1", "whisper", "transcribe", "en", "length")]
    finally:
        reader.close()
