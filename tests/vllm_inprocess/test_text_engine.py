"""A real text engine: a small decoder-only model with random weights, run by vLLM itself.

vLLM's engine core, worker and model runner in this process; the model is built here. Prompts of
mixed lengths in chunks, shared prefixes, priorities, too little KV memory: whatever kappad's order
is, each request gets the tokens that it gets from vLLM alone.
"""

import gc
import math
import random
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch
from vllm import LLM, SamplingParams
from vllm.distributed import cleanup_dist_env_and_memory

from sched_client.model import (
    TEXT_TASK,
    Features,
    KappaEntry,
    Key,
    Settings,
    evaluate,
    policy_parameters,
    prior_snapshot,
)
from sched_client.options import ClientOptions
from sched_client.vllm.capacity import Capacity
from tests.support.vllm_fakes import FakeLink
from tests.vllm_inprocess.engine import Clock
from tests.vllm_inprocess.test_order import ORDERS, QUEUES, Reference

MODEL, VOCABULARY, LONGEST = "text-small", 512, 384
SLOTS, TOKENS_A_STEP, BLOCK_SIZE = 6, 64, 32
# The longest request needs eleven, and vLLM keeps one.
FEW_BLOCKS = 18
SHARED_PREFIX = 200


class Text(NamedTuple):
    """One request."""

    name: str
    prompt: list[int]
    most: int
    priority: int


def draw_texts() -> list[Text]:
    """Draw prompts from 5 to 300 tokens; a third of them begin alike."""
    rng = random.Random(6)
    prefix = [rng.randrange(2, VOCABULARY) for _ in range(SHARED_PREFIX)]
    texts = []
    for index in range(18):
        length = 5 + rng.choice([0, 40, 150, 300]) + index % 7
        prompt = [rng.randrange(2, VOCABULARY) for _ in range(length)]
        if index % 3 == 0:
            prompt = prefix + prompt[:60]
        prompt += [2 + index]  # so that no two are of one length and content
        texts.append(Text(f"t{index}", prompt, rng.randrange(8, 32), rng.choice([0, 0, 1, -2])))
    return texts


TEXTS = draw_texts()
# What each engine that was started has read of itself.
CAPACITIES: list[Capacity] = []


@pytest.fixture(scope="module")
def weights(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the model: two layers, and logits that leave no doubt which is the highest."""
    from transformers import LlamaConfig, LlamaForCausalLM  # noqa: PLC0415 - slow, here only

    folder = tmp_path_factory.mktemp("text-model")
    torch.manual_seed(5)
    config = LlamaConfig(
        vocab_size=VOCABULARY,
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=2,
        max_position_embeddings=LONGEST,
        initializer_range=0.3,
        bos_token_id=0,
        eos_token_id=1,
        tie_word_embeddings=False,
    )
    LlamaForCausalLM(config).save_pretrained(folder)
    return folder


class Engine:
    """vLLM's engine, stepped by the test.

    Attributes
    ----------
    admitted : list of str
        First admissions, by vLLM's own account.
    answers : dict of str to list of int
        Tokens of those that ended.
    """

    def __init__(self, weights: Path, *, blocks: int, **others: Any) -> None:
        self.llm: Any = LLM(
            model=str(weights),
            served_model_name=MODEL,
            skip_tokenizer_init=True,
            enforce_eager=True,
            dtype="float32",
            max_model_len=LONGEST,
            max_num_seqs=SLOTS,
            max_num_batched_tokens=TOKENS_A_STEP,
            block_size=BLOCK_SIZE,
            enable_prefix_caching=True,
            num_gpu_blocks_override=blocks,
            disable_log_stats=True,
            **others,
        )
        torch.set_num_threads(1)  # a model of this size is slower with more
        core = self.llm.llm_engine.engine_core.engine_core
        self.scheduler = core.scheduler
        self.clock = Clock()
        if hasattr(self.scheduler, "_kappad"):
            self.scheduler._kappad.clock = self.clock
        self._schedule = self.scheduler.schedule
        self.scheduler.schedule = self.schedule
        self.forget()

    def forget(self) -> None:
        self.admitted: list[str] = []
        self.answers: dict[str, list[int]] = {}
        self.chunks = 0

    def schedule(self, *args: Any, **kwargs: Any) -> Any:
        output = self._schedule(*args, **kwargs)
        # vLLM makes ids unique by digits after a dash.
        self.admitted += [new.req_id.partition("-")[0] for new in output.scheduled_new_reqs]
        self.chunks += sum(r.is_prefill_chunk for r in self.scheduler.running)
        return output

    def add(self, text: Text, priority: int = 0) -> None:
        params = SamplingParams(
            temperature=0, max_tokens=text.most, ignore_eos=True, detokenize=False
        )
        prompt = {"prompt_token_ids": text.prompt}
        self.llm.llm_engine.add_request(text.name, prompt, params, priority=priority)

    def step(self) -> None:
        for output in self.llm.llm_engine.step():
            if output.finished:
                self.answers[output.request_id] = list(output.outputs[0].token_ids)
        self.clock.now_s += 0.01

    @property
    def busy(self) -> bool:
        return bool(self.llm.llm_engine.has_unfinished_requests())

    def close(self) -> None:
        """Make room for another one; a second call does nothing."""
        if self.llm is None:
            return
        self.llm.llm_engine.engine_core.shutdown()
        self.llm = self.scheduler = self._schedule = None
        cleanup_dist_env_and_memory()
        gc.collect()


@pytest.fixture(scope="module")
def patch() -> Iterator[pytest.MonkeyPatch]:
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setenv("VLLM_ENABLE_V1_MULTIPROCESSING", "0")
        monkeypatch.setenv("VLLM_CPU_KVCACHE_SPACE", "1")
        yield monkeypatch


@pytest.fixture(scope="module")
def stock(weights: Path, patch: pytest.MonkeyPatch) -> dict[str, list[int]]:
    """Give what vLLM answers by itself, with memory for all."""
    assert patch
    engine = Engine(weights, blocks=400)
    for text in TEXTS:
        engine.add(text)
    while engine.busy:
        engine.step()
    assert engine.admitted == [text.name for text in TEXTS]
    answers = engine.answers
    engine.close()
    assert {text.name: text.most for text in TEXTS} == {n: len(a) for n, a in answers.items()}
    # Random weights that say the same of everything would prove nothing.
    assert len({tuple(answer[:4]) for answer in answers.values()}) > len(TEXTS) // 2
    assert len({token for answer in answers.values() for token in answer}) > 80
    return answers


def start(weights: Path, patch: pytest.MonkeyPatch, **others: Any) -> tuple[Engine, FakeLink]:
    """Start an engine with kappad's scheduler on a link of the test's."""
    from sched_client.vllm import scheduler as module  # noqa: PLC0415 - after vLLM's own import

    prior = prior_snapshot(settings=Settings(mode="on"))
    by_prompt = KappaEntry(kappa_tokens_per_s=0.1, sample_count=9, source="learned")
    snapshot = replace(
        prior,
        kappas={**prior.kappas, Key(MODEL, TEXT_TASK): by_prompt},
        partitions={MODEL: QUEUES},
    )
    link = FakeLink(snapshot)

    def open_link(*told: Any) -> FakeLink:
        CAPACITIES.append(told[-1])
        return link

    patch.setattr(module, "open_link", open_link)
    patch.setattr(module, "read_options", lambda *_: ClientOptions())
    return Engine(weights, scheduler_cls=module.KappadScheduler, **others), link


@pytest.fixture(scope="module")
def kappad(
    stock: dict[str, list[int]],  # closed before this one starts
    weights: Path,
    patch: pytest.MonkeyPatch,
) -> Iterator[tuple[Engine, FakeLink]]:
    assert stock
    engine, link = start(weights, patch, blocks=FEW_BLOCKS)
    yield engine, link
    engine.close()


def features_of(text: Text) -> Features:
    return Features(MODEL, TEXT_TASK, "", None, "text", None, len(text.prompt), text.most, "none")


def play(engine: Engine, arrived: Callable[[Text], None] = lambda _: None) -> Iterator[float]:
    """Let requests come while others run, to the end; yield the time of each step after it."""
    engine.forget()
    pending = list(reversed(TEXTS))
    while pending or engine.busy:
        for _ in range(min(len(pending), 12 if len(pending) == len(TEXTS) else 1)):
            text = pending.pop()
            engine.clock.now_s += 0.001
            arrived(text)
            engine.add(text)
        now_s = engine.clock.now_s
        engine.step()
        yield now_s


def test_the_engine_tells_what_it_holds(kappad: tuple[Engine, FakeLink]) -> None:
    assert kappad
    # One group of full attention; vLLM keeps a block for itself.
    assert CAPACITIES[0] == Capacity((FEW_BLOCKS - 1) * BLOCK_SIZE, SLOTS)


@pytest.mark.parametrize(
    ("name", "preemption"),
    [
        ("sjf", "least_lost"),
        ("sjf", "last"),
        ("hrrn", "least_lost"),
        ("aging heads", "least_lost"),
        ("ewsjf-paper", "least_lost"),
    ],
)
def test_order_and_answers_are_as_they_should_be(
    kappad: tuple[Engine, FakeLink], stock: dict[str, list[int]], name: str, preemption: str
) -> None:
    engine, link = kappad
    policy, settings = ORDERS[name]
    chosen = Settings(
        mode="on",
        policy=policy,
        reorder_above=0,
        reorder_until=0,
        burst_requests=math.inf,
        preemption=preemption,  # type: ignore[arg-type]  # a parameter of the test
        **settings,
    )
    link.publish(settings=chosen)
    reference = Reference(policy, policy_parameters(link.snapshot, MODEL))

    def arrived(text: Text) -> None:
        estimate = evaluate(link.snapshot, features_of(text))
        reference.arrive(text.name, estimate, engine.clock.now_s)

    expected: list[str] = []
    arranged = engine.scheduler._kappad.victims.arranged
    for now_s in play(engine, arrived):
        expected += [reference.choose(now_s) for _ in engine.admitted[len(expected) :]]
    assert engine.admitted == expected
    assert engine.answers == stock
    assert engine.chunks > 0
    assert engine.scheduler._kappad.failures == 0
    if preemption == "last":
        assert engine.scheduler._kappad.victims.arranged == arranged


def test_switching_at_every_step_loses_none_and_changes_no_answer(
    kappad: tuple[Engine, FakeLink], stock: dict[str, list[int]]
) -> None:
    engine, link = kappad
    rng = random.Random(3)
    arranged = engine.scheduler._kappad.victims.arranged
    for _ in play(engine):
        policy, settings = ORDERS[rng.choice(list(ORDERS))]
        chosen = Settings(
            mode=rng.choice(["on", "on", "on", "shadow", "off"]),
            policy=policy,
            preemption="least_lost",
            **settings,
        )
        link.publish(settings=chosen)
    assert engine.answers == stock
    assert sorted(engine.admitted) == sorted(stock)
    # Whether anybody is preempted depends on whom the orders let in together, which vLLM's prefix
    # cache has a part in: test_preemption.py sees to it that somebody is.
    assert engine.scheduler._kappad.failures == 0
    assert engine.scheduler._kappad.victims.arranged >= arranged


def test_priorities_go_before_the_order_where_vllm_counts_them(
    kappad: tuple[Engine, FakeLink],
    stock: dict[str, list[int]],
    weights: Path,
    patch: pytest.MonkeyPatch,
) -> None:
    kappad[0].close()  # the last test that has it
    engine, link = start(weights, patch, blocks=FEW_BLOCKS, scheduling_policy="priority")
    link.set(policy="sjf", reorder_above=0, reorder_until=0, burst_requests=math.inf)
    work = {t.name: evaluate(link.snapshot, features_of(t)).service_s for t in TEXTS}
    for text in TEXTS:
        engine.add(text, text.priority)
    while engine.busy:
        engine.step()
    ranked = sorted(TEXTS, key=lambda t: (t.priority, work[t.name], TEXTS.index(t)))
    assert engine.admitted == [text.name for text in ranked]
    assert engine.answers == stock
    assert engine.scheduler._kappad.failures == 0
    engine.close()
