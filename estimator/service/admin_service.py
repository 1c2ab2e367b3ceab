"""The control plane: guarded and recorded."""

import time
from collections.abc import AsyncIterator, Callable
from typing import Any, Final

import grpc.aio

from estimator.convert import mode_from_proto, mode_to_proto, timestamp_of
from estimator.runtime.errors import ExhaustedError
from estimator.runtime.learner import Learner
from estimator.runtime.mode_switch import ModeSwitch
from estimator.service.limits import check_export_request, check_mode_request
from estimator.telemetry.logs import get_logger
from protos.kappad.estimator.v1 import estimator_pb2 as pb
from protos.kappad.estimator.v1 import estimator_pb2_grpc as pb_grpc

__all__ = ["AdminService"]

_Context = grpc.aio.ServicerContext[Any, Any]  # Any: generic over messages not used here
# As the API says: far below the 4 MiB that gRPC takes unless told otherwise.
_CHUNK_BYTES: Final = 256 * 2**10
# Each holds a state of up to 128 MiB until its reader has taken it.
_MAX_EXPORTS: Final = 2

_log = get_logger("admin")


class AdminService(pb_grpc.AdminServiceServicer):
    """Handlers that change something, or take all of it out.

    Parameters
    ----------
    modes : ModeSwitch
        Records and publishes.
    learner : Learner
        Has the state.
    server_version : str
        Version of the package.
    now_s : callable
        Unix time.
    """

    def __init__(
        self,
        modes: ModeSwitch,
        learner: Learner,
        *,
        server_version: str,
        now_s: Callable[[], float] = time.time,
    ) -> None:
        self._modes = modes
        self._learner = learner
        self._server_version = server_version
        self._now_s = now_s
        self._n_exports = 0

    async def SetMode(  # noqa: N802  # the API's name
        self, request: pb.SetModeRequest, context: _Context
    ) -> pb.SetModeResponse:
        """Switch the mode; the actor recorded is the caller's address."""
        check_mode_request(request)
        switched = await self._modes.set(
            mode_from_proto(request.mode),
            actor=context.peer(),
            reason=request.reason,
            request_id=request.request_id,
        )
        return pb.SetModeResponse(
            mode=mode_to_proto(switched.mode),
            previous_mode=mode_to_proto(switched.previous_mode),
            snapshot_version=switched.snapshot_version,
        )

    async def ExportState(  # noqa: N802  # the API's name
        self, request: pb.ExportStateRequest, context: _Context
    ) -> AsyncIterator[pb.ExportStateResponse]:
        """Stream the state of one moment; learning goes on while it is read."""
        check_export_request(request)
        if self._n_exports >= _MAX_EXPORTS:
            raise ExhaustedError(
                f"{self._n_exports} exports are being read, the limit is {_MAX_EXPORTS}; try "
                "again when one has ended",
                reason="TOO_MANY_EXPORTS",
                retry_after_s=2.0,
            )
        self._n_exports += 1
        try:
            state = await self._learner.export_state(request.model_id)
            _log.info(
                "the state is exported",
                actor=context.peer(),
                model=request.model_id,
                learned=state.learned_count,
                size_bytes=len(state.text),
            )
            header: pb.StateHeader | None = pb.StateHeader(
                schema_version=state.schema,
                learned_count=state.learned_count,
                key_count=state.key_count,
                size_bytes=len(state.text),
                server_version=self._server_version,
                create_time=timestamp_of(self._now_s()),
            )
            for start in range(0, len(state.text), _CHUNK_BYTES):
                chunk = state.text[start : start + _CHUNK_BYTES]
                yield pb.ExportStateResponse(header=header, chunk=chunk)
                header = None
        finally:
            self._n_exports -= 1
