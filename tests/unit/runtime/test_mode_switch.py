"""A switch is recorded, published, survives a restart and is idempotent by its id."""

import pytest

from estimator.runtime.errors import InvalidRequestError, UnavailableError
from estimator.runtime.mode_switch import ModeSwitch
from estimator.store.base import ModeChange, StoreError
from tests.support.runtime import NOW_S, FragileStore, config, running


async def test_a_switch_is_recorded_and_published() -> None:
    store = FragileStore()
    async with running(store, config()) as run:
        modes = ModeSwitch(run.worker, run.learner, now_s=lambda: NOW_S)
        done = await modes.set("on", actor="unix:", reason="trial", request_id="")
        assert (done.mode, done.previous_mode) == ("on", "shadow")
        assert done.snapshot_version == run.learner.publisher.snapshot.version
        assert run.learner.publisher.snapshot.settings.mode == "on"
    (change,) = store.list_mode_changes()
    assert (change.actor, change.reason, change.changed_s) == ("unix:", "trial", NOW_S)


async def test_the_same_id_switches_once() -> None:
    store = FragileStore()
    async with running(store, config()) as run:
        modes = ModeSwitch(run.worker, run.learner)
        first = await modes.set("on", actor="a", reason="", request_id="id-1")
        await modes.set("off", actor="a", reason="", request_id="id-2")
        again = await modes.set("on", actor="a", reason="", request_id="id-1")
        assert (again.mode, again.previous_mode) == (first.mode, first.previous_mode)
        assert run.learner.publisher.snapshot.settings.mode == "off"
    assert len(store.list_mode_changes()) == 2


async def test_an_id_is_good_for_one_mode_only() -> None:
    store = FragileStore()
    async with running(store, config()) as run:
        modes = ModeSwitch(run.worker, run.learner)
        await modes.set("on", actor="a", reason="", request_id="id-1")
        with pytest.raises(InvalidRequestError, match="request_id: was used to switch to on"):
            await modes.set("off", actor="a", reason="", request_id="id-1")
    assert len(store.list_mode_changes()) == 1


async def test_a_switch_that_cannot_be_published_is_not_recorded() -> None:
    store = FragileStore()
    store.broken = True  # no version could be promised at the start
    async with running(store, config()) as run:
        store.broken = False
        modes = ModeSwitch(run.worker, run.learner)
        with pytest.raises(UnavailableError, match="no snapshot version is left"):
            await modes.set("on", actor="a", reason="", request_id="id-1")
        assert store.list_mode_changes() == []
        assert await run.learner.checkpoint(run.learner.publisher.snapshot.version + 10)
        await modes.set("on", actor="a", reason="", request_id="id-1")
        assert run.learner.publisher.snapshot.settings.mode == "on"


async def test_the_mode_in_force_is_recorded_but_not_published_again() -> None:
    store = FragileStore()
    async with running(store, config()) as run:
        version = run.learner.publisher.snapshot.version
        done = await ModeSwitch(run.worker, run.learner).set(
            "shadow", actor="a", reason="", request_id=""
        )
        assert done.snapshot_version == version
    assert len(store.list_mode_changes()) == 1


async def test_the_last_switch_wins_over_the_configuration_after_a_restart() -> None:
    store = FragileStore()
    async with running(store, config(), drain=False) as run:
        await ModeSwitch(run.worker, run.learner).set("on", actor="a", reason="", request_id="")
    async with running(store, config(mode="shadow", phi=0.1)) as run:
        settings = run.learner.publisher.snapshot.settings
        assert (settings.mode, settings.phi) == ("on", 0.1)


async def test_a_switch_that_cannot_be_recorded_is_refused_with_the_way_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def broken(self: FragileStore, change: ModeChange) -> None:
        raise StoreError("read-only")

    async with running(FragileStore(), config()) as run:
        with monkeypatch.context() as patch:
            patch.setattr(FragileStore, "append_mode_change", broken)
            modes = ModeSwitch(run.worker, run.learner)
            with pytest.raises(UnavailableError, match=r"read-only.*file named 'off'"):
                await modes.set("on", actor="a", reason="", request_id="")
        assert run.learner.publisher.snapshot.settings.mode == "shadow"
