"""A learner's state as JSON text, made part by part.

In one call, 20,000 keys would keep every other thread waiting for 0.3 s, and their lists and the
text would be in memory at once: a heap does not shrink again after such a peak.
"""

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

_strict: Final = json.JSONEncoder(separators=(",", ":"), allow_nan=False).encode
_lenient: Final = json.JSONEncoder(separators=(",", ":")).encode


def encoded(state: Mapping[str, Any], *, strict: bool = True) -> Iterator[str]:
    """Encode a state as `json.dumps` without spaces does.

    Parameters
    ----------
    state : Mapping
        Of what `Pipeline.state` holds: JSON (hence Any); an iterator stands for a list.
    strict : bool
        Whether to refuse numbers that are not finite. A checkpoint takes them: whoever restores it
        finds them, and replays.

    Yields
    ------
    str
        The next part.

    Raises
    ------
    ValueError
        For a number that is not finite, if ``strict``.
    """
    dumps = _strict if strict else _lenient
    before = "{"
    for name, value in state.items():
        yield f"{before}{dumps(name)}:"
        before = ","
        if not isinstance(value, list | Iterator):
            yield dumps(value)
            continue
        opening = "["
        for item in value:
            yield opening + dumps(item)
            opening = ","
        yield "]" if opening == "," else "[]"
    yield "}" if before == "," else "{}"


def text_of(state: Mapping[str, Any], *, strict: bool = True) -> str:
    """Encode a state as one text; parameters and errors as of `encoded`."""
    # One growing buffer: a list of 20,000 parts would leave as many holes in the heap.
    text = bytearray()
    for part in encoded(state, strict=strict):
        text += part.encode()
    return text.decode()
