"""Keeps histories of κ, drifts and queues: what is only looked at, beside what is learned from."""

import contextlib
from collections.abc import Container, Iterable, Sequence
from dataclasses import replace
from typing import Final

from estimator.core.drift_event import DriftEvent
from estimator.runtime.delta import SnapshotDelta
from estimator.runtime.fits import Installed
from estimator.runtime.kappa_history import KappaHistory
from estimator.runtime.store_worker import StoreWorker
from estimator.store.base import PartitionRecord, StoreError
from estimator.telemetry.logs import get_logger
from estimator.telemetry.metrics import Metrics
from sched_client.model import Snapshot

__all__ = ["Recorder"]

_log = get_logger("learner")

# Above every limit of the store's.
_ALL: Final = 2**31 - 1


class Recorder:
    """Collects between two steps of the learner, and writes.

    Parameters
    ----------
    worker : StoreWorker
        The store.
    metrics : Metrics
        Counts events.
    interval_s : float
        Least seconds between two points of one key, > 0.
    """

    def __init__(self, worker: StoreWorker, metrics: Metrics, interval_s: float) -> None:
        self.interval_s = interval_s
        self._worker = worker
        self._metrics = metrics
        self._history = KappaHistory(interval_s)
        self._published: list[SnapshotDelta] = []
        self._events: list[DriftEvent] = []
        self._installed: list[tuple[Installed, int]] = []

    def seed(self, snapshot: Snapshot, now_s: float) -> None:
        """Take a restored state as recorded: a restart alone is no move."""
        self._history.seed(snapshot, now_s)

    @property
    def held(self) -> bool:
        """Whether a point waits for its interval to pass."""
        return self._history.held

    def add_published(self, delta: SnapshotDelta) -> None:
        """Note what was published."""
        self._published.append(delta)

    def add_events(self, events: Iterable[DriftEvent]) -> None:
        """Note events that began or ended."""
        self._events.extend(events)

    def add_partition(self, installed: Installed, version: int) -> None:
        """Note a partition that came into force, and the newest snapshot, which lacks it yet."""
        self._installed.append((installed, version))

    async def end_forgotten(self, known: Container[str], now_s: float) -> None:
        """End the events that are open in the store and that nobody follows any more.

        Another release sees changes elsewhere: after its replay, what the one before it had left
        open would be open for ever.

        Parameters
        ----------
        known : container of str
            Ids of the events that are followed.
        now_s : float
            Unix time.
        """
        store = self._worker.store

        def save() -> None:
            for _, event in store.list_drifts(limit=_ALL):
                if event.ended_s is None and event.event_id not in known:
                    store.save_drift(replace(event, ended_s=now_s))

        with contextlib.suppress(StoreError):  # as in `write`
            await self._worker.write(save)

    async def write(self, *, version: int, now_s: float, flush: bool = False) -> None:
        """Write what is due.

        Parameters
        ----------
        version : int
            The newest snapshot.
        now_s : float
            Unix time.
        flush : bool
            Whether to keep what moved although its interval has not passed (at the end).
        """
        published, self._published = self._published, []
        events, self._events = self._events, []
        installed, self._installed = self._installed, []
        points = self._history.due(None, version=version, now_s=now_s, flush=flush)
        for delta in published:
            points += self._history.due(delta, version=delta.version, now_s=now_s, flush=flush)
        if not points and not events and not installed:
            return
        partitions = [_record_of(one, version=before, now_s=now_s) for one, before in installed]
        for event in events:
            self._metrics.drifts.labels(event.kind).inc()
        if events:
            _log_drifts(events)

        def save() -> None:
            if points:
                self._worker.store.append_kappa_points(points)
            for record in partitions:
                self._worker.store.append_partition(record)
            for event in events:
                self._worker.store.save_drift(event)

        # The worker has logged and counted it; history is worth less than the completions.
        with contextlib.suppress(StoreError):
            await self._worker.write(save)


def _record_of(installed: Installed, *, version: int, now_s: float) -> PartitionRecord:
    revision = installed.revision
    return PartitionRecord(
        model=revision.model,
        number=revision.number,
        partition=revision.partition,
        reason=revision.reason,
        text=revision.text,
        completions=revision.completions,
        points=revision.points,
        fit_s=installed.fit_s,
        installed_s=now_s,
        snapshot_version=version,
    )


def _log_drifts(events: Sequence[DriftEvent]) -> None:
    """Write one line however many: a change of the mix moves thousands of keys at once."""
    _log.info(
        "drift",
        begun=sum(event.ended_s is None for event in events),
        ended=sum(event.ended_s is not None for event in events),
        first=f"{events[0].kind} {events[0].model} {events[0].language}".strip(),
        before=events[0].before,
        after=events[0].after,
    )
