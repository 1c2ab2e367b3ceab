"""How a completion and its names are laid out in a row.

Owns the order of the columns and the table of labels. Touches no file but through the
connection that it is given.
"""

import sqlite3
from operator import attrgetter
from typing import Any, Final

from estimator.core.observation import COMPLETION_FIELDS, completion_of
from estimator.store.base import StoredCompletion

__all__ = ["INSERT_COMPLETION", "SELECT_COMPLETION", "Labels", "decode", "encode"]

# What a row holds of a name: the number of its label, or the name itself.
Code = int | str

# Enough for years of restarted engines; beyond it names are stored in full in each row. Four
# MiB of memory when full, which is why it is not larger.
MAX_LABELS: Final = 16_384

_LABELLED: Final = frozenset(
    {
        "model", "task", "language", "kind", "duration_source", "finish_reason", "request_type",
        "queue_id", "client_id",
    }
)  # fmt: skip
# A row is a completion's fields in their own order, between its id and its horizon.
_STORED: Final = ("row_id", *COMPLETION_FIELDS)
_LABELLED_AT: Final = tuple(at for at, name in enumerate(_STORED) if name in _LABELLED)
_TIMESTAMPS_AT: Final = _STORED.index("timestamps")
_fields_of: Final = attrgetter(*COMPLETION_FIELDS)

# The names are constants of this module, nothing of a request is in the text.
INSERT_COMPLETION: Final = (
    f"INSERT INTO completion ({', '.join(_STORED)}, horizon_s) "  # noqa: S608 - see above
    f"VALUES ({', '.join('?' * (len(_STORED) + 1))})"
)
SELECT_COMPLETION: Final = f"SELECT {', '.join(_STORED)} FROM completion"  # noqa: S608 - see above


class Labels(dict[str, Code]):
    """Numbers for names that repeat; indexing a new name gives it the next number.

    Parameters
    ----------
    connection : sqlite3.Connection
        Read once for the labels that exist.
    limit : int
        Names beyond this many stand for themselves.

    Notes
    -----
    A label is never removed or renumbered, and a name met after the limit never becomes one, so
    a name is always written in the same form and can be compared in SQL.
    """

    def __init__(self, connection: sqlite3.Connection, *, limit: int = MAX_LABELS) -> None:
        rows = connection.execute("SELECT text, label_id FROM label").fetchall()
        super().__init__(rows)
        self._limit = limit
        self._texts: dict[int, str] = {number: text for text, number in rows}
        self._next = max(self._texts, default=0) + 1
        self._pending: list[tuple[int, str]] = []

    def __missing__(self, text: str) -> Code:
        if len(self._texts) >= self._limit:
            return text
        number = self._next
        self._next += 1
        self[text] = number
        self._texts[number] = text
        self._pending.append((number, text))
        return number

    def text(self, code: Code) -> str:
        """Give the name that a code of a row stands for."""
        return self._texts[code] if isinstance(code, int) else code

    def write(self, connection: sqlite3.Connection) -> None:
        """Insert the new labels, within the transaction of the rows that use them."""
        if self._pending:
            connection.executemany("INSERT INTO label VALUES (?, ?)", self._pending)

    def committed(self) -> None:
        """Take the new labels as written; before that, each transaction writes them again."""
        self._pending.clear()


# Any in the next two: values of mixed types, in the order of the columns.
def encode(stored: StoredCompletion, labels: Labels, received_s: float) -> list[Any]:
    """Lay a completion out for `INSERT_COMPLETION`."""
    row_id, completion = stored
    values = [row_id, *_fields_of(completion), None]
    for at in _LABELLED_AT:
        values[at] = labels[values[at]]
    if completion.finished_s > received_s:
        values[-1] = received_s
    return values


def decode(row: tuple[Any, ...], labels: Labels) -> StoredCompletion:
    """Build the completion of a row of `SELECT_COMPLETION`."""
    values = list(row)
    for at in _LABELLED_AT:
        values[at] = labels.text(values[at])
    if values[_TIMESTAMPS_AT] is not None:
        values[_TIMESTAMPS_AT] = bool(values[_TIMESTAMPS_AT])
    return StoredCompletion(values[0], completion_of(*values[1:]))
