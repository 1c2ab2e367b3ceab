"""Whom vLLM preempts when KV memory runs out: the running request whose lost work is least.

Under its policy ``fcfs`` vLLM preempts the last of ``Scheduler.running``, whichever that is, and
schedules running requests from the front: what is last has nothing scheduled in this step that
would have to be rolled back. So the choice is made by the order alone, before ``schedule()``, and
whoever was moved and not preempted is moved back after it. Imports no vLLM.
"""

from collections.abc import Callable
from itertools import islice
from typing import Any, Final, Protocol

# Victims that one step may be short of; with more, vLLM's own order follows. Preemptions come one
# by one: a step of 256 decoding requests with blocks of 16 asks for 16 blocks in the mean.
_MOST_VICTIMS: Final = 8


class Victims(Protocol):
    """Puts those who lose least where vLLM preempts."""

    def arrange(self) -> None:
        """Move victims to the end, if this step will need any."""

    def restore(self) -> None:
        """Move back whoever was moved and still runs."""


class LeastLost:
    """Orders ``scheduler.running`` so that the least work is lost; see the module.

    Parameters
    ----------
    scheduler : vllm.v1.core.sched.scheduler.Scheduler
        Any: vLLM is not imported here.

    Attributes
    ----------
    arranged : int
        Steps in which an order was changed.

    Raises
    ------
    AttributeError
        On a vLLM without what is needed (`sched_client.vllm.shim` lists it).

    Notes
    -----
    Memory is short when the blocks that are free are fewer than this step's running requests will
    ask for. One comparison rules that out in nearly every step: each asks for a block a cache
    group, and besides for what the step's token budget fills. Only then the running requests are
    looked through, once. Where this counts wrongly (sliding windows, several block sizes) nothing
    breaks: vLLM preempts as it does without kappad, or nobody is preempted.

    Lost is what was computed and must be computed again, without the leading blocks that others
    share: those stay in the prefix cache.
    """

    def __init__(self, scheduler: Any) -> None:
        self.arranged = 0
        self._scheduler = scheduler
        self._pool = scheduler.kv_cache_manager.block_pool
        self._blocks_of: Callable[[str], Any] = scheduler.kv_cache_manager.get_blocks
        self._block_size: int = scheduler.block_size
        self._budget: int = scheduler.max_num_scheduled_tokens
        self._lookahead: int = scheduler.num_lookahead_tokens
        # The encoder's blocks are there from the first step; all other groups grow.
        groups = scheduler.kv_cache_config.kv_cache_groups
        names = [type(group.kv_cache_spec).__name__ for group in groups]
        self._groups = sum(name != "CrossAttentionSpec" for name in names)
        # Not in every version: whether a worker may still write to a request's blocks.
        self._can_be_freed = getattr(scheduler, "_request_blocks_can_be_freed", None)
        # Looked up now, so that a vLLM without them is found out at construction.
        self._pool.get_num_free_blocks()
        # Places of all who ran, by identity, from `arrange` to `restore` where somebody was moved.
        self._places: dict[int, int] = {}

    def arrange(self) -> None:
        """Move victims to the end, the least lost last, if this step will need any."""
        running = self._scheduler.running
        free = self._pool.get_num_free_blocks()
        most = self._budget // self._block_size + len(running) + 1
        if len(running) < 2 or free >= most * self._groups:  # noqa: PLR2004 - nobody to choose from
            return
        needs = self._needs(running)
        short = sum(needs) - free
        if short > 0:
            self._put_last(running, needs, short)

    def restore(self) -> None:
        """Move back whoever was moved and still runs."""
        places = self._places
        if places:
            running = self._scheduler.running
            # Whoever was admitted in this step comes after them, in vLLM's order.
            running[:] = sorted(running, key=lambda one: places.get(id(one), len(places)))
            self._places = {}

    def _needs(self, running: list[Any]) -> list[int]:
        """Give the blocks that each running request will ask for in this step."""
        size, groups, budget, lookahead = (
            self._block_size,
            self._groups,
            self._budget,
            self._lookahead,
        )
        needs = []
        for request in running:
            done = request.num_computed_tokens
            new = request.num_tokens_with_spec + request.num_output_placeholders - done
            new = min(new, budget)
            budget -= new
            held = -(-(done + lookahead) // size)
            needs.append((-(-(done + new + lookahead) // size) - held) * groups if new else 0)
        return needs

    def _put_last(self, running: list[Any], needs: list[int], short: int) -> None:
        """Move to the end as many of the least lost as make good what is short."""
        losses = []
        for at, request in enumerate(running):
            if self._can_be_freed is None or self._can_be_freed(request):
                alone, shared = self._count(request)
                lost = request.num_computed_tokens - shared * self._block_size
                losses.append((lost, -at, alone))
        losses.sort()
        chosen: list[int] = []
        for _, minus_at, alone in islice(losses, _MOST_VICTIMS):
            chosen.append(-minus_at)
            short -= alone + needs[-minus_at]
            if short <= 0:
                break
        last = len(running) - len(chosen)
        if chosen == list(range(len(running) - 1, last - 1, -1)):
            return  # as vLLM has it
        self.arranged += 1
        self._places = {id(request): at for at, request in enumerate(running)}
        taken = set(chosen)
        rest = [request for at, request in enumerate(running) if at not in taken]
        running[:] = rest + [running[at] for at in reversed(chosen)]

    def _count(self, request: Any) -> tuple[int, int]:
        """Count the blocks that only a request has, and the leading ones that others share."""
        alone, least = 0, -1
        for group in self._blocks_of(request.request_id).blocks:
            shared = _shared(group)
            alone += len(group) - shared
            least = shared if least < 0 else min(least, shared)
        return alone, max(least, 0)


def _shared(blocks: Any) -> int:
    """Count the leading blocks that others have too, in O(log n): only a prefix is shared."""
    low, high = 0, len(blocks)
    while low < high:
        middle = (low + high) // 2
        if blocks[middle].ref_cnt > 1:
            low = middle + 1
        else:
            high = middle
    return low
