"""All that wait, in blocks of neighbours in age. Standard library only."""

import math
from bisect import bisect_right
from collections.abc import Iterator
from typing import Final

from sched_client.policies.waiting import Waiting

# Blocks of so many; 16 and 64 were no faster.
BLOCK: Final = 32
# A block that comes down to so many takes in the next one, if both fit into one or it is empty.
_SPARSE: Final = frozenset((0, 1, 2, 4, 8))
_SHELF: Final = 32


class Block:
    """Neighbours in age; only the last block may be empty.

    Attributes
    ----------
    items : list of Waiting or None
        By enqueue time, then by sequence. Who leaves leaves a gap, so that an item knows its
        place and nobody is searched for.
    works : list of float
        The work of each, infinite in a gap. No ages: each list more is counted by Python's
        garbage collector.
    count : int
        Items without the gaps.
    stairs : bytearray
        Places of those that are shorter than every older one of the block; five of 32 drawn at
        random. Where one leaves, only those up to the next are looked at. Bytes, as they are not
        counted either; a block never holds as many as 256.
    least : float
        The least of the works, that of the last of the stairs; infinite where there are none.
    next : Block or None
        The block of the next younger ones.
    shelf : Shelf
        Where it stands.
    leader : Waiting or None
        Who has the highest ratio of it until ``until_s``, as `sched_client.policies.leaders` sets
        it; whoever else changes a block ends that, and nobody who has left is kept by it.
    until_s : float
        Monotonic seconds.
    """

    __slots__ = (
        "count",
        "items",
        "leader",
        "least",
        "next",
        "shelf",
        "stairs",
        "until_s",
        "works",
    )

    def __init__(self, shelf: "Shelf") -> None:
        self.items: list[Waiting | None] = []
        self.works: list[float] = []
        self.count = 0
        self.stairs = bytearray()
        self.least = math.inf
        self.next: Block | None = None
        self.shelf = shelf
        self.leader: Waiting | None = None
        self.until_s = -math.inf

    def waiting(self) -> list[Waiting]:
        """Give the items without the gaps."""
        return [item for item in self.items if item is not None]

    def hold(self, items: list[Waiting]) -> None:
        """Hold these and nothing else, without gaps."""
        self.items[:] = items
        self.works[:] = [item.work for item in items]
        self.count = len(items)
        self.stairs.clear()
        self.least = math.inf
        for place, item in enumerate(items):
            item.block, item.place = self, place
            if item.work < self.least:
                self.least = item.work
                self.stairs.append(place)
        self.unsettle()

    def unsettle(self) -> None:
        """Forget who leads in it, and on its shelf."""
        shelf = self.shelf
        self.leader = shelf.leader = None
        self.until_s = shelf.until_s = -math.inf


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
    leader, until_s
        As of a `Block`.
    """

    __slots__ = ("blocks", "leader", "least", "next", "until_s")

    def __init__(self) -> None:
        self.blocks: list[Block] = []
        self.least = math.inf
        self.next: Shelf | None = None
        self.leader: Waiting | None = None
        self.until_s = -math.inf

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


class AgeBlocks:
    """Waiting items by age, the oldest first.

    Attributes
    ----------
    count : int
        How many wait.
    head : Shelf
        The oldest.
    """

    __slots__ = ("_last_s", "_last_sequence", "_tail", "count", "head")

    def __init__(self) -> None:
        self.count = 0
        self.head = Shelf()
        self._tail = Block(self.head)
        self.head.blocks.append(self._tail)
        self._last_s = -math.inf
        self._last_sequence = 0

    def __iter__(self) -> Iterator[Waiting]:
        """Iterate from the oldest to the youngest."""
        for shelf in self.shelves():
            for block in shelf.blocks:
                yield from filter(None, block.items)

    def shelves(self) -> Iterator[Shelf]:
        """Iterate over the shelves from the oldest to the youngest."""
        shelf: Shelf | None = self.head
        while shelf is not None:
            yield shelf
            shelf = shelf.next

    def push(self, item: Waiting) -> bool:
        """Take in an item; tell whether it is the youngest."""
        age, work = item.enqueued_s, item.work
        if age <= self._last_s and (age < self._last_s or item.sequence < self._last_sequence):
            self._push_older(item)
            return False
        self._last_s, self._last_sequence = age, item.sequence
        self.count += 1
        block = self._tail
        items = block.items
        place = len(items)
        if place >= BLOCK:
            block = self._add_block()
            items = block.items
            place = 0
        item.block, item.place = block, place
        items.append(item)
        block.works.append(work)
        block.count += 1
        if work < block.least:
            block.least = work
            block.stairs.append(place)
            shelf = block.shelf
            if work < shelf.least:  # noqa: PLR1730 -- min() is a call for each arrival
                shelf.least = work
        return True

    def discard(self, item: Waiting) -> None:
        """Forget an item that is in it; `tidy` has to follow."""
        self.count -= 1
        block, place = item.block, item.place
        works, stairs = block.works, block.stairs
        block.items[place] = None
        works[place] = math.inf
        block.count -= 1
        if place not in stairs:
            return
        step = stairs.index(place)
        bound = works[stairs[step - 1]] if step else math.inf
        end = stairs[step + 1] if step + 1 < len(stairs) else len(works)
        found = []
        for work in works[place + 1 : end]:
            if work < bound:
                bound = work
                found.append(works.index(work, place + 1))
        stairs[step : step + 1] = found
        block.least = works[stairs[-1]] if stairs else math.inf

    def tidy(self, block: Block) -> None:
        """Put a block of which few are left and the next one together, if they fit into one."""
        if block.count in _SPARSE:
            if block.next is not None:
                self._take_in(block, block.next)
            elif not block.count:
                block.hold([])  # or its gaps would make it seem full
            if not self.count:
                self._last_s = -math.inf

    def far_below(self, block: Block, bound: float) -> Block | None:
        """Find the first block after one that holds less work than a bound."""
        shelf = block.shelf
        for after in shelf.blocks[shelf.blocks.index(block) + 1 :]:
            if after.least < bound:
                return after
        return shelf.next.first_below(bound) if shelf.next is not None else None

    def _push_older(self, item: Waiting) -> None:
        """Take in an item that is not the youngest: a new estimate, or the clock stepped back."""
        self.count += 1
        block = self._block_for(item)
        items = block.waiting()
        items.insert(bisect_right(items, place_of(item), key=place_of), item)
        block.hold(items)
        block.shelf.least = min(block.shelf.least, item.work)
        if len(items) > 2 * BLOCK:
            self._split(block)

    def _block_for(self, item: Waiting) -> Block:
        """Find the last block that begins no younger than an item, or the first one."""
        key = place_of(item)
        shelf = self.head
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
        items = block.waiting()
        half = Block(shelf)
        half.hold(items[BLOCK:])
        block.hold(items[:BLOCK])
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

    def _take_in(self, block: Block, after: Block) -> None:
        """Put the items of the next block into this one if there is room."""
        # An empty one takes it whatever its size: blocks are found by their first items.
        if block.count and block.count + after.count > BLOCK:
            return
        after.unsettle()
        block.hold(block.waiting() + after.waiting())
        block.next = after.next
        if after is self._tail:
            self._tail = block
        shelf = after.shelf
        shelf.blocks.remove(after)
        if shelf is not block.shelf:
            block.shelf.least = min(block.shelf.least, block.least)
            if not shelf.blocks:
                block.shelf.next = shelf.next


def place_of(item: Waiting) -> tuple[float, int]:
    """Give what items are put in order of age by."""
    return item.enqueued_s, item.sequence


def _begins(block: Block) -> tuple[float, int]:
    """Give the age and sequence of the first item; of an empty block, after all others."""
    first = next(filter(None, block.items), None)
    return place_of(first) if first is not None else (math.inf, 0)
