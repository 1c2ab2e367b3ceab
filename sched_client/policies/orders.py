"""Orders: which of the waiting would go next if nobody had to be protected.

An order ranks entries of one priority, none of them given back; `sched_client.policies.lanes`
puts priorities and give-backs before it, and the guard has the last word. Standard library only.
"""

import struct
from collections.abc import Callable
from heapq import heapify, heappop, heappush
from typing import Final, Protocol

from sched_client.policies.waiting import Waiting

# A heap is cleaned when more than half of it has left the queue; below this it is not worth it.
_MIN_STALE: Final = 32


class Order(Protocol):
    """An order of waiting items of one priority.

    Nothing that an order ranks by may change while an item is in it.
    """

    def push(self, item: Waiting) -> None:
        """Take in a waiting item."""

    def discard(self, item: Waiting) -> None:
        """Forget an item that is in it."""

    def first(self, now_s: float) -> Waiting:
        """Give the item that goes next; there must be one."""

    def __len__(self) -> int:
        """Count the items."""


class KeyedOrder:
    """The item with the smallest rank goes first, for ranks that do not move with time.

    Parameters
    ----------
    rank : callable
        Gives bytes that compare as the ranks do, unique among the waiting.

    Notes
    -----
    A binary heap of ranks, and for each rank that waits its item; what left in the middle stays
    in the heap until it comes up, the heap is cleaned or nothing waits, so every operation is
    O(log n) amortised and memory at most twice the most that waited since. Bytes compare as fast
    as numbers, and neither they nor an entry of a dictionary is an object that Python's garbage
    collector counts, as the tuples would be that a heap usually holds.
    """

    __slots__ = ("_heap", "_items", "_rank")

    def __init__(self, rank: Callable[[Waiting], bytes]) -> None:
        self._rank = rank
        self._heap: list[bytes] = []
        self._items: dict[bytes, Waiting] = {}

    def push(self, item: Waiting) -> None:
        """Take in a waiting item."""
        item.rank = rank = self._rank(item)
        self._items[rank] = item
        heappush(self._heap, rank)

    def discard(self, item: Waiting) -> None:
        """Forget an item that is in it."""
        heap, rank = self._heap, item.rank
        del self._items[rank]
        if not self._items:
            heap.clear()
        elif heap[0] == rank:
            heappop(heap)
        elif len(heap) > 2 * len(self._items) + _MIN_STALE:
            self._heap = list(self._items)
            heapify(self._heap)

    def first(self, now_s: float) -> Waiting:  # noqa: ARG002 -- the protocol's; ranks stand still
        """Give the item that goes next; there must be one."""
        heap, items = self._heap, self._items
        while True:
            item = items.get(heap[0])
            if item is not None:
                return item
            heappop(heap)

    def __len__(self) -> int:
        """Count the items."""
        return len(self._items)


# Positive IEEE doubles and unsigned integers, big-endian, compare as their bytes do.
_BY_WORK: Final = struct.Struct(">dBdQ").pack
_BY_WORK_BEFORE_ZERO: Final = struct.Struct(">dBQQ").pack
_BY_AGE: Final = struct.Struct(">BdQ").pack
_BY_AGE_BEFORE_ZERO: Final = struct.Struct(">BQQ").pack
_LARGEST: Final = (1 << 64) - 1


def shortest_first_rank(item: Waiting) -> bytes:
    """Rank by work, then by enqueue time, then by arrival (sjf)."""
    enqueued_s = item.enqueued_s
    if enqueued_s >= 0.0:  # + 0.0 makes zero of minus zero
        return _BY_WORK(item.work, 1, enqueued_s + 0.0, item.sequence)
    return _BY_WORK_BEFORE_ZERO(item.work, 0, _descending(-enqueued_s), item.sequence)


def returned_rank(item: Waiting) -> bytes:
    """Rank given-back items by enqueue time, the last one given back before its equals.

    As `OvertakingLedger.insert` places them: before all that were enqueued at the same time.
    """
    enqueued_s, before = item.enqueued_s, _LARGEST - item.sequence
    if enqueued_s >= 0.0:
        return _BY_AGE(1, enqueued_s + 0.0, before)
    return _BY_AGE_BEFORE_ZERO(0, _descending(-enqueued_s), before)


def _descending(value: float) -> int:
    """Give a number that falls as a positive value rises."""
    bits: int = struct.unpack(">Q", struct.pack(">d", value))[0]
    return _LARGEST - bits
