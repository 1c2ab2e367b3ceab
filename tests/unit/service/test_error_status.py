"""Errors become statuses with a stable reason, in google.rpc's own messages."""

import grpc
import pytest
from google.rpc import error_details_pb2, status_pb2

from estimator.runtime.errors import (
    EstimatorError,
    ExhaustedError,
    InvalidRequestError,
    UnavailableError,
)
from estimator.service.errors import DOMAIN, status_of


def _details(metadata: tuple[tuple[str, bytes], ...]) -> status_pb2.Status:
    ((key, value),) = metadata
    assert key == "grpc-status-details-bin"
    return status_pb2.Status.FromString(value)


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (InvalidRequestError([("f", "bad")]), grpc.StatusCode.INVALID_ARGUMENT),
        (ExhaustedError("full"), grpc.StatusCode.RESOURCE_EXHAUSTED),
        (UnavailableError("away"), grpc.StatusCode.UNAVAILABLE),
        (EstimatorError("bug"), grpc.StatusCode.INTERNAL),
    ],
)
def test_each_kind_has_its_code(error: EstimatorError, code: grpc.StatusCode) -> None:
    found, message, metadata = status_of(error)
    status = _details(metadata)
    assert (found, status.code) == (code, code.value[0])
    assert message == status.message == str(error)
    info = error_details_pb2.ErrorInfo()
    assert status.details[0].Unpack(info)
    assert (info.reason, info.domain) == (error.reason, DOMAIN)


def test_an_exhausted_bound_says_when_to_try_again() -> None:
    error = ExhaustedError("full", reason="BACKLOG_FULL", metadata={"n": "5"}, retry_after_s=1.5)
    status = _details(status_of(error)[2])
    info, retry = error_details_pb2.ErrorInfo(), error_details_pb2.RetryInfo()
    assert status.details[0].Unpack(info)
    assert status.details[1].Unpack(retry)
    assert (info.reason, dict(info.metadata)) == ("BACKLOG_FULL", {"n": "5"})
    assert (retry.retry_delay.seconds, retry.retry_delay.nanos) == (1, 500_000_000)


def test_bad_fields_are_all_named() -> None:
    status = _details(status_of(InvalidRequestError([("a", "is 1"), ("b", "is 2")]))[2])
    bad = error_details_pb2.BadRequest()
    assert status.details[1].Unpack(bad)
    assert [(v.field, v.description) for v in bad.field_violations] == [
        ("a", "is 1"),
        ("b", "is 2"),
    ]
