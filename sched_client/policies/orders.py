"""Orders: which of the waiting would go next if nobody had to be protected.

An order ranks entries of one priority, none of them given back; `PriorityLanes` puts priorities
and give-backs before it, and the guard has the last word. Standard library only.
"""

from collections.abc import Callable, Iterable
from heapq import heapify, heappop, heappush
from typing import Any, Final, Protocol

from sched_client.policies.waiting import Waiting

# A heap is cleaned when more than half of it has left the queue; below this it is not worth it.
_MIN_STALE: Final = 32


class Order(Protocol):
    """An order of waiting items of one priority.

    An item leaves by ``present = False`` and then `discard`.
    """

    def push(self, item: Waiting) -> None:
        """Take in a waiting item."""

    def discard(self, item: Waiting) -> None:
        """Forget an item that is no longer present."""

    def first(self, now_s: float) -> Waiting:
        """Give the item that goes next; there must be one."""

    def __len__(self) -> int:
        """Count the items."""


class KeyedOrder:
    """The item with the smallest key goes first, for keys that do not move with time.

    Parameters
    ----------
    key : callable
        Gives a tuple that ends in a number unique to the stay.

    Notes
    -----
    A binary heap; what left in the middle stays until it comes up or the heap is cleaned, so
    every operation is O(log n) amortised and memory at most twice the number waiting.
    """

    __slots__ = ("_count", "_heap", "_key", "_pushed")

    def __init__(self, key: Callable[[Waiting], tuple[float, ...]]) -> None:
        self._key = key
        # Key, number, item in one tuple. The number keeps items out of comparisons: a revised one
        # may meet its stale self.
        self._heap: list[tuple[Any, ...]] = []
        self._count = 0
        self._pushed = 0

    def push(self, item: Waiting) -> None:
        """Take in a waiting item."""
        self._pushed += 1
        heappush(self._heap, (*self._key(item), self._pushed, item))
        self._count += 1

    def discard(self, item: Waiting) -> None:
        """Forget an item that is no longer present."""
        heap = self._heap
        self._count -= 1
        if heap[0][-1] is item:
            heappop(heap)
        elif len(heap) > 2 * self._count + _MIN_STALE:
            self._heap = [row for row in heap if row[-1].present]
            heapify(self._heap)

    def first(self, now_s: float) -> Waiting:  # noqa: ARG002 -- the protocol's; keys stand still
        """Give the item that goes next; there must be one."""
        heap = self._heap
        while True:
            item: Waiting = heap[0][-1]
            if item.present:
                return item
            heappop(heap)

    def __len__(self) -> int:
        """Count the items."""
        return self._count


class ShortestFirst:
    """The item with the least work goes first, the oldest among equals (sjf).

    Notes
    -----
    A binary heap of the distinct works, and for each work the one item that has it, or a heap of
    those that have it by age: an arrival leaves a number in a heap and a reference, no tuple for
    Python's garbage collector to count, and numbers compare faster than tuples. Equal works are
    usual (30 s pieces, unknown durations), any number of them. What left in the middle stays
    until it comes up or the heap is cleaned, as in `KeyedOrder`: O(log n) amortised.
    """

    __slots__ = ("_count", "_items", "_stale", "_works")

    def __init__(self) -> None:
        # Each work that is waiting stands in the heap, and some that are not waiting any more.
        self._works: list[float] = []
        # The first of a heap of equals is always present.
        self._items: dict[float, Waiting | list[Waiting]] = {}
        self._count = 0
        # Items inside the heaps of equals that are present no more.
        self._stale = 0

    def push(self, item: Waiting) -> None:
        """Take in a waiting item."""
        self._count += 1
        work = item.work
        held = self._items.get(work)
        if held is None:
            self._items[work] = item
            heappush(self._works, work)
        elif isinstance(held, list):
            heappush(held, item)
        else:
            self._items[work] = [held, item] if held < item else [item, held]

    def discard(self, item: Waiting) -> None:
        """Forget an item that is no longer present."""
        self._count -= 1
        held = self._items[item.work]
        if isinstance(held, list):
            self._stale += 1
            while held and not held[0].present:
                heappop(held)
                self._stale -= 1
            if not held:
                self._forget(item.work)
            elif self._stale > self._count + _MIN_STALE:
                self._clean()
        else:
            self._forget(item.work)

    def first(self, now_s: float) -> Waiting:  # noqa: ARG002 -- the protocol's; works stand still
        """Give the item that goes next; there must be one."""
        works, items = self._works, self._items
        while True:
            held = items.get(works[0])
            if held is not None:
                return held[0] if isinstance(held, list) else held
            heappop(works)

    def __len__(self) -> int:
        """Count the items."""
        return self._count

    def _forget(self, work: float) -> None:
        """Forget a work that nobody has any more."""
        del self._items[work]
        if self._works[0] == work:
            heappop(self._works)
        elif len(self._works) > 2 * len(self._items) + _MIN_STALE:
            self._works = list(self._items)
            heapify(self._works)

    def _clean(self) -> None:
        """Drop from the heaps of equals what is present no more."""
        for held in self._items.values():
            if isinstance(held, list):
                held[:] = [item for item in held if item.present]
                heapify(held)
        self._stale = 0


def returned_key(item: Waiting) -> tuple[float, ...]:
    """Rank given-back items by enqueue time, the last one given back before its equals.

    As `OvertakingLedger.insert` places them: before all that were enqueued at the same time.
    """
    return (item.enqueued_s, -item.sequence)


class _Lane:
    """All of one priority: the given-back ones by enqueue time, then the order's own.

    Both are counted here: asking two orders for their length took 0.3 µs an operation.
    """

    __slots__ = ("count", "order", "returned", "returned_count")

    def __init__(self, order: Order) -> None:
        self.order = order
        self.returned = KeyedOrder(returned_key)
        self.count = self.returned_count = 0


class PriorityLanes:
    """Smaller priorities first, in each the given-back first, then by an order.

    Parameters
    ----------
    new_order : callable
        Makes an empty order; called once for each priority that is waiting.

    Notes
    -----
    Lanes exist only while something of their priority waits, so that invented priorities cannot
    grow memory; a heap finds the smallest, and forgets dropped ones when they come up.
    """

    __slots__ = ("_lanes", "_new_order", "_priorities")

    def __init__(self, new_order: Callable[[], Order]) -> None:
        self._new_order = new_order
        self._lanes: dict[int, _Lane] = {}
        self._priorities: list[int] = []

    def push(self, item: Waiting) -> None:
        """Take in a waiting item."""
        priority = item.priority
        lane = self._lanes.get(priority)
        if lane is None:
            lane = self._lanes[priority] = _Lane(self._new_order())
            heappush(self._priorities, priority)
        lane.count += 1
        if item.returned:
            lane.returned_count += 1
            lane.returned.push(item)
        else:
            lane.order.push(item)

    def discard(self, item: Waiting) -> None:
        """Forget an item that is no longer present."""
        priority = item.priority
        lane = self._lanes[priority]
        lane.count -= 1
        if item.returned:
            lane.returned_count -= 1
            lane.returned.discard(item)
        else:
            lane.order.discard(item)
        if not lane.count and len(self._lanes) > 1:
            # A lone empty lane is kept: a queue that is often empty need not rebuild it.
            self._drop(priority)

    def _drop(self, priority: int) -> None:
        del self._lanes[priority]
        if len(self._priorities) > 2 * len(self._lanes) + _MIN_STALE:
            self._priorities = list(self._lanes)
            heapify(self._priorities)

    def first(self, now_s: float) -> Waiting:
        """Give the item that goes next; there must be one."""
        while True:
            lane = self._lanes.get(self._priorities[0])
            if lane is not None:
                if lane.returned_count:
                    return lane.returned.first(now_s)
                if lane.count:
                    return lane.order.first(now_s)
                del self._lanes[self._priorities[0]]
            heappop(self._priorities)

    def rebuild(self, items: Iterable[Waiting]) -> None:
        """Rank everything anew, after works have changed; O(n log n)."""
        self._lanes.clear()
        self._priorities.clear()
        for item in items:
            self.push(item)
