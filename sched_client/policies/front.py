"""The waiting that no other beats in both age and work. Standard library only."""

import math
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from itertools import compress, repeat
from operator import neg, sub, truediv

from sched_client.policies.blocks import AgeBlocks, Block, place_of
from sched_client.policies.waiting import Waiting


class Stairs:
    """Items by age, the oldest first, each shorter than the one before.

    Attributes
    ----------
    items : list of Waiting
        By enqueue time, then by sequence.
    ages, works : list of float
        The enqueue time and the work of each.
    """

    __slots__ = ("_found", "ages", "items", "works")

    def __init__(self) -> None:
        self.items: list[Waiting] = []
        self.ages: list[float] = []
        self.works: list[float] = []
        # Where the last one was found: who goes next is soon asked for again, to be taken out.
        self._found = 0

    def insert(self, item: Waiting) -> None:
        """Put in an item at its age."""
        index = self.older(item)
        self.items.insert(index, item)
        self.ages.insert(index, item.enqueued_s)
        self.works.insert(index, item.work)

    def delete(self, low: int, high: int) -> None:
        """Take out a range."""
        del self.items[low:high], self.ages[low:high], self.works[low:high]

    def older(self, item: Waiting) -> int:
        """Count those that are older than an item, or as old and arrived before."""
        age, ages = item.enqueued_s, self.ages
        index = bisect_left(ages, age)
        if index < len(ages) and ages[index] == age:
            return bisect_left(self.items, place_of(item), index, key=place_of)
        return index

    def index(self, item: Waiting) -> int:
        """Find an item; -1 where it is not in here."""
        index = self._found
        if index < len(self.items) and self.items[index] is item:
            return index
        index = bisect_left(self.ages, item.enqueued_s)
        if index < len(self.items) and self.items[index] is item:
            return index
        # Others may be as old; none is as long.
        index = bisect_left(self.works, -item.work, key=neg)
        if index < len(self.items) and self.items[index] is item:
            return index
        return -1

    def best(self, now_s: float) -> tuple[Waiting, float]:
        """Give who has the highest ratio at a time, the oldest of equals, and the ratio."""
        ratios = self.ratios(now_s)
        best = max(ratios)
        # Nobody has waited yet, or the time is no number: all ratios count as equal.
        self._found = ratios.index(best) if best > 0.0 else 0
        return self.items[self._found], best

    def reaching(self, until_s: float, floor: float) -> "Stairs":
        """Give those whose ratio will not be below a floor at a time."""
        return self._chosen(list(map(floor.__le__, self.ratios(until_s))))

    def above(self, until_s: float, floor: float) -> "Stairs":
        """Give those whose ratio will be above a floor at a time."""
        return self._chosen(list(map(floor.__lt__, self.ratios(until_s))))

    def _chosen(self, which: list[bool]) -> "Stairs":
        found = Stairs()
        found.items.extend(compress(self.items, which))
        found.ages.extend(compress(self.ages, which))
        found.works.extend(compress(self.works, which))
        return found

    def cut(self, low: int, high: int) -> "Stairs":
        """Give a range."""
        found = Stairs()
        found.items, found.ages = self.items[low:high], self.ages[low:high]
        found.works = self.works[low:high]
        return found

    def extend(self, younger: "Stairs") -> None:
        """Put in more, all of them younger and shorter."""
        self.items += younger.items
        self.ages += younger.ages
        self.works += younger.works

    def ratios(self, now_s: float) -> list[float]:
        """Give wait over work of each at a time."""
        return list(map(truediv, map(sub, repeat(now_s), self.ages), self.works))


class Front(Stairs):
    """Those of the waiting that are shorter than every older one; these hide the rest.

    Parameters
    ----------
    blocks : AgeBlocks
        All that wait, which whoever changes the front has to keep.

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

    __slots__ = ("_blocks",)

    def __init__(self, blocks: AgeBlocks) -> None:
        super().__init__()
        self._blocks = blocks
        least = math.inf
        for item in blocks:
            if item.work < least:
                least = item.work
                self.items.append(item)
        self.ages += [item.enqueued_s for item in self.items]
        self.works += [item.work for item in self.items]

    def push_youngest(self, item: Waiting) -> bool:
        """Take in an item that is younger than all; tell whether it is not hidden."""
        works = self.works
        if works and item.work >= works[-1]:
            return False
        self.items.append(item)
        self.ages.append(item.enqueued_s)
        works.append(item.work)
        return True

    def push_older(self, item: Waiting) -> list[Waiting] | None:
        """Take in any item; give those of the front that it hides, or None if it is hidden."""
        place = self.older(item)
        if place and self.works[place - 1] <= item.work:
            return None
        # Works fall along the front: what it hides is one piece of it.
        until = bisect_right(self.works, -item.work, place, key=neg)
        hidden = self.items[place:until]
        self.delete(place, until)
        self.insert(item)
        return hidden

    def discard(self, item: Waiting) -> Sequence[Waiting] | None:
        """Let an item go that has left its block; give those that it alone hid.

        None if it was hidden itself.
        """
        place = self.index(item)
        if place < 0:
            return None
        items = self.items
        exposed = self._hidden_by(place, item.block, item.place + 1)
        if len(exposed) == 1:  # the usual case, in half the time
            other = exposed[0]
            items[place] = other
            self.ages[place], self.works[place] = other.enqueued_s, other.work
        elif exposed:
            items[place : place + 1] = exposed
            self.ages[place : place + 1] = [other.enqueued_s for other in exposed]
            self.works[place : place + 1] = [other.work for other in exposed]
        else:
            del items[place], self.ages[place], self.works[place]
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
                for stair in here.stairs:
                    if works[stair] < bound and stair >= start:
                        item = here.items[stair]
                        if item is following:
                            return found
                        if item is None:
                            raise RuntimeError("a gap counts as work")
                        found.append(item)
                        bound = works[stair]
            start = 0
            steps += 1
            # After a while, the long way.
            here = here.next if steps & 15 else self._blocks.far_below(here, bound)
        return found
