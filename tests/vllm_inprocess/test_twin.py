"""The twin admits in the order, and ends at the nanosecond, of vLLM's own scheduler.

Both get the same jobs and the same profile; nothing is shared but the formula of a step's cost.
Equal lists of admissions, first and later ones, mean an edit distance of 0. The tie rules are in
docs/twin.md, section "Proof".
"""

import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import pytest
from vllm.v1.core.sched.async_scheduler import AsyncScheduler
from vllm.v1.core.sched.scheduler import Scheduler

from estimator.replay.job import Job
from estimator.replay.profile import EngineProfile
from sched_client.model import (
    TEXT_TASK,
    KappaEntry,
    Key,
    Partition,
    Settings,
    Snapshot,
    prior_snapshot,
)
from sched_client.options import ClientOptions
from tests.support.twin import Run, SnapshotEstimates, run_twin
from tests.support.vllm_fakes import FakeLink
from tests.vllm_inprocess.virtual_time import (
    Admitted,
    AsyncVirtualEngine,
    Ended,
    VirtualEngine,
    text_scheduler,
    whisper_scheduler,
)

WHISPER, TEXT = "whisper-test", "text-test"
CLIPS_S = [1.0, 2.0, 2.5, 3.33, 5.0, 7.31, 12.0, 20.0, 29.0]
PROMPTS = [20, 90, 100, 400, 1000, 2000]
AUDIO = EngineProfile(
    name="audio",
    slots=64,
    step_s=0.008,
    per_sequence_s=0.00004,
    admission_s=0.01,
    per_prompt_token_s=0.00001,
    per_context_token_s=0.00000001,
    blocks_per_admission=94,
)


class Case(NamedTuple):
    """An engine and what comes to it."""

    profile: EngineProfile
    requests: int
    gap_ms: float
    tokens_per_s: float = 3.0
    grid_ms: int = 0


CASES = {
    # More than the engine can do, ten in a hundred leave.
    "overload": Case(AUDIO, 900, 6.0),
    # The encoder's budget admits two in a step; the token budget is vLLM's for that.
    "encoder budget": Case(
        replace(AUDIO, max_admissions_per_step=2, max_tokens_per_step=3000), 800, 9.0
    ),
    # Blocks for 64 but not for all that they produce: preemptions.
    "few blocks": Case(replace(AUDIO, kv_blocks=6100), 700, 15.0, tokens_per_s=14.0),
    # Blocks for 21, so that memory and not the slots decides.
    "fewer blocks": Case(replace(AUDIO, kv_blocks=2000), 500, 30.0, tokens_per_s=14.0),
    # Arrivals by the step's own grid, several at once.
    "ties": Case(replace(AUDIO, per_context_token_s=0.0), 800, 4.0, grid_ms=8),
    # Prompts in chunks, few blocks.
    "text": Case(
        replace(AUDIO, blocks_per_admission=0, kv_blocks=300, max_tokens_per_step=256), 700, 30.0
    ),
}


def draw_jobs(case: Case, seed: int, *, text: bool) -> list[Job]:
    """Draw arrivals, lengths, limits that cut some, and callers who leave."""
    rng = random.Random(seed)
    jobs, at_ns = [], 0
    for index in range(case.requests):
        at_ns += round(rng.expovariate(1e-6 / case.gap_ms))
        if case.grid_ms:
            grid_ns = case.grid_ms * 1_000_000
            at_ns = -(-at_ns // grid_ns) * grid_ns
        leaves = rng.random() < 0.1
        abort_ns = at_ns + 1 + round(rng.uniform(0.0, 3e9)) if leaves else None
        limit = rng.choice([440, 440, 40])
        if text:
            tokens = 1 + round(rng.expovariate(1.0 / 40.0))
            prompt = rng.choice(PROMPTS)
            job = Job(index, at_ns, tokens, None, prompt, TEXT, TEXT_TASK, kind="text")
        else:
            clip_s = rng.choice(CLIPS_S)
            tokens = max(1, round(clip_s * case.tokens_per_s * rng.uniform(0.5, 1.5)))
            job = Job(index, at_ns, tokens, clip_s, 4, WHISPER, language="en", timestamps=False)
        jobs.append(job._replace(max_tokens=limit, abort_ns=abort_ns))
    return jobs


# Of clips and of prompts: three classes of work, the middle one of the most.
QUEUES = Partition(
    boundaries_s=(0.15, 0.4), queue_ids=("q2", "q7", "q1"), means_s=(0.11, 0.24, 0.8)
)
# Orders with settings of their own; all others are policies as they are.
ORDERS: dict[str, Settings] = {
    "ewsjf": Settings(
        policy="ewsjf",
        between="score",
        within="score",
        aging_rate=0.02,
        aging_power=0.5,
        w_fairness=20.0,
    ),
    "halves": Settings(policy="ewsjf", between="halves"),
}


def fixed_snapshot(order: str) -> Snapshot:
    """Build what both go by; of text the estimate follows the prompt."""
    settings = ORDERS.get(order) or Settings(policy=order)
    prior = prior_snapshot(settings=replace(settings, mode="on"))
    by_prompt = KappaEntry(kappa_tokens_per_s=0.1, sample_count=9, source="learned")
    return replace(
        prior,
        kappas={**prior.kappas, Key(TEXT, TEXT_TASK): by_prompt},
        partitions={TEXT: QUEUES, WHISPER: QUEUES},
    )


def twins_view(run: Run) -> tuple[list[Admitted], dict[int, Ended]]:
    """Give a run of the twin as `VirtualEngine` notes it."""
    ends = {o.job.index: Ended(o.finished_ns, o.finish, o.tokens) for o in run.outcomes}
    return [Admitted(*one) for one in run.admissions], ends


@pytest.fixture
def kappad(monkeypatch: pytest.MonkeyPatch) -> Callable[[Snapshot], type[Any]]:
    """Give the KappadScheduler class on a link that has one snapshot."""
    from sched_client.vllm import scheduler as module  # noqa: PLC0415 - after vLLM's own import

    def on(snapshot: Snapshot) -> type[Any]:
        monkeypatch.setattr(module, "open_link", lambda *_: FakeLink(snapshot))
        monkeypatch.setattr(module, "read_options", lambda *_: ClientOptions())
        return module.KappadScheduler

    return on


def run_both(
    cls: type[Any], policy: str, jobs: list[Job], profile: EngineProfile, **build: Any
) -> tuple[VirtualEngine, Run]:
    """Run the same jobs through vLLM's scheduler and through the twin."""
    model = jobs[0].model
    make = text_scheduler if model == TEXT else whisper_scheduler
    engine = VirtualEngine(make(profile, cls, **build), profile)
    engine.run(jobs)
    snapshot = fixed_snapshot(policy)
    estimates = SnapshotEstimates(profile, snapshot, model)
    return engine, run_twin(jobs, profile, snapshot.settings.policy, estimates=estimates)


@pytest.mark.parametrize(("policy", "seed"), [("fcfs", 1), ("sjf", 2), ("hrrn", 3), ("ewsjf", 4)])
@pytest.mark.parametrize("name", CASES)
def test_admissions_and_ends_are_vllms(
    kappad: Callable[[Snapshot], type[Any]], name: str, policy: str, seed: int
) -> None:
    case = CASES[name]
    jobs = draw_jobs(case, seed, text=name == "text")
    # First come, first served is vLLM without us.
    cls = Scheduler if policy == "fcfs" else kappad(fixed_snapshot(policy))
    engine, run = run_both(cls, policy, jobs, case.profile)
    admitted, ended = twins_view(run)
    assert [one.number for one in admitted] == [one.number for one in engine.admitted]
    assert admitted == engine.admitted
    assert ended == engine.ended
    # What the case is about has happened.
    assert {end.finish for end in ended.values()} == {"stop", "length", "aborted"}
    assert run.totals.most_waiting > 20
    assert (run.totals.preemptions > 3) is (case.profile.kv_blocks is not None)
    if policy != "fcfs":
        client = engine.scheduler._kappad
        assert client.queue.mode == "on"
        assert client.queue.reordered > case.requests // 4
        assert not client.failure


def draw_engine(rng: random.Random, *, text: bool) -> EngineProfile:
    """Draw an engine: few slots or many, steps of any shape, little memory, small budgets."""
    slots = rng.choice([1, 2, 4, 16, 64])
    profile = EngineProfile(
        name="drawn",
        slots=slots,
        step_s=rng.choice([0.008, 0.000001]),
        per_sequence_s=rng.choice([0.0, 0.00004, 0.001]),
        admission_s=rng.choice([0.0, 0.01]),
        per_prompt_token_s=rng.choice([0.0, 0.00001]),
        per_context_token_s=rng.choice([0.0, 0.000000001, 0.00000003]),
    )
    if text:
        budget = max(slots, rng.choice([1, 7, 64, 256]))
        return replace(profile, max_tokens_per_step=budget, kv_blocks=rng.choice([60, 80, 100]))
    return replace(
        profile,
        max_admissions_per_step=rng.choice([None, 1, 2]),
        kv_blocks=rng.choice([None, 200, 300, 500]),
        blocks_per_admission=94,
    )


@pytest.mark.parametrize("text", [False, True])
def test_any_engine_is_vllms(kappad: Callable[[Snapshot], type[Any]], text: bool) -> None:
    preemptions = 0
    for seed in range(8):
        rng = random.Random(seed)
        profile, policy = (
            draw_engine(rng, text=text),
            rng.choice(["fcfs", "sjf", "hrrn", "ewsjf", "halves", "ewsjf-paper"]),
        )
        case = Case(
            profile,
            rng.choice([40, 120]),
            rng.choice([1.0, 5.0, 20.0, 100.0]),
            tokens_per_s=14.0,
            grid_ms=rng.choice([0, 8]),
        )
        jobs = draw_jobs(case, seed, text=text)
        if text:
            jobs = [
                job._replace(
                    prompt_tokens=rng.choice([1, 15, 16, 17, 33, 90]),
                    output_tokens=job.output_tokens * rng.choice([1, 6]),
                )
                for job in jobs
            ]
        cls = Scheduler if policy == "fcfs" else kappad(fixed_snapshot(policy))
        engine, run = run_both(cls, policy, jobs, profile)
        assert twins_view(run) == (engine.admitted, engine.ended), (seed, policy, profile)
        preemptions += run.totals.preemptions
    assert preemptions > (50 if text else 0)


@pytest.mark.parametrize("policy", ["hrrn", "ewsjf", "ewsjf-paper"])
def test_thousands_in_one_long_overload(
    kappad: Callable[[Snapshot], type[Any]], policy: str
) -> None:
    jobs = draw_jobs(Case(AUDIO, 2500, 9.0), 4, text=False)
    engine, run = run_both(kappad(fixed_snapshot(policy)), policy, jobs, AUDIO)
    assert twins_view(run) == (engine.admitted, engine.ended)
    assert run.totals.most_waiting > 400


@pytest.mark.parametrize("policy", ["sjf", "hrrn", "ewsjf"])
def test_priorities_are_vllms_where_it_schedules_by_them(
    kappad: Callable[[Snapshot], type[Any]], policy: str
) -> None:
    rng = random.Random(4)
    jobs = [
        job._replace(priority=rng.choice([0, 0, 0, 2]))
        for job in draw_jobs(CASES["overload"], 4, text=False)
    ]
    engine, run = run_both(
        kappad(fixed_snapshot(policy)), policy, jobs, AUDIO, vllm_policy="priority"
    )
    assert twins_view(run) == (engine.admitted, engine.ended)


def test_another_engine_or_order_would_be_seen(
    kappad: Callable[[Snapshot], type[Any]],
) -> None:
    # So that the tests above could fail: a block more, a nanosecond more, another policy.
    case = CASES["few blocks"]
    jobs = draw_jobs(case, 1, text=False)
    engine = VirtualEngine(
        whisper_scheduler(case.profile, kappad(fixed_snapshot("sjf"))), case.profile
    )
    engine.run(jobs)
    seen = (engine.admitted, engine.ended)

    def twin(profile: EngineProfile, policy: str) -> tuple[list[Admitted], dict[int, Ended]]:
        estimates = SnapshotEstimates(profile, fixed_snapshot(policy), WHISPER)
        return twins_view(run_twin(jobs, profile, policy, estimates=estimates))

    assert twin(case.profile, "sjf") == seen
    assert twin(replace(case.profile, kv_blocks=6101), "sjf")[0] != seen[0]
    assert twin(replace(case.profile, step_s=0.008000001), "sjf")[1] != seen[1]
    for policy in ("fcfs", "hrrn", "ewsjf"):
        assert twin(case.profile, policy)[0] != seen[0]


@pytest.mark.parametrize(("limit", "waves"), [(440, [11, 22, 33]), (10, [10, 20, 30])])
def test_async_scheduling_learns_of_an_end_one_step_later(limit: int, waves: list[int]) -> None:
    # Three waves of 8 that end together after 10 tokens. An end token is seen when the next step
    # is under way with all of them; a limit is foreseen, and nothing is scheduled in vain.
    profile = EngineProfile(name="waves", slots=8, step_s=0.01, blocks_per_admission=94)
    tokens = 10 if limit == 440 else 50
    jobs = [
        Job(i, 0, tokens, 5.0, 4, WHISPER, language="en", timestamps=False, max_tokens=limit)
        for i in range(24)
    ]
    step_ns = 10_000_000
    run = run_twin(jobs, profile)
    assert sorted({o.finished_ns for o in run.outcomes}) == [n * 10 * step_ns for n in (1, 2, 3)]
    engine = AsyncVirtualEngine(whisper_scheduler(profile, AsyncScheduler), profile)
    engine.run(jobs)
    ends_ns = sorted({end.at_ns for end in engine.ended.values()})
    # The tokens are out after ten steps of each wave; the wave after starts one step later.
    assert ends_ns == [(n * step_ns) - (step_ns if limit == 440 else 0) for n in waves]


def test_async_scheduling_is_to_the_twin_a_token_more(
    kappad: Callable[[Snapshot], type[Any]],
) -> None:
    # Near capacity. Whoever ends by its end token holds its slot for one step in vain; the order
    # of two may change by it, so this is compared in the mean.
    profile = replace(AUDIO, per_context_token_s=0.0, per_prompt_token_s=0.0)
    jobs = [
        job._replace(abort_ns=None) for job in draw_jobs(Case(profile, 1200, 14.0), 7, text=False)
    ]
    cls = kappad(fixed_snapshot("sjf"))
    sync, run = run_both(cls, "sjf", jobs, profile)
    assert twins_view(run) == (sync.admitted, sync.ended)
    engine = AsyncVirtualEngine(whisper_scheduler(profile, cls), profile)
    engine.run(jobs)
    longer = [
        job._replace(output_tokens=job.output_tokens + 1) if job.end == "stop" else job
        for job in jobs
    ]
    estimates = SnapshotEstimates(profile, fixed_snapshot("sjf"), WHISPER)
    approximated = run_twin(longer, profile, "sjf", estimates=estimates)

    def mean_s(ended: dict[int, Ended]) -> float:
        return sum(ended[job.index].at_ns - job.arrival_ns for job in jobs) / 1e9 / len(jobs)

    cost = mean_s(engine.ended) / mean_s(sync.ended)
    assert 1.02 < cost < 1.12
    assert mean_s(twins_view(approximated)[1]) / mean_s(engine.ended) == pytest.approx(
        1.0, abs=0.01
    )
