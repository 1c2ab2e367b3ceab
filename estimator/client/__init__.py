"""Synchronous client library; what tools and gateways call."""

from estimator.client.client import EstimatorClient
from estimator.client.errors import ClientError
from estimator.client.results import (
    EngineClient,
    ModeResult,
    PredictResult,
    RejectedRow,
    ReportResult,
    Status,
)

__all__ = [
    "ClientError",
    "EngineClient",
    "EstimatorClient",
    "ModeResult",
    "PredictResult",
    "RejectedRow",
    "ReportResult",
    "Status",
]
