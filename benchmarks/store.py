"""What the SQLite store costs: appends, trims, duplicates, replay, start, bytes, memory.

Run ``python -m benchmarks.store [--rows N]``; prints JSON. Appends are compared, in alternating
blocks of one run, with a bare ``executemany`` of the same rows, already laid out, into a table
of the same shape with the same unique index and the same settings.
"""

import argparse
import json
import os
import random
import sqlite3
import statistics
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, Final

from estimator.core.observation import Completion
from estimator.store.base import Checkpoint, StoredCompletion
from estimator.store.sqlite import SqliteStore, open_store
from estimator.store.sqlite_file import Synchronous, connect, transaction
from estimator.store.sqlite_rows import INSERT_COMPLETION, Labels, encode

BATCH_SIZES: Final = (256, 2048)
N_MODELS: Final = 50
N_LANGUAGES: Final = 100
N_CLIENTS: Final = 8
_BLOCK: Final = 8192


def completions(n: int, *, first: int = 0, seed: int = 0) -> Iterator[Completion]:
    """Yield completions as engines report them: 5,000 keys, eight engines, hashed ids."""
    rng = random.Random(seed)
    boots = [str(uuid.UUID(int=rng.getrandbits(128), version=4)) for _ in range(N_CLIENTS)]
    for number in range(first, first + n):
        boot = boots[number % N_CLIENTS]
        audio_s = rng.uniform(1.0, 30.0)
        yield Completion(
            completion_id=f"{boot}-{number // N_CLIENTS}",
            model=f"openai/whisper-{rng.randrange(N_MODELS)}",
            language=f"l{rng.randrange(N_LANGUAGES)}",
            timestamps=False,
            audio_s=audio_s,
            duration_source="mel",
            prompt_tokens=4,
            output_tokens=int(3 * audio_s) + rng.randrange(6),
            max_tokens=444,
            finished_s=1.7e9 + number * 1e-3,
            wait_s=rng.random(),
            service_s=rng.random(),
            concurrency=rng.uniform(1.0, 32.0),
            predicted_tokens=3.1 * audio_s,
            snapshot_version=number // 100,
            request_hash=f"{rng.getrandbits(128):032x}",
            queue_id="q0",
            client_id=f"whisper-7f9c6b5d8-abcde/0/{boot}",
        )


def _timed(call: Callable[[], object]) -> tuple[float, float]:
    """Give the CPU and wall seconds of a call."""
    cpu_s, wall_s = time.thread_time(), time.perf_counter()
    call()
    return time.thread_time() - cpu_s, time.perf_counter() - wall_s


def _insert(connection: sqlite3.Connection, rows: list[list[Any]]) -> None:
    with transaction(connection):
        connection.executemany(INSERT_COMPLETION, rows)


def _drop_from_page_cache(path: Path) -> None:
    with path.open("rb") as file:
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def compare_appends(directory: Path, rows: int, batch_size: int) -> dict[str, float]:
    """Measure appends against bare inserts, block by block."""
    store = SqliteStore(directory / f"store-{batch_size}.db", max_completions=rows)
    bare = connect(directory / f"bare-{batch_size}.db", synchronous="NORMAL")
    labels = Labels(bare)
    source = completions(rows)
    ours_s: list[float] = []
    bare_s: list[float] = []
    ours_wall_s = 0.0
    slowest_s = 0.0
    done = 0
    while done < rows:
        block = [next(source) for _ in range(min(_BLOCK, rows - done))]
        laid_out = [
            encode(StoredCompletion(done + i, completion), labels, 2e9)
            for i, completion in enumerate(block, start=1)
        ]
        for at in range(0, len(block), batch_size):
            part, part_rows = block[at : at + batch_size], laid_out[at : at + batch_size]

            cpu_s, wall_s = _timed(partial(store.append, part))
            ours_s.append(cpu_s)
            ours_wall_s += wall_s
            slowest_s = max(slowest_s, wall_s)
            bare_s.append(_timed(partial(_insert, bare, part_rows))[0])
        done += len(block)
    bare.close()
    assert store.last_row_id() == rows
    trim = [
        _timed(partial(store.append, part))
        for part in _batches(completions(rows // 4, first=rows), batch_size)
    ]
    assert store.count() == rows
    again = list(completions(rows // 4, first=rows))[-batch_size:]
    duplicate_s, _ = _timed(lambda: store.append(again))
    assert store.last_row_id() == rows + rows // 4
    store.close()
    return {
        "append_us": 1e6 * sum(ours_s) / rows,
        "append_wall_us": 1e6 * ours_wall_s / rows,
        "bare_insert_us": 1e6 * sum(bare_s) / rows,
        "ratio_to_bare_insert": sum(ours_s) / sum(bare_s),
        "append_slowest_ms": 1e3 * slowest_s,
        "append_and_trim_us": 1e6 * sum(cpu for cpu, _ in trim) / (rows // 4),
        "append_and_trim_slowest_ms": 1e3 * max(wall for _, wall in trim),
        "duplicate_us": 1e6 * duplicate_s / len(again),
    }


def _batches(source: Iterator[Completion], size: int) -> Iterator[list[Completion]]:
    batch: list[Completion] = []
    for completion in source:
        batch.append(completion)
        if len(batch) == size:
            yield batch
            batch = []
    if batch:
        yield batch


def measure_commits(directory: Path, synchronous: Synchronous) -> float:
    """Give the median wall milliseconds of an append of 256."""
    store = SqliteStore(directory / f"{synchronous}.db", synchronous=synchronous)
    walls = [
        _timed(partial(store.append, batch))[1] for batch in _batches(completions(100 * 256), 256)
    ]
    store.close()
    return 1e3 * statistics.median(walls)


def measure_size(directory: Path, rows: int) -> dict[str, float]:
    """Fill a store; give its bytes, the time to open it, to replay it, and resident memory."""
    path = directory / "size.db"
    store = SqliteStore(path, max_completions=rows)
    fifth_mib = 0.0
    for batch in _batches(completions(rows), 2048):
        store.append(batch)
        if not fifth_mib and store.count() >= rows // 5:
            fifth_mib = _resident_mib()
    full_mib = _resident_mib()
    # As large as the state of 5,000 keys.
    state = {"schema": 1, "keys": [[float(n)] * 40 for n in range(5_000)]}
    checkpoint = Checkpoint(row_id=rows, state=state, snapshot_version=1, created_s=0.0)
    _, save_s = _timed(lambda: store.save_checkpoint(checkpoint))
    store.close()
    _drop_from_page_cache(path)
    started = time.perf_counter()
    store, warnings = open_store(path)
    assert not warnings
    assert store.count() == rows
    assert store.load_checkpoint() is not None
    open_s = time.perf_counter() - started
    n_read = min(rows, 50_000)
    _, read_s = _timed(lambda: store.read(after_row_id=rows - n_read, limit=n_read))
    store.close()
    return {
        "rows": rows,
        "file_mib": path.stat().st_size / 2**20,
        "bytes_per_row": path.stat().st_size / rows,
        "open_cold_and_load_checkpoint_ms": 1e3 * open_s,
        "save_checkpoint_ms": 1e3 * save_s,
        "replay_us": 1e6 * read_s / n_read,
        "resident_mib_at_a_fifth": fifth_mib,
        "resident_mib_full": full_mib,
    }


def _resident_mib() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def measure(rows: int = 100_000) -> dict[str, object]:
    """Run all of it in a temporary directory; ten seconds for the default."""
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        return {
            "size": measure_size(directory, rows),
            "appends": {
                str(size): compare_appends(directory, min(rows, 100_000), size)
                for size in BATCH_SIZES
            },
            "append_256_normal_ms": measure_commits(directory, "NORMAL"),
            "append_256_full_ms": measure_commits(directory, "FULL"),
        }


def main() -> None:
    """Print the measurement as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=100_000)
    print(json.dumps(measure(parser.parse_args().rows), indent=2))


if __name__ == "__main__":
    main()
