"""What changed between two snapshots: the unit in which watchers are brought up to date."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace

from sched_client.model import (
    SINGLE_QUEUE,
    KappaEntry,
    Key,
    Partition,
    ServiceTime,
    Settings,
    Snapshot,
)

__all__ = ["SnapshotDelta", "merge"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotDelta:
    """The changed parts of a snapshot; absent parts did not change.

    Attributes
    ----------
    base_version : int
        The version that this builds on.
    version : int
        The version that it leads to, above ``base_version``.
    kappas : Mapping of Key to KappaEntry
        New and changed entries.
    removed : frozenset of Key
        Keys that are gone; disjoint from ``kappas``.
    services : Mapping of str to ServiceTime
        New and changed service times.
    partitions : Mapping of str to Partition
        New and changed partitions.
    settings : Settings or None
        New settings, or None.
    """

    base_version: int
    version: int
    kappas: Mapping[Key, KappaEntry] = field(default_factory=dict)
    removed: frozenset[Key] = frozenset()
    services: Mapping[str, ServiceTime] = field(default_factory=dict)
    partitions: Mapping[str, Partition] = field(default_factory=dict)
    settings: Settings | None = None

    @property
    def empty(self) -> bool:
        """Whether nothing changed for whoever this delta was filtered for."""
        return not (
            self.kappas
            or self.removed
            or self.services
            or self.partitions
            or self.settings is not None
        )

    def applied_to(self, old: Snapshot, *, created_s: float) -> Snapshot:
        """Build the snapshot that this leads to.

        Parameters
        ----------
        old : Snapshot
            Of ``base_version``.
        created_s : float
            Unix time.
        """
        merged = {**old.kappas, **self.kappas}
        for key in self.removed:
            merged.pop(key, None)
        partitions = {**old.partitions, **self.partitions}
        for model, one in self.partitions.items():
            # As a model that is not known has: a forgotten one would be held for ever.
            if one == SINGLE_QUEUE:
                del partitions[model]
        return replace(
            old,
            version=self.version,
            created_s=created_s,
            kappas=merged,
            services={**old.services, **self.services},
            partitions=partitions,
            settings=self.settings or old.settings,
            # A fresh cache: the one of the old snapshot answers with what is no longer true.
            _resolved={},
        )

    def filtered(self, models: Collection[str]) -> "SnapshotDelta":
        """Keep what concerns some models; no models means all of them.

        Parts that belong to no model (the global key, the fallback service time, the settings)
        concern everyone.
        """
        if not models:
            return self
        return SnapshotDelta(
            base_version=self.base_version,
            version=self.version,
            kappas={k: e for k, e in self.kappas.items() if not k.model or k.model in models},
            removed=frozenset(k for k in self.removed if not k.model or k.model in models),
            services={m: s for m, s in self.services.items() if not m or m in models},
            partitions={m: p for m, p in self.partitions.items() if not m or m in models},
            settings=self.settings,
        )


def merge(deltas: Collection[SnapshotDelta]) -> SnapshotDelta:
    """Fold consecutive deltas into the one that leads from the first base to the last version.

    Parameters
    ----------
    deltas : collection of SnapshotDelta
        At least one, in order, each building on the one before.

    Returns
    -------
    SnapshotDelta
        The newest value of each part; a key that went and came back is not removed.
    """
    ordered = list(deltas)
    if len(ordered) == 1:
        return ordered[0]
    kappas: dict[Key, KappaEntry] = {}
    removed: set[Key] = set()
    services: dict[str, ServiceTime] = {}
    partitions: dict[str, Partition] = {}
    settings: Settings | None = None
    for delta in ordered:
        kappas.update(delta.kappas)
        removed.difference_update(delta.kappas)
        for key in delta.removed:
            kappas.pop(key, None)
        removed |= delta.removed
        services.update(delta.services)
        partitions.update(delta.partitions)
        settings = delta.settings or settings
    return SnapshotDelta(
        base_version=ordered[0].base_version,
        version=ordered[-1].version,
        kappas=kappas,
        removed=frozenset(removed),
        services=services,
        partitions=partitions,
        settings=settings,
    )
