"""KV memory of engines in what the pipeline publishes and saves."""

import json
import random
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from estimator.core.observation import Completion
from estimator.core.pipeline import Pipeline
from sched_client.model import GLOBAL_KEY, KappaEntry, Snapshot
from sched_client.validity import invalid_reason
from tests.support.completions import completion_of

SLOT = 500.0


def texts(n: int, seed: int = 0) -> Iterator[Completion]:
    """Yield text whose prompts are a multiple of a slot's part of memory."""
    rng = random.Random(seed)
    for i in range(n):
        prompt, tokens = rng.randrange(1_500, 2_500), rng.randrange(50, 150)
        yield completion_of(
            i, None, tokens, model="llm", task="text", language="", kind="text",
            prompt_tokens=prompt, service_s=0.1 + 0.04 * tokens, concurrency=20.0,
        )  # fmt: skip


def taught(n: int = 200) -> Pipeline:
    pipeline = Pipeline()
    for one in texts(n):
        pipeline.learn_one(one)
    return pipeline


def test_what_an_engine_says_is_published_and_scales_the_mean_work() -> None:
    pipeline = taught()
    before = pipeline.take_changes().services["llm"]
    assert before.slot_context_tokens == 0.0
    assert pipeline.note_slot_context("llm", SLOT, 1.0)
    assert not pipeline.note_slot_context("llm", SLOT, 2.0)
    changes = pipeline.take_changes()
    assert list(changes.services) == ["llm"]
    after = changes.services["llm"]
    assert after.slot_context_tokens == SLOT
    # The guard's burst is so many mean requests: of 2,000 and half of 100, in slots.
    assert after.mean_service_s / before.mean_service_s == pytest.approx(2_050 / SLOT, rel=0.05)
    assert replace(after, slot_context_tokens=0.0, mean_service_s=before.mean_service_s) == before
    kappas = {GLOBAL_KEY: KappaEntry(kappa_tokens_per_s=3.0)}
    snapshot = Snapshot(
        version=1, instance_id="i", created_s=0.0, kappas=kappas, services=changes.services
    )
    assert invalid_reason(snapshot) is None
    assert not pipeline.take_changes()


def test_seconds_are_learned_alike_whatever_an_engine_holds() -> None:
    told, plain = Pipeline(), Pipeline()
    told.note_slot_context("llm", SLOT, 0.0)
    for one in texts(300):
        told.learn_one(one)
        plain.learn_one(one)
    ours, theirs = told.state(), plain.state()
    assert ours.pop("slot_contexts") == {"llm": SLOT}
    assert theirs.pop("slot_contexts") == {}
    assert ours == theirs
    # Said before its first completion, and in force with it.
    assert told.services()["llm"].slot_context_tokens == SLOT
    assert told.services()[""].slot_context_tokens == 0.0


def test_it_is_saved_for_its_model_and_restored() -> None:
    pipeline = taught()
    pipeline.note_slot_context("llm", SLOT, 1.0)
    pipeline.note_slot_context("other", 9.0, 1.0)
    state: dict[str, Any] = json.loads(json.dumps(pipeline.state("llm")))
    assert state["slot_contexts"] == {"llm": SLOT}
    again = Pipeline(state=state)
    assert again.services()["llm"] == pipeline.services()["llm"]
    assert again.state("llm") == pipeline.state("llm")


def test_a_state_of_before_engines_said_it_still_loads() -> None:
    pipeline = taught()
    pipeline.note_slot_context("llm", SLOT, 1.0)
    state = pipeline.state()
    del state["slot_contexts"]
    old = Pipeline(state=state)
    assert old.services()["llm"].slot_context_tokens == 0.0
    assert old.note_slot_context("llm", SLOT, 0.0)
    assert old.services()["llm"] == pipeline.services()["llm"]


def test_a_damaged_one_is_refused() -> None:
    for damage in ({"llm": -1.0}, {"llm": None}, [1.0]):
        state = {**taught(30).state(), "slot_contexts": damage}
        with pytest.raises(ValueError, match=r"slot_contexts|damaged"):
            Pipeline(state=state)
