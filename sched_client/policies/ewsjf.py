"""Queues of like cost, and the best head of them next. Standard library only.

The definitions and their reasons: docs/policies.md.
"""

from collections import defaultdict
from collections.abc import Callable

from sched_client.model import PolicyParameters
from sched_client.policies.cells import Cell
from sched_client.policies.halves import Halves
from sched_client.policies.orders import KeyedOrder, Order
from sched_client.policies.queues import TOKEN, Queue, QueueBook
from sched_client.policies.tiers import tier_factor, tier_of
from sched_client.policies.waiting import Waiting

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

    __slots__ = ("_book", "_busy", "_cells", "_count", "_fixed_scores", "_scores", "_version")

    def __init__(self, book: QueueBook, scores: Scores | None = None) -> None:
        self._book = book
        self._fixed_scores = scores
        self._cells: defaultdict[int, dict[Queue, Cell]] = defaultdict(dict)
        self._busy: list[Cell] = []
        self._count = 0
        self._renew()

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
        parameters = book.parameters
        tier = tier_of(item.priority, parameters.tier_weight) if item.priority else 0
        cells = self._cells[tier]
        cell = cells.get(queue)
        if cell is None:
            cell = cells[queue] = Cell(queue, tier_factor(tier, parameters.tier_weight))
            cell.weigh(book)
        if cell.head is None:
            self._busy.append(cell)
            cell.open(book)
        item.cell = cell
        cell.push(item, book)
        item.amount = book.enter(queue, item.tokens)
        self._count += 1

    def discard(self, item: Waiting) -> None:
        """Forget an item that is in it."""
        book, cell = self._book, item.cell
        if cell is None:
            raise RuntimeError("discard() of an item that is in no queue")
        cell.discard(item, book)
        if cell.head is None:
            self._busy.remove(cell)
        book.leave(cell.queue, item.amount)
        self._count -= 1

    def first(self, now_s: float) -> Waiting:
        """Give the item that goes next; there must be one."""
        book = self._book
        if self._version != book.version:
            self._renew()
        busy = self._busy
        if len(busy) == 1:
            head = busy[0].head
            if head is not None:
                return head
        scores = self._scores(busy, book, now_s)
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
        book = self._book
        self._version = book.version
        self._scores = self._fixed_scores or _scores_of(book.parameters)
        for cells in self._cells.values():
            for queue, cell in list(cells.items()):
                if cell.head is None and queue.gone:
                    del cells[queue]
                else:
                    cell.weigh(book)


def by_line(cells: list[Cell], book: QueueBook, now_s: float) -> list[float]:  # noqa: ARG001 -- as all
    """Add urgency and aging."""
    return [cell.level + cell.rate * now_s for cell in cells]


def _by_score(cells: list[Cell], book: QueueBook, now_s: float) -> list[float]:
    """Add urgency, aging and the queue's density: its requests a token that waits anywhere."""
    each = TOKEN / book.tokens
    return [
        cell.level + cell.rate * now_s + cell.fairness * (cell.queue.count * each)
        for cell in cells
    ]


def _by_ratio(cells: list[Cell], book: QueueBook, now_s: float) -> list[float]:  # noqa: ARG001 -- as all
    """Divide wait by work, which orders as the response ratio does."""
    return [(now_s - cell.enqueued_s) / cell.work for cell in cells]


def _by_size(cells: list[Cell], book: QueueBook, now_s: float) -> list[float]:  # noqa: ARG001 -- as all
    """Put the queue of the shortest work first."""
    return [cell.shortness for cell in cells]


def _scores_of(parameters: PolicyParameters) -> Scores:
    if parameters.between == "ratio":
        return _by_ratio
    if parameters.between == "shortest":
        return _by_size
    return _by_score if parameters.w_fairness else by_line


class QueuedOrders:
    """The orders of one ewsjf policy, one a priority where priorities are strict.

    Parameters
    ----------
    book : QueueBook
        Their queues.
    scores : callable, optional
        As `HeadsFirst`.
    """

    __slots__ = ("_book", "_halves", "_in_halves", "_scores")

    def __init__(self, book: QueueBook, scores: Scores | None = None) -> None:
        self._book = book
        self._scores = scores
        self._halves = _halves_of(book.parameters)
        self._in_halves = self._is_in_halves()

    def order(self) -> Order:
        """Make an empty order."""
        if self._in_halves:
            return KeyedOrder(self._halves.rank)
        return HeadsFirst(self._book, self._scores)

    def _is_in_halves(self) -> bool:
        return self._scores is None and self._book.parameters.between == "halves"

    def update(self, parameters: PolicyParameters) -> bool:
        """Apply new parameters, O(queues); tell whether all that wait must be put anew."""
        before, unit = self._in_halves, self._book.parameters.order_by
        anew = self._book.update(parameters)
        self._in_halves = self._is_in_halves()
        if unit != parameters.order_by:
            # Works in one unit say nothing of those in another; who waits is put anew and counted.
            self._halves = _halves_of(parameters)
        self._halves.bound(parameters.short_share, parameters.short_share_most, parameters.phi)
        return anew or before != self._in_halves

    def served(self, *, held_up: bool) -> None:
        """Take that one went by an order, or that the guard took the oldest instead."""
        if self._in_halves:
            self._halves.served(held_up=held_up)

    def moved(self, work: float, ratio: float) -> None:
        """Take the work of one that has a new estimate, ``ratio`` times what it was."""
        if self._in_halves:
            self._halves.moved(work, ratio)

    def clear(self) -> None:
        """Count from zero: all that wait are about to be put anew."""
        self._book.clear()


def _halves_of(parameters: PolicyParameters) -> Halves:
    return Halves(parameters.short_share, parameters.short_share_most, parameters.phi)
