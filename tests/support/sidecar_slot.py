"""What listens on an engine's socket: a real sidecar, a scripted one, garbage, or nobody."""

import dataclasses
import os
import socketserver
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc

from estimator.client import EstimatorClient
from estimator.convert import completion_from_proto, parameters_to_proto
from estimator.core.observation import Completion
from estimator.demo.processes import (
    Child,
    Processes,
    free_port,
    sidecar_command,
    wait_until_healthy,
)
from protos.kappad.estimator.v1 import estimator_pb2 as pb
from protos.kappad.estimator.v1 import estimator_pb2_grpc as rpc
from sched_client.model import Snapshot, prior_snapshot
from tests.support.vllm_server import wait_for

# The client's longest pause between two tries is 10 s, and so is that between signs of life.
FOLLOW_TIMEOUT_S = 30.0
# A reporter sends what it has twice a second.
SETTLE_S = 1.2


@dataclass(slots=True, kw_only=True)
class RealSidecar:
    """A running ``kappad serve``.

    Attributes
    ----------
    before : int
        Completions that engines had buffered since an earlier test; not this test's.
    """

    child: Child
    client: EstimatorClient
    before: int = 0

    def wait_for_engines(self, count: int = 1) -> None:
        """Wait until ``count`` engines follow and have handed over what they had buffered."""

        def follows() -> bool:
            status = self.client.status()
            watching = [c for c in status.clients if c.watching]
            return len(watching) >= count and all(
                c.applied_instance_id == status.instance_id and c.applied_version > 0
                for c in watching
            )

        wait_for(follows, FOLLOW_TIMEOUT_S, f"{count} engines that follow the sidecar")
        self.before = settled(lambda: self.client.status().learned)

    def wait_until_stored(self, count: int) -> list[Completion]:
        """Wait until ``count`` completions of this test are stored and give them."""
        wait_for(
            lambda: self.client.status().learned >= self.before + count,
            FOLLOW_TIMEOUT_S,
            f"{count} completions learned",
        )
        return list(self.client.completions())[self.before :]

    def samples(self) -> int:
        """Count what κ of the model was learned from in this test."""
        counts = [e.sample_count for _, e in self.client.kappas("whisper-base")]
        return max(counts, default=0) - self.before


def settled(count: Callable[[], int]) -> int:
    """Give a count once it has not changed for two intervals of the reporter."""
    seen = count()
    quiet_since = time.monotonic()
    while time.monotonic() - quiet_since < SETTLE_S:
        time.sleep(0.1)
        if count() != seen:
            seen, quiet_since = count(), time.monotonic()
    return seen


class FakeSidecar(rpc.EstimatorServiceServicer):
    """Serves one snapshot that the test decides, and keeps what is reported."""

    def __init__(self, snapshot: Snapshot) -> None:
        self.snapshot = snapshot
        self.completions: list[Completion] = []
        self.applied: set[tuple[str, int]] = set()
        self._ended = threading.Event()

    def WatchParameters(  # noqa: N802  gRPC's name
        self,
        request: pb.WatchParametersRequest,  # noqa: ARG002  every watcher gets the same
        context: grpc.ServicerContext,
    ) -> Iterator[pb.WatchParametersResponse]:
        head: dict[str, Any] = {  # Any: keyword arguments of different types
            "instance_id": self.snapshot.instance_id,
            "version": self.snapshot.version,
        }
        yield pb.WatchParametersResponse(**head, snapshot=parameters_to_proto(self.snapshot))
        while context.is_active() and not self._ended.wait(1.0):
            yield pb.WatchParametersResponse(**head, bookmark=pb.Bookmark())

    def ReportCompletions(  # noqa: N802  gRPC's name
        self,
        request: pb.ReportCompletionsRequest,
        context: grpc.ServicerContext,  # noqa: ARG002  gRPC's signature
    ) -> pb.ReportCompletionsResponse:
        self.applied.add((request.client.applied_instance_id, request.client.applied_version))
        self.completions += [
            completion_from_proto(c, client_id=request.client.client_id, received_s=0.0)
            for c in request.completions
        ]
        return pb.ReportCompletionsResponse(accepted_count=len(request.completions))

    def BatchPredict(  # noqa: N802  gRPC's name
        self, request: pb.BatchPredictRequest, context: grpc.ServicerContext
    ) -> pb.BatchPredictResponse:
        raise AssertionError(f"no scheduler may ask: {request} from {context.peer()}")

    def end(self) -> None:
        """End the watches."""
        self._ended.set()

    def wait_for_engine(self) -> None:
        """Wait until an engine applies this snapshot; forget what it had buffered."""
        wanted = (self.snapshot.instance_id, self.snapshot.version)
        wait_for(lambda: wanted in self.applied, FOLLOW_TIMEOUT_S, "an engine that follows")
        settled(lambda: len(self.completions))
        self.completions.clear()


class _Garbage(socketserver.BaseRequestHandler):
    """Answers anything with bytes that are no HTTP/2."""

    def handle(self) -> None:
        try:
            self.request.recv(64)
            self.request.sendall(b"\x00\xff" * 512 + os.urandom(512))
        except OSError:  # the client left
            return


class _GarbageServer(socketserver.ThreadingUnixStreamServer):
    daemon_threads = True
    served = 0

    def process_request(self, request: Any, client_address: Any) -> None:
        self.served += 1
        super().process_request(request, client_address)


def prior_snapshot_of_a_sidecar() -> Snapshot:
    """Give a snapshot that changes nothing."""
    return dataclasses.replace(prior_snapshot(), version=1, instance_id=str(uuid.uuid4()))


class SidecarSlot:
    """The socket that one or more engines are pointed at."""

    def __init__(self, folder: Path, processes: Processes) -> None:
        self.socket = folder / "kappad.sock"
        self.target = f"unix://{self.socket}"
        self._folder = folder
        self._processes = processes

    def start_real(self, state: str, **settings: str) -> RealSidecar:
        """Start ``kappad serve`` with ``KAPPAD_SERVE_*`` settings; the caller stops it."""
        http = free_port()
        child = self._processes.start(
            f"sidecar-{state}",
            sidecar_command(self.socket, self._folder / state, http),
            {f"KAPPAD_SERVE_{name.upper()}": value for name, value in settings.items()},
        )
        wait_until_healthy(f"http://127.0.0.1:{http}/healthz", child, timeout_s=30.0)
        return RealSidecar(child=child, client=EstimatorClient(self.target))

    @contextmanager
    def real(self, state: str = "", **settings: str) -> Iterator[RealSidecar]:
        """Run ``kappad serve`` on a fresh store, or on the one called ``state``."""
        sidecar = self.start_real(state or uuid.uuid4().hex, **settings)
        try:
            yield sidecar
        finally:
            sidecar.client.close()
            sidecar.child.stop()
            self.clear()

    @contextmanager
    def fake(self, snapshot: Snapshot) -> Iterator[FakeSidecar]:
        """Serve a snapshot of the test's own."""
        server = grpc.server(ThreadPoolExecutor(max_workers=8))
        fake = FakeSidecar(snapshot)
        rpc.add_EstimatorServiceServicer_to_server(fake, server)
        server.add_insecure_port(self.target)
        server.start()
        try:
            yield fake
        finally:
            fake.end()
            server.stop(grace=1.0).wait()
            self.clear()

    @contextmanager
    def garbage(self) -> Iterator[_GarbageServer]:
        """Answer every connection with bytes that mean nothing."""
        with _GarbageServer(str(self.socket), _Garbage) as server:
            thread = threading.Thread(target=server.serve_forever)
            thread.start()
            try:
                yield server
            finally:
                server.shutdown()
                thread.join()
                self.clear()

    def drain(self) -> None:
        """Take what an engine has buffered, so that it reaches no later test."""
        with self.fake(prior_snapshot_of_a_sidecar()) as fake:
            fake.wait_for_engine()

    def clear(self) -> None:
        """Remove the socket's file, as after an orderly end."""
        self.socket.unlink(missing_ok=True)
