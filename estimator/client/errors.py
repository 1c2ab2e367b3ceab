"""The one error of the client library, and how a failed call becomes one."""

from collections.abc import Sequence
from typing import Final

import grpc
from google.protobuf.message import DecodeError

_DETAILS_KEY: Final = "grpc-status-details-bin"


class ClientError(Exception):
    """A call that failed, told so that an operator can act.

    Attributes
    ----------
    reason : str
        Stable, UPPER_SNAKE: the sidecar's own reason where it gave one, else gRPC's code.
    message : str
        Names the target, the cause and the remedy; one line.
    """

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason
        self.message = message


def client_error(error: grpc.RpcError, target: str, timeout_s: float) -> ClientError:
    """Turn gRPC's error into `ClientError`.

    Parameters
    ----------
    error : grpc.RpcError
        As raised by a call.
    target : str
        What was called.
    timeout_s : float
        The call's deadline in seconds.

    Returns
    -------
    ClientError
        With the sidecar's own reason, where the details carry one.
    """
    code, details = code_of(error), _one_line(_details_of(error))
    reason, _ = error_details(error)
    if reason:  # The sidecar answered, and its messages name the remedy.
        return ClientError(reason, f"{target}: {details}")
    if code is grpc.StatusCode.UNAVAILABLE:
        # What follows the last colon is the system's own word: "No such file or directory".
        cause = details.rsplit(": ", 1)[-1].rstrip("])")
        if cause == "Permission denied":
            text = f"may not open {target} ({cause}); run it as the sidecar's user, or as a member"
            return ClientError("PERMISSION_DENIED", f"{text} of the socket's group")
        text = f"cannot reach {target} ({cause}); is the sidecar running? start it with"
        return ClientError("UNAVAILABLE", f"{text} `kappad serve`, or name it with --target")
    if code is grpc.StatusCode.DEADLINE_EXCEEDED:
        text = f"no answer from {target} within {timeout_s:g} s; the sidecar is overloaded or"
        return ClientError("DEADLINE_EXCEEDED", f"{text} stopped: see its log, or try again")
    if code is grpc.StatusCode.UNIMPLEMENTED:
        text = f"{target} does not know this call ({details}); it is no kappad sidecar or an older"
        return ClientError("UNIMPLEMENTED", f"{text} one: check --target, or upgrade it")
    return ClientError(code.name, f"{target}: {details}")


def code_of(error: grpc.RpcError) -> grpc.StatusCode:
    """Give the status code of an error."""
    return error.code()


def error_details(error: grpc.RpcError) -> tuple[str, float | None]:
    """Read ``ErrorInfo.reason`` and ``RetryInfo`` from the trailing metadata.

    Parameters
    ----------
    error : grpc.RpcError
        As raised by a call.

    Returns
    -------
    reason : str
        Empty where there is none.
    retry_delay_s : float or None
        How long the sidecar asks to wait, in seconds.
    """
    # Only failed calls need these modules, which come with the sidecar's extra.
    from google.rpc import error_details_pb2, status_pb2  # noqa: PLC0415 # see above

    reason, delay_s = "", None
    for value in _metadata_values(error):
        try:
            status = status_pb2.Status.FromString(value)
        except DecodeError:  # a proxy's own details
            continue
        for detail in status.details:
            info, retry = error_details_pb2.ErrorInfo(), error_details_pb2.RetryInfo()
            if detail.Unpack(info):
                reason = info.reason
            elif detail.Unpack(retry):
                delay_s = retry.retry_delay.seconds + retry.retry_delay.nanos / 1e9
    return reason, delay_s


def _metadata_values(error: grpc.RpcError) -> Sequence[bytes]:
    return [
        one.value
        for one in error.trailing_metadata() or ()
        if one.key == _DETAILS_KEY and isinstance(one.value, bytes)
    ]


def _details_of(error: grpc.RpcError) -> str:
    return error.details() or ""


def _one_line(text: str) -> str:
    return " ".join(text.split())[:_MAX_DETAILS_CHARACTERS]


# Enough for a cause and a remedy; a peer that is no sidecar may answer with a page.
_MAX_DETAILS_CHARACTERS: Final = 400
