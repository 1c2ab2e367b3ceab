"""The real vLLM scheduler, driven step by step without a model.

A made-up model runner answers each step at once with one token for each scheduled request; the
clock is the test's own. Whisper's two cache groups (decoder and cross attention) are there, so
that allocation and preemption are vLLM's own.
"""

import copy
import json
import random
import tempfile
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
from vllm.engine.arg_utils import EngineArgs
from vllm.multimodal.inputs import (
    MultiModalFeatureSpec,
    MultiModalFieldElem,
    MultiModalKwargsItem,
    MultiModalSharedField,
    PlaceholderRange,
)
from vllm.sampling_params import SamplingParams
from vllm.v1.core.sched import scheduler as vllm_scheduler
from vllm.v1.core.sched.scheduler import Scheduler
from vllm.v1.kv_cache_interface import (
    CrossAttentionSpec,
    FullAttentionSpec,
    KVCacheConfig,
    KVCacheGroupSpec,
)
from vllm.v1.outputs import ModelRunnerOutput
from vllm.v1.request import Request, RequestStatus
from vllm.v1.structured_output import StructuredOutputManager

from sched_client.model import Settings, prior_snapshot
from sched_client.options import ClientOptions
from tests.support.vllm_fakes import FakeLink

END_TOKEN = 50257
TEXT_TOKEN = 400
ENGLISH_PROMPT = [50258, 50259, 50359, 50363]
BLOCK_SIZE = 16
# vLLM counts blocks of both cache groups from one pool: 94 for the 1,500 encoder positions.
BLOCKS_PER_REQUEST = 94 + 1


class Clock:
    """Seconds that move only when told."""

    def __init__(self) -> None:
        self.now_s = 1000.0

    def __call__(self) -> float:
        """Read it."""
        return self.now_s


@cache
def _base_config() -> Any:
    folder = Path(tempfile.mkdtemp(prefix="kappad-whisper-"))
    config = {
        "architectures": ["WhisperForConditionalGeneration"],
        "model_type": "whisper",
        "d_model": 64,
        "vocab_size": 51865,
        "encoder_layers": 1,
        "decoder_layers": 1,
        "encoder_attention_heads": 2,
        "decoder_attention_heads": 2,
        "encoder_ffn_dim": 64,
        "decoder_ffn_dim": 64,
        "num_mel_bins": 80,
        "max_source_positions": 1500,
        "max_target_positions": 448,
        "is_encoder_decoder": True,
        "decoder_start_token_id": 50258,
        "eos_token_id": END_TOKEN,
        "bos_token_id": END_TOKEN,
        "pad_token_id": END_TOKEN,
    }
    extractor = {
        "feature_extractor_type": "WhisperFeatureExtractor",
        "processor_class": "WhisperProcessor",
        "chunk_length": 30,
        "feature_size": 80,
        "hop_length": 160,
        "n_fft": 400,
        "sampling_rate": 16000,
    }
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    (folder / "preprocessor_config.json").write_text(json.dumps(extractor), encoding="utf-8")
    return EngineArgs(
        model=str(folder),
        served_model_name=["whisper-test"],
        skip_tokenizer_init=True,
        enforce_eager=True,
        dtype="float32",
        max_num_batched_tokens=3000,
    ).create_engine_config()


def build_scheduler(
    cls: type[Any] = Scheduler,
    *,
    max_num_seqs: int = 4,
    blocks: int = 200_000,
    vllm_policy: str = "fcfs",
    max_tokens_a_step: int | None = None,
) -> Any:
    """Build a real scheduler of a class with Whisper's cache groups."""
    config = copy.copy(_base_config())
    config.scheduler_config = copy.copy(config.scheduler_config)
    config.scheduler_config.max_num_seqs = max_num_seqs
    config.scheduler_config.policy = vllm_policy
    config.scheduler_config.max_num_batched_tokens = max_tokens_a_step or 1504 * max_num_seqs
    config.scheduler_config.max_num_scheduled_tokens = None
    config.cache_config = copy.copy(config.cache_config)
    config.cache_config.num_gpu_blocks = blocks
    # The real budget runs Whisper's processor, which needs a tokenizer; these are its numbers.
    vllm_scheduler.MultiModalBudget = lambda *_: SimpleNamespace(
        mm_max_toks_per_item={"audio": 1500},
        encoder_compute_budget=config.scheduler_config.max_num_batched_tokens,
        encoder_cache_size=1500 * (max_num_seqs + 1),
    )
    shape = {"block_size": BLOCK_SIZE, "num_kv_heads": 1, "head_size": 8, "dtype": torch.float32}
    cache_config = KVCacheConfig(
        num_blocks=blocks,
        kv_cache_tensors=[],
        kv_cache_groups=[
            KVCacheGroupSpec(["decoder"], FullAttentionSpec(**shape)),
            KVCacheGroupSpec(["cross"], CrossAttentionSpec(**shape)),
        ],
    )
    return cls(
        vllm_config=config,
        kv_cache_config=cache_config,
        structured_output_manager=StructuredOutputManager(config),
        block_size=BLOCK_SIZE,
        log_stats=True,
    )


def mel(seconds: float, *, dtype: torch.dtype = torch.float32, rows: int = 80) -> torch.Tensor:
    """Make a log-mel of a clip: noise for its length, then Whisper's constant padding."""
    frames = round(seconds * 100)
    generator = torch.Generator().manual_seed(frames)
    tensor = torch.full((rows, 3000), -0.7)
    tensor[:, :frames] = torch.rand((rows, frames), generator=generator)
    return tensor.to(dtype)


def audio_feature(tensor: torch.Tensor | None, name: str = "clip") -> MultiModalFeatureSpec:
    """Make what vLLM's processor makes of a clip."""
    data = None
    if tensor is not None:
        element = MultiModalFieldElem(data=tensor, field=MultiModalSharedField(batch_size=1))
        data = MultiModalKwargsItem({"input_features": element})
    return MultiModalFeatureSpec(
        data=data, modality="audio", identifier=name, mm_position=PlaceholderRange(0, 1500)
    )


def make_request(
    request_id: str,
    seconds: float | None = 5.0,
    *,
    prompt: Sequence[int] = ENGLISH_PROMPT,
    max_tokens: int = 440,
    extra_args: dict[str, Any] | None = None,
    tensor: torch.Tensor | None = None,
    audio: bool = True,
    **others: Any,
) -> Request:
    """Make a transcription request as the API server would."""
    if tensor is None and seconds is not None:
        tensor = _cached_mel(seconds)
    return Request(
        request_id=request_id,
        prompt_token_ids=list(prompt),
        sampling_params=SamplingParams(
            max_tokens=max_tokens, stop_token_ids=[END_TOKEN], extra_args=extra_args
        ),
        pooling_params=None,
        mm_features=[audio_feature(tensor, request_id)] if audio else None,
        **others,
    )


@cache
def _cached_mel(seconds: float) -> torch.Tensor:
    return mel(seconds)


class Driver:
    """Plays the engine: arrivals, steps with a made-up model, and a clock.

    Parameters
    ----------
    scheduler
        Any scheduler of vLLM's.
    length : callable
        Output tokens of a request, the end token included.
    clock : Clock
        Moved on by every step.
    """

    def __init__(
        self,
        scheduler: Any,
        *,
        length: Callable[[Request], int] = lambda _: 3,
        clock: Clock | None = None,
        step_s: float = 0.05,
    ) -> None:
        self.scheduler = scheduler
        self.length = length
        self.clock = clock or Clock()
        self.step_s = step_s
        self.admitted: list[str] = []
        self.finished: list[str] = []
        self.preempted = 0
        if getattr(scheduler, "_kappad", None) is not None:
            scheduler._kappad.clock = self.clock

    def step(self) -> None:
        """Schedule, answer with one token each, and update."""
        scheduler = self.scheduler
        output = scheduler.schedule()
        self.preempted += len(output.preempted_req_ids or ())
        self.admitted += [new.req_id for new in output.scheduled_new_reqs]
        self.clock.now_s += self.step_s
        ids = list(output.num_scheduled_tokens)
        tokens = [[self._token(scheduler.requests[i])] for i in ids]
        runner_output = ModelRunnerOutput(
            req_ids=ids,
            req_id_to_index={name: index for index, name in enumerate(ids)},
            sampled_token_ids=tokens,
        )
        for outputs in scheduler.update_from_output(output, runner_output).values():
            self.finished += [o.request_id for o in outputs.outputs if o.finish_reason is not None]

    def _token(self, request: Request) -> int:
        last = request.num_output_tokens + 1 >= self.length(request)
        return END_TOKEN if last else TEXT_TOKEN

    def run(self, limit: int = 100_000) -> None:
        """Step until nothing is left."""
        for _ in range(limit):
            if not self.scheduler.has_requests():
                return
            self.step()
        raise AssertionError(f"{self.scheduler.get_request_counts()} left after {limit} steps")

    def abort(self, *request_ids: str) -> None:
        """Abort as the API server does when clients leave."""
        self.scheduler.finish_requests(list(request_ids), RequestStatus.FINISHED_ABORTED)


def kappad_scheduler(
    monkeypatch: Any,
    link: FakeLink | None = None,
    options: ClientOptions | None = None,
    **build: Any,
) -> tuple[Any, FakeLink]:
    """Build a KappadScheduler on a fake link."""
    from sched_client.vllm import scheduler as module  # noqa: PLC0415 - after vLLM's own import

    link = link or FakeLink(
        prior_snapshot(settings=Settings(mode="on", policy="sjf", reorder_above=0))
    )
    chosen = options or ClientOptions()
    monkeypatch.setattr(module, "open_link", lambda *_: link)
    monkeypatch.setattr(module, "read_options", lambda *_: chosen)
    return build_scheduler(module.KappadScheduler, **build), link


def clip_lengths(count: int, seed: int = 7) -> list[float]:
    """Draw clip lengths as the demo mixes them: short, medium and long."""
    rng = random.Random(seed)
    return [rng.choice([1.0, 2.0, 2.5, 5.0, 12.0, 20.0, 29.0]) for _ in range(count)]
