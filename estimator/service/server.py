"""Builds the whole sidecar, runs it, and takes it down in order."""

import asyncio
import contextlib
import gc
import signal
import sys
import time
from collections.abc import Callable, Iterator
from importlib.metadata import PackageNotFoundError, version
from typing import Final

import grpc.aio
from grpc_health.v1 import health_pb2
from grpc_health.v1.health import SERVICE_NAME as HEALTH_NAME
from grpc_health.v1.health import aio as health
from grpc_health.v1.health_pb2_grpc import add_HealthServicer_to_server
from grpc_reflection.v1alpha import reflection

from estimator.runtime import heap
from estimator.runtime.address import UnixAddress, parse_http, parse_listen
from estimator.runtime.config import ServeConfig
from estimator.runtime.learner import Learner
from estimator.runtime.mode_switch import ModeSwitch
from estimator.runtime.seed import SeedError
from estimator.runtime.startup import build_learner, create_store
from estimator.runtime.store_worker import StoreWorker
from estimator.service import unix_socket
from estimator.service.admin_service import AdminService
from estimator.service.clients import ClientRegistry
from estimator.service.errors import ErrorInterceptor
from estimator.service.estimator_service import EstimatorService, add_estimator_service
from estimator.service.inspection_service import InspectionService
from estimator.store.base import StoreError
from estimator.telemetry.http import HttpEndpoint
from estimator.telemetry.logs import configure_logs, get_logger
from estimator.telemetry.metrics import Metrics
from protos.kappad.estimator.v1 import estimator_pb2 as pb
from protos.kappad.estimator.v1 import estimator_pb2_grpc as pb_grpc

__all__ = ["StartError", "run", "serve"]

EXIT_OK: Final = 0
EXIT_CANNOT_START: Final = 1
EXIT_BAD_CONFIG: Final = 2
_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)
_SERVICES: Final = tuple(service.full_name for service in pb.DESCRIPTOR.services_by_name.values())
_ESTIMATOR: Final = "kappad.estimator.v1.EstimatorService"
# An idle watch is pinged by neither end unless a peer wants to: bookmarks come every 5 s. A
# client that does ping may do so this often before it is cut off with too_many_pings.
_LEAST_PING_INTERVAL_MS: Final = 5_000
_KEEPALIVE_TIME_MS: Final = 30_000
_KEEPALIVE_TIMEOUT_MS: Final = 10_000
# Objects made and not freed before the collector looks for cycles, of which exceptions and tasks
# leave a few: at most 10 MiB of them wait.
_COLLECT_AFTER_OBJECTS: Final = 50_000

_log = get_logger("server")


class StartError(Exception):
    """The sidecar cannot start; the message says why and what to do.

    Attributes
    ----------
    code : int
        What the process exits with.
    """

    def __init__(self, message: str, code: int = EXIT_CANNOT_START) -> None:
        super().__init__(message)
        self.code = code


def serve(config: ServeConfig) -> int:
    """Run the sidecar until SIGTERM or SIGINT.

    Parameters
    ----------
    config : ServeConfig
        Validated.

    Returns
    -------
    int
        0 after a drain, 1 if it could not start, 2 if it is told to start from a seed that cannot
        be used (said on standard error).
    """
    configure_logs(config.log_format, config.log_level)
    try:
        asyncio.run(run(config, freeze=True))
    except StartError as error:
        print(f"kappad serve: {error}", file=sys.stderr)
        return error.code
    return EXIT_OK


async def run(
    config: ServeConfig,
    *,
    ready: Callable[[str], None] | None = None,
    stop: asyncio.Event | None = None,
    freeze: bool = False,
    now_s: Callable[[], float] = time.time,
) -> None:
    """Start everything, serve until told to stop, and drain.

    Parameters
    ----------
    config : ServeConfig
        Validated.
    ready : callable, optional
        Called with the address once calls are served: ``unix:///path`` or ``host:port`` with
        the port that the system chose.
    stop : asyncio.Event, optional
        Ends the run; without it SIGTERM and SIGINT do.
    freeze : bool
        Keep what is loaded out of garbage collection; for a process that does nothing else.
    now_s : callable
        Unix time.

    Raises
    ------
    StartError
        If the socket, the store or the seed cannot be opened; nothing is left behind then.
    """
    listen = parse_listen(config.listen)
    if isinstance(listen, UnixAddress):
        try:
            unix_socket.claim(listen.path)
        except unix_socket.SocketError as error:
            raise StartError(str(error)) from error
    try:
        store = create_store(config)
        worker, learner = await build_learner(config, store, metrics := Metrics(), now_s=now_s)
    except StoreError as error:
        raise StartError(str(error)) from error
    except SeedError as error:
        raise StartError(str(error), EXIT_BAD_CONFIG) from error
    if freeze:  # a process of our own
        heap.map_large_blocks()
        learner.on_loaded = _spare_collector
    sidecar = _Sidecar(config, worker, learner, metrics, now_s)
    with _stop_by_signal() if stop is None else contextlib.nullcontext(stop) as stopped:
        try:
            address = await sidecar.start()
            if ready is not None:
                ready(address)
            await stopped.wait()
        finally:
            await sidecar.stop()


def _spare_collector() -> None:
    """Keep the garbage collector from walking what lives on, for a process of our own.

    What the imports made lives as long as the process, and each full collection would walk it
    (100 ms for river and scipy) while calls wait. Rows come and go by reference counts; walking
    those in hand and the keys every 700 objects took 8 of 100 µs a completion.
    """
    gc.freeze()
    gc.set_threshold(_COLLECT_AFTER_OBJECTS)


@contextlib.contextmanager
def _stop_by_signal() -> Iterator[asyncio.Event]:
    """Give what a signal sets; a later one must not cut the drain short, which is bounded."""
    event = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in _SIGNALS:
        loop.add_signal_handler(number, event.set)
    try:
        yield event
    finally:
        for number in _SIGNALS:
            loop.remove_signal_handler(number)
            signal.signal(number, signal.SIG_IGN)  # the process is about to end by itself


class _Sidecar:
    """What is open while the sidecar runs."""

    def __init__(
        self,
        config: ServeConfig,
        worker: StoreWorker,
        learner: Learner,
        metrics: Metrics,
        now_s: Callable[[], float],
    ) -> None:
        self._config = config
        self._worker = worker
        self._learner = learner
        self._listen = parse_listen(config.listen)
        self._draining = False
        self._task: asyncio.Task[None] | None = None
        self._bound = False
        clients = ClientRegistry(
            client_limit=config.client_limit,
            watcher_limit=config.watcher_limit,
            metrics=metrics,
            now_s=now_s,
        )
        package_version = _package_version()
        metrics.build.labels(package_version).set(1)
        estimator = EstimatorService(learner, clients, config, metrics, now_s=now_s)
        inspection = InspectionService(
            worker,
            learner,
            clients,
            config,
            server_version=package_version,
            rejected_count=lambda: estimator.rejected_count,
            now_s=now_s,
        )
        self._health = health.HealthServicer()
        self._server = grpc.aio.server(
            interceptors=(ErrorInterceptor(metrics),),
            options=_options(config),
            maximum_concurrent_rpcs=config.rpc_limit,
        )
        add_estimator_service(estimator, self._server)
        pb_grpc.add_InspectionServiceServicer_to_server(inspection, self._server)
        pb_grpc.add_AdminServiceServicer_to_server(
            AdminService(
                ModeSwitch(worker, learner, now_s=now_s),
                learner,
                server_version=package_version,
                now_s=now_s,
            ),
            self._server,
        )
        add_HealthServicer_to_server(self._health, self._server)
        reflection.enable_server_reflection(
            (*_SERVICES, HEALTH_NAME, reflection.SERVICE_NAME), self._server
        )
        self._http = HttpEndpoint(metrics, self.health)
        # Changes of the store's or the learner's state are rare; each sets the services' health.
        self._changed = asyncio.Event()
        learner.on_failure = worker.on_change = self._changed.set
        self._health_task: asyncio.Task[None] | None = None

    def health(self) -> tuple[bool, str]:
        """Say whether the sidecar works, and why not or what is degraded.

        A store that does not take writes is no reason to be restarted or taken out of service:
        the last snapshot is served, and vLLM beside it runs.
        """
        if self._learner.failure:
            return False, f"the learner died: {self._learner.failure}"
        if self._draining:
            return False, "draining"
        if self._worker.error:
            return True, f"degraded: reports are refused, {self._worker.error}"
        return True, ""

    async def start(self) -> str:
        """Listen, start the learner, and give the address."""
        address = self._bind()
        await self._start_http()
        self._task = asyncio.create_task(self._learner.run(), name="learner")
        await self._set_health()
        self._health_task = asyncio.create_task(self._follow_health(), name="health")
        await self._server.start()
        snapshot = self._learner.publisher.snapshot
        _log.info(
            "serving",
            address=address,
            version=_package_version(),
            instance_id=snapshot.instance_id,
            snapshot_version=snapshot.version,
            mode=snapshot.settings.mode,
            learned=self._learner.pipeline.learned_count,
        )
        return address

    async def stop(self) -> None:
        """Drain: refuse what is new, finish what was taken, save, close, leave no socket."""
        self._draining = True
        if self._health_task is not None:
            self._health_task.cancel()
        await self._health.enter_graceful_shutdown()
        self._learner.publisher.close()
        self._learner.drain()
        if self._task is not None:
            await self._task
        # gRPC answers a call that it has not handed over yet with CANCELLED, which no client
        # retries; meanwhile such calls are told UNAVAILABLE, on which every client tries again.
        await asyncio.sleep(self._config.drain_delay_s)
        await self._server.stop(self._config.drain_timeout_s)
        await self._http.stop()
        await self._worker.close()
        if self._bound and isinstance(self._listen, UnixAddress):
            unix_socket.remove(self._listen.path)
        _log.info("stopped")

    def _bind(self) -> str:
        listen = self._listen
        try:
            if isinstance(listen, UnixAddress):
                with unix_socket.private_umask():
                    self._server.add_insecure_port(listen.target)
                self._bound = True
                unix_socket.restrict(listen.path)
                return listen.text
            port = self._server.add_insecure_port(listen.text)
        except (RuntimeError, OSError) as error:
            raise StartError(
                f"cannot listen on {listen.text}: {error}; is the address in use or not ours? "
                "choose another --listen"
            ) from error
        self._bound = True
        return f"{listen.text.rpartition(':')[0]}:{port}"

    async def _start_http(self) -> None:
        address = parse_http(self._config.http)
        if address is None:
            return
        try:
            port = await self._http.start(address.host, address.port)
        except OSError as error:
            raise StartError(
                f"cannot serve http on {address.text}: {error.strerror or error}; choose another "
                "--http"
            ) from error
        _log.info("http", url=f"http://{address.text.rpartition(':')[0]}:{port}/metrics")

    async def _follow_health(self) -> None:
        while True:
            await self._changed.wait()
            self._changed.clear()
            await self._set_health()

    async def _set_health(self) -> None:
        serving = health_pb2.HealthCheckResponse.SERVING
        broken = health_pb2.HealthCheckResponse.NOT_SERVING
        healthy = self.health()[0]
        for name in ("", *_SERVICES):
            refused = name == _ESTIMATOR and bool(self._worker.error)
            await self._health.set(name, serving if healthy and not refused else broken)


def _options(config: ServeConfig) -> list[tuple[str, int]]:
    return [
        ("grpc.max_receive_message_length", config.message_limit_bytes),
        # What is sent is bounded by key_limit and the pages' size: 20,000 keys with the longest
        # names are 9 MiB, and a watch that is refused its snapshot could never begin.
        ("grpc.max_send_message_length", -1),
        ("grpc.max_concurrent_streams", config.rpc_limit),
        ("grpc.keepalive_time_ms", _KEEPALIVE_TIME_MS),
        ("grpc.keepalive_timeout_ms", _KEEPALIVE_TIMEOUT_MS),
        ("grpc.keepalive_permit_without_calls", 1),
        ("grpc.http2.max_pings_without_data", 0),
        ("grpc.http2.min_recv_ping_interval_without_data_ms", _LEAST_PING_INTERVAL_MS),
        # Two sidecars on one port would share its calls silently.
        ("grpc.so_reuseport", 0),
    ]


def _package_version() -> str:
    try:
        return version("kappad")
    except PackageNotFoundError:  # run from a source tree
        return "0+unknown"
