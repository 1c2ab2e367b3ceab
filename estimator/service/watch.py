"""Encodes what watchers are sent, once for all that want the same."""

from collections.abc import Callable
from typing import Final

from estimator.convert import delta_to_proto, parameters_to_proto, timestamp_of
from estimator.runtime.publisher import Publisher
from estimator.telemetry.metrics import Metrics
from protos.kappad.estimator.v1 import estimator_pb2 as pb

__all__ = ["WatchEncoder"]

# Different (models, base version) pairs at one version; a full snapshot may be 1 MB.
_CACHE_LIMIT: Final = 32


class WatchEncoder:
    """Builds watch messages from the newest snapshot.

    Parameters
    ----------
    publisher : Publisher
        Has the snapshot and what led to it.
    metrics : Metrics
        Counts messages by event.
    now_s : callable
        Unix time.
    """

    def __init__(
        self, publisher: Publisher, metrics: Metrics, *, now_s: Callable[[], float]
    ) -> None:
        self._publisher = publisher
        self._now_s = now_s
        self._version = -1
        self._cache: dict[tuple[frozenset[str], int | None], tuple[str, bytes]] = {}
        self._sent = {
            event: metrics.watch_messages.labels(event)
            for event in ("snapshot", "delta", "bookmark")
        }

    def encode(self, models: frozenset[str], held: int | None) -> tuple[bytes, int]:
        """Give the message that brings a client up to date, and the version it then holds.

        Parameters
        ----------
        models : frozenset of str
            Models that it wants; empty for all.
        held : int or None
            Version that it holds; None for nothing.

        Returns
        -------
        tuple of bytes and int
            A bookmark if nothing changed for these models, a delta if the changes since ``held``
            are known, the whole state otherwise: a client that was away for long is served, not
            sent away.
        """
        version = self._publisher.snapshot.version
        if held == version:
            return self.bookmark(version), version
        if version != self._version:
            self._cache.clear()
            self._version = version
        found = self._cache.get((models, held))
        if found is None:
            found = self._build(models, held)
            if len(self._cache) >= _CACHE_LIMIT:
                self._cache.clear()
            self._cache[models, held] = found
        event, message = found
        self._sent[event].inc()
        return message, version

    def bookmark(self, version: int) -> bytes:
        """Give the sign that nothing changed since ``version``."""
        self._sent["bookmark"].inc()
        return self._response(version, bookmark=pb.Bookmark()).SerializeToString()

    def _build(self, models: frozenset[str], held: int | None) -> tuple[str, bytes]:
        snapshot = self._publisher.snapshot
        delta = None if held is None else self._publisher.delta_since(held)
        if delta is None:
            message = self._response(
                snapshot.version, snapshot=parameters_to_proto(snapshot, models)
            )
        elif (filtered := delta.filtered(models)).empty:
            message = self._response(snapshot.version, bookmark=pb.Bookmark())
        else:
            message = self._response(snapshot.version, delta=delta_to_proto(filtered))
        return message.WhichOneof("event") or "", message.SerializeToString()

    def _response(
        self,
        version: int,
        *,
        snapshot: pb.Parameters | None = None,
        delta: pb.ParametersDelta | None = None,
        bookmark: pb.Bookmark | None = None,
    ) -> pb.WatchParametersResponse:
        return pb.WatchParametersResponse(
            instance_id=self._publisher.snapshot.instance_id,
            version=version,
            create_time=timestamp_of(self._now_s()),
            snapshot=snapshot,
            delta=delta,
            bookmark=bookmark,
        )
