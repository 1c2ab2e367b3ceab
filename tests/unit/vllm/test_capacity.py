"""What an engine can hold, read off schedulers of plain values."""

from types import SimpleNamespace
from typing import Any

import pytest

from sched_client.vllm.capacity import Capacity, read_capacity


class FullAttentionSpec:
    """As vLLM's, by name."""

    def __init__(self, **others: Any) -> None:
        self.__dict__.update(others)


class MLAAttentionSpec(FullAttentionSpec):
    """Compressed KV, of every token still."""


class SinkFullAttentionSpec(FullAttentionSpec):
    """Holds more than its tokens."""


class MambaSpec:
    """A state in place of KV."""


class CrossAttentionSpec:
    """An encoder's KV."""


def engine(*specs: object, blocks: object = 8_545, slots: object = 256, size: object = 16) -> Any:
    groups = [SimpleNamespace(kv_cache_spec=spec) for spec in specs]
    return SimpleNamespace(
        max_num_running_reqs=slots,
        block_size=size,
        kv_cache_config=SimpleNamespace(num_blocks=blocks, kv_cache_groups=groups),
    )


@pytest.mark.parametrize(
    "spec",
    [
        FullAttentionSpec(),
        FullAttentionSpec(sliding_window=None, attention_chunk_size=None),
        MLAAttentionSpec(),
    ],
)
def test_where_every_layer_holds_every_token_blocks_tell(spec: object) -> None:
    # vLLM keeps one block for itself.
    assert read_capacity(engine(spec)) == Capacity(kv_tokens=8_544 * 16, slots=256)


@pytest.mark.parametrize(
    "specs",
    [
        (FullAttentionSpec(), CrossAttentionSpec()),
        (FullAttentionSpec(), FullAttentionSpec()),
        (FullAttentionSpec(sliding_window=4_096),),
        (FullAttentionSpec(attention_chunk_size=8_192),),
        (SinkFullAttentionSpec(),),
        (MambaSpec(),),
        (),
    ],
    ids=["whisper", "two groups", "window", "chunks", "sinks", "state", "no attention"],
)
def test_where_blocks_do_not_follow_tokens_only_the_slots_are_known(specs: tuple[object]) -> None:
    assert read_capacity(engine(*specs)) == Capacity(kv_tokens=0, slots=256)


@pytest.mark.parametrize(
    "odd",
    [
        SimpleNamespace(),
        None,
        engine(FullAttentionSpec(), slots="many"),
        engine(FullAttentionSpec(), slots=0),
        engine(FullAttentionSpec(), slots=10**7),
        engine(FullAttentionSpec(), blocks=None),
    ],
)
def test_a_vllm_that_does_not_tell_is_an_unknown_one(odd: Any) -> None:
    assert read_capacity(odd) == Capacity()


def test_a_vllm_that_admits_fewer_than_its_batch_holds_has_as_many_slots() -> None:
    scheduler = engine(FullAttentionSpec())
    scheduler.max_num_active_reqs = 64
    assert read_capacity(scheduler) == Capacity(kv_tokens=8_544 * 16, slots=64)
    scheduler.max_num_active_reqs = None
    assert read_capacity(scheduler) == Capacity()


@pytest.mark.parametrize(("blocks", "size"), [(1, 16), (0, 16), (10**12, 16)])
def test_memory_that_no_engine_has_is_not_told(blocks: int, size: int) -> None:
    found = read_capacity(engine(FullAttentionSpec(), blocks=blocks, size=size))
    assert found == Capacity(kv_tokens=0, slots=256)
