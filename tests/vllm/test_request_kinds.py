"""Requests that are not one plain transcription: none is lost, none teaches what it must not."""

import asyncio
import contextlib
import random

from estimator.demo.load import Arrival, send
from estimator.demo.schedule import Clip, arrival_of
from tests.support.vllm_server import wait_for
from tests.vllm.conftest import AUDIO, TEXT_PROMPT, Engine, Stock, long_arrival

# A key is listed once it has five samples (estimator.core.config).
N_DETECTIONS = 6
N_LEAVING = 8
N_STAYING = 6


def plain(clips: tuple[Clip, ...], name: str) -> Clip:
    (clip,) = [c for c in clips if c.path.name == name]
    return clip


def test_detection_requests_are_reported_as_such_and_teach_nothing(
    engine: Engine, stock: Stock, clips: tuple[Clip, ...]
) -> None:
    clip = plain(clips, "libri-1088-134315-0000.wav")
    arrivals = [
        Arrival(due_s=0.0, clip=clip.path, audio_s=clip.duration_s, request_id=f"detect-{i}")
        for i in range(N_DETECTIONS)
    ]
    with engine.slot.real() as sidecar:
        sidecar.wait_for_engines()
        outcomes = engine.server.send(arrivals)
        completions = sidecar.wait_until_stored(2 * N_DETECTIONS)
        samples = sidecar.samples()
    assert {o.text for o in outcomes} == {stock.texts[clip.path.name]}
    kinds = sorted(c.kind for c in completions)
    assert kinds == ["detection"] * N_DETECTIONS + ["transcription"] * N_DETECTIONS
    assert {c.output_tokens for c in completions if c.kind == "detection"} == {1}
    assert {c.language for c in completions if c.kind == "transcription"} == {"en"}
    assert samples == N_DETECTIONS, "only the transcriptions may have been learned"


def test_clients_that_leave_are_aborted_and_teach_nothing(
    engine: Engine, stock: Stock, clips: tuple[Clip, ...]
) -> None:
    long = plain(clips, "libri-1088-134315-0000.wav")
    rng = random.Random(5)

    async def scenario() -> list[tuple[int, str]]:
        # All at once with four slots: some leave while they run, others while they wait.
        tasks = [
            asyncio.create_task(
                send(engine.server.port, arrival_of(long, request_id=f"leave-{i}"))
            )
            for i in range(N_LEAVING + N_STAYING)
        ]
        await asyncio.sleep(2.0)
        leaving = rng.sample(tasks, N_LEAVING)
        for task in leaving:
            task.cancel()
        for task in leaving:
            with contextlib.suppress(asyncio.CancelledError):
                await task
        return [await task for task in tasks if task not in leaving]

    with engine.slot.real() as sidecar:
        sidecar.wait_for_engines()
        answers = asyncio.run(scenario())
        completions = sidecar.wait_until_stored(N_LEAVING + N_STAYING)
        wait_for(
            lambda: all(
                c.running == 0 and c.waiting == 0 for c in sidecar.client.status().clients
            ),
            15.0,
            "an empty engine",
        )
        samples = sidecar.samples()
        (after,) = engine.server.send([arrival_of(long, request_id="leave-after")])
        sidecar.wait_until_stored(N_LEAVING + N_STAYING + 1)
    assert [status for status, _ in answers] == [200] * N_STAYING
    reasons = sorted(c.finish_reason for c in completions)
    n_aborted = reasons.count("aborted")
    assert 1 <= n_aborted <= N_LEAVING
    assert set(reasons) == {"aborted", "stop"}
    assert any(c.finish_reason == "aborted" and c.service_s == 0.0 for c in completions), (
        "nobody left while waiting"
    )
    assert samples == N_LEAVING + N_STAYING - n_aborted
    assert after.text == stock.texts[long.path.name]


def test_audio_over_30_s_is_answered_whole_and_streamed(engine: Engine, stock: Stock) -> None:
    with engine.slot.real(mode="on") as sidecar:
        sidecar.wait_for_engines()
        outcomes = engine.server.send(
            [
                long_arrival(stream=False, request_id="long-whole"),
                long_arrival(stream=True, request_id="long-streamed"),
            ]
        )
        completions = sidecar.wait_until_stored(4)
    assert [o.text for o in outcomes] == [stock.long_text, stock.long_streamed_text]
    groups = {c.group_id for c in completions}
    assert all(c.audio_s is not None and 0.0 < c.audio_s <= 30.1 for c in completions)
    total_s = sum(c.audio_s or 0.0 for c in completions)
    assert abs(total_s - 2 * 34.955) < 1.0
    assert groups - {""}, "the pieces of one file form a group"


def test_requests_without_audio_are_answered_as_by_stock_and_harm_nothing(
    engine: Engine, stock: Stock, clips: tuple[Clip, ...]
) -> None:
    clip = plain(clips, "so762-012030078-2.0s-16k.wav")
    with engine.slot.real(mode="on") as sidecar:
        sidecar.wait_for_engines()
        empty = Arrival(due_s=0.0, clip=AUDIO / "derived-empty.wav", fields=(("language", "en"),))
        status, _ = engine.server.answer(empty)
        completion = engine.server.complete(TEXT_PROMPT)
        (after,) = engine.server.send([arrival_of(clip)])
        clients = sidecar.client.status().clients
        sidecar.wait_until_stored(1)
    assert status == stock.empty_file_status
    assert completion == stock.completion
    assert status >= 400
    assert after.text == stock.texts[clip.path.name]
    assert {c.failures for c in clients} == {0}
