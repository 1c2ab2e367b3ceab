"""Which requests are pieces of one file.

vLLM cuts audio at 30 s and sends each piece as a request of its own (entrypoints/speech_to_text):
their ids are ``<task>-<X-Request-Id>-<piece>-<8 hex digits>`` with pieces from 0 on, and all have
the ``arrival_time`` of the file, also where ``stream=true`` sends one after another. Callers
choose the middle of the id, so it alone proves nothing; the time is a float of nanoseconds or
less that the API server stamps. The prompts of one batch of completions come in the same way,
and their caller too waits for the last.
"""

from collections import OrderedDict
from typing import Final

from sched_client.request_ids import MAX_ID_LENGTH

# Engine ids end in a dash and 8 hexadecimal digits; pieces of one file have a number before it.
_HEX_SUFFIX: Final = 9
# 34 hours of audio. A number beyond is a caller's own.
_MAX_PIECES: Final = 4096
# Files whose pieces may still be coming; the oldest is forgotten beyond this.
MAX_GROUPS: Final = 4096


class _Group:
    """What was seen of one group."""

    __slots__ = ("first", "mixed", "pieces", "size")

    def __init__(self, first: str) -> None:
        self.first = first
        self.size = 1
        self.pieces = 1  # a bit for each piece
        self.mixed = (
            False  # a piece came twice: there are two files, and no telling which is whose
        )


class FileGroups:
    """The groups that requests belong to; a group counts from its second member on.

    Notes
    -----
    A group begins with piece 0, and takes each piece once. Who comes before it, or again, is on
    its own: strangers are never taken for one file, and from a repeated piece on nobody joins.
    """

    def __init__(self) -> None:
        self._groups: OrderedDict[str, _Group] = OrderedDict()
        self._completed: list[str] = []

    def __len__(self) -> int:
        """Count the groups that are remembered, those of one member included."""
        return len(self._groups)

    def of(self, request_id: str, arrival_time: float) -> str:
        """Give the group that a request which arrives is a piece of, empty for none."""
        found = piece_of(request_id)
        if found is None:
            return ""
        prefix, piece = found
        name = f"{prefix}@{arrival_time}"
        group = self._groups.get(name)
        if group is None:
            if piece:
                return ""
            self._begin(name, request_id)
            return name
        bit = 1 << piece
        if group.pieces & bit:
            group.mixed = True
        if group.mixed:
            return ""
        group.pieces |= bit
        self._join(group)
        return name

    def named(self, name: str, request_id: str) -> None:
        """Count a request as a member of a group that its caller named."""
        group = self._groups.get(name)
        if group is None:
            self._begin(name, request_id)
        else:
            self._join(group)

    def counts(self, name: str) -> bool:
        """Tell whether a group has two members or more."""
        group = self._groups.get(name)
        return group is not None and group.size > 1

    def take_completed(self) -> list[str]:
        """Give, once, the first member of each group that has just got its second."""
        completed = self._completed
        if completed:
            self._completed = []
        return completed

    def _begin(self, name: str, request_id: str) -> None:
        self._groups[name] = _Group(request_id)
        if len(self._groups) > MAX_GROUPS:
            self._groups.popitem(last=False)

    def _join(self, group: _Group) -> None:
        group.size += 1
        if group.size == 2:  # noqa: PLR2004 - the second member makes it a group
            self._completed.append(group.first)
            group.first = ""


def piece_of(request_id: str) -> tuple[str, int] | None:
    """Give what the pieces of one file share in their ids, and which one this may be.

    Examples
    --------
    >>> piece_of("transcribe-abc-1-0123abcd")
    ('transcribe-abc', 1)
    >>> piece_of("transcribe-abc-0123abcd")
    >>> piece_of("transcribe-abc-01-0123abcd")
    """
    if len(request_id) > MAX_ID_LENGTH:
        return None
    head, dash, number = request_id[:-_HEX_SUFFIX].rpartition("-")
    # As vLLM writes numbers: no other digits, no zeros before it.
    if not (
        dash and number.isascii() and number.isdecimal() and len(number) <= len(str(_MAX_PIECES))
    ):
        return None
    piece = int(number)
    return (head, piece) if piece < _MAX_PIECES and str(piece) == number else None
