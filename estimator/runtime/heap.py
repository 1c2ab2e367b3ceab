"""Gives memory that was freed back to the system, where the C library is glibc."""

import ctypes
from collections.abc import Callable
from typing import Final

__all__ = ["map_large_blocks", "trim"]

# mallopt(3): what is at least so large is mapped by itself, and unmapped when it is freed.
_M_MMAP_THRESHOLD: Final = -3
_LARGE_BYTES: Final = 1 << 20


def _find(name: str) -> Callable[..., int] | None:
    try:
        found: Callable[..., int] = getattr(ctypes.CDLL(None), name)
    except (OSError, AttributeError):  # not glibc
        return None
    return found


_malloc_trim = _find("malloc_trim")
_mallopt = _find("mallopt")


def map_large_blocks() -> bool:
    """Keep large blocks out of the heap; say whether that is possible here.

    By itself glibc raises the threshold to the size of the first large block that is freed, here
    the text of a checkpoint, 12 MiB for 5,000 keys; the next ones then leave holes in the heap of
    the store's thread, of which one or two stayed for good.
    """
    return _mallopt is not None and bool(_mallopt(_M_MMAP_THRESHOLD, _LARGE_BYTES))


def trim() -> bool:
    """Return free pages of the heap; say whether that is possible here.

    glibc keeps what a large piece of work has used: 11 MiB after a checkpoint of 5,000 keys,
    which a process that is watched for growth should not hold. Takes 1 ms.
    """
    if _malloc_trim is None:
        return False
    _malloc_trim(0)
    return True
