"""A piece of the guard's ledger. Standard library only."""

import math
from itertools import accumulate

from sched_client.policies.prefix import NONE, PrefixTree
from sched_client.policies.waiting import Waiting


class Chunk(PrefixTree):
    """Some slots by age that follow one another.

    Attributes
    ----------
    items : list of Waiting or None
        By slot, the oldest first.
    ages : list of float
        The enqueue times; an empty slot keeps its age. They never fall along the slots.
    end : int
        Slots from here on were never filled.
    count : int
        How many wait in it.
    base : float
        Counts in the slack of all that wait in it.
    number : int
        Its place among the chunks.
    """

    __slots__ = ("ages", "base", "count", "end", "items", "number")

    def __init__(self, capacity: int, base: float = 0.0) -> None:
        super().__init__(capacity)
        self.items: list[Waiting | None] = [None] * capacity
        self.ages = [0.0] * capacity
        self.end = self.count = self.number = 0
        self.base = base

    def values(self) -> list[float]:
        """Give the value of each that waits, charges within the chunk included."""
        low, end = self.capacity, self.end
        after = list(accumulate(reversed(self.sums[low : low + end]), initial=0.0))
        return [
            self.least[low + slot] + after[end - slot - 1]
            for slot in range(end)
            if self.items[slot] is not None
        ]

    def waiting(self) -> list[Waiting]:
        """Give what waits in it, the oldest first."""
        return [item for item in self.items[: self.end] if item is not None]

    def fill(
        self, items: list[Waiting], values: list[float], ages: list[float], step: int
    ) -> None:
        """Hold these and nothing else, each after ``step - 1`` empty slots; no charges within."""
        capacity = self.capacity
        room = [NONE] * (step - 1)
        PrefixTree.__init__(self, capacity, [v for value in values for v in (*room, value)])
        self.items = [None] * capacity
        self.count, self.end = len(items), step * len(items)
        self.ages = [-math.inf] * capacity
        for index, item in enumerate(items):
            slot = step * index + step - 1
            self.items[slot] = item
            item.chunk, item.slot = self, slot
            # The empty slots that follow take the age along, so that ages never fall.
            self.ages[slot : slot + step] = [ages[index]] * min(step, capacity - slot)
