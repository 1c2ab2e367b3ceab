import random
import statistics
from dataclasses import replace

import pytest

from estimator.evaluation.engine_model import CPU, GPU, EngineModel, Job, Residence, serve

QUIET = replace(GPU, noise=0.0)


def jobs(n: int, seed: int = 0) -> list[Job]:
    rng = random.Random(seed)
    return [Job(rng.randrange(1, 80), rng.randrange(0, 50), 5.0) for _ in range(n)]


def served(engine: EngineModel, load: float, n: int = 1_000) -> list[Residence]:
    return serve(engine, jobs(n), load=load, rng=random.Random(1))


def test_one_at_a_time_takes_an_admission_and_its_steps() -> None:
    engine = replace(QUIET, per_prompt_token_s=0.001)
    for residence in served(engine, 1e-6, n=50):
        job = residence.job
        expected = engine.admission_s + engine.per_prompt_token_s * job.prompt_tokens
        expected += job.tokens * (engine.step_s + engine.per_sequence_s)
        assert residence.service_s == pytest.approx(expected)
        assert residence.concurrency == pytest.approx(1.0)


@pytest.mark.parametrize("engine", [GPU, CPU])
def test_with_all_slots_taken_it_serves_at_its_capacity(engine: EngineModel) -> None:
    done = served(engine, 3.0, n=3_000)
    middle = done[500:-500]
    rate = (len(middle) - 1) / (middle[-1].finished_s - middle[0].finished_s)
    assert rate == pytest.approx(engine.capacity_rps(jobs(3_000)), rel=0.05)
    assert statistics.fmean(one.concurrency for one in middle) == pytest.approx(16.0, rel=0.01)


@pytest.mark.parametrize("load", [0.2, 0.7, 1.2])
def test_slots_are_never_exceeded_and_concurrency_is_what_runs(load: float) -> None:
    done = served(GPU, load)
    assert all(1.0 - 1e-9 <= one.concurrency <= GPU.slots + 1e-9 for one in done)
    for at in done[100:-100:100]:
        running = sum(one.admitted_s < at.finished_s < one.finished_s for one in done)
        assert running <= GPU.slots
    span = max(one.finished_s for one in done)
    # The mean over time of how many run; a request sees more, since it is there when many are.
    mean = sum(one.service_s for one in done) / span
    weighted = sum(one.service_s * one.concurrency for one in done)
    assert 0.0 < mean <= weighted / sum(one.service_s for one in done)


def test_every_job_is_served_once_in_the_order_of_its_end() -> None:
    done = served(GPU, 0.9)
    assert sorted(one.job for one in done) == sorted(jobs(1_000))
    ends = [one.finished_s for one in done]
    assert ends == sorted(ends)


def test_the_same_seed_gives_the_same_residences() -> None:
    assert served(CPU, 0.8) == served(CPU, 0.8)


def test_a_slower_machine_is_slower_from_then_on() -> None:
    plain = serve(QUIET, jobs(200), load=1e-6, rng=random.Random(1))
    slower = serve(
        QUIET, jobs(200), load=1e-6, rng=random.Random(1), change_at=100, change=1.5
    )  # fmt: skip
    ratios = [b.service_s / a.service_s for a, b in zip(plain, slower, strict=True)]
    assert ratios == pytest.approx([1.0] * 100 + [1.5] * 100)


def test_a_completion_says_what_an_engine_would_report() -> None:
    residence = served(GPU, 0.5, n=20)[7]
    completion = residence.completion(7, 100.0)
    assert completion.finished_s == 100.0 + residence.finished_s
    assert completion.service_s == residence.service_s
    assert (completion.output_tokens, completion.audio_s) == (residence.job.tokens, 5.0)
    assert replace(completion, audio_s=None).kind == "transcription"
    assert Residence(Job(3, 9), 0.0, 1.0, 1.0).completion(0).key.task == "text"
