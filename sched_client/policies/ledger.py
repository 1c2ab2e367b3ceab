"""Who waits in which order of arrival, and how much overtaking each of them can still bear.

The guard of DESIGN.md, decision 6; the bound is proved in docs/guard.md. Standard library only.
"""

import math
from bisect import bisect_left
from collections.abc import Iterator
from typing import Final

from sched_client.policies.chunk import Chunk
from sched_client.policies.prefix import NONE, PrefixTree
from sched_client.policies.waiting import Waiting

# A chunk is made as large as the number waiting, within these: what is done at once to a chunk
# stays within 0.1 ms, and few that wait are found without a look at many empty slots.
_LEAST_SLOTS: Final = 32
_MOST_SLOTS: Final = 128
_LEAST_CHUNKS: Final = 2
# A chunk of which so small a part waits joins the next one, or is made smaller.
_SPARSE: Final = 8


class OvertakingLedger:
    """Waiting requests in slots by age, with the overtaking slack of each.

    Parameters
    ----------
    phi : float
        Share of the work served during a stay by which it may be overtaken, [0, 1).

    Notes
    -----
    Popping work w from a slot adds φ·w to the slack of every younger one and takes (1 - φ)·w from
    every older one. Both are one charge at one slot: with S the work served so far, the slack
    without b₀ is φ·S + v_j + Σ_{k>j} c_k, where v_j = -φ·S at the start of the stay and a pop at
    slot i lowers c_i by w. Slots lie in chunks, each a `PrefixTree`, under a tree of the chunks,
    so that a pop, an arrival and the least slack of a prefix are each one walk from leaf to root,
    O(log n).

    Arrivals take the next slot at the end, in a new chunk where there is none left; a chunk of
    which all have gone is dropped, and those of which few are left are put together. Nothing is
    ever done to all that wait but in `set_phi` and `restart`. When there is no place left for a
    chunk they are numbered anew, O(n / 128), which also folds S and the charges of whole chunks,
    so that rounding cannot build up.

    A given-back entry takes an empty slot at its age, or its chunk is spread to make room.
    """

    __slots__ = (
        "_chunks",
        "_count",
        "_end",
        "_firsts",
        "_last",
        "_live",
        "_oldest",
        "_phi",
        "_served",
        "_top",
        "_total",
        "_youngest",
    )

    _last: Chunk
    _top: PrefixTree
    _firsts: list[float]

    def __init__(self, phi: float) -> None:
        self._phi = phi
        self._youngest = -math.inf
        # The one that was given as the oldest, while nobody older has come.
        self._oldest: Waiting | None = None
        # Work served since the chunks were numbered, and since last nothing waited.
        self._served = self._total = 0.0
        self._pack([], [], [])

    def __len__(self) -> int:
        """Count the waiting."""
        return self._count

    def __iter__(self) -> Iterator[Waiting]:
        """Iterate from the oldest to the youngest; past 32 slots or 16 for each at most."""
        for chunk in self._chunks[: self._end]:
            if chunk is not None:
                yield from filter(None, chunk.items[: chunk.end])

    def append(self, item: Waiting) -> None:
        """Take in an arrival as the youngest, with nothing served or overtaken yet."""
        # Ages never fall along the slots even if the clock stepped back: bisection needs that.
        if item.enqueued_s > self._youngest:  # noqa: PLR1730 -- max() is a call for each arrival
            self._youngest = item.enqueued_s
        self._append(item, self._youngest)

    def _append(self, item: Waiting, age: float) -> None:
        chunk = self._last
        slot = chunk.end
        if slot == chunk.capacity:
            chunk = self._open(age)
            slot = 0
        chunk.end = slot + 1
        chunk.items[slot] = item
        chunk.ages[slot] = age
        chunk.count += 1
        self._count += 1
        item.chunk, item.slot = chunk, slot
        item.served_before = self._total
        # Nothing was ever charged behind it, so that it can only lower the least of those before.
        value = -self._phi * self._served
        if chunk.append(slot, value - chunk.base):
            self._top.append(chunk.number, value)

    def insert(self, item: Waiting) -> None:
        """Take in a given-back entry at its age, before all that were enqueued at that time."""
        age = item.enqueued_s
        self._oldest = None
        self._youngest = max(self._youngest, age)
        number = max(0, bisect_left(self._firsts, age, 0, self._end) - 1)
        chunk = self._chunks[number] or self._reopen(number)
        slot = bisect_left(chunk.ages, age, 0, chunk.end)
        if slot < chunk.end and chunk.items[slot] is None:
            pass
        elif slot > 0 and chunk.items[slot - 1] is None:
            slot -= 1
        elif slot == chunk.end and chunk is self._last:
            self._append(item, age)
            return
        elif slot == chunk.end < chunk.capacity:
            chunk.end += 1
        else:
            self._insert_spreading(item, chunk)
            return
        if not slot:
            self._firsts[number] = min(self._firsts[number], age)
        self._place(item, chunk, slot, age, self._sum_after(chunk, slot))

    def allows(self, item: Waiting, burst_work: float) -> bool:
        """Tell whether every older one keeps its slack ≥ 0 if this one goes next."""
        charge = item.charge
        needed = charge - self._phi * (self._served + charge) - burst_work
        # The least slack of all is at most that of a prefix: most calls end here.
        top, chunk = self._top, item.chunk
        if top.least[1] >= needed:
            return True
        if top.least_before(chunk.number) < needed:
            return False
        here = chunk.least_before(item.slot) + chunk.base
        return here + top.sum_after(chunk.number) >= needed

    def serve(self, item: Waiting) -> None:
        """Take out an item that goes next, and charge its work to the others."""
        charge = item.charge
        self._served += charge
        self._total += charge
        self._vacate(item, charge)

    def discard(self, item: Waiting) -> None:
        """Take out an item that was not served; nobody is charged."""
        self._vacate(item, 0.0)

    def oldest(self) -> Waiting:
        """Give the oldest of the waiting; there must be one."""
        chunk = self._chunks[self._top.first()]
        item = chunk.items[chunk.first()] if chunk is not None else None
        if item is None:
            raise RuntimeError("oldest() of an empty ledger")
        self._oldest = item
        return item

    def slack(self, item: Waiting, burst_work: float) -> float:
        """Give φ·served + b₀ - overtaken of one waiting item."""
        chunk = item.chunk
        value = chunk.least[chunk.capacity + item.slot] + chunk.base
        return self._phi * self._served + burst_work + value + self._sum_after(chunk, item.slot)

    def set_phi(self, phi: float) -> None:
        """Recompute every slack for another φ, as if it had held from the start; O(n)."""
        change = phi - self._phi
        if change != 0.0:
            items = list(self)
            # slack = φ·(served in its stay) + b₀ - overtaken, and what was overtaken stays.
            slacks = [
                self.slack(item, 0.0) + change * (self._total - item.served_before)
                for item in items
            ]
            self._phi = phi
            self._pack(items, slacks, self._all_ages())

    def restart(self) -> None:
        """Begin every account anew, for work that is now counted in another unit; O(n)."""
        items = list(self)
        for item in items:
            item.served_before = 0.0
        self._total = 0.0
        self._pack(items, [0.0] * len(items), self._all_ages())

    def _place(self, item: Waiting, chunk: Chunk, slot: int, age: float, after: float) -> None:
        chunk.items[slot] = item
        chunk.ages[slot] = age
        chunk.count += 1
        self._count += 1
        item.chunk, item.slot = chunk, slot
        item.served_before = self._total
        before = chunk.least[1]
        chunk.put(slot, -self._phi * self._served - chunk.base - after)
        if chunk.least[1] != before:
            self._top.put(chunk.number, chunk.base + chunk.least[1])

    def _vacate(self, item: Waiting, charge: float) -> None:
        chunk, slot = item.chunk, item.slot
        chunk.items[slot] = None
        chunk.count -= 1
        self._count -= 1
        if item is self._oldest:
            # It overtakes nobody: nothing to charge, all the way up to the root.
            self._oldest, charge = None, 0.0
        if charge:
            self._top.charge(chunk.number, chunk.base + chunk.charge(slot, NONE, charge), charge)
        else:
            chunk.put(slot, NONE)
            self._top.put(chunk.number, chunk.base + chunk.least[1])
        if chunk.count * _SPARSE <= chunk.capacity:
            self._thin(chunk)
            if not self._count:
                self._served = self._total = 0.0
                if self._end > 1:
                    self._number()

    def _sum_after(self, chunk: Chunk, slot: int) -> float:
        return chunk.sum_after(slot) + self._top.sum_after(chunk.number)

    def _all_ages(self) -> list[float]:
        return [item.chunk.ages[item.slot] for item in self]

    def _slots(self) -> int:
        """Choose the size of a new chunk."""
        slots = 1 << self._count.bit_length()
        return min(max(slots, _LEAST_SLOTS), _MOST_SLOTS)

    def _open(self, first: float) -> Chunk:
        """Put an empty chunk at the end."""
        if not self._last.count:
            self._drop(self._last)
        if self._end == self._top.capacity:
            self._number()
        chunk = self._last = Chunk(self._slots())
        chunk.number = self._end
        self._chunks[self._end] = chunk
        self._firsts[self._end] = first
        self._end += 1
        self._live += 1
        return chunk

    def _reopen(self, number: int) -> Chunk:
        """Put an empty chunk where one was dropped; it is filled from behind."""
        chunk = self._chunks[number] = Chunk(_LEAST_SLOTS)
        chunk.number = number
        chunk.ages = [-math.inf] * chunk.capacity
        chunk.end = chunk.capacity
        self._live += 1
        return chunk

    def _drop(self, chunk: Chunk) -> None:
        self._chunks[chunk.number] = None
        self._top.put(chunk.number, NONE)
        self._live -= 1

    def _thin(self, chunk: Chunk) -> None:
        """Take less room for a chunk of which few are left."""
        count = chunk.count
        if count & (count - 1):
            return  # for how many are left to try again is a matter of halves
        if chunk is self._last:
            # The last one keeps room for arrivals.
            if 2 * chunk.end > chunk.capacity > _LEAST_SLOTS:
                self._refill(chunk, max(self._slots(), self._slots_for(count)))
            return
        if not count:
            self._drop(chunk)
        else:
            after = self._chunks[self._top.next(chunk.number)]
            if after is not None and after is not self._last:
                self._join(chunk, after)
            if chunk.count * _SPARSE <= chunk.capacity > _LEAST_SLOTS:
                self._refill(chunk, self._slots_for(chunk.count))
        if self._live * 8 < self._top.capacity > _LEAST_CHUNKS:
            self._number()

    def _join(self, chunk: Chunk, after: Chunk) -> None:
        """Put what waits in the chunk after one into it, if it leaves half of it empty."""
        if 2 * (chunk.count + after.count) > chunk.capacity:
            return
        between = self._top.sum_after(after.number) - self._top.sum_after(chunk.number)
        base = after.base - chunk.base + between
        values = chunk.values() + [value + base for value in after.values()]
        items = chunk.waiting() + after.waiting()
        ages = [item.chunk.ages[item.slot] for item in items]
        self._drop(after)
        # What comes back before the last of them belongs to this one, also where a chunk between
        # the two was dropped long ago.
        between_them = slice(chunk.number + 1, after.number + 1)
        self._firsts[between_them] = [ages[-1]] * (after.number - chunk.number)
        chunk.fill(items, values, ages, 1)
        self._top.put(chunk.number, chunk.base + chunk.least[1])

    def _slots_for(self, count: int) -> int:
        return max(_LEAST_SLOTS, 1 << (2 * count).bit_length())

    def _refill(self, chunk: Chunk, capacity: int) -> None:
        """Pack what waits in a chunk into as many slots."""
        items, values = chunk.waiting(), chunk.values()
        ages = [chunk.ages[item.slot] for item in items]
        chunk.capacity = capacity
        chunk.fill(items, values, ages, 1)
        self._top.put(chunk.number, chunk.base + chunk.least[1])

    def _number(self, split: Chunk | None = None) -> None:
        """Give chunks new numbers, fold what was served into their bases; split one in halves."""
        sums, top = self._top.sums, self._top.capacity
        chunks: list[Chunk] = []
        firsts: list[float] = []
        after = self._phi * self._served
        for number in range(self._end - 1, -1, -1):
            chunk = self._chunks[number]
            if chunk is not None:
                chunk.base += after
                if chunk is split:
                    half = self._halve(chunk)
                    chunks.append(half)
                    firsts.append(half.ages[0])
                chunks.append(chunk)
                firsts.append(self._firsts[number])
            after += sums[top + number]
        chunks.reverse()
        firsts.reverse()
        self._served = 0.0
        self._install(chunks, firsts)

    def _halve(self, chunk: Chunk) -> Chunk:
        items, values = chunk.waiting(), chunk.values()
        ages = [chunk.ages[item.slot] for item in items]
        middle = len(items) // 2
        half = Chunk(chunk.capacity, chunk.base)
        half.fill(items[middle:], values[middle:], ages[middle:], 1)
        # What was charged in the younger half is in the values of the older one already.
        chunk.fill(items[:middle], values[:middle], ages[:middle], 1)
        return half

    def _install(self, chunks: list[Chunk], firsts: list[float]) -> None:
        capacity = _LEAST_CHUNKS
        while capacity < 2 * len(chunks):
            capacity *= 2
        room = capacity - len(chunks)
        self._live = self._end = len(chunks)
        if chunks:
            self._last = chunks[-1]  # or one is about to be opened
        self._chunks: list[Chunk | None] = [*chunks, *[None] * room]
        self._firsts = firsts + [0.0] * room
        for number, chunk in enumerate(chunks):
            chunk.number = number
        self._top = PrefixTree(capacity, [chunk.base + chunk.least[1] for chunk in chunks])

    def _pack(self, items: list[Waiting], slacks: list[float], ages: list[float]) -> None:
        """Put all that wait into new chunks, with nothing served since."""
        self._served = 0.0
        self._count = len(items)
        size = self._slots()
        chunks: list[Chunk] = []
        firsts: list[float] = []
        for low in range(0, max(1, len(items)), size):
            piece = slice(low, low + size)
            chunk = Chunk(size)
            chunk.fill(items[piece], slacks[piece], ages[piece], 1)
            chunks.append(chunk)
            firsts.append(ages[low] if ages else self._youngest)
        self._install(chunks, firsts)

    def _insert_spreading(self, item: Waiting, chunk: Chunk) -> None:
        """Insert into a chunk that has no room at the right age."""
        if 2 * (chunk.count + 1) > chunk.capacity:
            if chunk.capacity < _MOST_SLOTS:
                self._refill(chunk, 2 * chunk.capacity)
            else:
                self._number(split=chunk)
            self.insert(item)
            return
        items, values = chunk.waiting(), chunk.values()
        ages = [chunk.ages[other.slot] for other in items]
        chunk.fill(items, values, ages, chunk.capacity // (len(items) + 1))
        self._top.put(chunk.number, chunk.base + chunk.least[1])
        self.insert(item)
