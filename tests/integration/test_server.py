"""A real server over a real socket: report, predict, inspect, switch, refuse."""

import asyncio
import math
from pathlib import Path

import grpc
import grpc.aio
import pytest
from google.rpc import error_details_pb2, status_pb2
from grpc_health.v1 import health_pb2
from grpc_health.v1.health_pb2_grpc import HealthStub
from grpc_reflection.v1alpha import reflection_pb2
from grpc_reflection.v1alpha.reflection_pb2_grpc import ServerReflectionStub

from estimator.core.pipeline import Pipeline
from estimator.service.server import StartError
from estimator.store.base import StoreError
from estimator.store.sqlite import SqliteStore
from estimator.telemetry.metrics import Metrics
from protos.kappad.estimator.v1 import estimator_pb2 as pb
from tests.support.sidecar import CLIENT, Peer, eventually, rows, sidecar


def _info(error: grpc.aio.AioRpcError) -> tuple[status_pb2.Status, error_details_pb2.ErrorInfo]:
    found = [value for key, value in error.trailing_metadata() or ()
             if key == "grpc-status-details-bin"]  # fmt: skip
    assert isinstance(found[0], bytes)
    status = status_pb2.Status.FromString(found[0])
    info = error_details_pb2.ErrorInfo()
    assert status.details[0].Unpack(info)
    return status, info


async def _health(peer: Peer, service: str = "") -> int:
    answer = await HealthStub(peer.channel).Check(health_pb2.HealthCheckRequest(service=service))
    return int(answer.status)


async def test_a_cold_model_is_answered_from_the_prior_and_a_taught_one_from_its_key(
    tmp_path: Path,
) -> None:
    request = pb.BatchPredictRequest(
        inputs=[pb.PredictionInput(model_id="m", task="transcribe", language="en",
                                   audio_seconds=10.0)] * 2
    )  # fmt: skip
    async with sidecar(tmp_path, prior_kappa=2.0) as peer:
        cold = await peer.estimator.BatchPredict(request)
        assert cold.predictions[0].source == pb.PREDICTION_SOURCE_PRIOR
        assert cold.predictions[0].token_count == pytest.approx(20.0)
        await peer.report(rows(200))
        await peer.learned(200)

        async def known() -> bool:
            answer = await peer.estimator.BatchPredict(request)
            return answer.predictions[0].source == pb.PREDICTION_SOURCE_LEARNED

        await eventually(known, "published")
        warm = await peer.estimator.BatchPredict(request)
    assert len(warm.predictions) == 2
    assert warm.predictions[1].token_count == pytest.approx(43.0, rel=0.05)
    assert warm.snapshot_version > cold.snapshot_version
    assert warm.instance_id == cold.instance_id != ""


async def test_a_completion_is_counted_once(tmp_path: Path) -> None:
    async with sidecar(tmp_path) as peer:
        first = await peer.report(rows(10))
        again = await peer.report(rows(12))
        assert (first.accepted_count, first.duplicate_count) == (10, 0)
        assert (again.accepted_count, again.duplicate_count) == (2, 10)
        twice = rows(1, boot="x") * 3
        assert (await peer.report(twice)).duplicate_count == 2
        status = await peer.learned(13)
        assert (status.learned_count, status.stored_count) == (13, 13)


async def test_bad_rows_are_named_and_the_good_ones_kept(tmp_path: Path) -> None:
    batch = rows(8)
    batch[1].audio_seconds = math.nan
    batch[2].completion_id = ""
    batch[3].finish_reason = pb.FINISH_REASON_UNSPECIFIED
    batch[4].language = "x" * 200
    batch[5].service_seconds = math.inf
    batch[6].output_token_count = -1
    async with sidecar(tmp_path) as peer:
        answer = await peer.report(batch)
        assert answer.accepted_count == 2
        assert [(r.index, r.reason) for r in answer.rejections] == [
            (1, "OUT_OF_RANGE"),
            (2, "ID_MISSING"),
            (3, "FINISH_REASON_MISSING"),
            (4, "NAME_TOO_LONG"),
            (5, "OUT_OF_RANGE"),
            (6, "OUT_OF_RANGE"),
        ]
        assert "nan" in answer.rejections[0].message
        assert (await peer.learned(2)).rejected_count == 6


async def test_an_empty_report_is_a_sign_of_life(tmp_path: Path) -> None:
    async with sidecar(tmp_path) as peer:
        request = pb.ReportCompletionsRequest(
            client=pb.ClientStatus(
                client_id=CLIENT,
                applied_version=7,
                effective_mode=pb.MODE_OFF,
                mode_reason="kill switch",
            )
        )
        answer = await peer.estimator.ReportCompletions(request)
        assert answer.accepted_count == 0
        (client,) = (await peer.status()).clients
    assert client.status == request.client
    assert client.report_time.seconds > 0
    assert not client.watching


@pytest.mark.parametrize(
    ("request_", "field"),
    [
        (pb.BatchPredictRequest(), "inputs"),
        (pb.BatchPredictRequest(inputs=[pb.PredictionInput()] * 1025), "inputs"),
        (pb.BatchPredictRequest(inputs=[pb.PredictionInput(audio_seconds=math.nan)]),
         "inputs[0].audio_seconds"),
    ],
    ids=["empty", "too-long", "nan"],
)  # fmt: skip
async def test_a_bad_prediction_request_is_refused_by_field(
    tmp_path: Path, request_: pb.BatchPredictRequest, field: str
) -> None:
    async with sidecar(tmp_path) as peer:
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await peer.estimator.BatchPredict(request_)
    assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    status, info = _info(caught.value)
    assert info.domain == "estimator.kappad"
    bad = error_details_pb2.BadRequest()
    assert status.details[1].Unpack(bad)
    assert bad.field_violations[0].field == field


async def test_a_report_without_a_name_or_beyond_the_batch_limit_is_refused(
    tmp_path: Path,
) -> None:
    async with sidecar(tmp_path, batch_limit=4) as peer:
        for request in (
            pb.ReportCompletionsRequest(completions=rows(1)),
            pb.ReportCompletionsRequest(
                client=pb.ClientStatus(client_id=CLIENT), completions=rows(5)
            ),
        ):
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await peer.estimator.ReportCompletions(request)
            assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
        assert (await peer.status()).stored_count == 0


async def test_a_full_backlog_says_when_to_come_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    release = asyncio.Event()
    loop = asyncio.get_running_loop()
    append = SqliteStore.append

    def slow(self: SqliteStore, completions: list[object]) -> object:
        asyncio.run_coroutine_threadsafe(release.wait(), loop).result(20.0)
        return append(self, completions)  # type: ignore[arg-type]  # passed on as it came

    monkeypatch.setattr(SqliteStore, "append", slow)
    metrics = Metrics()
    monkeypatch.setattr("estimator.service.server.Metrics", lambda: metrics)
    async with sidecar(tmp_path, backlog_limit=20, batch_limit=20) as peer:
        waiting = [asyncio.create_task(peer.report(rows(10, boot=f"b{i}"))) for i in range(2)]
        await asyncio.wait(waiting, timeout=0.3)  # both are taken, neither is answered
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await peer.report(rows(1, boot="late"))
        release.set()
        assert [r.accepted_count for r in await asyncio.gather(*waiting)] == [10, 10]
        assert (await peer.report(rows(1, boot="late"))).accepted_count == 1
    assert caught.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert b"kappad_backlog_full_total 1.0" in metrics.render()
    status, info = _info(caught.value)
    assert (info.reason, info.metadata["backlog_limit"]) == ("BACKLOG_FULL", "20")
    retry = error_details_pb2.RetryInfo()
    assert status.details[1].Unpack(retry)
    assert retry.retry_delay.seconds >= 1


async def test_a_store_that_fails_refuses_reports_and_says_so_everywhere_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("estimator.runtime.learner._STORE_RETRY_S", 0.05)
    async with sidecar(tmp_path) as peer:
        await peer.report(rows(50))
        await peer.learned(50)
        with monkeypatch.context() as patch:
            for name in ("append", "save_checkpoint"):
                patch.setattr(SqliteStore, name, _broken)
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await peer.report(rows(1, boot="x"))
            status = await peer.status()
            answer = await peer.estimator.BatchPredict(
                pb.BatchPredictRequest(inputs=[pb.PredictionInput(audio_seconds=1.0)])
            )
            assert await _health(peer) == health_pb2.HealthCheckResponse.SERVING
            assert (
                await _health(peer, "kappad.estimator.v1.EstimatorService")
                == health_pb2.HealthCheckResponse.NOT_SERVING
            )

        async def repaired() -> bool:
            return not (await peer.status()).store_error

        await eventually(repaired, "the store is found to work again")
        assert (await peer.report(rows(1, boot="x"))).accepted_count == 1
    assert caught.value.code() is grpc.StatusCode.UNAVAILABLE
    assert _info(caught.value)[1].reason == "STORE_UNAVAILABLE"
    assert "disk is full" in status.store_error
    assert len(answer.predictions) == 1


def _broken(*_: object) -> None:
    raise StoreError("the disk is full; free space")


async def test_our_own_bug_in_learning_turns_health_and_is_no_secret(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("bug")

    async with sidecar(tmp_path) as peer:
        assert await _health(peer) == health_pb2.HealthCheckResponse.SERVING
        monkeypatch.setattr(Pipeline, "learn_one", broken)
        await peer.report(rows(1))

        async def ill() -> bool:
            return await _health(peer) == int(health_pb2.HealthCheckResponse.NOT_SERVING)

        await eventually(ill, "health has turned")
        assert "RuntimeError: bug" in (await peer.status()).store_error
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await peer.report(rows(1, boot="x"))
        assert _info(caught.value)[1].reason == "LEARNER_DEAD"
        assert (
            await peer.estimator.BatchPredict(
                pb.BatchPredictRequest(inputs=[pb.PredictionInput(audio_seconds=1.0)])
            )
        ).predictions


async def test_our_own_bug_in_a_call_is_internal_with_an_id_and_no_details(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise KeyError("secret")

    monkeypatch.setattr("estimator.service.estimator_service.evaluate", broken)
    async with sidecar(tmp_path) as peer:
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await peer.estimator.BatchPredict(
                pb.BatchPredictRequest(inputs=[pb.PredictionInput(audio_seconds=1.0)])
            )
    assert caught.value.code() is grpc.StatusCode.INTERNAL
    assert "secret" not in (caught.value.details() or "")
    assert _info(caught.value)[1].metadata["error_id"] in (caught.value.details() or "")


async def test_lists_are_paged_to_their_end(tmp_path: Path) -> None:
    async with sidecar(tmp_path, kappa_point_interval_s=0.001) as peer:
        for language in ("en", "de", "fr"):
            await peer.report(rows(40, boot=language, language=language))
        await peer.learned(120)
        ids: list[str] = []
        token = ""
        while True:
            page = await peer.inspection.ListCompletions(
                pb.ListCompletionsRequest(page_size=50, page_token=token)
            )
            ids += [c.completion_id for c in page.completions]
            token = page.next_page_token
            if not token:
                break
        assert len(ids) == len(set(ids)) == 120
        assert ids[0] == "en-0"
        whole = await peer.inspection.ListKappas(pb.ListKappasRequest(model_id="m"))
        counts = [k.sample_count for k in whole.kappas]
        assert counts == sorted(counts, reverse=True)
        first = await peer.inspection.ListKappas(pb.ListKappasRequest(model_id="m", page_size=2))
        second = await peer.inspection.ListKappas(
            pb.ListKappasRequest(model_id="m", page_size=1000, page_token=first.next_page_token)
        )
        assert [*first.kappas, *second.kappas] == list(whole.kappas)
        assert {k.language for k in whole.kappas} >= {"en", "de", "fr"}
        wanted = pb.ListKappaHistoryRequest(model_id="m", language="de")

        async def recorded() -> bool:
            return bool((await peer.inspection.ListKappaHistory(wanted)).points)

        await eventually(recorded, "κ of de is in the history")
        points = (await peer.inspection.ListKappaHistory(wanted)).points
        assert {p.entry.language for p in points} == {"de"}
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await peer.inspection.ListKappas(
                pb.ListKappasRequest(page_token=first.next_page_token)
            )
        assert _info(caught.value)[1].reason == "PAGE_TOKEN_INVALID"
        with pytest.raises(grpc.aio.AioRpcError, match="page_size"):
            await peer.inspection.ListDriftEvents(pb.ListDriftEventsRequest(page_size=-1))
        await peer.inspection.ListDriftEvents(pb.ListDriftEventsRequest())


async def test_a_mode_is_switched_once_for_an_id_and_refused_when_unspecified(
    tmp_path: Path,
) -> None:
    async with sidecar(tmp_path) as peer:
        request = pb.SetModeRequest(mode=pb.MODE_ON, reason="trial", request_id="u-1")
        done = await peer.admin.SetMode(request)
        assert (done.mode, done.previous_mode) == (pb.MODE_ON, pb.MODE_SHADOW)
        status = await peer.status()
        assert status.settings.mode == pb.MODE_ON
        assert status.snapshot_version >= done.snapshot_version
        await peer.admin.SetMode(pb.SetModeRequest(mode=pb.MODE_OFF))
        await peer.admin.SetMode(request)
        assert (await peer.status()).settings.mode == pb.MODE_OFF
        with pytest.raises(grpc.aio.AioRpcError, match="MODE_SHADOW") as caught:
            await peer.admin.SetMode(pb.SetModeRequest())
        assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT


async def test_health_and_reflection_answer(tmp_path: Path) -> None:
    async with sidecar(tmp_path) as peer:
        for service in ("EstimatorService", "InspectionService", "AdminService"):
            assert (
                await _health(peer, f"kappad.estimator.v1.{service}")
                == health_pb2.HealthCheckResponse.SERVING
            )
        call = ServerReflectionStub(peer.channel).ServerReflectionInfo(
            iter([reflection_pb2.ServerReflectionRequest(list_services="")])
        )
        answer = await call.read()
        names = {service.name for service in answer.list_services_response.service}
        call.cancel()
    assert "kappad.estimator.v1.EstimatorService" in names
    assert "grpc.health.v1.Health" in names


async def test_loopback_tcp_serves_when_asked_for(tmp_path: Path) -> None:
    async with sidecar(tmp_path, listen="127.0.0.1:0", state_dir=":memory:") as peer:
        assert not peer.address.endswith(":0")
        assert (await peer.report(rows(1))).accepted_count == 1
        with pytest.raises(StartError, match="in use"):
            async with sidecar(tmp_path, listen=peer.address, state_dir=":memory:"):
                pass


async def test_a_second_sidecar_on_the_same_socket_or_store_is_refused(tmp_path: Path) -> None:
    async with sidecar(tmp_path) as peer:
        with pytest.raises(StartError, match="another server listens"):
            async with sidecar(tmp_path):
                pass
        with pytest.raises(StartError, match="store"):
            async with sidecar(tmp_path, listen=f"unix://{tmp_path}/other.sock"):
                pass
        assert not (tmp_path / "other.sock").exists()
        assert (await peer.report(rows(1))).accepted_count == 1
    assert not (tmp_path / "k.sock").exists()


async def test_http_tells_health_and_metrics(tmp_path: Path) -> None:
    async with sidecar(tmp_path) as probe:
        await probe.report(rows(3))
    port = _free_port()
    async with sidecar(tmp_path, http=f"127.0.0.1:{port}") as peer:
        await peer.report(rows(3))
        await peer.report(rows(2, boot="new"))
        await peer.learned(5)
        assert (await _get(port, "/healthz")).startswith("HTTP/1.1 200")
        metrics = await _get(port, "/metrics")
    assert 'kappad_completions_total{result="duplicate"} 3.0' in metrics
    assert 'kappad_completions_total{result="accepted"} 2.0' in metrics
    assert "kappad_p90_coverage_ratio " in metrics
    assert 'kappad_rpcs_total{code="OK",method="ReportCompletions"} 2.0' in metrics
    assert "kappad_backlog_completions 0.0" in metrics


def _free_port() -> int:
    import socket  # noqa: PLC0415  # one use

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


async def _get(port: int, path: str) -> str:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(f"GET {path} HTTP/1.1\r\n\r\n".encode())
        return (await asyncio.wait_for(reader.read(), 10.0)).decode()
    finally:
        writer.close()
