"""What runs, from an engine's records over a real socket into what the sidecar answers."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import grpc
import pytest

from estimator.core.running import MAX_REPORTED
from protos.kappad.estimator.v1 import estimator_pb2 as pb
from sched_client.completion import EngineStatus, RunningReport
from sched_client.model import Features
from tests.support.scripted_sidecar import FAST, make_report, short_folder, started_link
from tests.support.sidecar import CLIENT, TIMEOUT_S, Peer, eventually, sidecar

SPEECH = Features(model="m", task="transcribe", language="en", timestamps=False, audio_s=8.0)
ASKED = pb.PredictionInput(
    model_id="m", task="transcribe", language="en", timestamps=False, audio_seconds=8.0
)


class _Engine:
    """Runs 54 requests of 8 s, which have come to ``tokens``."""

    def __init__(self, tokens: int) -> None:
        self.tokens = tokens

    def read(self, most: int) -> Iterator[RunningReport]:
        for number in range(min(54, most)):
            yield RunningReport(SPEECH, self.tokens, f"runs-{number}")


@asynccontextmanager
async def _peer() -> AsyncIterator[Peer]:
    with short_folder() as folder:
        async with sidecar(folder) as peer:
            yield peer


async def _expected(peer: Peer) -> float:
    request = pb.BatchPredictRequest(inputs=[ASKED])
    answer = await peer.estimator.BatchPredict(request, timeout=TIMEOUT_S)
    return answer.predictions[0].token_count


def _completions(tokens: int) -> list[pb.Completion]:
    return [
        pb.Completion(
            completion_id=f"boot-{number}",
            model_id="m",
            task="transcribe",
            language="en",
            timestamps=False,
            audio_seconds=8.0,
            output_token_count=tokens,
            finish_reason=pb.FINISH_REASON_STOP,
        )
        for number in range(10)
    ]


def _running(n: int, tokens: int) -> pb.ReportCompletionsRequest:
    return pb.ReportCompletionsRequest(
        client=pb.ClientStatus(client_id=CLIENT, model_id="m", running_count=n),
        running=[
            pb.RunningRequest(
                model_id="m",
                task="transcribe",
                language="en",
                timestamps=False,
                audio_seconds=8.0,
                output_token_count=tokens,
            )
            for _ in range(n)
        ],
    )


async def test_what_an_engine_runs_reaches_the_estimates() -> None:
    async with _peer() as peer:
        with started_link(peer.address, FAST) as link:
            for number in range(10):
                link.report(make_report(number, features=SPEECH, output_tokens=24))
            await peer.learned(10)
            before = await _expected(peer)
            # Ten of 64 came to 24 tokens; the others are beyond that already.
            link.status = EngineStatus(running=54)
            link.running = _Engine(30)

            async def risen() -> bool:
                return await _expected(peer) > 1.2 * before

            await eventually(risen, "a higher estimate")
            link.running, link.status = None, EngineStatus(running=0)

            async def back() -> bool:
                return await _expected(peer) == pytest.approx(before, rel=0.01)

            await eventually(back, "the estimate that was learned")
        assert (await peer.status()).learned_count == 10


async def test_a_report_without_a_list_leaves_the_one_before() -> None:
    async with _peer() as peer:
        await peer.report(_completions(24))
        await peer.learned(10)
        before = await _expected(peer)
        await peer.estimator.ReportCompletions(_running(54, 30), timeout=TIMEOUT_S)

        async def risen() -> bool:
            return await _expected(peer) > 1.2 * before

        await eventually(risen, "a higher estimate")
        silent = _running(54, 30)
        del silent.running[:]
        await peer.estimator.ReportCompletions(silent, timeout=TIMEOUT_S)
        # Longer than the sidecar takes to publish.
        await asyncio.sleep(0.5)
        assert await risen()


async def test_a_list_that_is_too_long_is_refused_by_name() -> None:
    async with _peer() as peer:
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await peer.estimator.ReportCompletions(
                _running(MAX_REPORTED + 1, 30), timeout=TIMEOUT_S
            )
        assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
        assert "running" in str(caught.value.details())


async def test_a_row_without_meaning_costs_no_completion() -> None:
    async with _peer() as peer:
        request = _running(2, -5)
        request.running[1].audio_seconds = float("nan")
        request.completions.extend(_completions(24))
        answer = await peer.estimator.ReportCompletions(request, timeout=TIMEOUT_S)
        assert (answer.accepted_count, len(answer.rejections)) == (10, 0)
