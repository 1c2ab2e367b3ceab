"""The table of partitions in SQLite: what each row holds, and its bound."""

import json
import sqlite3
from dataclasses import asdict
from typing import Any, Final

from estimator.store.base import PartitionRecord
from sched_client.model import Partition

__all__ = ["insert_partition", "select_partitions"]

_COLUMNS: Final = (
    "model, number, queues, reason, detail, completions, points, fit_s, installed_s, "
    "snapshot_version"
)


def insert_partition(connection: sqlite3.Connection, record: PartitionRecord, most: int) -> None:
    """Add a row; of more than ``most``, the oldest go."""
    connection.execute(
        f"INSERT INTO partition_revision ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",  # noqa: S608 - constants
        (
            record.model,
            record.number,
            json.dumps(asdict(record.partition), separators=(",", ":")),
            record.reason,
            record.text,
            record.completions,
            record.points,
            record.fit_s,
            record.installed_s,
            record.snapshot_version,
        ),
    )
    connection.execute(
        "DELETE FROM partition_revision WHERE revision_id <= "
        "(SELECT MAX(revision_id) FROM partition_revision) - ?",
        (most,),
    )


def select_partitions(
    connection: sqlite3.Connection, *, model: str, before_id: int, limit: int
) -> list[tuple[int, PartitionRecord]]:
    """Give rows newest first; an empty model matches all."""
    rows = connection.execute(
        f"SELECT revision_id, {_COLUMNS} FROM partition_revision "  # noqa: S608 - constants
        "WHERE revision_id < ? AND (? = '' OR model = ?) ORDER BY revision_id DESC LIMIT ?",
        (before_id, model, model, limit),
    )
    return [(row[0], _record_of(row[1:])) for row in rows]


def _record_of(row: tuple[Any, ...]) -> PartitionRecord:  # Any: a row of mixed types.
    # A list of the JSON is a tuple of ours.
    queues = {name: tuple(values) for name, values in json.loads(row[2]).items()}
    return PartitionRecord(
        model=row[0],
        number=row[1],
        partition=Partition(**queues),
        reason=row[3],
        text=row[4],
        completions=row[5],
        points=row[6],
        fit_s=row[7],
        installed_s=row[8],
        snapshot_version=row[9],
    )
