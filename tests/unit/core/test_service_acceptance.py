"""Seconds on a model of continuous batching: load is not slower hardware, and slower hardware is.

`benchmarks/service.py` measures the same over more seeds, loads and engines.
"""

import random
from collections.abc import Sequence

import pytest

from estimator.core.config import CoreConfig
from estimator.core.drift_event import DriftEvent
from estimator.core.observation import Completion
from estimator.core.pipeline import Pipeline
from estimator.core.service_time import ServiceTable
from estimator.evaluation.engine_model import CPU, GPU, EngineModel, Job, Residence, serve

TYPICAL_TOKENS = (8, 20, 46)


def clips(n: int, rng: random.Random) -> list[Job]:
    """Make clips as read speech has them: 1 to 35 s, tokens affine in the audio."""
    jobs = []
    for _ in range(n):
        audio_s = min(max(rng.lognormvariate(1.75, 0.65), 1.0), 35.0)
        tokens = max(round((3.0 + 2.9 * audio_s) * rng.lognormvariate(0.0, 0.15)), 1)
        jobs.append(Job(tokens, 4, audio_s))
    return jobs


def learn(
    pipeline: Pipeline, served: Sequence[Residence], start_s: float
) -> list[tuple[int, DriftEvent]]:
    return [
        (i, event)
        for i, residence in enumerate(served)
        for event in pipeline.learn_one(residence.completion(i, start_s))
        if event.kind == "service"
    ]


def typical_s(pipeline: Pipeline) -> list[float]:
    service = pipeline.services()["default"]
    return [service.overhead_s + service.seconds_per_token * n for n in TYPICAL_TOKENS]


@pytest.mark.parametrize("loads", [(0.3, 1.2, 0.3), (1.2, 0.3, 1.2)])
@pytest.mark.parametrize("engine", [GPU, CPU], ids=["gpu", "cpu"])
def test_load_alone_raises_no_event_and_moves_no_estimate(
    engine: EngineModel, loads: tuple[float, ...]
) -> None:
    rng = random.Random(5)
    pipeline = Pipeline()
    first: list[float] = []
    start_s = 0.0
    for load in loads:
        served = serve(engine, clips(1_500, rng), load=load, rng=rng)[: -engine.slots]
        assert learn(pipeline, served, start_s) == []
        start_s += served[-1].finished_s
        first = first or typical_s(pipeline)
    assert typical_s(pipeline) == pytest.approx(first, rel=0.05)


@pytest.mark.parametrize("load", [0.3, 1.2])
@pytest.mark.parametrize("engine", [GPU, CPU], ids=["gpu", "cpu"])
def test_a_slower_machine_is_reported_within_sixty_and_followed(
    engine: EngineModel, load: float
) -> None:
    rng = random.Random(3)
    served = serve(
        engine, clips(1_600, rng), load=load, rng=rng, change_at=1_000, change=1.5
    )  # fmt: skip
    changed_s = sorted(one.admitted_s for one in served)[1_000]
    before = [one for one in served if one.finished_s < changed_s]
    after = [one for one in served if one.finished_s >= changed_s][: -engine.slots]
    pipeline = Pipeline()
    assert learn(pipeline, before, 0.0) == []
    old = typical_s(pipeline)
    events = learn(pipeline, after, 0.0)
    # One change is one event, which begins and ends.
    assert [event.ended_s is None for _, event in events] == [True, False]
    assert events[0][0] <= 60
    assert [new / was for new, was in zip(typical_s(pipeline), old, strict=True)] == pytest.approx(
        [1.5, 1.5, 1.5], rel=0.15
    )


@pytest.mark.parametrize("per_token_s", [0.0069, 0.0090])
def test_one_at_a_time_both_coefficients_are_right_within_two_percent(per_token_s: float) -> None:
    # MLPerf's logs of whisper-large-v3: T = 0.030 + 0.0069…0.0090 · n, R² = .999.
    rng = random.Random(2)
    table = ServiceTable(CoreConfig())
    now_s = 0.0
    for i, job in enumerate(clips(1_000, rng), start=1):
        seconds = (0.030 + per_token_s * job.tokens) * (1.0 + 0.01 * rng.gauss(0.0, 1.0))
        now_s += seconds
        table.learn(
            Completion(
                completion_id=f"alone-{i}", audio_s=job.audio_s, prompt_tokens=4,
                output_tokens=job.tokens, finished_s=now_s, service_s=seconds, concurrency=1.0,
            )
        )  # fmt: skip
        if i >= 100:
            entry = table.entries()["default"]
            assert entry.overhead_s == pytest.approx(0.030, rel=0.02)
            assert entry.seconds_per_token == pytest.approx(per_token_s, rel=0.02)


def test_cached_prompt_tokens_cost_nothing() -> None:
    rng = random.Random(4)
    table = ServiceTable(CoreConfig())
    for i in range(1_500):
        prompt, tokens = rng.randrange(100, 4_000), rng.randrange(5, 200)
        cached = rng.randrange(prompt)
        seconds = 0.02 + 0.01 * tokens + 0.0004 * (prompt - cached)
        table.learn(
            Completion(
                completion_id=f"c-{i}", task="text", kind="text", prompt_tokens=prompt,
                cached_prompt_tokens=cached, output_tokens=tokens, finished_s=float(i),
                service_s=seconds * (1.0 + 0.02 * rng.gauss(0.0, 1.0)), concurrency=1.0,
            )
        )  # fmt: skip
    entry = table.entries()["default"]
    assert entry.seconds_per_prompt_token == pytest.approx(0.0004, rel=0.03)
    assert entry.seconds_per_token == pytest.approx(0.01, rel=0.03)
