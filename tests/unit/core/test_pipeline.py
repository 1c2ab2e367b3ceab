import gc
import json
import math
import random
import tracemalloc
from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from estimator.core.drift import DriftEvent
from estimator.core.observation import Completion
from estimator.core.pipeline import Changes, CoreConfig, Pipeline
from sched_client.model import GLOBAL_KEY, Key, Snapshot
from sched_client.validity import invalid_reason
from tests.support.completions import completion_of, speech

EN = Key("default", "transcribe", "en", False)
HIDDEN = EN._replace(language="")


def learn(pipeline: Pipeline, completions: Iterable[Completion]) -> list[DriftEvent]:
    return [event for completion in completions for event in pipeline.learn_one(completion)]


def drifting(n: int = 300) -> list[Completion]:
    """Give one language that turns into another, hidden."""
    hidden: dict[str, Any] = {"language": "", "concurrency": 2.0}
    return [*speech(n, **hidden), *speech(n, kappa=6.2, seed=1, start=n, **hidden)]


def mixed(n: int, seed: int = 0) -> list[Completion]:
    """Give completions of all kinds, in and out of what may be learned."""
    rng = random.Random(seed)
    rows = []
    for i in range(n):
        audio_s = rng.choice([None, rng.uniform(0.1, 30.0)])
        rows.append(
            completion_of(
                i, audio_s, rng.choice([0, 1, 20, 60, 444]), model=rng.choice(["a", "b"]),
                task=rng.choice(["transcribe", "text"]), language=rng.choice(["en", "fr", ""]),
                kind=rng.choice(["transcription", "text", "detection"]),
                finish_reason=rng.choice(["stop", "stop", "length", "aborted"]),
                prompt_tokens=rng.randrange(500), service_s=rng.uniform(0.0, 3.0),
                concurrency=rng.uniform(0.0, 9.0),
            )
        )  # fmt: skip
    return rows


def test_before_any_data_everything_is_prior() -> None:
    pipeline = Pipeline()
    assert pipeline.kappa_of(EN).source == "prior"
    assert set(pipeline.kappas()) == {GLOBAL_KEY}
    assert set(pipeline.services()) == {""}
    assert (pipeline.learned_count, pipeline.key_count, pipeline.open_drift_count) == (0, 1, 0)


def test_the_first_changes_hold_everything_and_the_next_nothing() -> None:
    pipeline = Pipeline()
    learn(pipeline, speech(100, service_s=0.4, concurrency=1.0))
    changes = pipeline.take_changes()
    assert changes.kappas == pipeline.kappas()
    assert changes.services == pipeline.services()
    assert pipeline.take_changes() == Changes()
    assert not Changes()


def test_kappas_of_one_model_hold_it_and_the_global_key() -> None:
    pipeline = Pipeline()
    learn(pipeline, [*speech(20, model="a"), *speech(20, model="b")])
    assert {key.model for key in pipeline.kappas("a")} == {"a", ""}
    assert {key.model for key in pipeline.kappas()} == {"a", "b", ""}
    counts = {key: entry.sample_count for key, entry in pipeline.kappas().items()}
    assert pipeline.sample_counts() == counts


def test_a_hidden_change_of_language_is_one_event_that_ends() -> None:
    pipeline = Pipeline()
    events = learn(pipeline, drifting())
    assert [event.ended_s is None for event in events] == [True, False]
    begun, ended = events
    assert begun.event_id == ended.event_id
    assert begun.kind == "kappa"
    assert (begun.model, begun.task, begun.language) == ("default", "transcribe", "")
    assert 300.0 <= begun.detected_s < 350.0
    assert begun.before == pytest.approx(3.3, rel=0.1)
    assert ended.after == pytest.approx(6.4, rel=0.1)
    assert ended.completions_to_adapt is not None
    assert ended.ended_s == begun.detected_s + ended.completions_to_adapt
    assert pipeline.open_drift_count == 0


def test_the_change_is_followed_to_ten_percent_within_forty_completions() -> None:
    pipeline = Pipeline()
    completions = drifting()
    learn(pipeline, completions[:340])
    entry = pipeline.kappa_of(HIDDEN)
    tokens = entry.intercept_tokens + 15.0 * entry.kappa_tokens_per_s
    assert tokens == pytest.approx(3.0 + 15.0 * 6.2, rel=0.1)


def test_forgetting_alone_follows_a_change() -> None:
    pipeline = Pipeline(CoreConfig(drift_threshold=1e9))
    assert learn(pipeline, drifting()) == []
    entry = pipeline.kappa_of(HIDDEN)
    assert entry.kappa_tokens_per_s == pytest.approx(6.2, rel=0.1)


def test_slower_hardware_is_a_service_event() -> None:
    def served(n: int, slower: float, start: int) -> Iterable[Completion]:
        for completion in speech(n, start=start, seed=start, concurrency=1.0):
            seconds = slower * (0.1 + 0.01 * completion.output_tokens)
            yield completion_of(
                int(completion.finished_s), completion.audio_s, completion.output_tokens,
                service_s=seconds * (1.0 + 0.02 * (completion.output_tokens % 5)),
                concurrency=1.0,
            )  # fmt: skip

    pipeline = Pipeline()
    events = learn(pipeline, [*served(300, 1.0, 0), *served(300, 1.8, 300)])
    assert [(event.kind, event.ended_s is None) for event in events] == [
        ("service", True),
        ("service", False),
    ]
    assert events[1].after / events[1].before == pytest.approx(1.8, rel=0.15)


def test_an_event_whose_key_is_evicted_ends_without_adaptation() -> None:
    pipeline = Pipeline(CoreConfig(max_keys=10))
    completions = drifting()
    events: list[DriftEvent] = []
    for completion in completions:
        events += pipeline.learn_one(completion)
        if pipeline.open_drift_count:
            break
    for i in range(60):
        events += pipeline.learn_one(
            completion_of(10_000 + i // 6, 5.0, 18, model=f"m{i // 6}", language="fr")
        )
    assert [event.ended_s is None for event in events] == [True, False]
    assert events[1].completions_to_adapt is None
    assert pipeline.open_drift_count == 0


@pytest.mark.parametrize("cut", [0, 1, 7, 250, 309, 320, 599])
def test_checkpoint_and_tail_equal_live(cut: int) -> None:
    completions = drifting()
    live = Pipeline()
    events = learn(live, completions)
    first = Pipeline()
    early = learn(first, completions[:cut])
    second = Pipeline(state=json.loads(json.dumps(first.state(), allow_nan=False)))
    assert second.kappas() == first.kappas()
    assert second.services() == first.services()
    assert second.open_drift_count == first.open_drift_count
    assert early + learn(second, completions[cut:]) == events
    assert second.state() == live.state()


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 400), st.integers(0, 3))
def test_checkpoint_and_tail_equal_live_on_mixed_input(cut: int, seed: int) -> None:
    completions = mixed(400, seed)
    live, first = Pipeline(), Pipeline()
    learn(live, completions)
    learn(first, completions[:cut])
    first.take_changes()
    second = Pipeline(state=json.loads(json.dumps(first.state(), allow_nan=False)))
    learn(second, completions[cut:])
    assert second.state() == live.state()
    assert second.kappas() == live.kappas()
    assert second.services() == live.services()


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.builds(
            dict,
            audio_s=st.one_of(st.none(), st.floats(5e-324, 86_400.0)),
            tokens=st.integers(0, 10_000_000),
            prompt_tokens=st.integers(0, 10_000_000),
            service_s=st.floats(0.0, 604_800.0),
            concurrency=st.floats(0.0, 1e6),
            finish_reason=st.sampled_from(["stop", "length", "aborted", "error"]),
            kind=st.sampled_from(["transcription", "text", "detection"]),
            task=st.sampled_from(["transcribe", "text"]),
        ),
        max_size=60,
    )
)
def test_any_valid_completions_give_a_snapshot_that_clients_accept(
    rows: list[dict[str, Any]],
) -> None:
    pipeline = Pipeline(CoreConfig(min_samples=1))
    for i, row in enumerate(rows):
        pipeline.learn_one(completion_of(i, **row))
    snapshot = Snapshot(
        version=1, instance_id="i", created_s=0.0, kappas=pipeline.kappas(),
        services=pipeline.services(),
    )  # fmt: skip
    assert invalid_reason(snapshot) is None
    json.dumps(pipeline.state(), allow_nan=False)


def test_memory_stays_flat_under_invented_languages_and_models() -> None:
    pipeline = Pipeline(CoreConfig(max_keys=100, max_models=10))
    names = [(f"m{i % 500}", f"x{i}") for i in range(1_200)]

    def flood(part: list[tuple[str, str]]) -> int:
        for i, (model, language) in enumerate(part):
            pipeline.learn_one(
                completion_of(
                    i, 5.0, 18, model=model, language=language, service_s=0.2, concurrency=1.0
                )
            )
        # River's detectors refer to themselves, so what was evicted waits for the collector.
        gc.collect()
        return tracemalloc.get_traced_memory()[0]

    tracemalloc.start()
    try:
        early = flood(names[:400])
        late = flood(names[400:])
    finally:
        tracemalloc.stop()
    assert late < 1.05 * early
    assert pipeline.key_count == 100


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        ({"schema": 99}, "schema 99"),
        ({"kappas": None}, "damaged"),
        ({"kappas": [["", "", "", None, 3, [1.0], [1], None, None]]}, "finite numbers"),
        ({"services": {}}, "damaged"),
        ({"learned_count": math.inf}, "damaged"),
        ({"open_drifts": [["default", {"event_id": "x"}]]}, "damaged"),
    ],
)
def test_a_damaged_state_is_one_error(damage: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Pipeline(state={**Pipeline().state(), **damage})


@pytest.mark.parametrize("factor", [0.5, 6.0])
def test_other_lengths_are_no_change_of_kappa(factor: float) -> None:
    pipeline = Pipeline()
    completions = list(speech(1_200, seed=3))
    assert learn(pipeline, completions[:600]) == []
    events: list[DriftEvent] = []
    rng = random.Random(9)
    for i in range(600):
        audio_s = min(factor * rng.uniform(2.0, 9.0), 29.5)
        tokens = max(1, round((3.0 + 3.1 * audio_s) * rng.lognormvariate(0.0, 0.2)))
        events += pipeline.learn_one(completion_of(600 + i, audio_s, tokens))
    assert {(event.kind, event.detail) for event in events} == {("mix", "audio seconds")}
    assert [event.ended_s is None for event in events] == [True, False]


def test_a_state_without_a_parent_is_damaged() -> None:
    """Its child would be taught, and the parent not be found."""
    pipeline = Pipeline()
    learn(pipeline, speech(20))
    state = pipeline.state()
    rows = state["kappas"]
    parent = next(row for row in rows if row[:4] == ["default", "transcribe", "", None])
    with pytest.raises(ValueError, match="parents is missing"):
        Pipeline(state={**state, "kappas": [row for row in rows if row is not parent]})
    with pytest.raises(ValueError, match="twice"):
        Pipeline(state={**state, "kappas": [*rows, parent]})


def test_silence_after_speech_is_a_change_that_ends() -> None:
    pipeline = Pipeline()
    learn(pipeline, speech(400))
    events = learn(pipeline, (completion_of(i, 5.0 + i % 20, 0) for i in range(400, 600)))
    assert [event.ended_s is None for event in events] == [True, False]
    assert events[1].after < 0.2 * events[1].before
