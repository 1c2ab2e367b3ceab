"""How a caller's request id becomes the hash that leaves the engine. Standard library only.

The client writes the hash with each completion; the sidecar makes it again from an id that an
operator asks about. Neither keeps the id.
"""

import hashlib
import re
from collections.abc import Iterator
from typing import Final

__all__ = ["MAX_ID_LENGTH", "HashKey", "asked_ids", "caller_part"]

# Callers choose most of an id. Beyond this its head is cut: the engine's own digits end it.
MAX_ID_LENGTH: Final = 256
_HASH_BYTES: Final = 16
# vLLM ends the id of each engine request in a dash and eight random hexadecimal digits
# (v1/engine/input_processor.py), which no caller is ever told.
_ENGINE_SUFFIX: Final = re.compile(r"-[0-9a-f]{8}")
_SUFFIX_LENGTH: Final = 9
# What is left of an id that was cut, whether the engine's digits ended it or not.
_MAX_PART: Final = MAX_ID_LENGTH - _SUFFIX_LENGTH
# What vLLM's endpoints put before X-Request-Id.
_PREFIXES: Final = ("", "transcribe-", "translate-", "chatcmpl-", "cmpl-")
# A file is cut at 30 s: 32 minutes. vLLM refuses more than 10 unless told otherwise.
_MAX_PIECES: Final = 64
_SUFFIXES: Final = ("", "-lang_detect", *(f"-{piece}" for piece in range(_MAX_PIECES)))


def caller_part(engine_id: str) -> str:
    """Give what an engine request's id has from its caller and the endpoint.

    Examples
    --------
    >>> caller_part("transcribe-abc-1-0123abcd")
    'transcribe-abc-1'
    >>> caller_part("transcribe-abc")
    'transcribe-abc'
    """
    if _ENGINE_SUFFIX.fullmatch(engine_id[-_SUFFIX_LENGTH:]):
        engine_id = engine_id[:-_SUFFIX_LENGTH]
    return engine_id[-_MAX_PART:]


def asked_ids(text: str) -> Iterator[str]:
    """Yield each `caller_part` that somebody who knows a request by ``text`` may mean.

    Parameters
    ----------
    text : str
        ``X-Request-Id`` as sent, or an id as vLLM's answers and logs have it.

    Yields
    ------
    str
        The text alone, with each endpoint's prefix, and with what marks the pieces of a file
        and the detection of its language; some 330 in all.
    """
    for base in dict.fromkeys((caller_part(text), text)):
        for prefix in _PREFIXES:
            for suffix in _SUFFIXES:
                yield f"{prefix}{base}{suffix}"[-_MAX_PART:]


class HashKey:
    """Hashes ids under the key of one engine boot.

    Parameters
    ----------
    boot_id : str
        Engine boot uuid; begins each of its completion ids.

    Notes
    -----
    Keyed, so that the same id gives another hash after a restart and hashes of two engines
    cannot be joined. The key is no secret to whoever holds the completions.
    """

    __slots__ = ("_key",)

    def __init__(self, boot_id: str) -> None:
        self._key = hashlib.blake2b(boot_id.encode(), person=b"kappad-ids").digest()

    def hash(self, text: str) -> str:
        """Give 32 hexadecimal digits; an empty text stays empty."""
        if not text:
            return ""
        data = text.encode("utf-8", "surrogatepass")
        return hashlib.blake2b(data, digest_size=_HASH_BYTES, key=self._key).hexdigest()
