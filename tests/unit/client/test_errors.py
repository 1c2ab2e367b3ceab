from collections.abc import Sequence
from typing import Any, NamedTuple

import grpc
import pytest
from google.protobuf.any_pb2 import Any as AnyMessage
from google.protobuf.duration_pb2 import Duration
from google.rpc import error_details_pb2, status_pb2

from estimator.client.errors import client_error, error_details


class Item(NamedTuple):
    """An item of gRPC's metadata."""

    key: str
    value: str | bytes


class Failed(grpc.RpcError):
    """What a blocking call raises, without a call."""

    def __init__(
        self,
        code: grpc.StatusCode,
        details: str = "",
        metadata: Sequence[tuple[str, str | bytes]] = (),
    ) -> None:
        super().__init__()
        self._code, self._details, self._metadata = code, details, metadata

    def code(self) -> grpc.StatusCode:
        return self._code

    def details(self) -> str:
        return self._details

    def trailing_metadata(self) -> tuple[Any, ...]:  # Any: as the stubs have it
        return tuple(Item(*one) for one in self._metadata)


def rich(reason: str, retry_s: float | None = None) -> list[tuple[str, str | bytes]]:
    details = [AnyMessage() for _ in range(1 if retry_s is None else 2)]
    details[0].Pack(error_details_pb2.ErrorInfo(reason=reason, domain="estimator.kappad"))
    if retry_s is not None:
        delay = Duration(seconds=int(retry_s), nanos=round(retry_s % 1 * 1e9))
        details[1].Pack(error_details_pb2.RetryInfo(retry_delay=delay))
    status = status_pb2.Status(code=8, details=details)
    return [("other", "text"), ("grpc-status-details-bin", status.SerializeToString())]


def test_the_sidecars_own_reason_and_delay_are_read() -> None:
    error = Failed(grpc.StatusCode.RESOURCE_EXHAUSTED, "queue full", rich("BACKLOG_FULL", 1.5))
    assert error_details(error) == ("BACKLOG_FULL", 1.5)
    found = client_error(error, "unix:///s", 5.0)
    assert (found.reason, str(found)) == ("BACKLOG_FULL", "unix:///s: queue full")


def test_details_that_are_no_details_are_left_alone() -> None:
    error = Failed(
        grpc.StatusCode.INTERNAL, "x", [("grpc-status-details-bin", b"\xff\xff not protobuf")]
    )
    assert error_details(error) == ("", None)


@pytest.mark.parametrize(
    ("code", "details", "reason", "words"),
    [
        (
            grpc.StatusCode.UNAVAILABLE,
            "failed to connect to all addresses; last error: UNKNOWN: ipv4:1: Connection refused",
            "UNAVAILABLE",
            ["cannot reach here:1 (Connection refused)", "kappad serve", "--target"],
        ),
        (
            grpc.StatusCode.UNAVAILABLE,
            "last error: UNKNOWN: unix:/s: connect failed: addr: unix:/s error: Permission denied",
            "PERMISSION_DENIED",
            ["may not open here:1 (Permission denied)", "group"],
        ),
        (
            grpc.StatusCode.DEADLINE_EXCEEDED,
            "",
            "DEADLINE_EXCEEDED",
            ["within 2 s", "see its log"],
        ),
        (grpc.StatusCode.UNIMPLEMENTED, "Method not found!", "UNIMPLEMENTED", ["upgrade"]),
        (grpc.StatusCode.INTERNAL, "a\nb" * 999, "INTERNAL", ["here:1: a b"]),
    ],
)
def test_each_failure_names_target_cause_and_remedy_in_one_line(
    code: grpc.StatusCode, details: str, reason: str, words: list[str]
) -> None:
    found = client_error(Failed(code, details), "here:1", 2.0)
    assert found.reason == reason
    assert all(word in found.message for word in words)
    assert "\n" not in found.message
    assert len(found.message) < 600
