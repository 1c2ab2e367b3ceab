"""Opaque page tokens: where to go on, and with which other arguments they were made."""

import base64
import json
from typing import Final

from estimator.runtime.errors import InvalidRequestError

__all__ = ["decode_token", "encode_token", "integer_of", "text_of"]

# The longest that we make has four names of 128 characters, each up to 12 bytes in JSON, and all
# of it in base64; a longer one is not ours.
_TOKEN_LIMIT: Final = 10_000

Cursor = list[int | str | None]


def encode_token(arguments: list[str], cursor: Cursor) -> str:
    """Make the token of a next page.

    Parameters
    ----------
    arguments : list of str
        The method and its filters: a token is good for these only.
    cursor : list
        The last row given: keyset, so that a page costs the same wherever it is.

    Returns
    -------
    str
        URL-safe.
    """
    text = json.dumps([arguments, cursor], separators=(",", ":"))
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def decode_token(token: str, arguments: list[str], *, length: int) -> Cursor | None:
    """Read a token.

    Parameters
    ----------
    token : str
        As sent; empty for the first page.
    arguments : list of str
        As the caller repeats them.
    length : int
        How many items the cursor has.

    Returns
    -------
    list or None
        The cursor; None for the first page.

    Raises
    ------
    InvalidRequestError
        If it is none of ours, or made for other arguments.
    """
    if not token:
        return None
    remedy = "repeat the arguments of the first page, or start again without a token"
    try:
        padded = token[:_TOKEN_LIMIT] + "=" * (-len(token) % 4)
        made_for, cursor = json.loads(base64.b64decode(padded, altchars=b"-_", validate=True))
    except (ValueError, TypeError, RecursionError):
        made_for = cursor = None
    if not isinstance(cursor, list) or len(cursor) != length:
        raise InvalidRequestError(
            [("page_token", f"is no token of this sidecar; {remedy}")], reason="PAGE_TOKEN_INVALID"
        )
    if made_for != arguments:
        raise InvalidRequestError(
            [("page_token", f"was made for other arguments; {remedy}")],
            reason="PAGE_TOKEN_INVALID",
        )
    return cursor


def integer_of(cursor: Cursor | None) -> int | None:
    """Give the row id of a cursor that is one, or None for the first page."""
    if cursor is None:
        return None
    value = cursor[0]
    # SQLite's integers have 64 bits.
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < 2**63:
        raise InvalidRequestError(
            [("page_token", "is no token of this sidecar; start again without one")],
            reason="PAGE_TOKEN_INVALID",
        )
    return value


def text_of(cursor: Cursor | None) -> str | None:
    """Give the name of a cursor that is one, or None for the first page."""
    if cursor is None:
        return None
    value = cursor[0]
    if not isinstance(value, str):
        raise InvalidRequestError(
            [("page_token", "is no token of this sidecar; start again without one")],
            reason="PAGE_TOKEN_INVALID",
        )
    return value
