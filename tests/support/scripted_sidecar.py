"""A real gRPC server that says what a test tells it to, for the client's transport."""

import queue
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

import grpc

from protos.kappad.estimator.v1 import estimator_pb2 as pb
from sched_client.completion import CompletionReport
from sched_client.model import Features
from sched_client.options import ClientOptions
from sched_client.transport.link import Identity, Link, Timing

FAST = Timing(
    pause_s=0.0002,
    silence_s=0.5,
    backoff_min_s=0.01,
    backoff_max_s=0.05,
    flush_s=0.02,
    sign_of_life_s=0.2,
    deadline_s=0.5,
    poll_s=0.02,
    close_s=2.0,
)
BOOT_ID = "5f0c8e52-0000-4000-8000-000000000001"


def wait_until(holds: Callable[[], object], what: str, timeout_s: float = 10.0) -> None:
    """Return once ``holds()`` is true; fail after a while."""
    end = time.monotonic() + timeout_s
    while not holds():
        assert time.monotonic() < end, f"still not so after {timeout_s} s: {what}"
        time.sleep(0.005)


@contextmanager
def short_folder() -> Iterator[Path]:
    """Give a folder whose path is short enough for a unix socket (108 bytes)."""
    with tempfile.TemporaryDirectory(prefix="k", dir="/tmp") as folder:
        yield Path(folder)


@contextmanager
def started_link(target: str, timing: Timing = FAST, **changes: Any) -> Iterator[Link]:
    """Start a link and close it; Any: keyword arguments of `Link`."""
    link = Link(
        ClientOptions(target=target),
        Identity("pod/0/boot", "whisper", "0.32.0", kv_tokens=8_544 * 16, slots=256),
        boot_id=BOOT_ID,
        timing=timing,
        **changes,
    )
    link.start()
    try:
        yield link
    finally:
        link.close()


def make_report(counter: int, **changes: Any) -> CompletionReport:
    """Build a report; Any: fields of `CompletionReport`."""
    fields: dict[str, Any] = {  # Any: see above
        "features": Features(model="whisper", task="transcribe", language="en", audio_s=2.0),
        "output_tokens": 9,
        "finish_reason": "stop",
        "finished_s": 1.0,
    }
    return CompletionReport(counter=counter, **(fields | changes))


def kappa(language: str = "", value: float = 3.0, **changes: Any) -> pb.KappaEntry:
    """Build an entry, the global one by default; Any: fields of `KappaEntry`."""
    fields: dict[str, Any] = {  # Any: see above
        "kappa_tokens_per_second": value,
        "ratio_p50": 1.0,
        "ratio_p90": 1.5,
        "ratio_p99": 2.5,
        "sample_count": 7,
        "source": pb.PREDICTION_SOURCE_LEARNED,
    }
    if language:
        fields |= {"model_id": "whisper", "task": "transcribe", "language": language}
    return pb.KappaEntry(**(fields | changes))


def service(**changes: Any) -> pb.ServiceTime:
    """Build a valid service time; Any: fields of `ServiceTime`."""
    fields: dict[str, Any] = {  # Any: see above
        "overhead_seconds": 0.1,
        "seconds_per_token": 0.02,
        "reference_concurrency": 4.0,
        "mean_service_seconds": 0.5,
        "mean_token_count": 20.0,
        "mean_audio_seconds": 6.0,
    }
    return pb.ServiceTime(**(fields | changes))


def settings(mode: pb.Mode = pb.MODE_ON) -> pb.Settings:
    """Build valid settings."""
    return pb.Settings(
        mode=mode, policy="hrrn", overtaking_ratio=0.2, burst_request_count=5, guard_seconds=9
    )


def snapshot(
    version: int, *entries: pb.KappaEntry, instance: str = "one", **parts: Any
) -> pb.WatchParametersResponse:
    """Build a whole state with the global key; Any: other parts of `Parameters`."""
    body: dict[str, Any] = {"settings": settings(), "services": [service()]} | parts
    body.setdefault("kappas", [kappa(), *entries])
    return pb.WatchParametersResponse(
        instance_id=instance, version=version, snapshot=pb.Parameters(**body)
    )


def delta(
    version: int, base: int, *entries: pb.KappaEntry, instance: str = "one", **parts: Any
) -> pb.WatchParametersResponse:
    """Build a change; Any: other parts of `ParametersDelta`."""
    return pb.WatchParametersResponse(
        instance_id=instance,
        version=version,
        delta=pb.ParametersDelta(base_version=base, kappas=entries, **parts),
    )


def bookmark(version: int, instance: str = "one") -> pb.WatchParametersResponse:
    """Build a sign of life."""
    return pb.WatchParametersResponse(
        instance_id=instance, version=version, bookmark=pb.Bookmark()
    )


class ScriptedSidecar:
    """Greets every watch with ``greeting``, then sends what `send` is given.

    Attributes
    ----------
    watches, reports : list
        The requests received.
    greeting : list of WatchParametersResponse
        First responses of each watch.
    watch_errors : list of grpc.StatusCode
        The next watches end with these.
    on_report : callable or None
        Called in place of accepting a report.
    """

    def __init__(self, target: str) -> None:
        self.target = target
        self.watches: list[pb.WatchParametersRequest] = []
        self.reports: list[pb.ReportCompletionsRequest] = []
        self.greeting: list[pb.WatchParametersResponse] = [snapshot(1)]
        self.watch_errors: list[grpc.StatusCode] = []
        self.on_report: (
            Callable[
                [pb.ReportCompletionsRequest, grpc.ServicerContext], pb.ReportCompletionsResponse
            ]
            | None
        ) = None
        self._events: queue.SimpleQueue[pb.WatchParametersResponse | bytes | None] = (
            queue.SimpleQueue()
        )
        self._pool = ThreadPoolExecutor(8)
        self._server = grpc.server(self._pool, options=[("grpc.so_reuseport", 0)])
        self._server.add_generic_rpc_handlers((self._handlers(),))
        self._server.add_insecure_port(target)
        self._server.start()

    def _handlers(self) -> grpc.GenericRpcHandler:
        # Not the generated registration: a watch may also send bytes that are no message.
        watch = grpc.unary_stream_rpc_method_handler(
            self.WatchParameters,
            request_deserializer=pb.WatchParametersRequest.FromString,
            response_serializer=lambda event: (
                event if isinstance(event, bytes) else event.SerializeToString()
            ),
        )
        report = grpc.unary_unary_rpc_method_handler(
            self.ReportCompletions,
            request_deserializer=pb.ReportCompletionsRequest.FromString,
            response_serializer=pb.ReportCompletionsResponse.SerializeToString,
        )
        return grpc.method_handlers_generic_handler(
            pb.DESCRIPTOR.services_by_name["EstimatorService"].full_name,
            {"WatchParameters": watch, "ReportCompletions": report},
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._server.stop(None).wait(5)
        self._pool.shutdown(wait=True)

    def send(self, *responses: pb.WatchParametersResponse | bytes) -> None:
        """Send on the watch that is open."""
        for response in responses:
            self._events.put(response)

    def end_watch(self) -> None:
        """End the watch that is open, with status OK."""
        self._events.put(None)

    def WatchParameters(  # noqa: N802  gRPC's name
        self, request: pb.WatchParametersRequest, context: Any
    ) -> Iterator[pb.WatchParametersResponse | bytes]:
        """Greet and send; Any: the types of contexts lack is_active() and abort()."""
        self.watches.append(request)
        if self.watch_errors:
            context.abort(self.watch_errors.pop(0), "as the test wants")
        yield from self.greeting
        # An older watch that has not noticed its end must not take what is meant for this one.
        while context.is_active() and self.watches[-1] is request:
            try:
                event = self._events.get_nowait()
            except queue.Empty:
                time.sleep(0.005)
                continue
            if event is None:
                return
            yield event

    def ReportCompletions(  # noqa: N802  gRPC's name
        self, request: pb.ReportCompletionsRequest, context: Any
    ) -> pb.ReportCompletionsResponse:
        """Record and accept; Any: as above."""
        self.reports.append(request)
        if self.on_report is not None:
            return self.on_report(request, context)
        return pb.ReportCompletionsResponse(accepted_count=len(request.completions))

    @property
    def completion_ids(self) -> list[str]:
        """The ids of every completion received, repeats included."""
        return [row.completion_id for report in list(self.reports) for row in report.completions]
