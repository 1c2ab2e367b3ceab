"""What an engine holds, from its report to what clients act on, and past a restart."""

import asyncio
from pathlib import Path

import grpc
import grpc.aio
import pytest

from estimator.convert import features_to_proto, parameters_from_proto
from protos.kappad.estimator.v1 import estimator_pb2 as pb
from sched_client.model import TEXT_TASK, Features, Snapshot, evaluate
from sched_client.text_class import text_class
from tests.support.scripted_sidecar import ScriptedSidecar, short_folder, started_link, wait_until
from tests.support.sidecar import TIMEOUT_S, Peer, eventually, sidecar

# 534 tokens a slot.
LLAMA = {"kv_token_count": 8_544 * 16, "slot_count": 256}


def texts(n: int) -> list[pb.Completion]:
    return [
        pb.Completion(
            completion_id=f"b-{i}",
            model_id="m",
            task=TEXT_TASK,
            kind=pb.REQUEST_KIND_TEXT,
            prompt_token_count=100 + 20 * i,
            output_token_count=100 + i % 7,
            finish_reason=pb.FINISH_REASON_STOP,
            service_seconds=4.0,
            mean_concurrency=60.0,
        )
        for i in range(n)
    ]


async def tell(peer: Peer, client: str, rows: list[pb.Completion], **said: int) -> None:
    status = pb.ClientStatus(client_id=client, model_id="m", **said)  # type: ignore[arg-type]  # two of its counts
    request = pb.ReportCompletionsRequest(client=status, completions=rows)
    await peer.estimator.ReportCompletions(request, timeout=TIMEOUT_S)


async def slot_of(peer: Peer) -> float:
    services = (await peer.status()).services
    return next((one.slot_context_token_count for one in services if one.model_id == "m"), -1.0)


async def snapshot_of(peer: Peer) -> Snapshot:
    call = peer.estimator.WatchParameters(pb.WatchParametersRequest(client_id="watcher"))
    message = await asyncio.wait_for(call.read(), TIMEOUT_S)
    assert isinstance(message, pb.WatchParametersResponse)
    call.cancel()
    return parameters_from_proto(
        message.snapshot, version=message.version, instance_id="", created_s=0.0
    )


async def held(peer: Peer, tokens: float) -> None:
    """Wait until so many tokens a slot are published."""

    async def is_it() -> bool:
        return (await snapshot_of(peer)).service_of("m").slot_context_tokens == tokens

    await eventually(is_it, f"{tokens} tokens a slot")


async def test_predictions_and_snapshots_weigh_a_context_alike(tmp_path: Path) -> None:
    async with sidecar(tmp_path) as peer:
        await tell(peer, "a", texts(60))
        await peer.learned(60)
        assert await slot_of(peer) == 0.0
        await tell(peer, "a", [], **LLAMA)
        await held(peer, 534.0)
        snapshot = await snapshot_of(peer)
        inputs = [
            Features("m", TEXT_TASK, "", None, "text", None, prompt, 4_096, "none")
            for prompt in (100, 1_000, 8_000)
        ]
        answer = await peer.estimator.BatchPredict(
            pb.BatchPredictRequest(inputs=list(map(features_to_proto, inputs)))
        )
    assert answer.snapshot_version == snapshot.version
    service = snapshot.service_of("m")
    for features, found in zip(inputs, answer.predictions, strict=True):
        prompt = features.prompt_tokens
        keyed = features._replace(language=text_class("", prompt))
        assert found.service_seconds == evaluate(snapshot, keyed).service_s
        stays_s = service.residence_s(prompt, found.token_count)
        share = max(1.0, (prompt + found.token_count / 2) / 534.0)
        assert found.service_seconds == pytest.approx(stays_s * share)


async def test_the_least_of_two_engines_holds_past_a_restart(tmp_path: Path) -> None:
    async with sidecar(tmp_path) as peer:
        await tell(peer, "a", texts(20), **LLAMA)
        await tell(peer, "b", [], kv_token_count=300 * 64, slot_count=64)
        await tell(peer, "a", [], **LLAMA)
        # One that knows its slots alone, and one that is no engine.
        await tell(peer, "c", [], slot_count=8)
        await tell(peer, "tool", [])
        await peer.learned(20)
        await held(peer, 300.0)
    async with sidecar(tmp_path) as peer:
        assert await slot_of(peer) == 300.0
        assert (await snapshot_of(peer)).service_of("m").slot_context_tokens == 300.0


async def test_no_engine_holds_nothing_or_a_thousand_billion(tmp_path: Path) -> None:
    async with sidecar(tmp_path) as peer:
        for said in ({"kv_token_count": 0}, {"slot_count": -1}, {"kv_token_count": 10**12 + 1}):
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await tell(peer, "a", [], **said)
            assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
            assert f"client.{next(iter(said))}" in (caught.value.details() or "")


def test_the_link_tells_what_its_engine_holds() -> None:
    with short_folder() as folder, ScriptedSidecar(f"unix://{folder}/s") as server:
        with started_link(server.target):
            wait_until(lambda: bool(server.reports), "a report")
        client = server.reports[0].client
    assert (client.kv_token_count, client.slot_count) == (8_544 * 16, 256)
