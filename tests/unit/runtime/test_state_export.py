"""The state is taken between two completions, whoever else is served."""

import asyncio
import json

import pytest

from estimator.core.pipeline import Pipeline
from estimator.runtime import state_export
from estimator.runtime.errors import EstimatorError, NotFoundError, UnavailableError
from estimator.runtime.state_export import export_state
from sched_client.model import Key
from tests.support.completions import speech
from tests.support.runtime import FragileStore, completions, config, running


def two_models() -> Pipeline:
    pipeline = Pipeline()
    for n, model in enumerate(("m0", "m1")):
        for completion in speech(30, start=100 * n, model=model):
            pipeline.learn_one(completion)
    return pipeline


def test_what_is_exported_is_restored() -> None:
    pipeline = two_models()
    state = export_state(pipeline)
    restored = Pipeline(state=json.loads(state.text))
    assert restored.kappas() == pipeline.kappas()
    assert restored.services() == pipeline.services()
    assert (state.learned_count, state.key_count) == (60, len(pipeline.kappas()))


def test_one_model_alone_is_restored_without_the_other() -> None:
    pipeline = two_models()
    state = export_state(pipeline, "m1")
    restored = Pipeline(state=json.loads(state.text))
    expected = {key: kappa for key, kappa in pipeline.kappas().items() if key.model != "m0"}
    assert restored.kappas() == expected
    assert Key("m1") in expected
    assert restored.services().keys() == {"", "m1"}
    assert state.key_count == len(expected)


def test_a_model_that_is_not_known_is_named_beside_those_that_are() -> None:
    with pytest.raises(NotFoundError, match="nothing was learned of 'm2'; known: m0, m1"):
        export_state(two_models(), "m2")
    with pytest.raises(NotFoundError, match="known: none yet"):
        export_state(Pipeline(), "m2")


def test_a_state_larger_than_a_seed_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(state_export, "MAX_SEED_BYTES", 100)
    with pytest.raises(EstimatorError, match="a seed may have 100; export one model alone"):
        export_state(two_models())


async def test_no_export_holds_half_a_report() -> None:
    async with running(FragileStore(), config()) as sidecar:
        learner = sidecar.learner
        reports = [learner.submit(completions(50, first=50 * n)) for n in range(20)]
        exports = [asyncio.create_task(learner.export_state()) for _ in range(3)]
        await asyncio.gather(*reports)
        states = [*await asyncio.gather(*exports), await learner.export_state()]
    for state in states:
        document = json.loads(state.text)
        assert document["learned_count"] == state.learned_count
        assert Pipeline(state=document).learned_count == state.learned_count
    assert states[-1].learned_count >= states[0].learned_count


async def test_who_asks_for_an_unknown_model_does_not_disturb_the_learner() -> None:
    async with running(FragileStore(), config()) as sidecar:
        asked = [sidecar.learner.export_state(model) for model in ("nope", "nope", "")]
        nope, again, fine = await asyncio.gather(*asked, return_exceptions=True)
        assert isinstance(nope, NotFoundError)
        assert isinstance(again, NotFoundError)
        assert not isinstance(fine, BaseException)
        await sidecar.learner.submit(completions(5))
        assert not sidecar.learner.failure


async def test_a_state_that_is_unfit_is_said_and_learning_goes_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with running(FragileStore(), config()) as sidecar:
        with monkeypatch.context() as broken:
            broken.setattr(Pipeline, "state", lambda *_, **__: {"kappas": [float("inf")]})
            with pytest.raises(EstimatorError, match="cannot be exported: Out of range float"):
                await sidecar.learner.export_state()
        await sidecar.learner.submit(completions(5))
        assert (await sidecar.learner.export_state()).text
        assert not sidecar.learner.failure


async def test_a_caller_that_leaves_takes_the_state_from_nobody() -> None:
    async with running(FragileStore(), config()) as sidecar:
        leaving = asyncio.create_task(sidecar.learner.export_state())
        staying = asyncio.create_task(sidecar.learner.export_state())
        await asyncio.sleep(0)
        leaving.cancel()
        assert (await staying).text
        with pytest.raises(asyncio.CancelledError):
            await leaving


async def test_a_sidecar_that_drains_says_so() -> None:
    async with running(FragileStore(), config()) as sidecar:
        sidecar.learner.drain()
        with pytest.raises(UnavailableError):
            await sidecar.learner.export_state()
