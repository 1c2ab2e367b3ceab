"""The one place that turns errors into statuses, and counts and times every call.

google.rpc.ErrorInfo carries the stable reason (AIP-193), BadRequest the fields at fault, RetryInfo
when trying again makes sense. Our own bugs become INTERNAL with an id to find in the log.
"""

import time
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, Final

import grpc
import grpc.aio
from google.protobuf.any_pb2 import Any as AnyMessage
from google.protobuf.duration_pb2 import Duration
from google.rpc import code_pb2, error_details_pb2, status_pb2
from grpc_status import rpc_status

from estimator.convert import ConversionError
from estimator.runtime.errors import (
    EstimatorError,
    ExhaustedError,
    InvalidRequestError,
    NotFoundError,
    UnavailableError,
)
from estimator.store.base import StoreError
from estimator.telemetry.logs import get_logger
from estimator.telemetry.metrics import Metrics

__all__ = ["DOMAIN", "ErrorInterceptor", "status_of"]

DOMAIN: Final = "estimator.kappad"
_log = get_logger("rpc")

_CODES: Final[tuple[tuple[type[EstimatorError], grpc.StatusCode, int], ...]] = (
    (InvalidRequestError, grpc.StatusCode.INVALID_ARGUMENT, code_pb2.INVALID_ARGUMENT),
    (NotFoundError, grpc.StatusCode.NOT_FOUND, code_pb2.NOT_FOUND),
    (ExhaustedError, grpc.StatusCode.RESOURCE_EXHAUSTED, code_pb2.RESOURCE_EXHAUSTED),
    (UnavailableError, grpc.StatusCode.UNAVAILABLE, code_pb2.UNAVAILABLE),
)

# Any: grpcio's handlers are generic over request and response, which differ for each method.
_Handler = Callable[[Any, "grpc.aio.ServicerContext[Any, Any]"], Any]


def status_of(error: EstimatorError) -> tuple[grpc.StatusCode, str, tuple[tuple[str, bytes], ...]]:
    """Give code, message and trailing metadata for an error.

    Parameters
    ----------
    error : EstimatorError
        As raised by a handler.

    Returns
    -------
    tuple
        What `grpc.aio.ServicerContext.abort` takes.
    """
    code, number = grpc.StatusCode.INTERNAL, code_pb2.INTERNAL
    for kind, kind_code, kind_number in _CODES:
        if isinstance(error, kind):
            code, number = kind_code, kind_number
            break
    details = [
        error_details_pb2.ErrorInfo(reason=error.reason, domain=DOMAIN, metadata=error.metadata)
    ]
    if isinstance(error, InvalidRequestError):
        violations = [
            error_details_pb2.BadRequest.FieldViolation(field=field, description=description)
            for field, description in error.violations
        ]
        details.append(error_details_pb2.BadRequest(field_violations=violations))
    if error.retry_after_s is not None:
        delay = Duration()
        delay.FromMilliseconds(round(error.retry_after_s * 1000))
        details.append(error_details_pb2.RetryInfo(retry_delay=delay))
    packed = []
    for detail in details:
        item = AnyMessage()
        item.Pack(detail)
        packed.append(item)
    status = status_pb2.Status(code=number, message=str(error), details=packed)
    return code, str(error), rpc_status.to_status(status).trailing_metadata


def _known(error: Exception) -> EstimatorError | None:
    if isinstance(error, EstimatorError):
        return error
    if isinstance(error, ConversionError):
        return InvalidRequestError([(error.field, str(error))], reason=error.reason)
    if isinstance(error, StoreError):
        return UnavailableError(str(error), reason="STORE_UNAVAILABLE", retry_after_s=2.0)
    return None


class ErrorInterceptor(grpc.aio.ServerInterceptor):
    """Wraps every handler once.

    Parameters
    ----------
    metrics : Metrics
        Counts calls by method and code.
    """

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        # Methods are a fixed set, so this is bounded; wrapping anew costs 20 µs a call.
        self._wrapped: dict[str, tuple[Any, Any]] = {}  # Any: grpcio's RpcMethodHandler

    async def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Awaitable[Any]],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> Any:  # Any: grpcio's RpcMethodHandler, or None for an unknown method
        """Give the handler of a call, wrapped."""
        handler = await continuation(handler_call_details)
        if handler is None:
            return None
        method = str(handler_call_details.method)
        known = self._wrapped.get(method)
        if known is not None and known[0] is handler:
            return known[1]
        wrapped = self._wrap(handler, method.rpartition("/")[2])
        self._wrapped[method] = (handler, wrapped)
        return wrapped

    def _wrap(self, handler: Any, name: str) -> Any:  # Any: grpcio's RpcMethodHandler
        if handler.unary_unary is not None:
            return grpc.unary_unary_rpc_method_handler(
                self._unary(handler.unary_unary, name),
                request_deserializer=handler.request_deserializer,
                response_serializer=handler.response_serializer,
            )
        if handler.unary_stream is not None:
            return grpc.unary_stream_rpc_method_handler(
                self._stream(handler.unary_stream, name),
                request_deserializer=handler.request_deserializer,
                response_serializer=handler.response_serializer,
            )
        return handler  # reflection streams both ways and is not ours

    def _unary(self, inner: _Handler, name: str) -> _Handler:
        count, seconds = self._metrics.rpcs, self._metrics.rpc_s.labels(name)
        succeeded = count.labels(name, "OK")

        async def call(request: Any, context: "grpc.aio.ServicerContext[Any, Any]") -> Any:
            start = time.perf_counter()
            try:
                response = await inner(request, context)
            except Exception as error:  # noqa: BLE001  # top of the call
                await self._abort(error, name, context)
            else:
                succeeded.inc()
                return response
            finally:
                seconds.observe(time.perf_counter() - start)

        return call

    def _stream(self, inner: _Handler, name: str) -> _Handler:
        async def call(
            request: Any, context: "grpc.aio.ServicerContext[Any, Any]"
        ) -> AsyncIterator[Any]:
            try:
                async for response in inner(request, context):
                    yield response
            except Exception as error:  # noqa: BLE001  # top of the call
                await self._abort(error, name, context)
            else:
                self._metrics.rpcs.labels(name, "OK").inc()

        return call

    async def _abort(
        self, error: Exception, name: str, context: "grpc.aio.ServicerContext[Any, Any]"
    ) -> None:
        if isinstance(error, grpc.aio.AbortError):
            raise error
        known = _known(error)
        if known is None:
            error_id = str(uuid.uuid4())
            _log.exception("a call failed by our own bug", method=name, error_id=error_id)
            known = EstimatorError(
                f"internal error {error_id}; the sidecar's log has it",
                metadata={"error_id": error_id},
            )
        code, message, metadata = status_of(known)
        self._metrics.rpcs.labels(name, code.name).inc()
        await context.abort(code, message, metadata)
