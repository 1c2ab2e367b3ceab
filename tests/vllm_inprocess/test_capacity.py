"""What Whisper's engines say of their memory: a text engine's is in test_text_engine.py."""

from typing import Any

from vllm.v1.kv_cache_interface import KVCacheConfig, KVCacheGroupSpec, SlidingWindowSpec

from sched_client.vllm.capacity import Capacity, read_capacity
from tests.vllm_inprocess.engine import BLOCK_SIZE, build_scheduler


def test_whispers_memory_is_unknown_as_the_encoder_holds_most_of_it() -> None:
    assert read_capacity(build_scheduler(max_num_seqs=7)) == Capacity(0, 7)


def test_the_decoders_group_alone_tells_its_tokens_and_a_window_does_not() -> None:
    """The fields are those of this vLLM, whatever its version."""
    scheduler: Any = build_scheduler(max_num_seqs=7, blocks=1_001)
    decoder, _ = scheduler.kv_cache_config.kv_cache_groups
    scheduler.kv_cache_config = KVCacheConfig(
        num_blocks=1_001, kv_cache_tensors=[], kv_cache_groups=[decoder]
    )
    assert read_capacity(scheduler) == Capacity(1_000 * BLOCK_SIZE, 7)
    spec = decoder.kv_cache_spec
    window = SlidingWindowSpec(
        block_size=BLOCK_SIZE, num_kv_heads=1, head_size=8, dtype=spec.dtype, sliding_window=64
    )
    scheduler.kv_cache_config.kv_cache_groups[:] = [KVCacheGroupSpec(["decoder"], window)]
    assert read_capacity(scheduler) == Capacity(0, 7)
