"""What the pipeline makes of queues: what is observed, when they are due, what is told of them."""

import json
from dataclasses import replace
from typing import Any

import pytest

from estimator.core.observation import Completion
from estimator.core.partition import fit
from estimator.core.pipeline import CoreConfig, Pipeline
from sched_client.model import SINGLE_QUEUE, Snapshot
from sched_client.validity import invalid_reason
from tests.support.completions import speech
from tests.support.runtime import two_classes


def taught(n: int = 300, **changes: Any) -> Pipeline:  # Any: fields of Completion
    pipeline = Pipeline()
    for completion in two_classes(n):
        pipeline.learn_one(replace(completion, **changes))
    return pipeline


def fitted(pipeline: Pipeline) -> Pipeline:
    while (job := pipeline.due_fit()) is not None:
        pipeline.install_fit(fit(job))
    return pipeline


def points_of(pipeline: Pipeline) -> int:
    return pipeline.queue_table.status("m").points


def test_a_new_partition_is_told_once_and_all_of_them_after_a_restart() -> None:
    pipeline = taught()
    pipeline.take_changes()
    fitted(pipeline)
    changes = pipeline.take_changes()
    assert changes.partitions == pipeline.partitions()
    assert len(changes.partitions["m"].queue_ids) == 2
    assert not pipeline.take_changes()
    restored = Pipeline(state=json.loads(json.dumps(pipeline.state())))
    assert restored.take_changes().partitions == pipeline.partitions()


def test_what_is_told_is_what_clients_take() -> None:
    pipeline = fitted(taught())
    changes = pipeline.take_changes()
    snapshot = Snapshot(
        version=1,
        instance_id="i",
        created_s=0.0,
        kappas=changes.kappas,
        services=changes.services,
        partitions=changes.partitions,
    )
    assert invalid_reason(snapshot) is None


def test_a_forgotten_model_has_one_queue_again() -> None:
    pipeline = Pipeline(CoreConfig(max_models=2))
    for completion in two_classes(300):
        pipeline.learn_one(completion)
    fitted(pipeline)
    assert set(pipeline.take_changes().partitions) == {"m"}
    for model in ("a", "b"):
        pipeline.learn_one(replace(two_classes(1)[0], completion_id=model, model=model))
    assert pipeline.take_changes().partitions == {"m": SINGLE_QUEUE}
    assert pipeline.take_changes().partitions == {}


def test_models_that_are_due_have_their_turns() -> None:
    pipeline = Pipeline()
    for completion in two_classes(900, models=3):
        pipeline.learn_one(completion)
    turns = []
    for _ in range(3):
        job = pipeline.due_fit()
        assert job is not None
        turns.append(job.model)
        pipeline.give_up_fit(job.model)
    assert sorted(turns) == ["m", "m1", "m2"]
    assert pipeline.due_fit() is not None  # what was given up is due again


def test_a_model_without_queues_that_is_not_due_keeps_nobody_from_theirs() -> None:
    pipeline = fitted(taught())
    state = pipeline.state()
    state["partitions"]["m"]["incumbent"] = None
    restored = Pipeline(state=state)
    for completion in two_classes(600, models=2):
        restored.learn_one(replace(completion, model="n"))
    assert fitted(restored).partitions().keys() == {"n"}


def test_work_is_what_the_client_expected_and_else_what_came() -> None:
    expected = taught(predicted_tokens=7.0).due_fit()
    came = taught(predicted_tokens=0.0).due_fit()
    assert expected is not None
    assert came is not None
    assert set(expected.points[:, 0]) == {7.0}
    assert sorted(came.points[:, 0]) == sorted(
        float(one.output_tokens) for one in two_classes(300)
    )


@pytest.mark.parametrize(
    ("changes", "observed_s"),
    [
        ({}, 0.5),
        ({"finish_reason": "length"}, 0.5),
        ({"finish_reason": "aborted"}, 0.0),
        ({"preemptions": 1}, 0.0),
        ({"kind": "detection", "predicted_tokens": 1.0}, 0.5),
    ],
)
def test_whoever_arrived_counts_and_whoever_ended_undisturbed_tells_seconds(
    changes: dict[str, Any], observed_s: float
) -> None:
    job = taught(service_s=0.5, **changes).due_fit()
    assert job is not None
    assert set(job.points[:, 2]) == {observed_s}


@pytest.mark.parametrize(
    "changes", [{"kind": "session"}, {"predicted_tokens": 0.0, "output_tokens": 0}]
)
def test_a_session_and_what_says_nothing_of_work_are_left_out(changes: dict[str, Any]) -> None:
    assert points_of(taught(**changes)) == 0


def test_a_drift_makes_its_model_due() -> None:
    pipeline = Pipeline()

    def learn(completions: list[Completion]) -> bool:
        events = [event for one in completions for event in pipeline.learn_one(one)]
        return any(event.ended_s is None for event in events)

    learn(list(speech(600, seed=3, model="m")))
    fitted(pipeline)
    longer = [
        replace(one, audio_s=6.0 * (one.audio_s or 1.0), output_tokens=6 * one.output_tokens)
        for one in speech(300, seed=4, start=600, model="m")
    ]
    assert learn(longer)
    job = pipeline.due_fit()
    assert job is not None
    assert job.reason == "drift"


def test_a_restored_pipeline_goes_on_exactly() -> None:
    pipeline = fitted(taught(300))
    restored = Pipeline(state=json.loads(json.dumps(pipeline.state())))
    for completion in two_classes(900)[300:]:
        pipeline.learn_one(completion)
        restored.learn_one(completion)
    assert json.dumps(restored.state()) == json.dumps(pipeline.state())
    assert fitted(restored).partitions() == fitted(pipeline).partitions()


def test_a_state_of_one_model_holds_its_queues_alone() -> None:
    pipeline = Pipeline()
    for completion in two_classes(900, models=3):
        pipeline.learn_one(completion)
    fitted(pipeline)
    seeded = Pipeline(state=json.loads(json.dumps(pipeline.state("m1"))))
    assert seeded.partitions() == {"m1": pipeline.partitions()["m1"]}


@pytest.mark.parametrize(
    "damage", [None, [], {"m": {}}, {"m": {"sample": None}}, {"m": [1, 2]}, {"m": None}]
)
def test_damaged_queues_are_one_error(damage: Any) -> None:
    with pytest.raises(ValueError, match="state"):
        Pipeline(state={**Pipeline().state(), "partitions": damage})


def test_a_histogram_counts_the_sample() -> None:
    pipeline = taught()
    pipeline.take_changes()
    edges_s, counts = pipeline.work_histogram("m")
    assert sum(counts) == points_of(pipeline) == 300
    assert len(edges_s) == len(counts) + 1
    assert edges_s == sorted(edges_s)
    assert pipeline.work_histogram("unknown") == ([], [])
