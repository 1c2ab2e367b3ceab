"""Follows the sidecar's snapshots on a thread of its own, for ever.

Whatever the sidecar does, the newest valid snapshot stays in force: an invalid one is refused as
a whole, a broken or silent stream is opened again after a jittered delay.
"""

import logging
import random
from collections.abc import Callable
from typing import Final

import grpc

from protos.kappad.estimator.v1 import estimator_pb2 as pb
from sched_client.model import Snapshot
from sched_client.options import ClientOptions
from sched_client.transport import convert
from sched_client.transport.channel import Channel, code_of, describe, retry_delay_s
from sched_client.transport.identity import Identity
from sched_client.transport.pacing import Backoff, Pacer
from sched_client.transport.packed import KeyPool, PackedKappas
from sched_client.transport.state import MAX_REASON_LENGTH, LinkState, Position, Refusal, Timing

_LOG: Final = logging.getLogger("kappad")
# The sidecar knows nothing of the position that the client wants to resume from.
_FROM_NOTHING: Final = frozenset(
    {
        grpc.StatusCode.OUT_OF_RANGE,
        grpc.StatusCode.NOT_FOUND,
        grpc.StatusCode.INVALID_ARGUMENT,
        grpc.StatusCode.FAILED_PRECONDITION,
        grpc.StatusCode.ABORTED,
    }
)


# Some 25 µs.
_FREED_AT_ONCE: Final = 250


class _StartOverError(Exception):
    """The stream does not follow from what is held; the next one starts from nothing."""


class _StoppedError(Exception):
    """The link is closing."""


class Watcher:
    """The watch loop.

    Parameters
    ----------
    state : LinkState
        Gets the snapshots and the staleness.
    options : ClientOptions
        Names the sidecar.
    identity : Identity
        Names this engine and the model whose keys are wanted.
    timing : Timing
        Bounds.
    monotonic : callable
        The clock of ``stale_since_s``, seconds.
    """

    def __init__(
        self,
        state: LinkState,
        options: ClientOptions,
        identity: Identity,
        timing: Timing,
        monotonic: Callable[[], float],
    ) -> None:
        self._state = state
        self._identity = identity
        self._timing = timing
        self._monotonic = monotonic
        self._target = options.target
        self._channel = Channel(options.target, timing)
        self._pacer = Pacer(timing.slice_s, timing.pause_s)
        self._keys = KeyPool(convert.MAX_KEYS)
        # Not for secrets: spreads the reconnects of many engines.
        self._backoff = Backoff(timing.backoff_min_s, timing.backoff_max_s, random.Random())  # noqa: S311
        self._heard_s = monotonic()
        self._waiting_since_s: float | None = None
        self._call: grpc.Call | None = None
        self._was_silent = False
        self._applied = False
        self._reported_lost = False
        self._retired: Snapshot | None = None

    def run(self) -> None:
        """Watch until the link stops."""
        while not self._state.stop.is_set():
            begun_s = self._monotonic()
            self._applied = False
            delay_s = self._watch_once()
            if self._was_silent:
                self._was_silent = False
                self._channel.renew()
            # A stream that lived for a while has ended for a new reason; one that ends at once,
            # time after time, is asked less and less often.
            if self._applied and self._monotonic() - begun_s >= self._timing.backoff_max_s:
                self._backoff.reset()
            self._state.stop.wait(max(delay_s, self._backoff.next_s()))

    def check_silence(self) -> None:
        """End a stream that has been silent for too long; called from the poller's thread.

        A frozen sidecar keeps its connection open, so that only its silence tells.
        """
        since_s, call = self._waiting_since_s, self._call
        if since_s is None or call is None:
            return
        if self._monotonic() - since_s > self._timing.silence_s:
            self._waiting_since_s = None
            self._was_silent = True
            call.cancel()

    def close(self) -> None:
        """End the stream; called after the link's stop was set."""
        self._channel.close()

    def _watch_once(self) -> float:
        try:
            stream = self._channel.watch(self._request())
        except ValueError:  # the channel was closed by close()
            return 0.0
        self._call = stream
        self._waiting_since_s = self._monotonic()
        try:
            for data in stream:
                self._waiting_since_s = None
                self._take(data)
                self._waiting_since_s = self._monotonic()
            self._lost("the sidecar ended the watch")
        except grpc.RpcError as error:
            return self._failed(error)
        except _StartOverError as reason:
            self._state.position = Position()
            _LOG.debug("kappad: watching from nothing: %s", reason)
        except convert.UndecodableError as error:
            self._state.position = Position()
            self._lost(f"an undecodable answer: {error}")
        except _StoppedError:
            pass
        finally:
            self._waiting_since_s = None
            self._call = None
            stream.cancel()
        return 0.0

    def _request(self) -> pb.WatchParametersRequest:
        request = pb.WatchParametersRequest(client_id=self._identity.client_id)
        if self._identity.model:
            request.model_ids.append(self._identity.model)
        if self._state.position.version > 0:
            request.start_version = self._state.position.version
            request.instance_id = self._state.position.instance_id
        return request

    def _failed(self, error: grpc.RpcError) -> float:
        if self._was_silent:
            self._lost(f"silent for {self._timing.silence_s:g} s")
            return 0.0
        code = code_of(error)
        if code in _FROM_NOTHING:
            self._state.position = Position()
        self._lost(describe(error))
        return retry_delay_s(error)

    def _take(self, data: bytes) -> None:
        self._pacer.begin()
        envelope = convert.open_envelope(data)
        position = Position(envelope.head.instance_id, envelope.head.version)
        try:
            if envelope.is_snapshot:
                self._publish(convert.read_snapshot(envelope, self._pacer, self._keys), position)
            elif envelope.body is not None:
                self._follow(position, convert.base_version(envelope))
                base = self._state.snapshot
                new = convert.read_delta(envelope, base, self._pacer, self._keys)
                self._publish(new, position)
            elif envelope.head.HasField("bookmark"):
                self._mark(position)
        except convert.InvalidSnapshotError as reason:
            self._refuse(position, str(reason))
        self._heard()

    def _follow(self, position: Position, base_version: int) -> None:
        held = self._state.position
        if base_version != held.version or position.instance_id != held.instance_id:
            raise _StartOverError(f"a change of {base_version}, but {held.version} is held")

    def _mark(self, position: Position) -> None:
        held, refusal = self._state.position, self._state.refusal
        if refusal is not None and position.version == refusal.version:
            return
        if position.instance_id != held.instance_id or position.version < held.version:
            raise _StartOverError(f"a bookmark at {position}, but {held} is held")
        # Versions count all models; nothing changed for this engine up to the bookmark's.
        self._state.position = position
        self._applied = True

    def _publish(self, snapshot: Snapshot, position: Position) -> None:
        if self._state.stop.is_set():
            raise _StoppedError
        replaced, self._state.snapshot = self._state.snapshot, snapshot
        self._state.position = position
        self._applied = True
        self._release(replaced)

    def _release(self, replaced: Snapshot) -> None:
        # Freeing 5,000 entries at once would take the lock for long: by the next publication the
        # engine has let go of this snapshot, and its entries are freed here, in slices.
        old, self._retired = self._retired, replaced
        if old is None or not isinstance(old.kappas, PackedKappas):
            return
        doomed = old.kappas.parts()
        del old
        while doomed:
            del doomed[-_FREED_AT_ONCE:]
            self._pacer.step()

    def _refuse(self, position: Position, reason: str) -> None:
        known = self._state.refusal
        self._state.refusal = Refusal(position.version, reason[:MAX_REASON_LENGTH])
        if known is None or known.reason != self._state.refusal.reason:
            _LOG.warning(
                "kappad: refused snapshot %d (%s); version %d stays in force",
                position.version,
                reason,
                self._state.snapshot.version,
            )

    def _heard(self) -> None:
        self._heard_s = self._monotonic()
        if self._state.stale_since_s is not None:
            self._state.stale_since_s = None
            self._reported_lost = False
            _LOG.info(
                "kappad: connected to %s, snapshot %d", self._target, self._state.snapshot.version
            )

    def _lost(self, reason: str) -> None:
        if self._state.stop.is_set():
            return
        if self._state.stale_since_s is None:
            self._state.stale_since_s = self._heard_s
        if not self._reported_lost:
            self._reported_lost = True
            _LOG.warning(
                "kappad: stale, no sidecar at %s (%s); scheduling goes on with snapshot %d",
                self._target,
                reason,
                self._state.snapshot.version,
            )
