"""One line of ewsjf: what waits in one queue of one tier. Standard library only."""

import struct
from heapq import heapify, heappop, heappush
from typing import Any, Final

from sched_client.policies.queues import Queue, QueueBook
from sched_client.policies.waiting import Waiting

# Positive IEEE doubles and unsigned integers, big-endian, compare as their bytes do.
_BY_VALUE: Final = struct.Struct(">BdQ").pack
_BY_VALUE_BELOW_ZERO: Final = struct.Struct(">BQQ").pack
_DOUBLE: Final = struct.Struct(">d").pack
_BITS: Final = struct.Struct(">Q").unpack
_LARGEST: Final = (1 << 64) - 1
# The heap is cleaned when more than half of it has left; below this it is not worth it.
_MIN_STALE: Final = 32


class Cell:
    """What waits in one queue of one tier, and what its head is scored by.

    Attributes
    ----------
    queue : Queue
        Where it belongs.
    factor : float
        What the tier multiplies scores by.
    head : Waiting or None
        The one that goes next of it; None when it is empty.
    level, rate, fairness : float
        The head's score is ``level + rate · now + fairness · density``: its level is what it is
        worth without waiting, less what its enqueue time is at its rate.
    shortness : float
        What it is worth where the shortest queue goes first.
    enqueued_s, work : float
        The head's own.

    Notes
    -----
    As `sched_client.policies.orders.KeyedOrder`, a heap that forgets late, but without a call for
    each rank and with the head at hand: a choice looks at every cell. Who waits in it is ranked
    by what held when it was last empty, so that nothing in the heap has to move.
    """

    __slots__ = (
        "_heap",
        "_items",
        "_ranked_by",
        "enqueued_s",
        "factor",
        "fairness",
        "head",
        "level",
        "queue",
        "rate",
        "shortness",
        "work",
    )

    def __init__(self, queue: Queue, factor: float) -> None:
        self.queue = queue
        self.factor = factor
        self.head: Waiting | None = None
        self.level = self.fairness = self.rate = self.shortness = 0.0
        self.enqueued_s = 0.0
        self.work = 1.0
        # Any: sequence numbers where arrival ranks, else bytes; never both at a time.
        self._heap: list[Any] = []
        self._items: dict[Any, Waiting] = {}
        # Weight of urgency and rate; None: by arrival.
        self._ranked_by: tuple[float, float] | None = None

    def open(self, book: QueueBook) -> None:
        """Fix how those that are about to wait in it are ranked; it must be empty."""
        self._ranked_by = None
        if not book.by_arrival:
            self._ranked_by = (book.parameters.w_urgency, self.queue.rate)

    def weigh(self, book: QueueBook) -> None:
        """Take over weights and the queue's rate for the scores of heads."""
        self.fairness = self.factor * book.parameters.w_fairness
        self.rate = self.factor * self.queue.rate
        self.shortness = self.factor / self.queue.size_s
        if self.head is not None:
            self._lead(self.head, book)

    def push(self, item: Waiting, book: QueueBook) -> None:
        """Take in a waiting item."""
        rank: Any = item.sequence
        if self._ranked_by is not None:
            item.rank = rank = _by_score(item, *self._ranked_by)
        heap = self._heap
        self._items[rank] = item
        heappush(heap, rank)
        if heap[0] == rank:
            self._lead(item, book)

    def discard(self, item: Waiting, book: QueueBook) -> None:
        """Forget an item that is in it."""
        heap, items = self._heap, self._items
        rank: Any = item.sequence if self._ranked_by is None else item.rank
        del items[rank]
        if item is not self.head:
            if len(heap) > 2 * len(items) + _MIN_STALE:
                self._heap = list(items)
                heapify(self._heap)
            return
        if not items:
            heap.clear()
            self.head = None
            return
        heappop(heap)
        head = items.get(heap[0])
        while head is None:
            heappop(heap)
            head = items.get(heap[0])
        self._lead(head, book)

    def _lead(self, head: Waiting, book: QueueBook) -> None:
        self.head = head
        self.enqueued_s = head.enqueued_s
        self.work = head.work
        if book.value is None:
            urgency = self.factor * (book.parameters.w_urgency / head.tokens)
            self.level = urgency - self.rate * head.enqueued_s
        else:
            self.level, self.rate = book.value(self, head)


def _by_score(item: Waiting, w_urgency: float, rate: float) -> bytes:
    """Give bytes that compare as the scores do, the highest first; the older among equals.

    All in a queue age at one rate, so that the order of their scores does not move with time:
    w/tokens + rate·(now - enqueued) compares as w/tokens - rate·enqueued.
    """
    if not rate:
        return _BY_VALUE(1, item.tokens if w_urgency else 0.0, item.sequence)
    value = rate * item.enqueued_s - w_urgency / item.tokens
    if value >= 0.0:
        return _BY_VALUE(1, value + 0.0, item.sequence)  # + 0.0 makes zero of minus zero
    return _BY_VALUE_BELOW_ZERO(0, _LARGEST - _BITS(_DOUBLE(-value))[0], item.sequence)
