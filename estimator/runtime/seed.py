"""A seed: what one sidecar learned, in a file that another one starts from.

Owns the file's format, and the checks that a file has to pass. What the state in it looks like is
the core's.
"""

import hashlib
import json
import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import IO, Any, Final, NoReturn

from estimator.store.state_text import encoded

__all__ = ["MAX_SEED_BYTES", "Seed", "SeedError", "read_seed", "write_seed"]

FORMAT: Final = "kappad-seed"
# Raised with every change of the document around the state, which has a schema of its own.
VERSION: Final = 1
# What 20,000 keys take is a fifth of it (1.2 KB a key); the largest takes some 500 MB to read.
MAX_SEED_BYTES: Final = 128 * 2**20
_REMEDY: Final = (
    "export it again (`kappad export --model FILE`) from a sidecar of this version, or start "
    "without a seed"
)


class SeedError(Exception):
    """A seed that cannot be used; the message names the file, the reason and the remedy."""

    def __init__(self, path: str | os.PathLike[str], reason: str, remedy: str = _REMEDY) -> None:
        super().__init__(f"seed {os.fspath(path)!r}: {reason}; {remedy}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Seed:
    """What a seed file holds.

    Attributes
    ----------
    created : str
        When it was taken, UTC, ISO 8601.
    kappad_version : str
        Of the sidecar that it was taken from.
    model : str
        The served model that it was narrowed to; empty for all.
    learned_count : int
        Completions behind it.
    key_count : int
        Keys with a κ in it.
    state : Mapping
        What `estimator.core.pipeline.Pipeline` restores: JSON (hence Any).
    """

    created: str
    kappad_version: str
    model: str
    learned_count: int
    key_count: int
    state: Mapping[str, Any]


def write_seed(
    out: IO[str],
    state: str,
    *,
    created_s: float,
    kappad_version: str,
    model: str,
    learned_count: int,
    key_count: int,
) -> None:
    """Write a seed.

    Parameters
    ----------
    out : text file
        Open for writing.
    state : str
        The state as `encoded` gives it; written as it is.
    created_s : float
        Unix time.
    kappad_version, model, learned_count, key_count
        See `Seed`.
    """
    digest = hashlib.sha256(state.encode()).hexdigest()
    head = {
        "format": FORMAT,
        "version": VERSION,
        "created": datetime.fromtimestamp(created_s, UTC).isoformat(timespec="seconds"),
        "kappad_version": kappad_version,
        "model": model,
        "learned_count": learned_count,
        "key_count": key_count,
        "state_sha256": digest,
    }
    out.write(f'{json.dumps(head)[:-1]}, "state": ')
    out.write(state)
    out.write("}\n")


def read_seed(path: str | os.PathLike[str]) -> Seed:
    """Read a seed; the state in it is not looked at.

    Parameters
    ----------
    path : path
        The file.

    Returns
    -------
    Seed

    Raises
    ------
    SeedError
        If it cannot be read, is too large, or is no seed of this format.
    """
    document = _document(path, _text(path))
    if document.get("format") != FORMAT:
        raise SeedError(path, "is no seed: its format is not 'kappad-seed'")
    if document.get("version") != VERSION:
        found = document.get("version")
        raise SeedError(path, f"has format version {found!r}, this version reads {VERSION}")
    try:
        seed = Seed(**{name: document[name] for name in Seed.__slots__})
    except KeyError as error:
        raise SeedError(path, f"is damaged: {error.args[0]!r} is missing") from error
    for name, kind in _KINDS.items():
        if not isinstance(getattr(seed, name), kind):
            raise SeedError(path, f"is damaged: {name!r} is no {kind.__name__}")
    # A number that was changed may be as good a number to every other check.
    digest = hashlib.sha256()
    try:
        for part in encoded(seed.state):
            digest.update(part.encode())
    except ValueError as error:  # 1e999 is read as infinity
        raise SeedError(path, f"is damaged: {_short(error)}") from error
    if digest.hexdigest() != document.get("state_sha256"):
        raise SeedError(path, "is damaged: its state does not match its checksum")
    return seed


_KINDS: Final[Mapping[str, type]] = {
    "created": str, "kappad_version": str, "model": str, "learned_count": int, "key_count": int,
    "state": dict,
}  # fmt: skip


def _text(path: str | os.PathLike[str]) -> bytes:
    try:
        # Without O_NONBLOCK, opening a pipe waits for its writer.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        with open(descriptor, "rb") as file:  # noqa: PTH123 # a descriptor
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise SeedError(path, "is no regular file", "name the file that was exported")
            # What is read counts, not what a file claims that may still grow.
            text = file.read(MAX_SEED_BYTES + 1)
    except OSError as error:
        reason = f"cannot be read: {error.strerror or error}"
        raise SeedError(path, reason, "check its path and permissions") from error
    if len(text) > MAX_SEED_BYTES:
        raise SeedError(
            path,
            f"is larger than {MAX_SEED_BYTES >> 20} MiB",
            "export one model alone (--served-model), or start without a seed",
        )
    return text


def _document(path: str | os.PathLike[str], text: bytes) -> dict[str, Any]:
    # Any: JSON of unknown shape; `read_seed` looks at it.
    try:
        document = json.loads(text, parse_constant=_refuse)
    except (ValueError, RecursionError) as error:
        raise SeedError(path, f"is no seed: {_short(error)}") from error
    if not isinstance(document, dict):
        raise SeedError(path, "is no seed: it holds no JSON object")
    return document


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is no number of JSON")


def _short(error: Exception) -> str:
    # A decoding error of a binary file may quote all of it.
    return " ".join(str(error).split())[:120] or type(error).__name__
