"""Queues of like cost, and the best head of them next. Standard library only.

The definitions and their reasons: docs/policies.md.
"""

import struct
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

from sched_client.model import Between, PolicyParameters
from sched_client.policies.halves import Halves
from sched_client.policies.orders import KeyedOrder, Order
from sched_client.policies.queues import TOKEN, Queue, QueueBook
from sched_client.policies.tiers import tier_factor, tier_of
from sched_client.policies.waiting import Waiting

_BY_SEQUENCE: Final = struct.Struct(">Q").pack
_BY_VALUE: Final = struct.Struct(">QQ").pack
_BITS_OF: Final = struct.Struct(">d").pack
_BITS: Final = struct.Struct(">Q").unpack
_SIGN: Final = 1 << 63
_ALL: Final = (1 << 64) - 1


class _Ranker:
    """Ranks what waits in one cell; stands still while anything does."""

    __slots__ = ("by_arrival", "rate", "urgency")

    def __init__(self) -> None:
        self.by_arrival = True
        self.urgency = self.rate = 0.0

    def rank(self, item: Waiting) -> bytes:
        """Give bytes that compare as the scores do, the highest first; the older among equals.

        All in a queue age at one rate, so that the order of their scores does not move with time:
        w/tokens + rate·(now - enqueued) compares as w/tokens - rate·enqueued.
        """
        if self.by_arrival:
            return _BY_SEQUENCE(item.sequence)
        value = self.rate * item.enqueued_s - self.urgency / item.tokens
        bits = _BITS(_BITS_OF(value + 0.0))[0]  # + 0.0 makes zero of minus zero
        return _BY_VALUE(_ALL - bits if bits & _SIGN else bits | _SIGN, item.sequence)


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
    urgency, fairness, rate : float
        The head's score is ``urgency + fairness · density + rate · (now - enqueued_s)``.
    shortness : float
        What it is worth where the shortest queue goes first.
    enqueued_s, service_s, tokens, work : float
        The head's own.
    """

    __slots__ = (
        "_order",
        "_ranker",
        "enqueued_s",
        "factor",
        "fairness",
        "head",
        "queue",
        "rate",
        "service_s",
        "shortness",
        "tokens",
        "urgency",
        "work",
    )

    def __init__(self, queue: Queue, factor: float) -> None:
        self.queue = queue
        self.factor = factor
        self.head: Waiting | None = None
        self.urgency = self.fairness = self.rate = self.shortness = 0.0
        self.enqueued_s = 0.0
        self.service_s = self.tokens = self.work = 1.0
        self._ranker = _Ranker()
        self._order = KeyedOrder(self._ranker.rank)

    def open(self, book: QueueBook) -> None:
        """Fix how those that are about to wait in it are ranked; it must be empty."""
        ranker = self._ranker
        ranker.by_arrival = book.by_arrival
        ranker.urgency = book.parameters.w_urgency
        ranker.rate = self.queue.rate

    def weigh(self, parameters: PolicyParameters) -> None:
        """Take over weights and the queue's rate for the scores of heads."""
        self.fairness = self.factor * parameters.w_fairness
        self.rate = self.factor * self.queue.rate
        self.shortness = self.factor / self.queue.size_s
        self._lead(parameters.w_urgency)

    def push(self, item: Waiting, w_urgency: float) -> None:
        """Take in a waiting item."""
        self._order.push(item)
        head = self.head
        if head is None or item.rank < head.rank:
            self.head = item
            self._lead(w_urgency)

    def discard(self, item: Waiting, w_urgency: float) -> None:
        """Forget an item that is in it."""
        order = self._order
        order.discard(item)
        if item is self.head:
            self.head = order.first(0.0) if len(order) else None
            self._lead(w_urgency)

    def _lead(self, w_urgency: float) -> None:
        head = self.head
        if head is not None:
            self.urgency = self.factor * (w_urgency / head.tokens)
            self.enqueued_s = head.enqueued_s
            self.service_s = head.service_s
            self.tokens = head.tokens
            self.work = head.work


# What the heads of cells are worth at a time, in the order of the cells.
Scores = Callable[[list[Cell], QueueBook, float], list[float]]


class HeadsFirst:
    """The best head of all queues goes next; the older one among equals.

    Parameters
    ----------
    book : QueueBook
        The queues, shared by all orders of one policy.
    scores : callable, optional
        How heads are valued; by default as ``between`` says.

    Notes
    -----
    One head a queue and tier is looked at, O(queues); an arrival and a departure are O(log n) in
    their queue. A head changes only with them, so that what its score needs is kept.
    """

    __slots__ = ("_book", "_busy", "_cells", "_count", "_scores", "_version")

    def __init__(self, book: QueueBook, scores: Scores | None = None) -> None:
        self._book = book
        self._scores = scores
        self._cells: dict[tuple[Queue, int], Cell] = {}
        self._busy: list[Cell] = []
        self._count = 0
        self._version = book.version

    def __len__(self) -> int:
        """Count the items."""
        return self._count

    def push(self, item: Waiting) -> None:
        """Take in a waiting item, into the queue that it was in before if it was in one."""
        book = self._book
        queue = item.cell.queue if item.cell is not None else None
        if queue is None or queue.emptied:
            queue = book.queue_of(item.service_s)
        if self._version != book.version:
            self._renew()
        tier = tier_of(item.priority, book.parameters.tier_weight)
        cell = self._cells.get((queue, tier))
        if cell is None:
            cell = Cell(queue, tier_factor(tier, book.parameters.tier_weight))
            cell.weigh(book.parameters)
            self._cells[queue, tier] = cell
        if cell.head is None:
            self._busy.append(cell)
            cell.open(book)
        item.cell = cell
        cell.push(item, book.parameters.w_urgency)
        book.enter(queue, item.tokens)
        self._count += 1

    def discard(self, item: Waiting) -> None:
        """Forget an item that is in it."""
        book, cell = self._book, item.cell
        if cell is None:
            raise RuntimeError("discard() of an item that is in no queue")
        cell.discard(item, book.parameters.w_urgency)
        if cell.head is None:
            self._busy.remove(cell)
        book.leave(cell.queue, item.tokens)
        self._count -= 1

    def first(self, now_s: float) -> Waiting:
        """Give the item that goes next; there must be one."""
        book = self._book
        if self._version != book.version:
            self._renew()
        busy = self._busy
        scores = (self._scores or SCORES[book.parameters.between])(busy, book, now_s)
        highest = max(scores)
        best = busy[scores.index(highest)].head
        if best is None:
            raise RuntimeError("a queue without a head was scored")
        if scores.count(highest) > 1:
            for cell, score in zip(busy, scores, strict=True):
                head = cell.head
                if score == highest and head is not None and head.sequence < best.sequence:
                    best = head
        return best

    def _renew(self) -> None:
        """Take over what changed in the book, and forget the cells of queues that are gone."""
        self._version = self._book.version
        self._cells = {
            key: cell
            for key, cell in self._cells.items()
            if cell.head is not None or not cell.queue.gone
        }
        for cell in self._cells.values():
            cell.weigh(self._book.parameters)


def _by_score(cells: list[Cell], book: QueueBook, now_s: float) -> list[float]:
    """Add urgency, aging and the queue's density: its requests a token that waits anywhere."""
    if not book.parameters.w_fairness:
        return [cell.urgency + cell.rate * (now_s - cell.enqueued_s) for cell in cells]
    tokens = book.tokens
    return [
        cell.urgency
        + cell.rate * (now_s - cell.enqueued_s)
        + cell.fairness * (cell.queue.count * TOKEN / tokens)
        for cell in cells
    ]


def _by_ratio(cells: list[Cell], book: QueueBook, now_s: float) -> list[float]:  # noqa: ARG001 -- as all
    """Divide wait by work, which orders as the response ratio does."""
    return [(now_s - cell.enqueued_s) / cell.work for cell in cells]


def _by_size(cells: list[Cell], book: QueueBook, now_s: float) -> list[float]:  # noqa: ARG001 -- as all
    """Put the queue of the shortest work first."""
    return [cell.shortness for cell in cells]


SCORES: Final[Mapping[Between, Scores]] = MappingProxyType(
    {"score": _by_score, "ratio": _by_ratio, "shortest": _by_size}
)


class QueuedOrders:
    """The orders of one ewsjf policy, one a priority where priorities are strict.

    Parameters
    ----------
    book : QueueBook
        Their queues.
    scores : callable, optional
        As `HeadsFirst`.
    """

    __slots__ = ("_book", "_halves", "_scores")

    def __init__(self, book: QueueBook, scores: Scores | None = None) -> None:
        self._book = book
        self._scores = scores
        self._halves = Halves(book.parameters.short_share)

    def order(self) -> Order:
        """Make an empty order."""
        if self._in_halves:
            return KeyedOrder(self._halves.rank)
        return HeadsFirst(self._book, self._scores)

    @property
    def _in_halves(self) -> bool:
        return self._scores is None and self._book.parameters.between == "halves"

    def update(self, parameters: PolicyParameters) -> bool:
        """Apply new parameters, O(queues); tell whether all that wait must be put anew."""
        before = self._in_halves
        anew = self._book.update(parameters)
        self._halves.short_share = parameters.short_share
        return anew or before != self._in_halves

    def clear(self) -> None:
        """Count from zero: all that wait are about to be put anew."""
        self._book.clear()
