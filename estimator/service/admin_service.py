"""The control plane: guarded and recorded."""

from typing import Any

import grpc.aio

from estimator.convert import mode_from_proto, mode_to_proto
from estimator.runtime.mode_switch import ModeSwitch
from estimator.service.limits import check_mode_request
from protos.kappad.estimator.v1 import estimator_pb2 as pb
from protos.kappad.estimator.v1 import estimator_pb2_grpc as pb_grpc

__all__ = ["AdminService"]

_Context = grpc.aio.ServicerContext[Any, Any]  # Any: generic over messages not used here


class AdminService(pb_grpc.AdminServiceServicer):
    """Handlers that change something.

    Parameters
    ----------
    modes : ModeSwitch
        Records and publishes.
    """

    def __init__(self, modes: ModeSwitch) -> None:
        self._modes = modes

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
