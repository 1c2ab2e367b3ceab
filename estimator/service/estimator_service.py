"""The data plane: predict, report, watch."""

import time
from collections.abc import AsyncIterator, Callable
from typing import Any

import grpc
import grpc.aio

from estimator.convert import (
    ConversionError,
    completion_from_proto,
    features_from_proto,
    fill_prediction,
    running_from_proto,
)
from estimator.core.observation import Completion, violation_of
from estimator.core.running import MAX_REPORTED
from estimator.runtime.config import ServeConfig
from estimator.runtime.errors import ExhaustedError, UnavailableError
from estimator.runtime.learner import Learner
from estimator.service.clients import ClientRegistry
from estimator.service.limits import check_batch, check_client, check_features, check_watch
from estimator.service.watch import WatchEncoder
from estimator.telemetry.metrics import Metrics
from protos.kappad.estimator.v1 import estimator_pb2 as pb
from sched_client.model import DEFAULT_MODEL, evaluate

__all__ = ["EstimatorService", "add_estimator_service"]

# Any: grpcio's context is generic over messages that no handler here uses it for.
_Context = grpc.aio.ServicerContext[Any, Any]
_TOO_OLD = (
    "finish_unix_seconds lies before the retention window, so that a duplicate could not be "
    "recognised; do not send it again"
)
_SERVICE = "kappad.estimator.v1.EstimatorService"


class EstimatorService:
    """Handlers; they validate, convert, and ask the learner or the newest snapshot.

    Parameters
    ----------
    learner : Learner
        Takes completions; its publisher has the snapshots.
    clients : ClientRegistry
        Is told who called.
    config : ServeConfig
        Bounds.
    metrics : Metrics
        Counts rows and messages.
    now_s : callable
        Unix time.
    """

    def __init__(
        self,
        learner: Learner,
        clients: ClientRegistry,
        config: ServeConfig,
        metrics: Metrics,
        *,
        now_s: Callable[[], float] = time.time,
    ) -> None:
        self._learner = learner
        self._publisher = learner.publisher
        self._clients = clients
        self._config = config
        self._metrics = metrics
        self._now_s = now_s
        self._encoder = WatchEncoder(learner.publisher, metrics, now_s=now_s)
        self._accepted = metrics.completions.labels("accepted")
        self._duplicates = metrics.completions.labels("duplicate")
        self._rejected = metrics.completions.labels("rejected")
        self.rejected_count = 0

    async def BatchPredict(  # noqa: N802  # the API's name
        self, request: pb.BatchPredictRequest, context: _Context
    ) -> pb.BatchPredictResponse:
        """Estimate every input from one snapshot."""
        del context
        check_batch("inputs", len(request.inputs), least=1, most=self._config.batch_limit)
        rows = list(map(features_from_proto, request.inputs))
        check_features(rows)
        snapshot = self._publisher.snapshot
        response = pb.BatchPredictResponse(
            snapshot_version=snapshot.version, instance_id=snapshot.instance_id
        )
        add = response.predictions.add
        for features in rows:
            fill_prediction(add(), evaluate(snapshot, features))
        return response

    async def ReportCompletions(  # noqa: N802  # the API's name
        self, request: pb.ReportCompletionsRequest, context: _Context
    ) -> pb.ReportCompletionsResponse:
        """Store what is valid, name what is not."""
        del context
        check_batch(
            "completions", len(request.completions), least=0, most=self._config.batch_limit
        )
        check_batch("running", len(request.running), least=0, most=MAX_REPORTED)
        check_client(request.client)
        self._clients.heard(request.client)
        self._note_capacity(request.client)
        self._note_running(request)
        rows: list[Completion] = []
        indices: list[int] = []
        rejections: list[tuple[int, str, str]] = []
        client_id, received_s = request.client.client_id, self._now_s()
        for index, message in enumerate(request.completions):
            try:
                row = completion_from_proto(message, client_id=client_id, received_s=received_s)
            except ConversionError as error:
                rejections.append((index, error.reason, str(error)))
                continue
            violation = violation_of(row)
            if violation is None:
                rows.append(row)
                indices.append(index)
            else:
                rejections.append((index, violation.reason, violation.message))
        accepted = duplicates = 0
        if rows:
            try:
                waiting = self._learner.submit(rows)
            except ExhaustedError:
                self._metrics.backlog_full.inc()
                raise
            result = await waiting
            accepted, duplicates = result.accepted_count, result.duplicate_count
            rejections += [(indices[i], "TOO_OLD", _TOO_OLD) for i in result.too_old_indices]
        self._count(accepted, duplicates, rejections)
        return pb.ReportCompletionsResponse(
            accepted_count=accepted,
            duplicate_count=duplicates,
            rejections=[
                pb.Rejection(index=index, reason=reason, message=message)
                for index, reason, message in sorted(rejections)
            ],
            snapshot_version=self._publisher.snapshot.version,
        )

    def _note_running(self, request: pb.ReportCompletionsRequest) -> None:
        """Pass on a client's newest list; one that names none may still run what it named."""
        client = request.client
        if request.running or not client.running_count:
            running = [one for one in map(running_from_proto, request.running) if one is not None]
            self._learner.note_running(client.client_id, running)

    def _note_capacity(self, client: pb.ClientStatus) -> None:
        """Pass on what an engine holds; a client that does not name its slots is none."""
        slots = client.slot_count
        if slots:
            model = client.model_id or DEFAULT_MODEL
            self._learner.note_slot_context(model, client.kv_token_count / slots)

    def _count(
        self, accepted: int, duplicates: int, rejections: list[tuple[int, str, str]]
    ) -> None:
        self._accepted.inc(accepted)
        self._duplicates.inc(duplicates)
        self._rejected.inc(len(rejections))
        self.rejected_count += len(rejections)
        for _, reason, _ in rejections:
            self._metrics.rejections.labels(reason).inc()

    async def WatchParameters(  # noqa: N802  # the API's name
        self, request: pb.WatchParametersRequest, context: _Context
    ) -> AsyncIterator[bytes]:
        """Send the state, then what changed, for as long as the client listens.

        A message is made when the one before has left, so that a slow reader gets the newest
        state and never a queue.
        """
        del context
        check_watch(request)
        models = frozenset(request.model_ids)
        publisher, interval_s = self._publisher, self._config.bookmark_interval_s
        held: int | None = None
        if request.HasField("start_version") and (
            request.instance_id == publisher.snapshot.instance_id
        ):
            held = request.start_version
        with self._clients.watching(request.client_id):
            while not publisher.closed:
                message, held = self._encoder.encode(models, held)
                yield message
                while not await publisher.wait_beyond(held, interval_s):
                    yield self._encoder.bookmark(held)
        raise UnavailableError(
            "the sidecar is shutting down; watch again", reason="DRAINING", retry_after_s=1.0
        )


def add_estimator_service(servicer: EstimatorService, server: grpc.aio.Server) -> None:
    """Register the handlers; as the generated function, but a watch yields encoded bytes.

    Many watchers are sent the same message, which is encoded once.
    """
    # Any: one table for handlers of different messages.
    handlers: dict[str, grpc.RpcMethodHandler[Any, Any]] = {
        "BatchPredict": grpc.unary_unary_rpc_method_handler(
            servicer.BatchPredict,
            request_deserializer=pb.BatchPredictRequest.FromString,
            response_serializer=pb.BatchPredictResponse.SerializeToString,
        ),
        "ReportCompletions": grpc.unary_unary_rpc_method_handler(
            servicer.ReportCompletions,
            request_deserializer=pb.ReportCompletionsRequest.FromString,
            response_serializer=pb.ReportCompletionsResponse.SerializeToString,
        ),
        "WatchParameters": grpc.unary_stream_rpc_method_handler(
            servicer.WatchParameters,
            request_deserializer=pb.WatchParametersRequest.FromString,
            response_serializer=None,  # bytes already
        ),
    }
    server.add_registered_method_handlers(_SERVICE, handlers)
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(_SERVICE, handlers),))
