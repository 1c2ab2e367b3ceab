"""The words about a completion are what the tables do with it."""

import itertools
from typing import Any

import pytest

from estimator.core.config import CoreConfig
from estimator.core.lesson import lesson_of, teaches_service
from estimator.core.observation import Completion, FinishReason
from estimator.core.pipeline import Pipeline
from estimator.core.service_time import ServiceTable

KINDS = ("transcription", "detection", "beam_step", "session", "text")
FINISHES = ("stop", "length", "aborted", "error")
ALL = [
    dict(zip(("kind", "task", "finish_reason", "audio_s"), values, strict=True))
    for values in itertools.product(KINDS, ("transcribe", "text"), FINISHES, (None, 4.0))
]


def moves_kappa(fields: dict[str, Any], tokens: int) -> bool:  # Any: fields of a completion
    """Say whether such a completion moves the line of its key, which knows one other."""
    pipeline = Pipeline(CoreConfig(min_samples=1))
    text = fields["task"] == "text"
    known = Completion(
        completion_id="a-1", task=fields["task"], kind="text" if text else "transcription",
        prompt_tokens=9, output_tokens=130 if text else 13, audio_s=4.0,
    )  # fmt: skip
    pipeline.learn_one(known)
    before = pipeline.kappa_of(known.key)
    assert before.sample_count == 1
    pipeline.learn_one(
        Completion(completion_id="a-2", prompt_tokens=9, output_tokens=tokens, **fields)
    )
    after = pipeline.kappa_of(known.key)
    return (before.kappa_tokens_per_s, before.intercept_tokens) != (
        after.kappa_tokens_per_s,
        after.intercept_tokens,
    )


@pytest.mark.parametrize("fields", ALL, ids=lambda fields: "-".join(map(str, fields.values())))
def test_what_is_said_of_kappa_is_what_is_learned(
    fields: dict[str, Any],
) -> None:  # Any: see above
    # A little more than is expected, so that a lower bound tells something.
    tokens = 150 if fields["task"] == "text" else 16
    lesson, reason = lesson_of(Completion(completion_id="a-1", output_tokens=tokens, **fields))
    assert bool(reason) == (lesson != "exact")
    assert moves_kappa(fields, tokens) == (lesson != "none")


@pytest.mark.parametrize("finish_reason", ["length", "aborted"])
def test_a_request_that_produced_nothing_yet_bounds_nothing(finish_reason: FinishReason) -> None:
    completion = Completion(completion_id="a-1", audio_s=4.0, finish_reason=finish_reason)
    assert lesson_of(completion)[0] == "none"
    fields = {"kind": "transcription", "task": "transcribe", "audio_s": 4.0}
    assert not moves_kappa({**fields, "finish_reason": finish_reason}, 0)


@pytest.mark.parametrize("fields", ALL, ids=lambda fields: "-".join(map(str, fields.values())))
@pytest.mark.parametrize(
    "measured",
    [(1.0, 2.0, 0), (0.0, 2.0, 0), (1.0, 0.0, 0), (1.0, 2.0, 1)],
    ids=["measured", "no-seconds", "no-concurrency", "preempted"],
)
def test_what_is_said_of_seconds_is_what_is_learned(
    fields: dict[str, Any], measured: tuple[float, float, int]
) -> None:  # Any: see above
    service_s, concurrency, preemptions = measured
    completion = Completion(
        completion_id="a-1", output_tokens=9, service_s=service_s, concurrency=concurrency,
        preemptions=preemptions, **fields,
    )  # fmt: skip
    learned = ServiceTable(CoreConfig()).learn(completion) is not None
    assert teaches_service(completion) == learned
