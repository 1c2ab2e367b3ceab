"""The learner's task: commit, acknowledge, learn, publish, checkpoint; and what breaks it."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from estimator.core.drift import DriftEvent
from estimator.core.observation import Completion
from estimator.core.pipeline import SCHEMA, Changes, Pipeline
from estimator.runtime.errors import ExhaustedError, UnavailableError
from estimator.runtime.learner import GROUP_ROWS
from estimator.runtime.versions import VERSION_BLOCK
from sched_client.model import Key, Settings
from tests.support.runtime import NOW_S, FragileStore, completions, config, running, until

_KEY = Key("m", "transcribe", "en")


async def test_rows_are_stored_acknowledged_learned_and_published() -> None:
    store = FragileStore()
    async with running(store, config()) as run:
        result = await run.learner.submit(completions(200))
        assert result.accepted_count == 200
        assert store.count() == 200
        await until(lambda: run.learner.pipeline.learned_count == 200, "all learned")
        await until(lambda: _KEY in run.learner.publisher.snapshot.kappas, "published")
        entry = run.learner.pipeline.kappa_of(_KEY)
        assert entry.kappa_tokens_per_s == pytest.approx(4.0, rel=0.05)
        assert run.learner.publisher.snapshot.version > 1


async def test_an_answer_means_committed_even_if_learning_has_not_begun(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    store = FragileStore()
    stored_when_learned: list[int] = []
    learn_one = Pipeline.learn_one

    def spy(self: Pipeline, completion: Completion) -> object:
        stored_when_learned.append(store.count())
        return learn_one(self, completion)

    monkeypatch.setattr(Pipeline, "learn_one", spy)
    async with running(store, config()) as run:
        await run.learner.submit(completions(3))
    assert stored_when_learned == [3, 3, 3]


async def test_a_bug_in_the_store_answers_the_report_that_met_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("bug")

    async with running(FragileStore(), config()) as run:
        monkeypatch.setattr(FragileStore, "append", broken)
        with pytest.raises(UnavailableError, match="learner stopped"):
            await asyncio.wait_for(run.learner.submit(completions(3)), 10.0)
        await until(lambda: "bug" in run.learner.failure, "the learner died")


async def test_reports_that_wait_together_are_one_commit_and_get_their_own_counts() -> None:
    store = FragileStore()
    async with running(store, config()) as run:
        await until(lambda: not run.learner.replaying, "started")
        old = Completion(completion_id="old", finished_s=NOW_S - 1.0)
        reports = [completions(3), completions(3), [*completions(2, first=3), old, old]]
        waiting = [run.learner.submit(rows) for rows in reports]
        results = await asyncio.gather(*waiting)
    assert store.append_sizes == [10]
    assert [r.accepted_count for r in results] == [3, 0, 3]
    assert [r.duplicate_count for r in results] == [0, 3, 1]


async def test_a_full_backlog_refuses_and_what_it_holds_is_kept() -> None:
    async with running(FragileStore(), config(backlog_limit=10, batch_limit=10)) as run:
        first = run.learner.submit(completions(10))
        with pytest.raises(ExhaustedError):
            run.learner.submit(completions(1, first=10))
        assert (await first).accepted_count == 10
        await until(lambda: run.learner.backlog.n_rows == 0, "room again")
        assert (await run.learner.submit(completions(1, first=10))).accepted_count == 1


async def test_a_store_that_fails_refuses_reports_serves_on_and_recovers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("estimator.runtime.learner._STORE_RETRY_S", 0.01)
    async with running(FragileStore(), config()) as run:
        changes: list[str] = []
        run.worker.on_change = lambda: changes.append(run.worker.error)
        await run.learner.submit(completions(50))
        await until(lambda: run.learner.backlog.n_rows == 0, "learned")
        run.store.broken = True
        with pytest.raises(UnavailableError, match="disk is full") as caught:
            await run.learner.submit(completions(5, first=50))
        assert caught.value.reason == "STORE_UNAVAILABLE"
        assert run.learner.backlog.n_rows == 0
        assert "disk is full" in run.worker.error
        assert _KEY in run.learner.pipeline.kappas()
        run.store.broken = False
        # Nobody reports: the checkpoint finds out.
        await until(lambda: not run.worker.error, "recovered by itself")
        assert changes[0]
        assert changes[-1] == ""
        assert (await run.learner.submit(completions(5, first=50))).accepted_count == 5


async def test_versions_are_never_published_beyond_what_the_store_was_promised() -> None:
    store = FragileStore()
    async with running(store, config()) as run:
        await until(lambda: not run.learner.replaying, "started")
        for _ in range(VERSION_BLOCK):
            run.learner.publish_settings(Settings())
        assert store.checkpoints[-1].snapshot_version == run.learner.publisher.snapshot.version
        with pytest.raises(UnavailableError, match="no snapshot version"):
            run.learner.publish_settings(Settings())
        version = run.learner.publisher.snapshot.version
        await until(lambda: run.learner._versions.promised > version, "the next block")
        assert store.checkpoints[-1].snapshot_version == run.learner._versions.promised
        run.learner.publish_settings(Settings())


async def test_a_crash_and_a_restart_go_on_with_higher_versions_and_the_same_state() -> None:
    store = FragileStore()
    async with running(store, config(), drain=False) as run:
        await run.learner.submit(completions(300))
        await until(lambda: run.learner.pipeline.learned_count == 300, "learned")
        before = _learned(run.learner.pipeline)
        version = run.learner.publisher.snapshot.version
    async with running(store, config()) as run:
        assert run.learner.publisher.snapshot.version > version
        await until(lambda: not run.learner.replaying, "replayed")
        assert _learned(run.learner.pipeline) == before


def _learned(pipeline: Pipeline) -> dict[str, Any]:  # Any: the state's JSON
    """Give what a replay gives exactly: not when a fit was asked for, which is the runtime's."""
    state = pipeline.state()
    samples = {model: one["sample"] for model, one in state.pop("partitions").items()}
    return {**state, "samples": samples}


async def test_a_checkpoint_of_another_schema_is_replaced_by_a_replay() -> None:
    store = FragileStore()
    async with running(store, config()) as run:
        await run.learner.submit(completions(300))
        await until(lambda: run.learner.pipeline.learned_count == 300, "learned")
        before = _learned(run.learner.pipeline)
    older = store.checkpoints[-1]
    state = {**run.learner.pipeline.state(), "schema": SCHEMA - 1}
    del state["partitions"]
    store.save_checkpoint(replace(older, state=state))
    async with running(store, config()) as run:
        await until(lambda: not run.learner.replaying, "replayed")
        assert _learned(run.learner.pipeline) == before


async def test_a_drain_learns_what_was_taken_and_saves_the_exact_version() -> None:
    store = FragileStore()
    async with running(store, config()) as run:
        pending = [run.learner.submit(completions(20, first=20 * i)) for i in range(5)]
        run.learner.drain()
        with pytest.raises(UnavailableError, match="shutting down"):
            run.learner.submit(completions(1, first=999))
        assert [r.accepted_count for r in await asyncio.gather(*pending)] == [20] * 5
    last = store.checkpoints[-1]
    assert last.row_id == store.last_row_id() == 100
    assert last.snapshot_version == run.learner.publisher.snapshot.version


async def test_our_own_bug_stops_the_learner_loudly_and_nothing_else(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def broken(self: Pipeline, completion: Completion) -> object:
        raise RuntimeError("bug")

    store = FragileStore()
    async with running(store, config()) as run:
        dead: list[str] = []
        run.learner.on_failure = lambda: dead.append(run.learner.failure)
        await until(lambda: not run.learner.replaying, "started")
        monkeypatch.setattr(Pipeline, "learn_one", broken)
        assert (await run.learner.submit(completions(1))).accepted_count == 1
        await until(lambda: bool(dead), "the learner died")
        assert dead == ["RuntimeError: bug"]
        with pytest.raises(UnavailableError, match="restart") as caught:
            run.learner.submit(completions(1, first=1))
        assert caught.value.reason == "LEARNER_DEAD"
        assert run.learner.publisher.snapshot.version >= 1
        # The row that killed it does not kill the next one.
    async with running(store, config()) as run:
        await until(lambda: not run.learner.replaying, "replayed in spite of it")
        assert not run.learner.failure
        assert run.metrics.unlearnable._value.get() == 1.0


async def test_a_replay_catches_up_with_a_load_that_never_pauses(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    learned: list[str] = []

    def note(_: Pipeline, completion: Completion) -> tuple[DriftEvent, ...]:
        learned.append(completion.completion_id)
        return ()

    monkeypatch.setattr(Pipeline, "learn_one", note)
    store = FragileStore()
    store.append(completions(3 * GROUP_ROWS))
    async with running(store, config()) as run:
        reported = 3 * GROUP_ROWS
        for _ in range(8):
            # Acknowledged while the replay goes on, so that the next full group waits already.
            await run.learner.submit(completions(GROUP_ROWS, first=reported))
            reported += GROUP_ROWS
            if not run.learner.replaying:
                break
        assert not run.learner.replaying
        await until(lambda: len(learned) >= reported, "all learned")
    assert learned == [f"boot-{n}" for n in range(reported)]


async def test_rows_reported_during_a_replay_are_learned_once_and_in_order() -> None:
    store = FragileStore()
    async with running(store, config(), drain=False) as run:
        await run.learner.submit(completions(2500))
    store._checkpoints.clear()
    async with running(store, config()) as run:
        assert run.learner.replaying
        assert (await run.learner.submit(completions(100, first=2500))).accepted_count == 100
        await until(lambda: not run.learner.replaying, "replayed")
        await until(lambda: run.learner.backlog.n_rows == 0, "learned")
        assert run.learner.pipeline.learned_count == 2600


async def test_a_caller_that_went_away_does_not_stop_its_rows() -> None:
    store = FragileStore()
    async with running(store, config()) as run:
        await until(lambda: not run.learner.replaying, "started")
        run.learner.submit(completions(4)).cancel()
        await until(lambda: run.learner.pipeline.learned_count == 4, "learned all the same")
    assert store.count() == 4


async def test_the_history_of_kappa_is_recorded() -> None:
    store = FragileStore()
    async with running(store, config()) as run:
        await run.learner.submit(completions(200, kappa=6.0))
    (_, newest), *_ = store.list_kappa_points(model="m", language="en")
    assert newest.kappa_tokens_per_s == pytest.approx(6.0, rel=0.1)


async def test_a_drift_event_and_its_end_are_recorded_as_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    begun = DriftEvent(
        event_id="kappa-1",
        kind="kappa",
        model="m",
        task="transcribe",
        language="en",
        timestamps=None,
        detected_s=NOW_S,
        before=3.0,
        after=5.0,
    )
    events = iter([(begun,), (), (replace(begun, ended_s=NOW_S + 1.0),)])
    monkeypatch.setattr(Pipeline, "learn_one", lambda *_: next(events))
    store = FragileStore()
    async with running(store, config()) as run:
        await run.learner.submit(completions(3))
    assert [event for _, event in store.list_drifts()] == [replace(begun, ended_s=NOW_S + 1.0)]


async def test_that_nothing_has_moved_is_not_found_out_again_in_each_slice(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[int] = []

    def nothing(self: Pipeline) -> Changes:
        asked.append(self.learned_count)
        return Changes()

    monkeypatch.setattr("estimator.runtime.learner.SLICE_S", 0.0)
    async with running(FragileStore(), config(publish_interval_s=60.0)) as run:
        await until(lambda: not run.learner.replaying, "started")
        monkeypatch.setattr(Pipeline, "take_changes", nothing)
        await run.learner.submit(completions(200))
        await until(lambda: run.learner.backlog.n_rows == 0, "learned")
    assert len(asked) == 1


async def test_an_open_event_that_a_replay_does_not_raise_is_ended() -> None:
    store = FragileStore()
    store.save_drift(
        DriftEvent(
            event_id="kappa-7", kind="kappa", model="m", task="transcribe", language="en",
            timestamps=None, detected_s=NOW_S - 9.0, before=3.0, after=5.0,
        )
    )  # fmt: skip
    async with running(store, config()) as run:
        await until(lambda: not run.learner.replaying, "replayed")
    [(_, event)] = store.list_drifts()
    assert (event.ended_s, event.completions_to_adapt) == (NOW_S, None)
