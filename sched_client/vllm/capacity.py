"""How many requests and how many tokens an engine can hold; imports no vLLM."""

from typing import Any, Final, NamedTuple

# By name, since vLLM is not imported. What is derived of these (sinks, hot parts of a cache) need
# not hold a block for each so many tokens.
_ONE_BLOCK_A_SIZE: Final = ("FullAttentionSpec", "MLAAttentionSpec")
# The API's limits.
_MAX_TOKENS: Final = 10**12
_MAX_SLOTS: Final = 1_000_000


class Capacity(NamedTuple):
    """What an engine can hold at once.

    Attributes
    ----------
    kv_tokens : int
        Tokens whose KV fits into its memory; 0 where that is not known.
    slots : int
        Most running requests; 0 where that is not known.
    """

    kv_tokens: int = 0
    slots: int = 0


def read_capacity(scheduler: Any) -> Capacity:
    """Read what an engine can hold; never raises.

    Parameters
    ----------
    scheduler : vllm.v1.core.sched.scheduler.Scheduler
        After its own construction. Any: vLLM is not imported here.

    Returns
    -------
    Capacity
        Zeros on a vLLM that does not tell.

    Notes
    -----
    A vLLM that has ``max_num_active_seqs`` (0.32) may admit fewer than its batch has rows. It
    keeps one block for itself. Tokens are known where all layers hold the KV of every token in one
    group of blocks. Where a window slides, a state takes the place of KV, or an encoder's blocks
    come on top (Whisper), a request's blocks do not grow with its tokens alone: unknown.
    """
    try:
        slots = int(scheduler.max_num_running_reqs)
        slots = min(slots, int(getattr(scheduler, "max_num_active_reqs", slots)))
        config = scheduler.kv_cache_config
        groups = config.kv_cache_groups
        tokens = 0
        if len(groups) == 1 and _grows_evenly(groups[0].kv_cache_spec):
            tokens = (int(config.num_blocks) - 1) * int(scheduler.block_size)
    except Exception:  # noqa: BLE001 - whatever this vLLM is like, work is the residence then
        return Capacity()
    if not (0 < tokens <= _MAX_TOKENS and 0 < slots <= _MAX_SLOTS):
        tokens = 0
    return Capacity(tokens, slots if 0 < slots <= _MAX_SLOTS else 0)


def _grows_evenly(spec: Any) -> bool:
    """Say whether a group takes a block for each ``block_size`` tokens of every request."""
    windows = (getattr(spec, name, None) for name in ("sliding_window", "attention_chunk_size"))
    return type(spec).__name__ in _ONE_BLOCK_A_SIZE and not any(windows)
