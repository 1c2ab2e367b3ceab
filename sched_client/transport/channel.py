"""One gRPC channel to the sidecar, and what its errors ask for.

No keep-alive pings: the watch hears a bookmark every 5 s and the reporter sends at least every
10 s, which also notices a peer that is frozen but connected; and a client that pings more often
than the server allows (5 min by default) is cut off.

The option SingleThreadedUnaryStream would save a thread and fifteen wake-ups a second, but a call
that is cancelled under it is never freed and keeps its connection (grpcio 1.85.3).
"""

from typing import Final

import grpc
from google.protobuf.any_pb2 import Any as AnyMessage
from google.protobuf.duration_pb2 import Duration
from google.protobuf.message import DecodeError

from protos.kappad.estimator.v1 import estimator_pb2 as pb
from protos.kappad.estimator.v1.estimator_pb2_grpc import EstimatorServiceStub
from sched_client.transport.state import Timing
from sched_client.transport.wire import WireError, fields

# 5,000 keys take 0.4 MB; `convert.MAX_KEYS` take 4 MB.
_MAX_MESSAGE_BYTES: Final = 16 * 2**20
# A sidecar that asks for more patience than this is asked again anyway.
_MAX_RETRY_DELAY_S: Final = 60.0
_STATUS_DETAILS: Final = "grpc-status-details-bin"
_STATUS_DETAILS_FIELD: Final = 3  # google.rpc.Status.details
_RETRY_INFO: Final = "type.googleapis.com/google.rpc.RetryInfo"
_RETRY_DELAY_FIELD: Final = 1  # google.rpc.RetryInfo.retry_delay


class Channel:
    """A channel that can be replaced: a frozen peer keeps its connection open.

    Parameters
    ----------
    target : str
        ``unix:///path`` or ``host:port``.
    timing : Timing
        Bounds the reconnects that gRPC makes by itself.
    """

    def __init__(self, target: str, timing: Timing) -> None:
        self._target = target
        self._options = [
            ("grpc.max_receive_message_length", _MAX_MESSAGE_BYTES),
            ("grpc.max_send_message_length", _MAX_MESSAGE_BYTES),
            ("grpc.initial_reconnect_backoff_ms", int(timing.backoff_min_s * 1000)),
            ("grpc.min_reconnect_backoff_ms", int(timing.deadline_s * 1000)),
            # Within the loops' own delays: connecting takes no interpreter's lock.
            ("grpc.max_reconnect_backoff_ms", int(min(timing.backoff_max_s, 1.0) * 1000)),
            ("grpc.enable_retries", 0),
            ("grpc.enable_http_proxy", 0),
            ("grpc.service_config_disable_resolution", 1),
            ("grpc.use_local_subchannel_pool", 1),
            # A window that grows would hold many old snapshots between a busy client and the
            # sidecar, which sends the newest only once there is room.
            ("grpc.http2.bdp_probe", 0),
        ]
        self._open()

    def _open(self) -> None:
        self._channel = grpc.insecure_channel(self._target, options=self._options)
        self.report = EstimatorServiceStub(self._channel).ReportCompletions
        # Bytes: the response is parsed in slices.
        self.watch: grpc.UnaryStreamMultiCallable[pb.WatchParametersRequest, bytes] = (
            self._channel.unary_stream(
                f"/{pb.DESCRIPTOR.services_by_name['EstimatorService'].full_name}/WatchParameters",
                request_serializer=pb.WatchParametersRequest.SerializeToString,
                response_deserializer=None,
            )
        )

    def renew(self) -> None:
        """Connect anew; calls in flight end as CANCELLED."""
        self.close()
        self._open()

    def close(self) -> None:
        """Close; calls in flight end as CANCELLED."""
        self._channel.close()


def describe(error: grpc.RpcError) -> str:
    """Say in one line what went wrong."""
    call = _as_call(error)
    details = call.details() if call is not None else None
    return f"{code_of(error).name}: {(details or 'no details')[:200]}"


def code_of(error: grpc.RpcError) -> grpc.StatusCode:
    """Give an error's status code."""
    call = _as_call(error)
    return (call.code() if call is not None else None) or grpc.StatusCode.UNKNOWN


def retry_delay_s(error: grpc.RpcError) -> float:
    """Give the delay that RESOURCE_EXHAUSTED asks for in its RetryInfo, in seconds; 0 for none."""
    call = _as_call(error)
    if call is None or call.code() is not grpc.StatusCode.RESOURCE_EXHAUSTED:
        return 0.0
    for name, value in call.trailing_metadata() or ():
        if name == _STATUS_DETAILS and isinstance(value, bytes):
            try:
                return min(_read_retry_delay_s(value), _MAX_RETRY_DELAY_S)
            except (WireError, DecodeError):
                return 0.0
    return 0.0


def _as_call(error: object) -> grpc.Call | None:
    # What grpc raises is both an RpcError and a Call; its types do not say so.
    return error if isinstance(error, grpc.Call) else None


def _read_retry_delay_s(status: bytes) -> float:
    # google.rpc is not among the dependencies (it would pin protobuf): two levels read by hand.
    for field in fields(status):
        if field.number != _STATUS_DETAILS_FIELD or not field.is_bytes:
            continue
        detail = AnyMessage.FromString(status[field.content : field.end])
        if detail.type_url != _RETRY_INFO:
            continue
        for inner in fields(detail.value):
            if inner.number == _RETRY_DELAY_FIELD and inner.is_bytes:
                span = Duration.FromString(detail.value[inner.content : inner.end])
                return max(0.0, span.seconds + span.nanos / 1e9)
    return 0.0
