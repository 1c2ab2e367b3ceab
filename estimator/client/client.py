"""Synchronous client of a sidecar, for the command line, gateways and tools.

Every unary call has a deadline; every failure is a `ClientError`. Not used inside vLLM: that is
``sched_client``, which never calls on the scheduling path.
"""

import random
import time
from collections.abc import Callable, Iterator, Sequence
from types import TracebackType
from typing import Any, Final, Self, TypeVar

import grpc

from estimator.client.answers import explanation, model_queues, state_result, status_of
from estimator.client.errors import ClientError, client_error, code_of, error_details
from estimator.client.results import (
    Explanation,
    ModelQueues,
    ModeResult,
    PredictResult,
    RejectedRow,
    ReportResult,
    StateResult,
    Status,
)
from estimator.convert import (
    ConversionError,
    completion_from_proto,
    completion_to_proto,
    drift_from_proto,
    estimate_from_proto,
    features_to_proto,
    kappa_from_proto,
    kappa_point_from_proto,
    mode_from_proto,
    mode_to_proto,
    partition_record_from_proto,
)
from estimator.core.drift_event import DriftEvent
from estimator.core.observation import Completion
from estimator.store.base import KappaPoint, PartitionRecord
from protos.kappad.estimator.v1 import estimator_pb2 as pb
from protos.kappad.estimator.v1 import estimator_pb2_grpc as rpc
from sched_client.model import Features, KappaEntry, Key, Mode

# The API's own limits (estimator.proto).
MAX_BATCH: Final = 1024
_PAGE_SIZE: Final = 1000
# A completion is counted once however often it is sent, so that reports may be retried. Full
# jitter; eight tries are 8 s on average, which covers a restart of the sidecar (5 s).
_MAX_TRIES: Final = 8
_FIRST_BACKOFF_S: Final = 0.2
_MAX_BACKOFF_S: Final = 5.0
_RETRIED: Final = (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.RESOURCE_EXHAUSTED)
# A page of 1000 completions is about 0.3 MiB; gRPC's own limit of 4 MiB would do for all but
# a status with 256 talkative clients.
_OPTIONS: Final = (("grpc.max_receive_message_length", 16 * 2**20),)

_Answer = TypeVar("_Answer")
_Item = TypeVar("_Item")


class EstimatorClient:
    """Talks to one sidecar; usable as a context manager, from one thread at a time.

    Parameters
    ----------
    target : str
        ``unix:///path`` or ``host:port``.
    timeout_s : float
        Deadline of each call, > 0.
    rng : random.Random, optional
        Source of the jitter.
    sleep : callable, optional
        Waits between tries; tests replace it.

    Raises
    ------
    ClientError
        The target is empty.
    """

    def __init__(
        self,
        target: str,
        *,
        timeout_s: float = 5.0,
        rng: random.Random | None = None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        if not target.strip():
            raise ClientError(
                "TARGET_MISSING", "the target is empty; give unix:///path or host:port"
            )
        self.target = target
        self.timeout_s = timeout_s
        self._rng = rng or random.Random()  # noqa: S311 # spreads retries, keeps no secret
        self._sleep = sleep
        self._channel = grpc.insecure_channel(target, options=_OPTIONS)
        self._data = rpc.EstimatorServiceStub(self._channel)
        self._inspection = rpc.InspectionServiceStub(self._channel)
        self._admin = rpc.AdminServiceStub(self._channel)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the channel; calls in flight are cancelled."""
        self._channel.close()

    def predict(self, inputs: Sequence[Features]) -> PredictResult:
        """Estimate requests.

        Parameters
        ----------
        inputs : sequence of Features
            Any number; sent in batches of at most 1024.

        Returns
        -------
        PredictResult
            In the order of the inputs.

        Raises
        ------
        ClientError
            An input is refused, or the sidecar cannot be reached.
        """
        estimates = []
        version, instance_id = 0, ""
        for start in range(0, len(inputs), MAX_BATCH):
            try:
                batch = [features_to_proto(one) for one in inputs[start : start + MAX_BATCH]]
            except ValueError as error:  # protobuf's, for text that is no Unicode
                raise ClientError(
                    "INVALID_ARGUMENT", f"an input cannot be sent: {error}"
                ) from error
            answer = self._call(self._data.BatchPredict, pb.BatchPredictRequest(inputs=batch))
            version, instance_id = answer.snapshot_version, answer.instance_id
            if len(answer.predictions) != len(batch):
                raise self._bad_answer(f"{len(answer.predictions)} of {len(batch)} predictions")
            estimates += [
                estimate_from_proto(one, snapshot_version=version) for one in answer.predictions
            ]
        return PredictResult(
            estimates=tuple(estimates), snapshot_version=version, instance_id=instance_id
        )

    def report(
        self, completions: Sequence[Completion], *, client_id: str, model: str = ""
    ) -> ReportResult:
        """Report finished requests; a completion is counted once however often it is sent.

        Parameters
        ----------
        completions : sequence of Completion
            Any number; sent in batches of at most 1024. None is a sign of life.
        client_id : str
            Who reports.
        model : str
            The served model of this client, for ``status``.

        Returns
        -------
        ReportResult
            Of all batches together.

        Raises
        ------
        ClientError
            After some tries; batches before the failed one are stored.
        """
        accepted = duplicates = version = 0
        rejections: list[RejectedRow] = []
        status = pb.ClientStatus(client_id=client_id, model_id=model)
        for start in range(0, max(len(completions), 1), MAX_BATCH):
            batch = [completion_to_proto(one) for one in completions[start : start + MAX_BATCH]]
            request = pb.ReportCompletionsRequest(client=status, completions=batch)
            answer = self._call(self._data.ReportCompletions, request, retry=True)
            accepted += answer.accepted_count
            duplicates += answer.duplicate_count
            version = answer.snapshot_version
            rejections += [
                RejectedRow(index=start + one.index, reason=one.reason, message=one.message)
                for one in answer.rejections
            ]
        return ReportResult(
            accepted=accepted,
            duplicates=duplicates,
            rejections=tuple(rejections),
            snapshot_version=version,
        )

    def status(self) -> Status:
        """Ask what the sidecar is doing; raises `ClientError`."""
        return status_of(self._call(self._inspection.GetStatus, pb.GetStatusRequest()))

    def kappas(self, model: str = "") -> Iterator[tuple[Key, KappaEntry]]:
        """Iterate over the current κ, most samples first; raises `ClientError`.

        Parameters
        ----------
        model : str
            Only this model; empty means all.
        """
        request = pb.ListKappasRequest(model_id=model)
        return self._listed(self._inspection.ListKappas, request, "kappas", kappa_from_proto)

    def kappa_history(self, model: str = "", language: str = "") -> Iterator[KappaPoint]:
        """Iterate over the history of κ, newest first; raises `ClientError`.

        Parameters
        ----------
        model, language : str
            Only these; empty means all.
        """
        request = pb.ListKappaHistoryRequest(model_id=model, language=language)
        method = self._inspection.ListKappaHistory
        return self._listed(method, request, "points", kappa_point_from_proto)

    def drift_events(self) -> Iterator[DriftEvent]:
        """Iterate over detected changes, newest first; raises `ClientError`."""
        request = pb.ListDriftEventsRequest()
        return self._listed(self._inspection.ListDriftEvents, request, "events", drift_from_proto)

    def queues(self, model: str = "") -> Iterator[ModelQueues]:
        """Iterate over the models' queues, by model; an empty name means all of them.

        Raises
        ------
        ClientError
            The sidecar refuses, or cannot be reached.
        """
        request = pb.ListQueuesRequest(model_id=model)
        return self._listed(self._inspection.ListQueues, request, "models", model_queues)

    def partitions(self, model: str = "") -> Iterator[PartitionRecord]:
        """Iterate over the partitions that came into force, newest first; as `queues`."""
        request = pb.ListPartitionsRequest(model_id=model)
        method = self._inspection.ListPartitions
        return self._listed(method, request, "partitions", partition_record_from_proto)

    def completions(self) -> Iterator[Completion]:
        """Iterate over the stored completions, oldest first; raises `ClientError`."""
        request = pb.ListCompletionsRequest()
        method = self._inspection.ListCompletions
        return self._listed(method, request, "completions", completion_from_proto)

    def set_mode(self, mode: Mode, reason: str = "", request_id: str = "") -> ModeResult:
        """Switch every engine that follows the sidecar.

        Parameters
        ----------
        mode : {"off", "shadow", "on"}
            The new mode.
        reason : str
            Why; recorded, at most 256 characters.
        request_id : str
            A UUID that makes the call idempotent.

        Returns
        -------
        ModeResult

        Raises
        ------
        ClientError
            The sidecar refuses, or cannot be reached.
        """
        request = pb.SetModeRequest(mode=mode_to_proto(mode), reason=reason, request_id=request_id)
        answer = self._call(self._admin.SetMode, request)
        try:
            return ModeResult(
                mode=mode_from_proto(answer.mode),
                previous_mode=mode_from_proto(answer.previous_mode),
                snapshot_version=answer.snapshot_version,
            )
        except ConversionError as error:
            raise self._bad_answer(error) from error

    def explain(self, request_id: str) -> tuple[Explanation, ...]:
        """Tell what became of a request, newest first.

        Parameters
        ----------
        request_id : str
            A completion's id, or the request's as its caller or vLLM knows it.

        Returns
        -------
        tuple of Explanation
            At least one: the pieces of a file are requests of their own.

        Raises
        ------
        ClientError
            With the reason COMPLETION_NOT_FOUND where none is retained.
        """
        request = pb.ExplainRequestRequest(id=request_id)
        answer = self._call(self._inspection.ExplainRequest, request)
        try:
            return tuple(map(explanation, answer.explanations))
        except ConversionError as error:
            raise self._bad_answer(error) from error

    def export_state(self, model: str = "") -> StateResult:
        """Give what was learned, for another sidecar to start from.

        Parameters
        ----------
        model : str
            Only what concerns this served model; empty means all.

        Returns
        -------
        StateResult

        Raises
        ------
        ClientError
            The sidecar refuses, or cannot be reached.
        """
        request = pb.ExportStateRequest(model_id=model)
        try:
            return state_result(self._admin.ExportState(request, timeout=self.timeout_s))
        except grpc.RpcError as error:
            raise client_error(error, self.target, self.timeout_s) from error
        except ConversionError as error:
            raise self._bad_answer(error) from error

    # Any: each list call has types of its own, with the same three paging fields; protobuf
    # gives them no common class.
    def _listed(
        self,
        method: Callable[..., Any],
        request: Any,
        field: str,
        convert: Callable[[Any], _Item],
    ) -> Iterator[_Item]:
        request.page_size = _PAGE_SIZE
        while True:
            page = self._call(method, request)
            for message in getattr(page, field):
                try:
                    item = convert(message)
                except ConversionError as error:
                    raise self._bad_answer(error) from error
                yield item
            if not page.next_page_token:
                return
            if page.next_page_token == request.page_token:
                raise self._bad_answer(f"the page {request.page_token!r} follows itself")
            request.page_token = page.next_page_token

    def _bad_answer(self, what: object) -> ClientError:
        text = f"{self.target} gave an answer that makes no sense here: {what}"
        return ClientError("BAD_ANSWER", f"{text}; give client and sidecar the same version")

    def _call(
        self, method: Callable[..., _Answer], request: object, *, retry: bool = False
    ) -> _Answer:
        tries = _MAX_TRIES if retry else 1
        for attempt in range(1, tries + 1):
            try:
                return method(request, timeout=self.timeout_s)
            except grpc.RpcError as error:
                if attempt == tries or not _worth_retrying(error):
                    raise client_error(error, self.target, self.timeout_s) from error
                self._sleep(self._backoff_s(error, attempt))
            except ValueError as error:  # closed channel
                raise ClientError("CLOSED", f"{self.target}: {error}") from error
        raise AssertionError("unreachable: the last try returns or raises")

    def _backoff_s(self, error: grpc.RpcError, attempt: int) -> float:
        """Wait at least as long as the sidecar asks, plus a jitter that grows."""
        asked_s = error_details(error)[1] or 0.0
        jitter_s = self._rng.uniform(0.0, _FIRST_BACKOFF_S * 2.0 ** (attempt - 1))
        return min(asked_s + jitter_s, _MAX_BACKOFF_S)


def _worth_retrying(error: grpc.RpcError) -> bool:
    return code_of(error) in _RETRIED
