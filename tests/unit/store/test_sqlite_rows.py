"""Labels: a name is stored once, and in one form only."""

import sqlite3
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path

import pytest

from estimator.core.observation import Completion
from estimator.store.base import StoredCompletion
from estimator.store.sqlite_file import connect
from estimator.store.sqlite_rows import (
    INSERT_COMPLETION,
    SELECT_COMPLETION,
    Labels,
    decode,
    encode,
)


@pytest.fixture
def connection(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    opened = connect(tmp_path / "kappad.db", synchronous="NORMAL")
    yield opened
    opened.close()


def test_a_name_keeps_its_number(connection: sqlite3.Connection) -> None:
    labels = Labels(connection)
    assert [labels["en"], labels["de"], labels["en"]] == [1, 2, 1]
    assert [labels.text(2), labels.text(1)] == ["de", "en"]


def test_labels_are_read_back(connection: sqlite3.Connection) -> None:
    labels = Labels(connection)
    assert labels["en"] == 1
    labels.write(connection)
    labels.committed()
    again = Labels(connection)
    assert again["en"] == 1
    assert again["de"] == 2


def test_labels_of_a_failed_transaction_are_written_by_the_next(
    connection: sqlite3.Connection,
) -> None:
    labels = Labels(connection)
    connection.execute("BEGIN")
    assert labels["en"] == 1
    labels.write(connection)
    connection.execute("ROLLBACK")
    assert labels["de"] == 2
    labels.write(connection)
    labels.committed()
    labels.write(connection)
    assert Labels(connection) == {"en": 1, "de": 2}


def test_beyond_the_limit_a_name_stands_for_itself(connection: sqlite3.Connection) -> None:
    labels = Labels(connection, limit=2)
    assert [labels[name] for name in ("a", "b", "c", "c", "a")] == [1, 2, "c", "c", 1]
    assert len(labels) == 2
    assert labels.text("c") == "c"


def test_a_name_that_looks_like_a_number_comes_back_as_itself(
    connection: sqlite3.Connection,
) -> None:
    labels = Labels(connection, limit=1)
    stored = StoredCompletion(1, Completion(completion_id="x", model="m", language="1"))
    connection.execute(INSERT_COMPLETION, encode(stored, labels, 0.0))
    labels.write(connection)
    assert decode(connection.execute(SELECT_COMPLETION).fetchone(), labels) == stored
    # The view as well: label 1 is the model, not the language.
    row = connection.execute("SELECT model, language FROM completion_text").fetchone()
    assert row == ("m", "1")


def test_every_field_of_a_completion_has_a_column(connection: sqlite3.Connection) -> None:
    columns = {row[1] for row in connection.execute("PRAGMA table_info(completion)")}
    assert columns == {field.name for field in fields(Completion)} | {"row_id", "horizon_s"}
