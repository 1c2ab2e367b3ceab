"""The little of protobuf's wire format that the client reads by itself.

Cutting a long message between two of its fields gives shorter messages whose merge is the
original (protobuf encoding guide, "Last One Wins" and "Merging"); so a snapshot is parsed in
slices without the sidecar's help. Standard library only.
"""

from collections.abc import Iterator
from typing import Final, NamedTuple

_VARINT: Final = 0
_FIXED64: Final = 1
_BYTES: Final = 2
_FIXED32: Final = 5
_MAX_VARINT_BYTES: Final = 10
# The bit of a varint's byte that says that more follow.
_CONTINUED: Final = 0x80


class WireError(ValueError):
    """The bytes are no protobuf message."""


class Field(NamedTuple):
    """One field: its number, where its tag, its content and the next field begin."""

    number: int
    start: int
    content: int
    end: int
    is_bytes: bool


def fields(data: bytes, start: int = 0, end: int | None = None) -> Iterator[Field]:
    """Yield the top-level fields of the message in ``data[start:end]``.

    Raises
    ------
    WireError
        Where the bytes are cut short or are no protobuf message.
    """
    stop = len(data) if end is None else end
    at = start
    while at < stop:
        tag, content = _varint(data, at, stop)
        kind = tag & 7
        if kind == _BYTES:
            length, content = _varint(data, content, stop)
            following = content + length
        elif kind == _VARINT:
            _, following = _varint(data, content, stop)
        elif kind == _FIXED64:
            following = content + 8
        elif kind == _FIXED32:
            following = content + 4
        else:
            raise WireError(f"byte {at}: wire type {kind} is not in use")
        if following > stop:
            raise WireError(f"byte {at}: field {tag >> 3} ends beyond the message")
        yield Field(tag >> 3, at, content, following, kind == _BYTES)
        at = following


def cuts(data: bytes, start: int, end: int, size: int) -> Iterator[tuple[int, int]]:
    """Cut the message in ``data[start:end]`` between fields, into pieces of about ``size`` bytes.

    Yields
    ------
    tuple of int
        Where a piece begins and ends; a longer piece is a single field.

    Raises
    ------
    WireError
        As `fields`.
    """
    at = start
    while at < end:
        begin, limit = at, at + size
        while at < end:
            # A short field of bytes takes two of tag and length: 0.1 µs here, 0.9 µs in general.
            if at + 1 < end and data[at] & 0x87 == _BYTES and data[at + 1] < _CONTINUED:
                following = at + 2 + data[at + 1]
                if following > end:
                    raise WireError(f"byte {at}: a field ends beyond the message")
            else:
                following = next(fields(data, at, end)).end
            if following > limit and at > begin:
                break
            at = following
        yield begin, at


def _varint(data: bytes, at: int, stop: int) -> tuple[int, int]:
    value = 0
    for offset in range(_MAX_VARINT_BYTES):
        if at + offset >= stop:
            break
        byte = data[at + offset]
        value |= (byte & 0x7F) << (7 * offset)
        if byte < _CONTINUED:
            return value, at + offset + 1
    raise WireError(f"byte {at}: a varint is cut short or longer than {_MAX_VARINT_BYTES} bytes")
