"""The store against the world: killed, out of space, read-only, opened twice."""

import os
import resource
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from estimator.core.observation import Completion
from estimator.store.base import StoreError
from estimator.store.sqlite import SqliteStore, open_store

BATCH = 64
NOBODY = 65_534

APPENDS_UNTIL_KILLED = """
import sys
from estimator.core.observation import Completion
from estimator.store.sqlite import SqliteStore
store = SqliteStore(sys.argv[1], max_completions=int(sys.argv[2]), synchronous=sys.argv[3])
number = store.last_row_id()
while True:
    batch = [
        Completion(completion_id=f"boot-{number + i}", finished_s=1e9 + number + i, language="en")
        for i in range(1, 65)
    ]
    number += len(store.append(batch).accepted)
    print(number, flush=True)
"""

OPENS_AS_NOBODY = """
import os, sys
from estimator.store.base import StoreError
from estimator.store.sqlite import open_store
if os.getuid() == 0:
    os.setgroups([]); os.setgid(65534); os.setuid(65534)
try:
    open_store(sys.argv[1])
except StoreError as error:
    print(error)
    sys.exit(3)
"""


def python(script: str, *arguments: str) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-c", script, *arguments], stdout=subprocess.PIPE, text=True
    )


def batch_from(first: int, size: int = BATCH) -> list[Completion]:
    return [
        Completion(completion_id=f"boot-{n}", finished_s=1e9 + n, request_hash="f" * 64)
        for n in range(first, first + size)
    ]


@pytest.mark.parametrize("synchronous", ["NORMAL", "FULL"])
def test_all_that_was_acknowledged_outlives_a_kill(tmp_path: Path, synchronous: str) -> None:
    path = tmp_path / "kappad.db"
    retained = 10 * BATCH
    acknowledged = 0
    # Killed at several points, each time on top of what the last death left.
    for n_appends in (1, 7, 40):
        child = python(APPENDS_UNTIL_KILLED, str(path), str(retained), synchronous)
        assert child.stdout is not None
        try:
            for _ in range(n_appends):
                acknowledged = int(child.stdout.readline())
            with pytest.raises(StoreError, match=f"in use by process {child.pid}"):
                SqliteStore(path)
        finally:
            child.send_signal(signal.SIGKILL)
            # What it acknowledged between the last line read and its death counts too.
            rest = child.communicate(timeout=30)[0].splitlines(keepends=True)
        acknowledged = max([acknowledged, *(int(line) for line in rest if line.endswith("\n"))])
        store, warnings = open_store(path, max_completions=retained)
        try:
            assert warnings == []
            last = store.last_row_id()
            assert last >= acknowledged
            assert last % BATCH == 0, "a part of a batch was committed"
            rows = store.read(limit=2 * retained)
            assert len(rows) == store.count() == min(last, retained)
            assert [row.completion.completion_id for row in rows] == [
                f"boot-{n}" for n in range(last - len(rows) + 1, last + 1)
            ]
        finally:
            store.close()


def test_a_full_disk_refuses_the_batch_and_recovers(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "kappad.db")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    stored = 0
    try:
        # Python ignores SIGXFSZ, so that writing beyond the limit fails as on a full disk.
        resource.setrlimit(resource.RLIMIT_FSIZE, (256 * 1024, before[1]))
        try:
            while stored < 100_000:
                stored += len(store.append(batch_from(stored + 1)).accepted)
        except StoreError as error:
            refusal_text = str(error)
        else:
            pytest.fail("100,000 completions went into 256 KiB")
        assert str(store.path) in refusal_text
        assert "free space" in refusal_text
        assert stored > 0
        assert store.count() == stored
        assert len(store.read(limit=200_000)) == stored
        assert store.find(f"boot-{stored + 1}") is None
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        assert len(store.append(batch_from(stored + 1)).accepted) == BATCH
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        store.close()
    store, warnings = open_store(tmp_path / "kappad.db")
    try:
        assert warnings == []
        assert store.count() == stored + BATCH
    finally:
        store.close()


@pytest.fixture
def open_directory() -> Iterator[Path]:
    # Not tmp_path: its parents are closed to other users, which would fail for another reason.
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        directory.chmod(0o755)
        yield directory
        directory.chmod(0o755)


def refusal(path: Path) -> str:
    child = python(OPENS_AS_NOBODY, str(path))
    output = child.communicate(timeout=30)[0]
    assert child.returncode == 3, output
    return output


def test_a_read_only_directory_is_an_error_with_a_remedy(open_directory: Path) -> None:
    open_directory.chmod(0o555)
    output = refusal(open_directory / "kappad.db")
    assert "Permission denied" in output
    assert "--state-dir" in output
    assert list(open_directory.iterdir()) == []


def test_a_directory_that_cannot_be_made_is_an_error_with_a_remedy(open_directory: Path) -> None:
    open_directory.chmod(0o555)
    output = refusal(open_directory / "state" / "kappad.db")
    assert "cannot be made" in output
    assert "--state-dir" in output


@pytest.mark.skipif(os.getuid() != 0, reason="needs a file of another user")
def test_a_store_of_another_user_is_refused_and_left_alone(open_directory: Path) -> None:
    path = open_directory / "kappad.db"
    store = SqliteStore(path)
    store.append(batch_from(1))
    store.close()
    path.with_name("kappad.db.lock").unlink()
    open_directory.chmod(0o777)
    output = refusal(path)
    assert "Permission denied" in output
    open_directory.chmod(0o755)
    store, warnings = open_store(path)
    try:
        assert (store.count(), warnings) == (BATCH, [])
    finally:
        store.close()


def test_a_store_is_opened_once_within_a_process(tmp_path: Path) -> None:
    path = tmp_path / "kappad.db"
    store = SqliteStore(path)
    try:
        with pytest.raises(StoreError, match=f"in use by process {os.getpid()}"):
            open_store(path)
    finally:
        store.close()
    SqliteStore(path).close()
