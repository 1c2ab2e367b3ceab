"""Synchronous client library; what tools and gateways call."""

from estimator.client.client import EstimatorClient
from estimator.client.errors import ClientError
from estimator.client.results import (
    EngineClient,
    Explanation,
    ModelQueues,
    ModeResult,
    PartitionStatus,
    PredictResult,
    Queue,
    RejectedRow,
    ReportResult,
    StateResult,
    Status,
)

__all__ = [
    "ClientError",
    "EngineClient",
    "EstimatorClient",
    "Explanation",
    "ModeResult",
    "ModelQueues",
    "PartitionStatus",
    "PredictResult",
    "Queue",
    "RejectedRow",
    "ReportResult",
    "StateResult",
    "Status",
]
