"""Estimates that are learned in virtual time: when, from what, and by production's code."""

import random
from collections.abc import Callable, Iterable
from itertools import pairwise
from typing import Any

import pytest

from estimator.core.observation import Completion, violation_of
from estimator.core.pipeline import CoreConfig, Pipeline
from estimator.replay.job import NS_PER_S, Job
from estimator.replay.learned import EPOCH_S, LearnedEstimates, completion_from
from estimator.replay.outcome import Outcome
from estimator.replay.profile import EngineProfile
from estimator.replay.request import Request
from estimator.replay.simulation import simulate
from sched_client.model import Settings, evaluate
from sched_client.policies import create_policy
from tests.support import twin_reference

PROFILE = EngineProfile(name="p", slots=8, step_s=0.01, per_sequence_s=0.0005, admission_s=0.02)


def _jobs(n: int, seed: int = 1, rate: float = 12.0, kappa: float = 5.0) -> list[Job]:
    rng = random.Random(seed)
    jobs, now_s = [], 0.0
    for index in range(n):
        now_s += rng.expovariate(rate)
        audio_s = rng.uniform(1.0, 20.0)
        language = rng.choice(("en", "de"))
        tokens = max(
            round(kappa * audio_s * (2 if language == "de" else 1) * rng.gauss(1, 0.1)), 1
        )
        abort_ns = round((now_s + rng.uniform(0.1, 9.0)) * NS_PER_S) if index % 9 == 0 else None
        jobs.append(
            Job(
                index, round(now_s * NS_PER_S), tokens, audio_s, 4,
                language=language, abort_ns=abort_ns,
            )
        )  # fmt: skip
    return jobs


def _run(estimates: LearnedEstimates, jobs: list[Job], run: Callable[..., Any] = simulate) -> Any:
    trail: list[Any] = []
    totals = run(
        jobs,
        PROFILE,
        create_policy("sjf", estimates.parameters),
        estimates,
        on_outcome=trail.append,
        on_admission=lambda job, at_ns, again: trail.append((job.index, at_ns, again)),
    )
    return trail, totals


@pytest.mark.parametrize("flush_s", [0.0, 0.05, 0.5])
def test_learning_is_the_same_step_by_step(flush_s: float) -> None:
    jobs = _jobs(150)
    fast, plain = (LearnedEstimates(flush_s=flush_s) for _ in range(2))
    assert _run(fast, jobs) == _run(plain, jobs, twin_reference.simulate)
    assert fast.pipeline.state() == plain.pipeline.state()
    assert fast.snapshot == plain.snapshot
    assert fast.snapshot.version > 3


def test_what_was_learned_is_what_a_pipeline_learns_of_the_same_completions() -> None:
    jobs = _jobs(200)
    estimates = LearnedEstimates()
    outcomes = [o for o in _run(estimates, jobs)[0] if isinstance(o, Outcome)]
    pipeline = Pipeline(CoreConfig())
    n = estimates.pipeline.learned_count
    for index, outcome in enumerate(outcomes[:n]):
        pipeline.learn_one(completion_from(outcome, index + 1))
    # The last report never came due: the run was over.
    assert 180 < n <= 200
    learned, expected = estimates.pipeline.state(), pipeline.state()
    assert learned == expected


def test_an_estimate_is_the_snapshots() -> None:
    estimates = LearnedEstimates()
    _run(estimates, _jobs(300))
    request = Request(_jobs(1, seed=5)[0])
    estimates.first(request)
    expected = evaluate(estimates.snapshot, request.job.features)
    assert (request.tokens, request.service_s) == (expected.tokens, expected.service_s)
    assert expected.source == "learned"
    # German has twice the κ of English here.
    keys = {key.language: entry for key, entry in estimates.snapshot.kappas.items()}
    assert keys["en"].kappa_tokens_per_s == pytest.approx(5.0, rel=0.1)
    assert keys["de"].kappa_tokens_per_s == pytest.approx(10.0, rel=0.1)


def _finish(estimates: LearnedEstimates, index: int, at_s: float, tokens: int = 50) -> None:
    job = Job(index, 0, tokens, 10.0, 4)
    request = Request(job)
    estimates.first(request)
    ended_ns = round(at_s * NS_PER_S)
    outcome = Outcome(job, 1, 2, ended_ns, tokens, 0, 1.0, 1.0, 1.0, "stop")
    estimates.finished(request, outcome)


def _wake(estimates: LearnedEstimates, running: Iterable[tuple[Request, int]] = ()) -> float:
    at_ns = estimates.wake_ns
    assert at_ns is not None
    estimates.wake(at_ns, waiting=list, running=lambda: running, revise=lambda _: None)
    return at_ns / NS_PER_S


def test_completions_come_with_the_next_report_and_no_sooner() -> None:
    estimates = LearnedEstimates(flush_s=0.5)
    assert estimates.wake_ns is None
    _finish(estimates, 0, 1.2)
    _finish(estimates, 1, 1.3)
    assert estimates.pipeline.learned_count == 0
    assert _wake(estimates) == 1.5
    assert estimates.pipeline.learned_count == 2
    assert estimates.wake_ns is None


def test_snapshots_keep_their_distance() -> None:
    estimates = LearnedEstimates(flush_s=0.05, publish_s=0.2)
    published = []
    for index in range(12):
        _finish(estimates, index, 1.0 + 0.07 * index, 50 + 30 * index)
        while estimates.wake_ns is not None and estimates.wake_ns < (1.07 + 0.07 * index) * 1e9:
            before = estimates.snapshot.version
            at_s = _wake(estimates)
            if estimates.snapshot.version > before:
                published.append(at_s)
    assert len(published) > 2
    assert all(later - at > 0.2 - 1e-9 for at, later in pairwise(published))


@pytest.mark.parametrize(("known", "told"), [(0, [1, 1, 1, 1]), (300, [1, 0, 0, 1])])
def test_what_runs_is_told_now_and_then_and_always_while_a_key_is_young(
    known: int, told: list[int]
) -> None:
    past = [
        Completion(completion_id=f"c{i}", audio_s=10.0, output_tokens=50, service_s=1.0)
        for i in range(known)
    ]
    estimates = LearnedEstimates(warm=past, flush_s=0.1, running_s=0.6)
    running = Request(Job(99, 0, 400, 10.0, 4))
    running.admitted_ns = 0
    estimates.first(running)
    counts = []
    for index in range(4):
        _finish(estimates, index, 100.05 + 0.2 * index)
        estimates.pipeline.note_running("twin", [], 0.0)
        _wake(estimates, [(running, 30)])
        counts.append(estimates.pipeline.running_count)
    # The first and the fourth are due anyway: 100.1, 100.3, 100.5 and 100.7 s.
    assert counts == told


def test_warm_knows_what_cold_has_to_learn() -> None:
    past: list[Completion] = []
    profile_jobs = _jobs(400, seed=9)
    estimates = LearnedEstimates()
    for outcome in _run(estimates, profile_jobs)[0]:
        if isinstance(outcome, Outcome):
            past.append(completion_from(outcome, len(past)))
    warm = LearnedEstimates(warm=past)
    seeded = LearnedEstimates(state=warm.pipeline.state())
    assert warm.pipeline.learned_count == len(past)
    assert seeded.snapshot.kappas == warm.snapshot.kappas
    job = Job(0, 0, 1, 10.0, 4, language="de")
    tokens = {}
    for name, one in (("cold", LearnedEstimates()), ("warm", warm), ("seed", seeded)):
        request = Request(job)
        one.first(request)
        tokens[name] = request.tokens
    assert tokens["warm"] == tokens["seed"] == pytest.approx(100.0, rel=0.1)
    assert tokens["cold"] == pytest.approx(32.0)


def test_a_warm_start_has_learned_what_it_is_given() -> None:
    outcome = Outcome(Job(0, 0, 5, 1.0), 0, 1, 5 * NS_PER_S, 5, 0, 1.0, 1.0, 1.0, "stop")
    completion = completion_from(outcome, 1)
    assert completion.finished_s == EPOCH_S + 5.0
    assert LearnedEstimates(warm=[completion]).pipeline.learned_count == 1


@pytest.mark.parametrize("finish", ["stop", "length", "aborted"])
def test_a_completion_is_one_that_the_sidecar_takes(finish: Any) -> None:
    job = Job(
        7, NS_PER_S, 5, None, 900, "m", "text", "", kind="text", max_tokens=9,
        request_type="chat", group_id="g", priority=2,
    )  # fmt: skip
    outcome = Outcome(job, 2 * NS_PER_S, 3, 5 * NS_PER_S, 4, 1, 2.5, 6.0, 1.0, finish)
    completion = completion_from(outcome, 3, snapshot_version=8)
    assert violation_of(completion) is None
    assert completion == Completion(
        completion_id="twin-3", model="m", task="text", kind="text", duration_source="none",
        prompt_tokens=900, output_tokens=4, max_tokens=9, finish_reason=finish,
        finished_s=EPOCH_S + 5.0, wait_s=1.0, service_s=3.0, concurrency=2.5, preemptions=1,
        predicted_tokens=6.0, snapshot_version=8, request_hash="7", group_id="g",
        request_type="chat", queue_id="q0", client_id="twin", priority=2,
    )  # fmt: skip


def test_the_burst_follows_the_served_models_mean_work() -> None:
    settings = Settings(burst_requests=2.0, order_by="tokens")
    estimates = LearnedEstimates(settings)
    before = estimates.parameters.burst_work
    _run(estimates, [job._replace(model="large") for job in _jobs(300)])
    mean = estimates.snapshot.service_of("large").mean_tokens
    assert estimates.parameters.burst_work == 2.0 * mean != before


@pytest.mark.parametrize(
    ("name", "value"), [("flush_s", -0.1), ("running_s", 0.0), ("publish_s", float("nan"))]
)
def test_impossible_paces_are_refused(name: str, value: float) -> None:
    with pytest.raises(ValueError, match=f"{name} is .*, must be .* to 3600 seconds"):
        LearnedEstimates(**{name: value})  # type: ignore[arg-type]  # each takes a float


def test_the_past_ends_where_virtual_time_begins(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    learned: list[Completion] = []
    monkeypatch.setattr(Pipeline, "learn_one", lambda _, completion: learned.append(completion))
    past = [
        Completion(completion_id="x", audio_s=1.0, output_tokens=3, finished_s=EPOCH_S + at_s)
        for at_s in (100.0, 103.0, 101.0)
    ]
    LearnedEstimates(warm=past)
    assert [one.finished_s - EPOCH_S for one in learned] == [-3.0, 0.0, -2.0]
    assert len({one.completion_id for one in learned}) == 3


def test_an_engine_tells_its_memory_with_its_first_report() -> None:
    estimates = LearnedEstimates(flush_s=0.05, slot_context_tokens=8.0)
    plain = LearnedEstimates(flush_s=0.05)
    for one in (estimates, plain):
        _finish(one, 0, 1.0)
        assert one.snapshot.service_of("default").slot_context_tokens == 0.0
        _wake(one)
    service = estimates.snapshot.service_of("default")
    assert service.slot_context_tokens == 8.0
    assert plain.snapshot.service_of("default").slot_context_tokens == 0.0
    request, other = Request(_jobs(1)[0]), Request(_jobs(1)[0])
    estimates.first(request)
    plain.first(other)
    assert request.tokens == other.tokens
    share = (4 + request.tokens / 2) / 8.0
    assert share > 1.0
    assert request.service_s == pytest.approx(other.service_s * share)
    left = estimates.remains(request)
    assert left.service_s == service.service_s(4, left.tokens)
