"""What listens on an engine's socket: a real sidecar, a scripted one, garbage, or nobody."""

import os
import socketserver
import threading
import uuid
from collections.abc import Iterator
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
from sched_client.model import Snapshot
from tests.support.vllm_server import wait_for

# The client's longest pause between two tries is 10 s, and so is that between signs of life.
FOLLOW_TIMEOUT_S = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class RealSidecar:
    """A running ``kappad serve``."""

    child: Child
    client: EstimatorClient

    def wait_for_engines(self, count: int = 1) -> None:
        """Wait until ``count`` engines watch and apply the newest snapshot."""

        def follows() -> bool:
            status = self.client.status()
            watching = [c for c in status.clients if c.watching]
            return len(watching) >= count and all(
                c.applied_instance_id == status.instance_id and c.applied_version > 0
                for c in watching
            )

        wait_for(follows, FOLLOW_TIMEOUT_S, f"{count} engines that follow the sidecar")

    def wait_until_stored(self, count: int) -> list[Completion]:
        """Wait until ``count`` completions are stored and give all of them."""
        wait_for(
            lambda: self.client.status().learned >= count, 15.0, f"{count} completions learned"
        )
        return list(self.client.completions())


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
        """Wait until an engine says that it applies this snapshot."""
        wanted = (self.snapshot.instance_id, self.snapshot.version)
        wait_for(lambda: wanted in self.applied, FOLLOW_TIMEOUT_S, "an engine that follows")


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

    def clear(self) -> None:
        """Remove the socket's file, as after an orderly end."""
        self.socket.unlink(missing_ok=True)
