"""The newest snapshot, the changes that led to it, and those who wait for the next one.

Lives on the event loop's thread. A snapshot is replaced as a whole; a watcher is told *that*
something is newer and asks for it when it is ready, so that a slow one costs no memory.
"""

import asyncio
from collections import deque
from collections.abc import Mapping
from typing import Final

from estimator.runtime.delta import SnapshotDelta, merge
from sched_client.model import (
    GLOBAL_KEY,
    KappaEntry,
    Key,
    Partition,
    ServiceTime,
    Settings,
    Snapshot,
)

__all__ = ["Publisher"]

# Merged deltas are asked for by as many base versions as watchers lag behind.
_MERGED_LIMIT: Final = 16
# Where there are few keys the number of deltas is the bound.
_LEAST_RING_ENTRIES: Final = 1024


class Publisher:
    """Builds snapshots and remembers the last changes.

    Parameters
    ----------
    initial : Snapshot
        What to serve first; must hold the global key.
    ring_limit : int
        How many deltas are kept to bring a lagging watcher up to date, ≥ 1; fewer where they
        hold more entries than there are keys.
    """

    def __init__(self, initial: Snapshot, *, ring_limit: int) -> None:
        if GLOBAL_KEY not in initial.kappas:
            raise ValueError("a snapshot must hold the global key")
        self._snapshot = initial
        self._ring: deque[SnapshotDelta] = deque()
        self._ring_limit = ring_limit
        self._n_ring_entries = 0
        self._merged: dict[int, SnapshotDelta] = {}
        self._changed = asyncio.Event()
        self._closed = False

    @property
    def snapshot(self) -> Snapshot:
        """The newest snapshot."""
        return self._snapshot

    @property
    def closed(self) -> bool:
        """Whether watchers should leave."""
        return self._closed

    def publish(
        self,
        *,
        created_s: float,
        kappas: Mapping[Key, KappaEntry] | None = None,
        removed: frozenset[Key] = frozenset(),
        services: Mapping[str, ServiceTime] | None = None,
        partitions: Mapping[str, Partition] | None = None,
        settings: Settings | None = None,
    ) -> SnapshotDelta:
        """Replace the snapshot by one with the next version, and wake who waits.

        Parameters
        ----------
        created_s : float
            Unix time.
        kappas, removed, services, partitions, settings
            What changed; absent parts did not. A removed global key is kept: it must exist.

        Returns
        -------
        SnapshotDelta
            The step from the snapshot before.
        """
        old = self._snapshot
        delta = SnapshotDelta(
            base_version=old.version,
            version=old.version + 1,
            kappas=dict(kappas or {}),
            removed=removed - {GLOBAL_KEY} - set(kappas or {}),
            services=dict(services or {}),
            partitions=dict(partitions or {}),
            settings=settings,
        )
        self._snapshot = delta.applied_to(old, created_s=created_s)
        self._remember(delta)
        self._wake()
        return delta

    def _remember(self, delta: SnapshotDelta) -> None:
        self._merged.clear()
        self._ring.append(delta)
        self._n_ring_entries += _n_entries(delta)
        # A watcher so far behind that its changes outnumber the keys is better off with the whole
        # state; and 256 deltas of thousands of entries each held 100 MiB.
        most = max(_LEAST_RING_ENTRIES, len(self._snapshot.kappas))
        while len(self._ring) > self._ring_limit or (
            self._n_ring_entries > most and len(self._ring) > 1
        ):
            self._n_ring_entries -= _n_entries(self._ring.popleft())

    def delta_since(self, version: int) -> SnapshotDelta | None:
        """Give what leads from an older version to the newest, or None if that is not known.

        None also stands for a version above the newest one: a store that was restored from a
        backup. The caller sends the whole state then.
        """
        if not self._ring or not self._ring[0].base_version <= version < self._snapshot.version:
            return None
        found = self._merged.get(version)
        if found is None:
            found = merge([d for d in self._ring if d.base_version >= version])
            if len(self._merged) >= _MERGED_LIMIT:
                self._merged.clear()
            self._merged[version] = found
        return found

    async def wait_beyond(self, version: int, timeout_s: float) -> bool:
        """Wait until there is a version other than this one, or the publisher closes.

        Returns
        -------
        bool
            False if ``timeout_s`` passed before.
        """
        changed = self._changed
        if self._closed or self._snapshot.version != version:
            return True
        try:
            async with asyncio.timeout(timeout_s):
                await changed.wait()
        except TimeoutError:
            return False
        return True

    def close(self) -> None:
        """Make every watcher leave."""
        self._closed = True
        self._wake()

    def _wake(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()


def _n_entries(delta: SnapshotDelta) -> int:
    return len(delta.kappas) + len(delta.removed)
