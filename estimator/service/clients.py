"""Who reports and who watches, as last heard; bounded."""

from collections import Counter, OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from estimator.runtime.errors import ExhaustedError
from estimator.telemetry.metrics import Metrics
from protos.kappad.estimator.v1 import estimator_pb2 as pb

__all__ = ["ClientRegistry", "KnownClient"]


@dataclass(frozen=True, slots=True)
class KnownClient:
    """One client."""

    status: pb.ClientStatus
    heard_s: float
    watching: bool


class ClientRegistry:
    """Remembers the clients heard from last.

    Parameters
    ----------
    client_limit : int
        Most clients remembered; the one not heard from for longest is forgotten first.
    watcher_limit : int
        Most watches at once.
    metrics : Metrics
        Says when a limit is reached.
    now_s : callable
        Unix time.
    """

    def __init__(
        self,
        *,
        client_limit: int,
        watcher_limit: int,
        metrics: Metrics,
        now_s: Callable[[], float],
    ) -> None:
        self._client_limit = client_limit
        self._watcher_limit = watcher_limit
        self._metrics = metrics
        self._now_s = now_s
        self._heard: OrderedDict[str, tuple[pb.ClientStatus, float]] = OrderedDict()
        self._watches: Counter[str] = Counter()
        self._n_watches = 0
        metrics.read_from(metrics.watchers, lambda: self._n_watches)
        metrics.read_from(metrics.clients, lambda: len(self._heard))

    def heard(self, status: pb.ClientStatus) -> None:
        """Note what a client says of itself."""
        self._note(status.client_id, status)

    @contextmanager
    def watching(self, client_id: str) -> Iterator[None]:
        """Count a watch for as long as it lasts.

        Raises
        ------
        ExhaustedError
            If there are too many already.
        """
        if self._n_watches >= self._watcher_limit:
            self._metrics.watchers_refused.inc()
            raise ExhaustedError(
                f"{self._n_watches} watches are open, the limit is {self._watcher_limit}; raise "
                "watcher_limit or close some",
                reason="TOO_MANY_WATCHERS",
                metadata={"watcher_limit": str(self._watcher_limit)},
                retry_after_s=10.0,
            )
        self._n_watches += 1
        self._watches[client_id] += 1
        if client_id not in self._heard:
            self._note(client_id, pb.ClientStatus(client_id=client_id))
        try:
            yield
        finally:
            self._n_watches -= 1
            self._watches[client_id] -= 1
            if not self._watches[client_id]:
                del self._watches[client_id]

    def list(self) -> list[KnownClient]:
        """Give the clients, the one heard last first."""
        return [
            KnownClient(status, heard_s, self._watches[client_id] > 0)
            for client_id, (status, heard_s) in reversed(self._heard.items())
        ]

    def _note(self, client_id: str, status: pb.ClientStatus) -> None:
        self._heard[client_id] = (status, self._now_s())
        self._heard.move_to_end(client_id)
        while len(self._heard) > self._client_limit:
            self._heard.popitem(last=False)
            self._metrics.clients_forgotten.inc()
