"""The client library against a server that misbehaves on purpose."""

import random
import tempfile
import threading
from collections.abc import Callable, Iterator
from concurrent import futures
from pathlib import Path
from typing import Any

import grpc
import pytest

from estimator.client import ClientError, EstimatorClient
from estimator.core.observation import Completion
from protos.kappad.estimator.v1 import estimator_pb2 as pb
from protos.kappad.estimator.v1 import estimator_pb2_grpc as rpc
from sched_client.model import Features

# Any: a handler takes the request of its own method.
Handler = Callable[[Any, grpc.ServicerContext], Any]


class Fake(rpc.EstimatorServiceServicer, rpc.InspectionServiceServicer, rpc.AdminServiceServicer):
    """Answers each method by a function that the test sets."""

    def __init__(self) -> None:
        self.requests: list[Any] = []
        self.on: dict[str, Handler] = {}

    def _answer(self, name: str, request: Any, context: grpc.ServicerContext) -> Any:
        self.requests.append(request)
        return self.on[name](request, context)


def _method(name: str) -> Any:
    return lambda self, request, context: self._answer(name, request, context)


for _name in ("BatchPredict", "ReportCompletions", "ListKappas", "ListDriftEvents", "SetMode"):
    setattr(Fake, _name, _method(_name))
# The generated classes are abstract for the type checker only; other methods answer UNIMPLEMENTED.
make_fake: Callable[[], Fake] = Fake


@pytest.fixture
def fake() -> Iterator[tuple[Fake, str]]:
    servicer = make_fake()
    server = grpc.server(futures.ThreadPoolExecutor(4))
    rpc.add_EstimatorServiceServicer_to_server(servicer, server)
    rpc.add_InspectionServiceServicer_to_server(servicer, server)
    rpc.add_AdminServiceServicer_to_server(servicer, server)
    # Not tmp_path: a socket's path may have 107 characters.
    with tempfile.TemporaryDirectory(prefix="kappad-") as folder:
        target = f"unix://{Path(folder) / 's.sock'}"
        server.add_insecure_port(target)
        server.start()
        yield servicer, target
        server.stop(None).wait(5.0)


@pytest.fixture
def client(fake: tuple[Fake, str]) -> Iterator[EstimatorClient]:
    naps: list[float] = []
    with EstimatorClient(
        fake[1], timeout_s=2.0, rng=random.Random(7), sleep=naps.append
    ) as opened:
        opened.naps = naps  # type: ignore[attr-defined] # what the tests look at
        yield opened


def completion(n: int) -> Completion:
    return Completion(completion_id=f"x-{n}", audio_s=1.0, output_tokens=5)


def test_more_than_1024_inputs_are_sent_in_batches_and_answered_in_order(
    fake: tuple[Fake, str], client: EstimatorClient
) -> None:
    def predict(request: pb.BatchPredictRequest, _: grpc.ServicerContext) -> object:
        rows = [
            pb.Prediction(
                token_count=one.audio_seconds,
                service_seconds=1.0,
                source="PREDICTION_SOURCE_LEARNED",
            )
            for one in request.inputs
        ]
        return pb.BatchPredictResponse(predictions=rows, snapshot_version=9, instance_id="i")

    fake[0].on["BatchPredict"] = predict
    result = client.predict([Features(audio_s=float(n)) for n in range(2500)])
    assert [one.tokens for one in result.estimates] == [float(n) for n in range(2500)]
    assert [len(one.inputs) for one in fake[0].requests] == [1024, 1024, 452]
    assert (result.snapshot_version, result.instance_id) == (9, "i")
    assert result.estimates[0].source == "learned"


def test_an_answer_with_too_few_predictions_is_an_error(
    fake: tuple[Fake, str], client: EstimatorClient
) -> None:
    fake[0].on["BatchPredict"] = lambda *_: pb.BatchPredictResponse()
    with pytest.raises(ClientError, match="0 of 1 predictions") as caught:
        client.predict([Features(audio_s=1.0)])
    assert caught.value.reason == "BAD_ANSWER"


def test_text_that_is_no_unicode_is_refused_before_it_is_sent(client: EstimatorClient) -> None:
    with pytest.raises(ClientError, match="cannot be sent"):
        client.predict([Features(language="\udcff")])


def test_batches_are_added_up_and_rejections_keep_their_index(
    fake: tuple[Fake, str], client: EstimatorClient
) -> None:
    def report(request: pb.ReportCompletionsRequest, _: grpc.ServicerContext) -> object:
        n = len(request.completions)
        refused = [pb.Rejection(index=1, reason="TOO_OLD", message="too old")]
        return pb.ReportCompletionsResponse(
            accepted_count=n - 2, duplicate_count=1, rejections=refused, snapshot_version=4
        )

    fake[0].on["ReportCompletions"] = report
    result = client.report([completion(n) for n in range(1030)], client_id="me", model="m")
    assert (result.accepted, result.duplicates, result.snapshot_version) == (1026, 2, 4)
    assert [one.index for one in result.rejections] == [1, 1025]
    assert {one.client.client_id for one in fake[0].requests} == {"me"}


def test_a_busy_sidecar_is_tried_again_with_growing_jitter(
    fake: tuple[Fake, str], client: EstimatorClient
) -> None:
    failures = iter([grpc.StatusCode.RESOURCE_EXHAUSTED, grpc.StatusCode.UNAVAILABLE])

    def report(_: object, context: grpc.ServicerContext) -> object:
        code = next(failures, None)
        if code is not None:
            context.abort(code, "not now")
        return pb.ReportCompletionsResponse(accepted_count=1)

    fake[0].on["ReportCompletions"] = report
    assert client.report([completion(1)], client_id="me").accepted == 1
    naps = client.naps  # type: ignore[attr-defined] # see the fixture
    assert len(naps) == 2
    assert all(0.0 <= nap <= limit for nap, limit in zip(naps, (0.2, 0.4), strict=True))


def test_retries_are_bounded(fake: tuple[Fake, str], client: EstimatorClient) -> None:
    def report(_: object, context: grpc.ServicerContext) -> object:
        context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, "never")

    fake[0].on["ReportCompletions"] = report
    with pytest.raises(ClientError, match="never"):
        client.report([], client_id="me")
    assert len(fake[0].requests) == 8
    assert sum(client.naps) <= 35.0  # type: ignore[attr-defined] # see the fixture


def test_what_cannot_become_right_is_not_tried_again(
    fake: tuple[Fake, str], client: EstimatorClient
) -> None:
    def report(_: object, context: grpc.ServicerContext) -> object:
        context.abort(grpc.StatusCode.INVALID_ARGUMENT, "client_id is empty; set it")

    fake[0].on["ReportCompletions"] = report
    with pytest.raises(ClientError, match="client_id is empty; set it") as caught:
        client.report([completion(1)], client_id="")
    assert caught.value.reason == "INVALID_ARGUMENT"
    assert len(fake[0].requests) == 1


def test_pages_are_followed_to_the_end_with_the_same_filter(
    fake: tuple[Fake, str], client: EstimatorClient
) -> None:
    def kappas(request: pb.ListKappasRequest, _: grpc.ServicerContext) -> object:
        page = int(request.page_token or "0")
        entry = pb.KappaEntry(model_id="m", language=f"l{page}", kappa_tokens_per_second=page)
        token = str(page + 1) if page < 2 else ""
        return pb.ListKappasResponse(kappas=[entry], next_page_token=token)

    fake[0].on["ListKappas"] = kappas
    found = list(client.kappas("m"))
    assert [key.language for key, _ in found] == ["l0", "l1", "l2"]
    assert {one.model_id for one in fake[0].requests} == {"m"}


def test_a_page_that_follows_itself_ends_in_an_error(
    fake: tuple[Fake, str], client: EstimatorClient
) -> None:
    fake[0].on["ListKappas"] = lambda *_: pb.ListKappasResponse(next_page_token="x")
    with pytest.raises(ClientError, match="follows itself"):
        list(client.kappas())


def test_an_unknown_kind_of_drift_is_an_error_that_names_the_remedy(
    fake: tuple[Fake, str], client: EstimatorClient
) -> None:
    answer = pb.ListDriftEventsResponse(events=[pb.DriftEvent(event_id="e")])
    fake[0].on["ListDriftEvents"] = lambda *_: answer
    with pytest.raises(ClientError, match="same version"):
        list(client.drift_events())


def test_set_mode_carries_reason_and_id(fake: tuple[Fake, str], client: EstimatorClient) -> None:
    fake[0].on["SetMode"] = lambda *_: pb.SetModeResponse(
        mode=pb.MODE_ON, previous_mode=pb.MODE_SHADOW, snapshot_version=5
    )
    result = client.set_mode("on", "because", "id-1")
    assert (result.mode, result.previous_mode, result.snapshot_version) == ("on", "shadow", 5)
    (request,) = fake[0].requests
    assert (request.mode, request.reason, request.request_id) == (pb.MODE_ON, "because", "id-1")


def test_a_silent_sidecar_runs_into_the_deadline(fake: tuple[Fake, str]) -> None:
    def slow(_: object, context: grpc.ServicerContext) -> object:
        left = threading.Event()
        context.add_callback(left.set)
        left.wait(5.0)
        return pb.ListKappasResponse()

    fake[0].on["ListKappas"] = slow
    with (
        EstimatorClient(fake[1], timeout_s=0.2) as client,
        pytest.raises(ClientError, match=r"within 0\.2 s"),
    ):
        list(client.kappas())


def test_a_closed_client_and_an_empty_target_are_errors(fake: tuple[Fake, str]) -> None:
    client = EstimatorClient(fake[1])
    client.close()
    with pytest.raises(ClientError) as caught:
        client.status()
    assert caught.value.reason == "CLOSED"
    with pytest.raises(ClientError, match="target is empty"):
        EstimatorClient(" ")
