"""Least lost work first, on vLLM's own scheduler with too little KV memory."""

import copy
import logging
import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import pytest
from vllm.sampling_params import SamplingParams
from vllm.utils.hashing import sha256
from vllm.v1.core.kv_cache_utils import get_request_block_hasher, init_none_hash
from vllm.v1.request import Request, RequestStatus

from estimator.replay.job import Job
from estimator.replay.profile import EngineProfile
from sched_client.model import TEXT_TASK, KappaEntry, Key, Settings, prior_snapshot
from sched_client.options import ClientOptions
from sched_client.vllm import shim
from sched_client.vllm.preemption import LeastLost
from tests.support.vllm_fakes import FakeLink
from tests.vllm_inprocess import virtual_time
from tests.vllm_inprocess.engine import BLOCK_SIZE, END_TOKEN, clip_lengths, make_request
from tests.vllm_inprocess.virtual_time import AsyncVirtualEngine, VirtualEngine, text_scheduler

# Blocks for some five requests; long prompts are computed in chunks.
PROFILE = EngineProfile(
    name="short of memory",
    slots=16,
    step_s=0.008,
    per_sequence_s=0.00004,
    per_prompt_token_s=0.00001,
    max_tokens_per_step=256,
    kv_blocks=300,
)
MODEL = "text-test"
PROMPTS = [20, 90, 100, 400, 1000, 2000]
SHARED = 480


def draw_jobs(seed: int, count: int = 100) -> list[Job]:
    """Draw prompts of all lengths and outputs that fill more memory than there is."""
    rng = random.Random(seed)
    at_ns, jobs = 0, []
    for index in range(count):
        at_ns += round(rng.expovariate(1e-6 / 30.0))
        tokens = 1 + round(rng.expovariate(1.0 / 160.0))
        jobs.append(
            Job(
                index,
                at_ns,
                tokens,
                None,
                rng.choice(PROMPTS),
                MODEL,
                TEXT_TASK,
                kind="text",
                max_tokens=1500,
            )
        )
    return jobs


class Told(NamedTuple):
    """What a run came to."""

    preempted: int
    recomputed: int
    arranged: int


class Watch:
    """Checks each of vLLM's steps, and counts what is computed again."""

    def __init__(self, scheduler: Any) -> None:
        self.scheduler = scheduler
        self.preempted = self.computed = 0
        self._schedule = scheduler.schedule
        scheduler.schedule = self.schedule

    def schedule(self, *args: Any, **kwargs: Any) -> Any:
        scheduler = self.scheduler
        before = list(scheduler.running)
        done = {r.request_id: r.num_computed_tokens for r in before}
        output = self._schedule(*args, **kwargs)
        preempted = set(output.preempted_req_ids or ())
        tokens = output.num_scheduled_tokens
        # Nothing is both given up and in the batch, and whoever was given up starts from zero.
        assert not preempted & tokens.keys()
        for name in preempted:
            assert scheduler.requests[name].status == RequestStatus.PREEMPTED
            assert scheduler.requests[name].num_computed_tokens == 0
        # vLLM's own account: each in the batch goes on from what it had, by what is scheduled.
        cached = output.scheduled_cached_reqs
        for name, start in zip(cached.req_ids, cached.num_computed_tokens, strict=True):
            if name in done and name not in cached.resumed_req_ids:
                assert start == done[name]
                assert scheduler.requests[name].num_computed_tokens == start + tokens[name]
        # The others keep their order, and new ones come after them.
        stayed = [r for r in before if r.request_id not in preempted]
        assert scheduler.running[: len(stayed)] == stayed
        self.preempted += len(preempted)
        self.computed += sum(tokens.values())
        return output


@pytest.fixture
def build(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """Build a KappadScheduler for text, with a way to preempt."""
    from sched_client.vllm import scheduler as module  # noqa: PLC0415 - after vLLM's own import

    def builder(preemption: Any, *, policy: str = "sjf", profile: EngineProfile = PROFILE) -> Any:
        settings = Settings(mode="on", policy=policy, preemption=preemption)
        prior = prior_snapshot(settings=settings)
        by_prompt = KappaEntry(kappa_tokens_per_s=0.1, sample_count=9, source="learned")
        kappas = {**prior.kappas, Key(MODEL, TEXT_TASK): by_prompt}
        link = FakeLink(replace(prior, kappas=kappas))
        monkeypatch.setattr(module, "open_link", lambda *_: link)
        monkeypatch.setattr(module, "read_options", lambda *_: ClientOptions())
        return text_scheduler(profile, module.KappadScheduler)

    return builder


def play(scheduler: Any, jobs: list[Job], cls: type[VirtualEngine] = VirtualEngine) -> Told:
    """Run jobs to their end; all of them must get there with all of their tokens."""
    watch = Watch(scheduler)
    engine = cls(scheduler, PROFILE)
    engine.run(jobs)
    assert {index: end.tokens for index, end in engine.ended.items()} == {
        job.index: min(job.output_tokens, job.max_tokens or 0) for job in jobs
    }
    assert not scheduler.running
    assert scheduler._kappad.failures == 0
    # All blocks are free again but vLLM's own.
    pool = scheduler.kv_cache_manager.block_pool
    assert pool.get_num_free_blocks() == (PROFILE.kv_blocks or 0)
    needed = sum(job.prompt_tokens + job.output_tokens - 1 for job in jobs)
    return Told(watch.preempted, watch.computed - needed, scheduler._kappad.victims.arranged)


@pytest.mark.parametrize(("cls", "policy"), [(VirtualEngine, "fcfs"), (AsyncVirtualEngine, "sjf")])
def test_less_is_computed_again_and_nothing_is_rolled_back(
    build: Callable[..., Any], cls: type[VirtualEngine], policy: str
) -> None:
    lost = {"last": 0, "least_lost": 0}
    for seed in range(2):
        jobs = draw_jobs(seed)
        for preemption in lost:
            told = play(build(preemption, policy=policy), jobs, cls)
            lost[preemption] += told.recomputed
            assert told.preempted > 8
            assert (told.arranged > 3) is (preemption == "least_lost")
    # It was 11 to 75 % of what vLLM's own choice loses, by load and seed.
    assert lost["least_lost"] < 0.9 * lost["last"]


def test_with_memory_enough_nothing_is_touched(build: Callable[..., Any]) -> None:
    ample = replace(PROFILE, kv_blocks=20_000)
    scheduler = build("least_lost", profile=ample)
    victims, looked = scheduler._kappad.victims, []
    victims._needs = lambda running: looked.append(len(running))
    engine = VirtualEngine(scheduler, ample)
    engine.run(draw_jobs(4, count=60))
    # Not even who runs was looked through.
    assert looked == []
    assert len(engine.ended) == 60


def test_the_modes_off_and_shadow_preempt_as_stock(build: Callable[..., Any]) -> None:
    seen = []
    for mode, preemption in (("on", "last"), ("shadow", "least_lost"), ("off", "least_lost")):
        scheduler = build(preemption, policy="fcfs")
        scheduler._kappad.link.set(mode=mode)
        engine = VirtualEngine(scheduler, PROFILE)
        engine.run(draw_jobs(5, count=60))
        seen.append((engine.admitted, engine.ended))
        assert scheduler._kappad.victims.arranged == 0
    assert seen[0] == seen[1] == seen[2]
    assert any(one.preemptions for one in seen[0][0])


def test_switching_at_every_step_loses_none(build: Callable[..., Any]) -> None:
    scheduler = build("least_lost")
    link = scheduler._kappad.link
    watch = Watch(scheduler)
    engine = AsyncVirtualEngine(scheduler, PROFILE)
    rng = random.Random(7)
    step = engine.step

    def switching() -> None:
        link.set(
            mode=rng.choice(["on", "on", "off", "shadow"]),
            policy=rng.choice(["sjf", "hrrn", "ewsjf", "ewsjf-paper", "fcfs"]),
            preemption=rng.choice(["last", "least_lost"]),
        )
        step()

    engine.step = switching  # type: ignore[method-assign]  # between any two steps
    jobs = draw_jobs(8, count=60)
    engine.run(jobs)
    assert {i: e.tokens for i, e in engine.ended.items()} == {
        j.index: j.output_tokens for j in jobs
    }
    assert watch.preempted > 3
    assert scheduler._kappad.victims.arranged > 0
    assert scheduler._kappad.failures == 0


def cached_text(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the text engine share prefixes; the first `SHARED` tokens of every fourth prompt."""
    config = copy.copy(virtual_time._text_config())
    config.cache_config = copy.copy(config.cache_config)
    config.cache_config.enable_prefix_caching = True
    monkeypatch.setattr(virtual_time, "_text_config", lambda: config)
    init_none_hash(sha256)
    hasher = get_request_block_hasher(BLOCK_SIZE, sha256)

    def request_of(job: Job) -> Request:
        rng = random.Random(job.index)
        prompt = [rng.randrange(1000, 40_000) for _ in range(job.prompt_tokens)]
        if job.index % 4 == 0:
            prompt[:SHARED] = [7] * min(SHARED, len(prompt))
        return Request(
            request_id=str(job.index),
            prompt_token_ids=prompt,
            sampling_params=SamplingParams(
                max_tokens=job.max_tokens or 1, stop_token_ids=[END_TOKEN]
            ),
            pooling_params=None,
            block_hasher=hasher,
        )

    monkeypatch.setattr(virtual_time, "request_of", request_of)


@pytest.mark.parametrize("cls", [VirtualEngine, AsyncVirtualEngine])
def test_with_prefix_caching_what_others_share_is_not_lost(
    build: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, cls: type[VirtualEngine]
) -> None:
    cached_text(monkeypatch)
    computed = {"last": 0, "least_lost": 0}
    for seed in range(2):
        for preemption in computed:
            scheduler = build(preemption)
            watch = Watch(scheduler)
            engine = cls(scheduler, PROFILE)
            engine.run(draw_jobs(10 + seed))
            assert scheduler._kappad.failures == 0
            assert watch.preempted > 8
            computed[preemption] += watch.computed
    assert computed["least_lost"] < computed["last"]


def test_the_one_that_shares_most_is_the_victim(build: Callable[..., Any]) -> None:
    # By hand: `b` has computed least, `a` has more, but nearly all of it is shared with `c`.
    scheduler = build("least_lost")
    victims = LeastLost(scheduler)
    requests = {
        name: virtual_time.request_of(Job(index, 0, 9, None, 40, "m", "text", max_tokens=900))
        for index, name in enumerate("abcd")
    }
    blocks = {"a": ([2] * 20 + [1]), "b": [1] * 5, "c": [2] * 20 + [1] * 80, "d": [1] * 60}
    held = {
        requests[name].request_id: ([_Block(count) for count in counts],)
        for name, counts in blocks.items()
    }
    for name, counts in blocks.items():
        requests[name].num_computed_tokens = BLOCK_SIZE * len(counts)
        requests[name].append_output_token_ids([1] * (BLOCK_SIZE * len(counts) - 39))
    victims._blocks_of = lambda name: _Blocks(held[name])
    victims._pool = _Pool(3)
    running = [requests[name] for name in "abcd"]
    scheduler.running = list(running)
    victims.arrange()
    # Four blocks are asked for and three are free; giving up `a` makes good two.
    assert scheduler.running == [requests[name] for name in "bcda"]
    victims.restore()
    assert scheduler.running == running
    victims._pool = _Pool(4)
    victims.arrange()
    assert scheduler.running == running
    # With none free `a` and `b` go, the least lost last.
    victims._pool = _Pool(0)
    victims.arrange()
    assert scheduler.running == [requests[name] for name in "cdba"]
    scheduler.running.pop()
    scheduler.running.append(requests["a"])
    scheduler.running.remove(requests["b"])
    late = virtual_time.request_of(Job(9, 0, 9, None, 40, "m", "text", max_tokens=900))
    scheduler.running.append(late)
    victims.restore()
    assert scheduler.running == [requests["a"], requests["c"], requests["d"], late]


class _Block(NamedTuple):
    ref_cnt: int


class _Blocks(NamedTuple):
    blocks: tuple[list[_Block], ...]


class _Pool(NamedTuple):
    free: int

    def get_num_free_blocks(self) -> int:
        return self.free


def test_of_whisper_requests_the_last_is_the_least_lost(start: Callable[..., Any]) -> None:
    # All have the same encoder and a short prompt: whoever came last has the fewest tokens.
    driver, link = start("on", "sjf", max_num_seqs=4, blocks=94 * 4 + 16, length=lambda _: 120)
    link.set(preemption="least_lost")
    for index, seconds in enumerate(clip_lengths(40)):
        driver.scheduler.add_request(make_request(f"r{index}", seconds))
    driver.run()
    assert driver.preempted > 10
    assert sorted(driver.finished) == sorted(f"r{i}" for i in range(40))
    assert link.status.failures == 0


@pytest.mark.parametrize("cause", ["missing", "raises"])
def test_a_vllm_without_what_it_needs_preempts_as_it_does(
    build: Callable[..., Any],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    cause: str,
) -> None:
    if cause == "missing":
        gone = shim.Need("vllm.v1.core.block_pool", "BlockPool.get_num_vacant", "a test")
        monkeypatch.setattr(shim, "PREEMPTION_NEEDS", (*shim.PREEMPTION_NEEDS, gone))
    else:
        monkeypatch.setattr(LeastLost, "__init__", lambda *_: 1 / 0)
    with caplog.at_level(logging.WARNING, logger="kappad"):
        scheduler = build("least_lost")
    (record,) = [r for r in caplog.records if r.name == "kappad"]
    assert "leaves preemption to this vLLM" in record.getMessage()
    engine = VirtualEngine(scheduler, PROFILE)
    engine.run(draw_jobs(2, count=60))
    assert len(engine.ended) == 60
    # All else works: the order is kappad's.
    assert scheduler._kappad.queue.mode == "on"
    assert scheduler._kappad.queue.reordered > 3
    assert scheduler._kappad.victims is None
