"""A table of κ that Python's garbage collector need not walk.

A snapshot may bring 5,000 keys several times a second. As objects they made the collector run
20 times a snapshot, for 0.1 to 1.5 ms each and now and then on the engine's thread; packed into
bytes, and with the keys shared between snapshots, they make it run never. Standard library only.
"""

from collections.abc import Iterator, Mapping
from struct import Struct
from typing import Final

from sched_client.model import KappaEntry, Key

_FORMAT: Final = Struct("<5dq?")


class PackedKappas(Mapping[Key, KappaEntry]):
    """Entries of κ by key, each unpacked when it is asked for.

    Parameters
    ----------
    base : Mapping of Key to KappaEntry
        What to begin with; copied, in one call where it is packed itself.
    """

    __slots__ = ("_packed",)

    def __init__(self, base: Mapping[Key, KappaEntry] | None = None) -> None:
        self._packed: dict[Key, bytes] = {}
        if isinstance(base, PackedKappas):
            # 25 µs for 5,000 keys.
            self._packed = dict(base._packed)  # noqa: SLF001 - its own class
        elif base is not None:
            for key, entry in base.items():
                self.put(key, entry)

    def put(self, key: Key, entry: KappaEntry) -> None:
        """Add or replace an entry; only before the table is shown to another thread.

        Raises
        ------
        struct.error
            If the sample count has more than 63 bits.
        """
        self._packed[key] = _FORMAT.pack(
            entry.kappa_tokens_per_s,
            entry.intercept_tokens,
            entry.ratio_p50,
            entry.ratio_p90,
            entry.ratio_p99,
            entry.sample_count,
            entry.source == "learned",
        )

    def discard(self, key: Key) -> None:
        """Remove an entry if it is there; only before the table is shown to another thread."""
        self._packed.pop(key, None)

    def parts(self) -> list[object]:
        """List what the table holds on to, to free it bit by bit."""
        return [*self._packed, *self._packed.values()]

    def __getitem__(self, key: Key) -> KappaEntry:
        kappa, intercept, p50, p90, p99, n, learned = _FORMAT.unpack(self._packed[key])
        return KappaEntry(
            kappa_tokens_per_s=kappa,
            intercept_tokens=intercept,
            ratio_p50=p50,
            ratio_p90=p90,
            ratio_p99=p99,
            sample_count=n,
            source="learned" if learned else "prior",
        )

    def __contains__(self, key: object) -> bool:
        return key in self._packed

    def __iter__(self) -> Iterator[Key]:
        return iter(self._packed)

    def __len__(self) -> int:
        return len(self._packed)


class KeyPool:
    """One object for each key, whatever snapshot names it.

    Parameters
    ----------
    limit : int
        Keys; beyond it the pool starts over.
    """

    __slots__ = ("_keys", "_limit")

    def __init__(self, limit: int) -> None:
        self._keys: dict[Key, Key] = {}
        self._limit = limit

    def shared(self, key: Key) -> Key:
        """Give the one object that equals the key."""
        known = self._keys.get(key)
        if known is not None:
            return known
        if len(self._keys) >= self._limit:
            self._keys.clear()
        self._keys[key] = key
        return key
