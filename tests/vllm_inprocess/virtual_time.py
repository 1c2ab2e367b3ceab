"""The real vLLM scheduler in virtual time: requests by the clock, steps that cost what they say.

`VirtualEngine` plays vLLM's engine core: it takes in what came while a step ran, schedules, lets
the step take the nanoseconds that an `EngineProfile` gives for vLLM's own ``SchedulerOutput``, and
answers with one token for each request whose context is complete. No model, no wall clock.
"""

import copy
import json
import tempfile
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import torch
from vllm.engine.arg_utils import EngineArgs
from vllm.sampling_params import SamplingParams
from vllm.v1.core.sched.scheduler import Scheduler
from vllm.v1.kv_cache_interface import FullAttentionSpec, KVCacheConfig, KVCacheGroupSpec
from vllm.v1.outputs import ModelRunnerOutput
from vllm.v1.request import Request, RequestStatus
from vllm.v1.structured_output import StructuredOutputManager

from estimator.replay.job import NS_PER_S, Job
from estimator.replay.profile import EngineProfile
from tests.vllm_inprocess.engine import (
    BLOCK_SIZE,
    END_TOKEN,
    TEXT_TOKEN,
    Clock,
    build_scheduler,
    make_request,
)

# vLLM keeps one block for itself.
_NULL_BLOCKS = 1
# What a Whisper request takes of the encoder's budget.
_ENCODER_TOKENS = 1500
_AMPLE_BLOCKS = 200_000


class Admitted(NamedTuple):
    """An admission: which, when, and after how many preemptions."""

    number: int
    at_ns: int
    preemptions: int


class Ended(NamedTuple):
    """An end: when, how (``stop``, ``length``, ``aborted``), and after how many tokens."""

    at_ns: int
    finish: str
    tokens: int


class Step(NamedTuple):
    """A scheduled step: vLLM's output, what it costs, and whose context it leaves incomplete."""

    output: Any
    cost_ns: int
    unfinished: set[str]


def whisper_scheduler(
    profile: EngineProfile, cls: type[Any] = Scheduler, *, vllm_policy: str = "fcfs"
) -> Any:
    """Build a scheduler of a class for audio, as a profile says.

    vLLM's encoder budget is its token budget, so one that is given has to go with the admissions.
    """
    most = profile.max_admissions_per_step or profile.slots
    blocks = profile.kv_blocks or _AMPLE_BLOCKS
    return build_scheduler(
        cls,
        max_num_seqs=profile.slots,
        blocks=blocks + _NULL_BLOCKS,
        vllm_policy=vllm_policy,
        max_tokens_a_step=profile.max_tokens_per_step or most * _ENCODER_TOKENS,
    )


@cache
def _text_config() -> Any:
    folder = Path(tempfile.mkdtemp(prefix="kappad-text-"))
    config = {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_size": 64,
        "intermediate_size": 64,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
        "num_key_value_heads": 2,
        "vocab_size": 51865,
        "max_position_embeddings": 8192,
        "eos_token_id": END_TOKEN,
        "bos_token_id": END_TOKEN,
    }
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    return EngineArgs(
        model=str(folder),
        served_model_name=["text-test"],
        skip_tokenizer_init=True,
        enforce_eager=True,
        dtype="float32",
        enable_prefix_caching=False,
    ).create_engine_config()


def text_scheduler(profile: EngineProfile, cls: type[Any] = Scheduler) -> Any:
    """Build a scheduler of a class for text: one group of blocks, prompts in chunks."""
    config = copy.copy(_text_config())
    config.scheduler_config = copy.copy(config.scheduler_config)
    config.scheduler_config.max_num_seqs = profile.slots
    config.scheduler_config.max_num_batched_tokens = profile.max_tokens_per_step or 8192
    config.cache_config = copy.copy(config.cache_config)
    blocks = (profile.kv_blocks or _AMPLE_BLOCKS) + _NULL_BLOCKS
    config.cache_config.num_gpu_blocks = blocks
    spec = FullAttentionSpec(
        block_size=BLOCK_SIZE, num_kv_heads=1, head_size=8, dtype=torch.float32
    )
    return cls(
        vllm_config=config,
        kv_cache_config=KVCacheConfig(
            num_blocks=blocks,
            kv_cache_tensors=[],
            kv_cache_groups=[KVCacheGroupSpec(["decoder"], spec)],
        ),
        structured_output_manager=StructuredOutputManager(config),
        block_size=BLOCK_SIZE,
        log_stats=True,
    )


def request_of(job: Job) -> Request:
    """Make the request that a job stands for; its id is the job's index."""
    limit = job.max_tokens or 448
    if job.audio_s is not None:
        return make_request(str(job.index), job.audio_s, max_tokens=limit, priority=job.priority)
    return Request(
        request_id=str(job.index),
        prompt_token_ids=[TEXT_TOKEN] * job.prompt_tokens,
        sampling_params=SamplingParams(max_tokens=limit, stop_token_ids=[END_TOKEN]),
        pooling_params=None,
    )


class VirtualEngine:
    """Runs jobs through a scheduler of vLLM's.

    Parameters
    ----------
    scheduler
        Any scheduler of vLLM's.
    profile : EngineProfile
        What its steps cost.

    Attributes
    ----------
    admitted : list of Admitted
        First and later admissions, in order.
    ended : dict of int to Ended
        By job.
    """

    def __init__(self, scheduler: Any, profile: EngineProfile) -> None:
        self.scheduler = scheduler
        self.now_ns = 0
        self.admitted: list[Admitted] = []
        self.ended: dict[int, Ended] = {}
        self._profile = profile
        self._clock = Clock()
        if getattr(scheduler, "_kappad", None) is not None:
            scheduler._kappad.clock = self._clock
        self._tell_time()
        self._jobs: dict[int, Job] = {}
        # Arrivals and departures by time; at one instant who leaves goes first.
        self._events: list[tuple[int, int, int]] = []
        self._prefilling: set[str] = set()

    def run(self, jobs: Sequence[Job]) -> None:
        """Run jobs until none is left."""
        self._jobs = {job.index: job for job in jobs}
        events = [(job.arrival_ns, 1, job.index) for job in jobs]
        events += [(job.abort_ns, 0, job.index) for job in jobs if job.abort_ns is not None]
        self._events = sorted(events, reverse=True)
        while self._events or self.busy:
            if not self.busy:
                self.now_ns = max(self.now_ns, self._events[-1][0])
            self.take_in()
            self.step()

    @property
    def busy(self) -> bool:
        """Whether anything waits or runs."""
        return bool(self.scheduler.get_num_unfinished_requests())

    def take_in(self) -> None:
        """Do what the engine core does between steps: what callers sent, in that order."""
        self._tell_time()
        while self._events and self._events[-1][0] <= self.now_ns:
            at_ns, arrives, index = self._events.pop()
            if arrives:
                self.scheduler.add_request(request_of(self._jobs[index]))
            elif index not in self.ended:
                request = self.scheduler.requests[str(index)]
                waits = request.status != RequestStatus.RUNNING
                self.scheduler.finish_requests([str(index)], RequestStatus.FINISHED_ABORTED)
                # Who waits is gone when it says so, who runs with the end of the step.
                gone_ns = at_ns if waits else self.now_ns
                self.ended[index] = Ended(gone_ns, "aborted", request.num_output_tokens)

    def step(self) -> None:
        """Schedule, let the time pass that it takes, and answer."""
        self.finish(self.schedule())

    def schedule(self) -> Step:
        """Schedule, and note who was admitted."""
        scheduler = self.scheduler
        output = scheduler.schedule()
        tokens, requests = output.num_scheduled_tokens, scheduler.requests
        # vLLM lists new and resumed ones apart; the batch has them in order of admission.
        started = {new.req_id for new in output.scheduled_new_reqs}
        started |= output.scheduled_cached_reqs.resumed_req_ids
        for name in tokens:
            if name in started:
                times = requests[name].num_preemptions
                self.admitted.append(Admitted(int(name), self.now_ns, times))
        unfinished = {name for name in tokens if requests[name].is_prefill_chunk}
        step = Step(output, self._cost_ns(tokens, started), unfinished)
        self._prefilling = unfinished
        return step

    def finish(self, step: Step) -> None:
        """Let the time pass that a step takes, and hand its tokens to the scheduler."""
        self.now_ns += step.cost_ns
        self._tell_time()
        names = list(step.output.num_scheduled_tokens)
        answer = ModelRunnerOutput(
            req_ids=names,
            req_id_to_index={name: index for index, name in enumerate(names)},
            sampled_token_ids=[
                [] if name in step.unfinished else self._token(name) for name in names
            ],
        )
        requests = {name: self.scheduler.requests.get(name) for name in names}
        for outputs in self.scheduler.update_from_output(step.output, answer).values():
            for one in outputs.outputs:
                if one.finish_reason is not None:
                    produced = requests[one.request_id].num_output_tokens
                    ended = Ended(self.now_ns, str(one.finish_reason), produced)
                    self.ended[int(one.request_id)] = ended

    def _cost_ns(self, tokens: dict[str, int], started: set[str]) -> int:
        """Give what a step costs, by the profile's formula and vLLM's own account of it."""
        if not tokens:
            return 0
        profile, requests = self._profile, self.scheduler.requests
        prefilled = sum(tokens[name] for name in started | (self._prefilling & set(tokens)))
        context = sum(int(requests[name].num_computed_tokens) for name in tokens)
        return (
            _ns(profile.step_s)
            + _ns(profile.per_sequence_s) * len(tokens)
            + _ns(profile.admission_s) * len(started)
            + _ns(profile.per_prompt_token_s) * prefilled
            + _ns(profile.per_context_token_s) * context
        )

    def _token(self, name: str) -> list[int]:
        request = self.scheduler.requests.get(name)
        if request is None:  # it ended with the step before, or was aborted
            return [TEXT_TOKEN]
        last = request.num_output_tokens + 1 >= self._jobs[int(name)].output_tokens
        return [END_TOKEN if last else TEXT_TOKEN]

    def _tell_time(self) -> None:
        self._clock.now_s = self.now_ns / NS_PER_S


class AsyncVirtualEngine(VirtualEngine):
    """The same with async scheduling: each step is scheduled while the one before it runs.

    As ``EngineCore.step_with_batch_queue``: what a step gave is known when the one after it is
    under way, so its slots are free for the one after that.
    """

    def __init__(self, scheduler: Any, profile: EngineProfile) -> None:
        super().__init__(scheduler, profile)
        self._under_way: Step | None = None

    @property
    def busy(self) -> bool:
        """Whether anything waits or runs, or a step has still to end."""
        return self._under_way is not None or super().busy

    def step(self) -> None:
        """Schedule the next step, then let the one under way end."""
        following = self.schedule()
        under_way, self._under_way = self._under_way, None
        if under_way is not None:
            self.finish(under_way)
        if following.output.num_scheduled_tokens:
            self._under_way = following


def _ns(seconds: float) -> int:
    return round(seconds * NS_PER_S)
