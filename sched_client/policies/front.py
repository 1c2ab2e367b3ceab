"""The waiting that no other beats in both age and work. Standard library only."""

import math
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from itertools import repeat
from operator import neg, sub, truediv
from typing import Final

from sched_client.policies.waiting import Waiting

# Blocks of so many: the least work of one is found in 0.5 µs by min(), twice as fast as a walk up
# a tree of as many leaves; 16 and 48 were no faster.
_BLOCK: Final = 32
# A block that comes down to so many takes in the next one, if both fit into one or it is empty.
_SPARSE: Final = frozenset((0, 1, 2, 4, 8))
_SHELF: Final = 32


class Stairs:
    """Items by age, the oldest first, each shorter than the one before.

    Attributes
    ----------
    items : list of Waiting
        By enqueue time, then by sequence.
    ages, works : list of float
        The enqueue time and the work of each.
    """

    __slots__ = ("ages", "items", "works")

    def __init__(self) -> None:
        self.items: list[Waiting] = []
        self.ages: list[float] = []
        self.works: list[float] = []

    def insert(self, item: Waiting) -> None:
        """Put in an item at its age."""
        index = _older(self.items, item)
        self.items.insert(index, item)
        self.ages.insert(index, item.enqueued_s)
        self.works.insert(index, item.work)

    def delete(self, low: int, high: int) -> None:
        """Take out a range."""
        del self.items[low:high], self.ages[low:high], self.works[low:high]

    def index(self, item: Waiting) -> int:
        """Find an item; -1 where it is not in here."""
        index = bisect_left(self.ages, item.enqueued_s)
        if index < len(self.items) and self.items[index] is item:
            return index
        # Others may be as old; none is as long.
        index = bisect_left(self.works, -item.work, key=neg)
        if index < len(self.items) and self.items[index] is item:
            return index
        return -1

    def ratios(self, now_s: float) -> list[float]:
        """Give wait over work of each at a time."""
        return list(map(truediv, map(sub, repeat(now_s), self.ages), self.works))


def _older(items: list[Waiting], item: Waiting) -> int:
    """Count those that are older than an item, or as old and arrived before."""
    return bisect_left(items, _place(item), key=_place)


def _place(item: Waiting) -> tuple[float, int]:
    return item.enqueued_s, item.sequence


class Block:
    """Neighbours in age; only the last block may be empty.

    Attributes
    ----------
    items : list of Waiting
        By enqueue time, then by sequence.
    works : list of float
        The work of each. No ages: each list more is counted by Python's garbage collector.
    least : float
        The least of the works; infinite where there are none.
    next : Block or None
        The block of the next younger ones.
    shelf : Shelf
        Where it stands.
    """

    __slots__ = ("items", "least", "next", "shelf", "works")

    def __init__(self, shelf: "Shelf") -> None:
        self.items: list[Waiting] = []
        self.works: list[float] = []
        self.least = math.inf
        self.next: Block | None = None
        self.shelf = shelf


class Shelf:
    """Some blocks that follow one another.

    Attributes
    ----------
    blocks : list of Block
        At least one.
    least : float
        No work in them is less. It is not raised when that one leaves, but when it is looked for.
    next : Shelf or None
        The next younger blocks.
    """

    __slots__ = ("blocks", "least", "next")

    def __init__(self) -> None:
        self.blocks: list[Block] = []
        self.least = math.inf
        self.next: Shelf | None = None

    def first_below(self, bound: float) -> Block | None:
        """Find the first of all blocks from here on that holds less work than a bound."""
        shelf: Shelf | None = self
        while shelf is not None:
            if shelf.least < bound:
                for block in shelf.blocks:
                    if block.least < bound:
                        return block
                shelf.least = min(block.least for block in shelf.blocks)
            shelf = shelf.next
        return None


class Front(Stairs):
    """Those of the waiting that are shorter than every older one; these hide the rest.

    Notes
    -----
    Whoever has waited no longer than another for at least as much work is never first by a rule
    that prefers long waits and short works. Of works drawn at random about ln(n) are left; where
    the highest ratio has been served for long, about 1.6 √n are, as that leaves works in
    proportion to waits.

    An arrival is in the front if it is shorter than the last of it: O(1). When one leaves, those
    that it alone hid come into the front, each once. They lie between it and the next of the
    front, in blocks of neighbours in age, of which those are skipped that hold nothing so short;
    where the next is far, whole shelves of blocks are: n / 1,000 steps of 0.05 µs at the most.
    """

    __slots__ = ("_count", "_head", "_last_s", "_last_sequence", "_tail")

    def __init__(self) -> None:
        super().__init__()
        self._count = 0
        self._head = Shelf()
        self._tail = Block(self._head)
        self._head.blocks.append(self._tail)
        self._last_s = -math.inf
        self._last_sequence = 0

    def __len__(self) -> int:
        """Count all that wait, the hidden ones too."""
        return self._count

    def push(self, item: Waiting) -> Sequence[Waiting] | None:
        """Take in an item; give those of the front that it hides, or None if it is hidden."""
        age, work = item.enqueued_s, item.work
        if age <= self._last_s and (age < self._last_s or item.sequence < self._last_sequence):
            return self._push_older(item)
        self._last_s, self._last_sequence = age, item.sequence
        self._count += 1
        block = self._tail
        if len(block.items) >= _BLOCK:
            block = self._add_block()
        item.block = block
        block.items.append(item)
        block.works.append(work)
        if work < block.least:
            block.least = work
            shelf = block.shelf
            if work < shelf.least:  # noqa: PLR1730 -- min() is a call for each arrival
                shelf.least = work
        works = self.works
        if works and work >= works[-1]:
            return None
        self.items.append(item)
        self.ages.append(age)
        works.append(work)
        return ()

    def discard(self, item: Waiting) -> list[Waiting] | None:
        """Forget an item; give those that it alone hid, or None if it was hidden itself."""
        self._count -= 1
        block = item.block
        items, works = block.items, block.works
        start = items.index(item)
        del items[start], works[start]
        if item.work == block.least:
            block.least = min(works) if works else math.inf
        place = self.index(item)
        exposed = None
        if place >= 0:
            exposed = self._hidden_by(place, block, start)
            if len(exposed) == 1:  # the usual case, in half the time
                other = exposed[0]
                self.items[place] = other
                self.ages[place], self.works[place] = other.enqueued_s, other.work
            elif exposed:
                self.items[place : place + 1] = exposed
                self.ages[place : place + 1] = [other.enqueued_s for other in exposed]
                self.works[place : place + 1] = [other.work for other in exposed]
            else:
                del self.items[place], self.ages[place], self.works[place]
        if len(works) in _SPARSE:
            self._take_in_next(block)
            if not self._count:
                self._last_s = -math.inf
        return exposed

    def _hidden_by(self, place: int, block: Block, start: int) -> list[Waiting]:
        """Find what one of the front alone hid, from the item after it on."""
        bound = self.works[place - 1] if place else math.inf
        following = self.items[place + 1] if place + 1 < len(self.items) else None
        found: list[Waiting] = []
        steps = 0
        here: Block | None = block
        while here is not None:
            if here.least < bound:
                works = here.works
                for index in range(start, len(works)):
                    if works[index] < bound:
                        item = here.items[index]
                        if item is following:
                            return found
                        found.append(item)
                        bound = works[index]
            start = 0
            steps += 1
            # After a while, the long way.
            here = here.next if steps & 15 else self._far_below(here, bound)
        return found

    def _far_below(self, block: Block, bound: float) -> Block | None:
        """Find the first block after one that holds less work than a bound."""
        shelf = block.shelf
        for after in shelf.blocks[shelf.blocks.index(block) + 1 :]:
            if after.least < bound:
                return after
        return shelf.next.first_below(bound) if shelf.next is not None else None

    def _push_older(self, item: Waiting) -> list[Waiting] | None:
        """Take in an item that is not the youngest: a new estimate, or the clock stepped back."""
        self._count += 1
        block = self._block_for(item)
        item.block = block
        index = _older(block.items, item)
        block.items.insert(index, item)
        block.works.insert(index, item.work)
        block.least = min(block.least, item.work)
        block.shelf.least = min(block.shelf.least, item.work)
        if len(block.items) > 2 * _BLOCK:
            self._split(block)
        place = _older(self.items, item)
        if place and self.works[place - 1] <= item.work:
            return None
        # Works fall along the front: what it hides is one piece of it.
        until = bisect_right(self.works, -item.work, place, key=neg)
        hidden = self.items[place:until]
        self.delete(place, until)
        self.insert(item)
        return hidden

    def _block_for(self, item: Waiting) -> Block:
        """Find the last block that begins no younger than an item, or the first one."""
        key = _place(item)
        shelf = self._head
        while shelf.next is not None and _begins(shelf.next.blocks[0]) <= key:
            shelf = shelf.next
        index = bisect_right(shelf.blocks, key, key=_begins)
        return shelf.blocks[max(0, index - 1)]

    def _add_block(self) -> Block:
        """Put an empty block at the end."""
        shelf = self._tail.shelf
        if len(shelf.blocks) >= _SHELF:
            shelf.next = Shelf()
            shelf = shelf.next
        block = Block(shelf)
        shelf.blocks.append(block)
        self._tail.next = block
        self._tail = block
        return block

    def _split(self, block: Block) -> None:
        """Halve a block that many came into, and its shelf where that is full."""
        shelf = block.shelf
        half = Block(shelf)
        half.items = block.items[_BLOCK:]
        half.works = block.works[_BLOCK:]
        for item in half.items:
            item.block = half
        del block.items[_BLOCK:], block.works[_BLOCK:]
        block.least, half.least = min(block.works), min(half.works)
        block.next, half.next = half, block.next
        if block is self._tail:
            self._tail = half
        shelf.blocks.insert(shelf.blocks.index(block) + 1, half)
        if len(shelf.blocks) > 2 * _SHELF:
            after = Shelf()
            after.blocks, after.least = shelf.blocks[_SHELF:], shelf.least
            for moved in after.blocks:
                moved.shelf = after
            del shelf.blocks[_SHELF:]
            shelf.next, after.next = after, shelf.next

    def _take_in_next(self, block: Block) -> None:
        """Put the items of the next block into this one if there is room."""
        after = block.next
        if after is None:
            return
        # An empty one takes it whatever its size: blocks are found by their first items.
        if block.items and len(block.items) + len(after.items) > _BLOCK:
            return
        for item in after.items:
            item.block = block
        block.items += after.items
        block.works += after.works
        block.least = min(block.least, after.least)
        block.next = after.next
        if after is self._tail:
            self._tail = block
        shelf = after.shelf
        shelf.blocks.remove(after)
        if shelf is not block.shelf:
            block.shelf.least = min(block.shelf.least, block.least)
            if not shelf.blocks:
                block.shelf.next = shelf.next


def _begins(block: Block) -> tuple[float, int]:
    """Give the age and sequence of the first item; of an empty block, after all others."""
    return _place(block.items[0]) if block.items else (math.inf, 0)
