"""Who has the highest response ratio, and until when, block by block. Standard library only."""

import math
from itertools import compress, repeat
from operator import attrgetter, lt, sub, truediv
from typing import Final

from sched_client.policies.blocks import AgeBlocks, Shelf
from sched_client.policies.waiting import Waiting

# Two ratios that differ by less are taken for equal: a quotient of floats is off by 4·10⁻¹⁶.
_CLOSE: Final = 1e-14
# What runs for 32 at a time runs without a step of the interpreter for each.
_AGE: Final = attrgetter("enqueued_s")
_WORK: Final = attrgetter("work")
_LEADER: Final = attrgetter("leader")
_UNTIL: Final = attrgetter("until_s")


def leader_of(items: list[Waiting], now_s: float) -> tuple[Waiting, float]:
    """Find who has the highest wait/work, and the time until which nobody here overtakes it.

    Parameters
    ----------
    items : list of Waiting
        By age, the oldest first; not empty.
    now_s : float
        Monotonic seconds.

    Returns
    -------
    tuple of Waiting and float
        The oldest of those with the highest ratio, and a time that may be over already.

    Notes
    -----
    A ratio is a line over time, so whoever is shorter passes once: a and w before a' and w' < w
    until a + w·(a' - a)/(w - w'). Nobody else does.
    """
    ages = list(map(_AGE, items))
    works = list(map(_WORK, items))
    ratios = list(map(truediv, map(sub, repeat(now_s), ages), works))
    best = max(ratios)
    # Nobody has waited yet: all ratios count as equal.
    index = ratios.index(best) if best > 0.0 else 0
    age, work = ages[index], works[index]
    if work <= min(works):
        return items[index], math.inf
    shorter = list(map(lt, works, repeat(work)))
    later = map(sub, compress(ages, shorter), repeat(age))
    less = map(sub, repeat(work * (1.0 + _CLOSE)), compress(works, shorter))
    return items[index], age + work * min(map(truediv, later, less))


class Leaders:
    """The highest ratio of all, by the leaders of blocks and of shelves.

    Parameters
    ----------
    blocks : AgeBlocks
        All that wait.

    Notes
    -----
    Each leader stands until a time that is known when it is found (a kinetic tournament of Basch,
    Guibas and Hershberger 1999, with 32 to a match). Only where the leader has gone, somebody
    shorter came or the time is over, 32 are compared anew, and then the leaders of the shelf:
    how the works follow one another makes no difference to that. Of all shelves the leaders are
    compared each time, n / 1,000 of them.
    """

    __slots__ = ("_blocks", "_since_s")

    def __init__(self, blocks: AgeBlocks) -> None:
        self._blocks = blocks
        self._since_s = -math.inf
        self.retire()

    def pushed(self, item: Waiting) -> None:
        """Take note of an item that was put into its block; an older one has unsettled that."""
        leader = item.block.leader
        if leader is None or item.work < leader.work:
            item.block.unsettle()

    def discarded(self, item: Waiting) -> None:
        """Take note of an item that has left its block."""
        if item.block.leader is item:
            item.block.unsettle()

    def first(self, now_s: float) -> Waiting:
        """Give the item that goes next; there must be one."""
        if not -math.inf < now_s < math.inf:
            return next(iter(self._blocks))
        if now_s < self._since_s:
            self.retire()  # whoever leads now need not have led then
        self._since_s = now_s
        leaders: list[Waiting] = []
        for shelf in self._blocks.shelves():
            if shelf.until_s < now_s:
                _settle(shelf, now_s)
            if shelf.leader is not None:
                leaders.append(shelf.leader)
        return leader_of(leaders, now_s)[0]

    def retire(self) -> None:
        """Let nobody lead any more."""
        for shelf in self._blocks.shelves():
            for block in shelf.blocks:
                block.unsettle()


def _settle(shelf: Shelf, now_s: float) -> None:
    """Find the leader of a shelf, and of those of its blocks that need a new one."""
    blocks = shelf.blocks
    for block in list(compress(blocks, map(lt, map(_UNTIL, blocks), repeat(now_s)))):
        block.leader, block.until_s = None, math.inf
        if block.count:
            block.leader, block.until_s = leader_of(list(filter(None, block.items)), now_s)
    leaders = list(filter(None, map(_LEADER, blocks)))
    shelf.leader, shelf.until_s = None, math.inf
    if leaders:
        shelf.leader, passed_s = leader_of(leaders, now_s)
        shelf.until_s = min(passed_s, *map(_UNTIL, blocks))
