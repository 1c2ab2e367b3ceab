"""Chooses the points of κ's history that are worth keeping."""

import math
from typing import Final

from estimator.runtime.delta import SnapshotDelta
from estimator.store.base import KappaPoint
from sched_client.model import KappaEntry, Key, Snapshot

__all__ = ["KappaHistory"]

# Smaller moves are not seen in a plot and would fill the history with noise.
MOVE_RATIO: Final = 0.01
# How often what is held is looked at, in intervals.
_LOOK_RATIO: Final = 0.2


class KappaHistory:
    """Remembers the last recorded κ of each key; as bounded as the κ table is.

    Parameters
    ----------
    interval_s : float
        Least seconds between two points of one key, > 0.
    """

    def __init__(self, interval_s: float) -> None:
        self._interval_s = interval_s
        self._looked_s = -math.inf
        self._last: dict[Key, tuple[float, float]] = {}
        # Moved while its interval had not passed: looked at again, so that a last move is kept.
        self._held: dict[Key, KappaEntry] = {}

    def seed(self, snapshot: Snapshot, now_s: float) -> None:
        """Take a restored state as recorded: a restart alone is no move."""
        self._last = {k: (e.kappa_tokens_per_s, now_s) for k, e in snapshot.kappas.items()}

    @property
    def held(self) -> bool:
        """Whether a point waits for its interval to pass."""
        return bool(self._held)

    def due(
        self, delta: SnapshotDelta | None, *, version: int, now_s: float, flush: bool = False
    ) -> list[KappaPoint]:
        """Give the points to record.

        Parameters
        ----------
        delta : SnapshotDelta or None
            What was just published, if anything was.
        version : int
            The newest snapshot.
        now_s : float
            Unix time.
        flush : bool
            Whether to keep what moved although its interval has not passed (at the end).

        Returns
        -------
        list of KappaPoint
            At most one for each key.
        """
        if delta is not None:
            for key in delta.removed:
                self._last.pop(key, None)
                self._held.pop(key, None)
            self._held.update(delta.kappas)
        # Thousands may be held under load; looking at all of them with each publication took an
        # eighth of the sidecar's time.
        if not flush and 0.0 <= now_s - self._looked_s < self._interval_s * _LOOK_RATIO:
            return []
        self._looked_s = now_s
        points = []
        for key, entry in list(self._held.items()):
            kappa = entry.kappa_tokens_per_s
            last = self._last.get(key)
            if last is not None:
                if abs(kappa - last[0]) < MOVE_RATIO * max(abs(last[0]), abs(kappa)):
                    del self._held[key]
                    continue
                if not flush and 0.0 <= now_s - last[1] < self._interval_s:
                    continue
            del self._held[key]
            self._last[key] = (kappa, now_s)
            points.append(_point(key, entry, version, now_s))
        return points


def _point(key: Key, entry: KappaEntry, version: int, now_s: float) -> KappaPoint:
    return KappaPoint(
        model=key.model,
        task=key.task,
        language=key.language,
        timestamps=key.timestamps,
        recorded_s=now_s,
        kappa_tokens_per_s=entry.kappa_tokens_per_s,
        intercept_tokens=entry.intercept_tokens,
        sample_count=entry.sample_count,
        snapshot_version=version,
    )
