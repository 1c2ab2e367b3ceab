"""Queues over a real socket: found in what is reported, published, listed, and kept."""

import asyncio
import json
import random
from collections.abc import Iterator
from pathlib import Path

import grpc
import grpc.aio
import pytest

from estimator.client import EstimatorClient
from estimator.runtime import fits
from protos.kappad.estimator.v1 import estimator_pb2 as pb
from tests.support.kappad_process import Sidecar, kappad, kappad_json
from tests.support.kappad_process import sidecar as process
from tests.support.sidecar import CLIENT, Peer, eventually, sidecar


def two_classes(n: int, model: str = "m", seed: int = 5) -> list[pb.Completion]:
    """Give completions of two clearly different lengths."""
    rng = random.Random(seed)
    found = []
    for index in range(n):
        audio_s = rng.choice((2.0, 20.0)) * rng.lognormvariate(0.0, 0.2)
        tokens = round(3 + 4.0 * audio_s)
        found.append(
            pb.Completion(
                completion_id=f"{model}-{index}",
                model_id=model,
                task="transcribe",
                kind=pb.REQUEST_KIND_TRANSCRIPTION,
                audio_seconds=audio_s,
                output_token_count=tokens,
                predicted_token_count=tokens,
                finish_reason=pb.FINISH_REASON_STOP,
                service_seconds=0.1 + 0.01 * tokens,
                mean_concurrency=2.0,
            )
        )
    return found


async def listed(peer: Peer, model: str = "") -> list[pb.ModelQueues]:
    request = pb.ListQueuesRequest(model_id=model)
    return list((await peer.inspection.ListQueues(request)).models)


async def installed(peer: Peer, model: str = "m") -> list[pb.PartitionRevision]:
    """Wait until a model's queues are in the history."""
    request = pb.ListPartitionsRequest(model_id=model)

    async def has() -> bool:
        return bool((await peer.inspection.ListPartitions(request)).partitions)

    await eventually(has, f"{model} has queues")
    return list((await peer.inspection.ListPartitions(request)).partitions)


async def test_two_classes_are_two_queues_that_a_watcher_and_a_prediction_know(
    tmp_path: Path,
) -> None:
    async with sidecar(tmp_path) as peer:
        await peer.report(two_classes(400))
        (revision, *_) = await installed(peer)
        (one,) = await listed(peer)
        short, long = one.queues
        assert (short.queue_id, long.queue_id) == tuple(revision.partition.queue_ids)
        assert short.upper_bound_seconds == long.lower_bound_seconds
        assert not short.HasField("lower_bound_seconds")
        assert not long.HasField("upper_bound_seconds")
        assert short.mean_seconds < short.upper_bound_seconds < long.mean_seconds
        assert short.share_ratio + long.share_ratio == pytest.approx(1.0)
        assert short.sample_count + long.sample_count == pytest.approx(400, abs=1)
        assert sum(one.histogram_counts) == one.status.sample_count == 400
        assert len(one.histogram_edge_seconds) == len(one.histogram_counts) + 1
        assert (one.status.queue_count, one.status.revision_count) == (2, 1)
        assert revision.reason == pb.REFIT_REASON_FIRST
        assert revision.fit_seconds > 0.0
        watch = peer.estimator.WatchParameters(
            pb.WatchParametersRequest(client_id=CLIENT, model_ids=["m"])
        )
        async with asyncio.timeout(20.0):
            told: list[pb.Partition] = []
            # In the first snapshot, or, where its publication is yet due, in what comes next.
            while not told:
                read = await watch.read()
                assert isinstance(read, pb.WatchParametersResponse)
                told = [*read.snapshot.partitions, *read.delta.partitions]
        watch.cancel()
        (partition,) = told
        assert partition == revision.partition
        asked = [pb.PredictionInput(model_id="m", audio_seconds=s) for s in (2.0, 20.0)]
        answer = await peer.estimator.BatchPredict(pb.BatchPredictRequest(inputs=asked))
        assert [p.queue_id for p in answer.predictions] == [short.queue_id, long.queue_id]


async def test_a_watcher_is_told_of_queues_that_come_into_force(tmp_path: Path) -> None:
    async with sidecar(tmp_path) as peer:
        watch = peer.estimator.WatchParameters(pb.WatchParametersRequest(client_id=CLIENT))
        first = await watch.read()
        assert isinstance(first, pb.WatchParametersResponse)
        assert not first.snapshot.partitions
        await peer.report(two_classes(400))
        async with asyncio.timeout(20.0):
            response = first
            while not response.delta.partitions:
                read = await watch.read()
                assert isinstance(read, pb.WatchParametersResponse)
                response = read
        (partition,) = response.delta.partitions
        assert (partition.model_id, len(partition.queue_ids)) == ("m", 2)
        watch.cancel()


async def test_too_little_is_one_queue_and_says_why(tmp_path: Path) -> None:
    async with sidecar(tmp_path) as peer:
        await peer.report(two_classes(20))
        status = await peer.learned(20)
        (one,) = await listed(peer)
        assert [queue.queue_id for queue in one.queues] == ["q0"]
        assert not one.queues[0].HasField("mean_seconds")
        assert one.queues[0].sample_count == 20
        assert "20 completions" in one.status.detail
        assert list(status.partitions) == [one.status]


async def test_models_and_history_are_paged_and_filtered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Three models need not wait for one another here.
    monkeypatch.setattr(fits, "_IDLE_SHARE", 1.0)
    async with sidecar(tmp_path) as peer:
        for model in ("b", "a", "c"):
            await peer.report(two_classes(250, model))
        for model in ("a", "b", "c"):
            await installed(peer, model)
        assert [one.status.model_id for one in await listed(peer)] == ["a", "b", "c"]
        assert [one.status.model_id for one in await listed(peer, "b")] == ["b"]
        assert await listed(peer, "unknown") == []
        pages, token = [], ""
        for _ in range(3):
            page = await peer.inspection.ListQueues(
                pb.ListQueuesRequest(page_size=1, page_token=token)
            )
            pages += [one.status.model_id for one in page.models]
            token = page.next_page_token
        assert (pages, token) == (["a", "b", "c"], "")
        history = await peer.inspection.ListPartitions(pb.ListPartitionsRequest(page_size=2))
        rest = await peer.inspection.ListPartitions(
            pb.ListPartitionsRequest(page_size=2, page_token=history.next_page_token)
        )
        times = [
            one.install_time.ToNanoseconds() for one in (*history.partitions, *rest.partitions)
        ]
        assert len(times) == 3
        assert times == sorted(times, reverse=True)
        inspection = peer.inspection
        for call in (
            inspection.ListQueues(pb.ListQueuesRequest(page_token="x")),
            inspection.ListPartitions(pb.ListPartitionsRequest(page_token="x")),
        ):
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await call
            assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT


async def test_queues_and_their_history_outlive_a_restart(tmp_path: Path) -> None:
    async with sidecar(tmp_path) as peer:
        await peer.report(two_classes(400))
        before = await installed(peer)
        queues = (await listed(peer))[0].queues
    async with sidecar(tmp_path) as peer:
        assert (await listed(peer))[0].queues == queues
        assert await installed(peer) == before
        watch = peer.estimator.WatchParameters(pb.WatchParametersRequest(client_id=CLIENT))
        first = await watch.read()
        assert isinstance(first, pb.WatchParametersResponse)
        assert list(first.snapshot.partitions) == [before[0].partition]
        watch.cancel()


@pytest.fixture(scope="module")
def taught() -> Iterator[Sidecar]:
    """A sidecar in a process of its own that has found queues."""
    with process() as running, EstimatorClient(running.target) as client:
        from estimator.convert import completion_from_proto  # noqa: PLC0415  # one use

        completions = [completion_from_proto(one) for one in two_classes(400)]
        client.report(completions, client_id=CLIENT, model="m")
        for _ in range(2_000):
            if list(client.partitions("m")):
                break
            client.status()
        yield running


def test_the_command_draws_the_queues_over_their_work(taught: Sidecar) -> None:
    shown = kappad(["partition"], target=taught.target)
    assert shown.returncode == 0, shown
    assert shown.stdout.startswith("m: 2 queues · 400 completions, 400 in the sample")
    assert "s of work" in shown.stdout
    assert "seen from s" in shown.stdout
    status = kappad(["status"], target=taught.target).stdout
    assert "queues    m: 2 queues" in status
    history = kappad(["partition", "--history"], target=taught.target).stdout
    assert "first" in history
    nothing = kappad(["partition", "--model", "x"], target=taught.target).stdout
    assert nothing == (
        "no queues for model 'x' yet: they are looked for once completions were learned\n"
    )


def test_queues_of_a_seed_have_no_history_and_the_command_says_so(
    taught: Sidecar, tmp_path: Path
) -> None:
    seed = tmp_path / "seed.json"
    assert kappad(["export", "--model", str(seed)], target=taught.target).returncode == 0
    with process("--seed", str(seed)) as seeded:
        assert kappad(["partition"], target=seeded.target).stdout.startswith("m: 2 queues")
        history = kappad(["partition", "--history"], target=seeded.target).stdout
    assert history == "no history of queues yet: this sidecar has changed none\n"


def test_the_command_gives_the_same_as_json(taught: Sidecar) -> None:
    (one,) = kappad_json(["partition"], target=taught.target)["models"]
    assert one["model"] == "m"
    assert one["queue_count"] == len(one["queues"]) == 2
    assert set(one["queues"][0]) == {
        "queue_id", "lower_bound_s", "upper_bound_s", "least_s", "most_s", "mean_s",
        "share_ratio", "sample_count",
    }  # fmt: skip
    assert one["queues"][0]["lower_bound_s"] is None
    assert sum(one["histogram"]["counts"]) == one["sample_count"] == 400
    (record, *_) = kappad_json(["partition", "--history"], target=taught.target)["partitions"]
    assert record["boundaries_s"] == [one["queues"][0]["upper_bound_s"]]
    assert record["reason"] == "first"
    assert json.dumps(record["share_ratios"]) == json.dumps(
        [queue["share_ratio"] for queue in one["queues"]]
    )
