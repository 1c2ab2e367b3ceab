"""The read side for operators: paged, changes nothing."""

import contextlib
import heapq
import time
from collections.abc import Callable
from operator import itemgetter
from typing import Any, Final

import grpc.aio

from estimator.convert import (
    completion_to_proto,
    drift_to_proto,
    kappa_point_to_proto,
    kappa_to_proto,
    partition_record_to_proto,
    service_to_proto,
    settings_to_proto,
    timestamp_of,
)
from estimator.runtime.config import ServeConfig
from estimator.runtime.errors import InvalidRequestError
from estimator.runtime.learner import Learner
from estimator.runtime.store_worker import StoreWorker
from estimator.service.clients import ClientRegistry, KnownClient
from estimator.service.explain import Explainer
from estimator.service.limits import check_explain_request, page_size_of
from estimator.service.pages import Cursor, decode_token, encode_token, integer_of, text_of
from estimator.service.queues import model_queues, partition_statuses
from estimator.store.base import StoreError
from protos.kappad.estimator.v1 import estimator_pb2 as pb
from protos.kappad.estimator.v1 import estimator_pb2_grpc as pb_grpc
from sched_client.model import Key

__all__ = ["InspectionService"]

_Context = grpc.aio.ServicerContext[Any, Any]  # Any: generic over messages not used here
# A histogram of a full sample takes 0.1 ms, and the event loop waits.
_MODELS_PER_PAGE: Final = 16
# Sorts like the answer: most samples first, then by key; None sorts as its own text.
_Rank = tuple[int, str, str, str, str]


class InspectionService(pb_grpc.InspectionServiceServicer):
    """Handlers that read the newest state, or the store through its own thread.

    Parameters
    ----------
    worker : StoreWorker
        History.
    learner : Learner
        State.
    clients : ClientRegistry
        Who was heard.
    config : ServeConfig
        Limits to show.
    server_version : str
        Version of the package.
    rejected_count : callable
        Rows refused since the start.
    now_s : callable
        Unix time.
    """

    def __init__(
        self,
        worker: StoreWorker,
        learner: Learner,
        clients: ClientRegistry,
        config: ServeConfig,
        *,
        server_version: str,
        rejected_count: Callable[[], int],
        now_s: Callable[[], float] = time.time,
    ) -> None:
        self._worker = worker
        self._store = worker.store
        self._learner = learner
        self._clients = clients
        self._config = config
        self._server_version = server_version
        self._rejected_count = rejected_count
        self._explainer = Explainer(worker, retention_completions=config.retention_completions)
        self._start_time = timestamp_of(now_s())
        # Shown while the store cannot be read.
        self._stored_count = 0

    async def GetStatus(  # noqa: N802  # the API's name
        self, request: pb.GetStatusRequest, context: _Context
    ) -> pb.GetStatusResponse:
        """Answer even where the store does not: that is when it is asked."""
        del request, context
        # A failure is counted and logged by the worker, and shown in store_error.
        with contextlib.suppress(StoreError):
            self._stored_count = await self._worker.read(self._store.count)
        snapshot, pipeline = self._learner.publisher.snapshot, self._learner.pipeline
        problem = self._learner.failure and f"the learner died: {self._learner.failure}"
        return pb.GetStatusResponse(
            instance_id=snapshot.instance_id,
            snapshot_version=snapshot.version,
            start_time=self._start_time,
            server_version=self._server_version,
            settings=settings_to_proto(snapshot.settings),
            learned_count=pipeline.learned_count,
            stored_count=self._stored_count,
            backlog_count=self._learner.backlog.n_rows,
            backlog_limit=self._learner.backlog.limit,
            rejected_count=self._rejected_count(),
            key_count=pipeline.key_count,
            key_limit=self._config.key_limit,
            open_drift_count=pipeline.open_drift_count,
            p90_coverage_ratio=pipeline.p90_coverage_ratio,
            store_error=self._worker.error or problem,
            clients=[_client_to_proto(client) for client in self._clients.list()],
            services=[service_to_proto(m, s) for m, s in pipeline.services().items()],
            partitions=partition_statuses(pipeline),
        )

    async def ListKappas(  # noqa: N802  # the API's name
        self, request: pb.ListKappasRequest, context: _Context
    ) -> pb.ListKappasResponse:
        """List what every key holds now.

        Sample counts grow between two pages, so a key that overtakes another may be seen twice.
        """
        del context
        size = page_size_of(request.page_size)
        arguments = ["ListKappas", request.model_id]
        after = _rank_of(decode_token(request.page_token, arguments, length=5))
        pipeline = self._learner.pipeline
        # Only the page's own entries are built: there may be 20,000, and the event loop waits.
        ranked = ((_rank(key, count), key) for key, count in pipeline.sample_counts().items()
                  if not request.model_id or key.model == request.model_id)  # fmt: skip
        page = heapq.nsmallest(
            size + 1, (r for r in ranked if after is None or r[0] > after), key=itemgetter(0)
        )
        token = ""
        if len(page) > size:
            token = encode_token(arguments, list(page[size - 1][0]))
        return pb.ListKappasResponse(
            kappas=[kappa_to_proto(key, pipeline.kappa_of(key)) for _, key in page[:size]],
            next_page_token=token,
        )

    async def ListKappaHistory(  # noqa: N802  # the API's name
        self, request: pb.ListKappaHistoryRequest, context: _Context
    ) -> pb.ListKappaHistoryResponse:
        """List the recorded points."""
        del context
        size = page_size_of(request.page_size)
        arguments = ["ListKappaHistory", request.model_id, request.language]
        before = integer_of(decode_token(request.page_token, arguments, length=1))
        rows = await self._worker.read(
            lambda: self._store.list_kappa_points(
                model=request.model_id,
                language=request.language,
                before_id=before,
                limit=size + 1,
            )
        )
        return pb.ListKappaHistoryResponse(
            points=[kappa_point_to_proto(point) for _, point in rows[:size]],
            next_page_token=_next(arguments, [row_id for row_id, _ in rows], size),
        )

    async def ListDriftEvents(  # noqa: N802  # the API's name
        self, request: pb.ListDriftEventsRequest, context: _Context
    ) -> pb.ListDriftEventsResponse:
        """List the detected changes."""
        del context
        size = page_size_of(request.page_size)
        arguments = ["ListDriftEvents"]
        before = integer_of(decode_token(request.page_token, arguments, length=1))
        rows = await self._worker.read(
            lambda: self._store.list_drifts(before_id=before, limit=size + 1)
        )
        return pb.ListDriftEventsResponse(
            events=[drift_to_proto(event) for _, event in rows[:size]],
            next_page_token=_next(arguments, [row_id for row_id, _ in rows], size),
        )

    async def ListQueues(  # noqa: N802  # the API's name
        self, request: pb.ListQueuesRequest, context: _Context
    ) -> pb.ListQueuesResponse:
        """List the queues in force and the work that they were found in."""
        del context
        size = min(page_size_of(request.page_size), _MODELS_PER_PAGE)
        arguments = ["ListQueues", request.model_id]
        after = text_of(decode_token(request.page_token, arguments, length=1))
        pipeline = self._learner.pipeline
        found = sorted(
            model
            for model in pipeline.queue_table.models()
            if request.model_id in ("", model) and (after is None or model > after)
        )
        return pb.ListQueuesResponse(
            models=model_queues(pipeline, found[:size]),
            next_page_token=encode_token(arguments, [found[size - 1]])
            if len(found) > size
            else "",
        )

    async def ListPartitions(  # noqa: N802  # the API's name
        self, request: pb.ListPartitionsRequest, context: _Context
    ) -> pb.ListPartitionsResponse:
        """List the partitions that came into force."""
        del context
        size = page_size_of(request.page_size)
        arguments = ["ListPartitions", request.model_id]
        before = integer_of(decode_token(request.page_token, arguments, length=1))
        rows = await self._worker.read(
            lambda: self._store.list_partitions(
                model=request.model_id, before_id=before, limit=size + 1
            )
        )
        return pb.ListPartitionsResponse(
            partitions=[partition_record_to_proto(record) for _, record in rows[:size]],
            next_page_token=_next(arguments, [row_id for row_id, _ in rows], size),
        )

    async def ListCompletions(  # noqa: N802  # the API's name
        self, request: pb.ListCompletionsRequest, context: _Context
    ) -> pb.ListCompletionsResponse:
        """List the retained completions."""
        del context
        size = page_size_of(request.page_size)
        arguments = ["ListCompletions"]
        after = integer_of(decode_token(request.page_token, arguments, length=1)) or 0
        rows = await self._worker.read(
            lambda: self._store.read(after_row_id=after, limit=size + 1)
        )
        return pb.ListCompletionsResponse(
            completions=[completion_to_proto(row.completion) for row in rows[:size]],
            next_page_token=_next(arguments, [row.row_id for row in rows], size),
        )

    async def ExplainRequest(  # noqa: N802  # the API's name
        self, request: pb.ExplainRequestRequest, context: _Context
    ) -> pb.ExplainRequestResponse:
        """Tell what became of one request."""
        del context
        check_explain_request(request)
        snapshot = self._learner.publisher.snapshot
        return pb.ExplainRequestResponse(
            explanations=await self._explainer.explain(request.id, snapshot)
        )


def _next(arguments: list[str], row_ids: list[int], size: int) -> str:
    return encode_token(arguments, [row_ids[size - 1]]) if len(row_ids) > size else ""


def _rank(key: Key, count: int) -> _Rank:
    return (-count, key.model, key.task, key.language, str(key.timestamps))


def _rank_of(cursor: Cursor | None) -> _Rank | None:
    if cursor is None:
        return None
    count, model, task, language, timestamps = cursor
    if isinstance(count, int) and not isinstance(count, bool):
        texts = [t for t in (model, task, language, timestamps) if isinstance(t, str)]
        if len(texts) == len(cursor) - 1:
            return (count, texts[0], texts[1], texts[2], texts[3])
    raise InvalidRequestError(
        [("page_token", "is no token of this sidecar; start again without one")],
        reason="PAGE_TOKEN_INVALID",
    )


def _client_to_proto(client: KnownClient) -> pb.ClientInfo:
    return pb.ClientInfo(
        status=client.status,
        report_time=timestamp_of(client.heard_s),
        watching=client.watching,
    )
