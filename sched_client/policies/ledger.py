"""Who waits in which order of arrival, and how much overtaking each of them can still bear.

The guard of DESIGN.md, decision 6; the bound is proved in docs/guard.md. Standard library only.
"""

import math
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate
from typing import Final

from sched_client.policies.waiting import Waiting

_MIN_CAPACITY: Final = 32
# The densest the whole table may be after an insertion in the middle; single leaves may be full.
# Between them the limit falls linearly: Itai, Konheim, Rodeh, "A sparse table implementation of
# priority queues", 1981, which makes such insertions O(log^2 n) amortised.
_ROOT_DENSITY: Final = 0.75


@dataclass(slots=True)
class _Row:
    """What waits in a range of slots, oldest first; lists, as tuples would wake the collector."""

    items: list[Waiting]
    ages: list[float]
    values: list[float]
    total: float


class OvertakingLedger:
    """Waiting requests in slots by age, with the overtaking slack of each.

    Parameters
    ----------
    phi : float
        Share of the work served during a stay by which it may be overtaken, [0, 1).

    Notes
    -----
    Popping work w from slot i adds φ·w to the slack of every younger slot and takes (1 - φ)·w
    from every older one. Both are one change at one leaf: with S the work served so far, the
    slack without b₀ is φ·S + v_j + Σ_{k>j} c_k, where v_j = -φ·S at the start of the stay and a
    pop at i lowers c_i by w. A node keeps Σ c and the least v_j + Σ_{j<k, in the node} c_k, so a
    pop, an arrival and the least slack of a prefix are each one walk from leaf to root, O(log n).
    An empty slot has v = inf and keeps its c and its age.

    Arrivals take the next slot at the end. When there is none left, the waiting are packed into a
    table of two to four times their number, which also folds S and all c back to zero, so that
    rounding cannot build up; a table that is mostly empty shrinks. A given-back entry takes an
    empty slot at its age, or room is made around it.
    """

    __slots__ = (
        "_ages",
        "_capacity",
        "_count",
        "_end",
        "_items",
        "_least",
        "_phi",
        "_served",
        "_sums",
        "_youngest",
    )

    def __init__(self, phi: float) -> None:
        self._phi = phi
        self._count = 0
        self._youngest = -math.inf
        self._install(_Row([], [], [], 0.0), _MIN_CAPACITY)

    def __len__(self) -> int:
        """Count the waiting."""
        return self._count

    def __iter__(self) -> Iterator[Waiting]:
        """Iterate from the oldest to the youngest; past 32 slots or 8 for each at most."""
        return filter(None, self._items[: self._end])

    def append(self, item: Waiting) -> None:
        """Take in an arrival as the youngest, with nothing served or overtaken yet."""
        # Ages never fall along the slots even if the clock stepped back: bisection needs that.
        if item.enqueued_s > self._youngest:  # noqa: PLR1730 -- max() is a call for each arrival
            self._youngest = item.enqueued_s
        self._append(item, self._youngest)

    def _append(self, item: Waiting, age: float) -> None:
        if self._end == self._capacity:
            self._renew()
        slot = self._end
        self._end += 1
        self._place(item, slot, age, 0.0)  # nothing was ever served from the slots behind it

    def insert(self, item: Waiting) -> None:
        """Take in a given-back entry at its age, before all that were enqueued at that time."""
        age = item.enqueued_s
        self._youngest = max(self._youngest, age)
        slot = bisect_left(self._ages, age, 0, self._end)
        if slot < self._end and self._items[slot] is None:
            self._place(item, slot, age, self._sum_after(slot))
        elif slot > 0 and self._items[slot - 1] is None:
            self._place(item, slot - 1, age, self._sum_after(slot - 1))
        elif slot == self._end:
            self._append(item, age)
        else:
            self._insert_spreading(item, slot, age)

    def allows(self, item: Waiting, burst_work: float) -> bool:
        """Tell whether every older one keeps its slack ≥ 0 if this one goes next."""
        charge = item.charge
        needed = charge - self._phi * (self._served + charge) - burst_work
        # The least slack of all is at most that of a prefix: most calls end here.
        return self._least[1] >= needed or self._least_before(item.slot) >= needed

    def serve(self, item: Waiting) -> None:
        """Take out an item that goes next, and charge its work to the others."""
        charge = item.charge
        self._served += charge
        self._vacate(item, charge)

    def discard(self, item: Waiting) -> None:
        """Take out an item that was not served; nobody is charged."""
        self._vacate(item, 0.0)

    def oldest(self) -> Waiting:
        """Give the oldest of the waiting; there must be one."""
        least, node = self._least, 1
        while node < self._capacity:
            node *= 2
            if least[node] == math.inf:
                node += 1
        item = self._items[node - self._capacity]
        if item is None:
            raise RuntimeError("oldest() of an empty ledger")
        return item

    def slack(self, item: Waiting, burst_work: float) -> float:
        """Give φ·served + b₀ - overtaken of one waiting item."""
        value = self._least[self._capacity + item.slot] + self._sum_after(item.slot)
        return self._phi * self._served + burst_work + value

    def set_phi(self, phi: float) -> None:
        """Recompute every slack for another φ, as if it had held from the start; O(n)."""
        change = self._phi - phi
        if change != 0.0:
            capacity = self._capacity
            for item in self:
                # v + Σ c = -overtaken - φ·served_before, and what was overtaken stays.
                self._least[capacity + item.slot] += change * item.served_before
            self._phi = phi
            self._renew()

    def restart(self) -> None:
        """Begin every account anew, for work that is now counted in another unit; O(n)."""
        waiting = self._folded(0, self._end)
        waiting.values = [0.0] * len(waiting.items)
        for item in waiting.items:
            item.served_before = 0.0
        self._install(waiting, self._capacity)

    def _place(self, item: Waiting, slot: int, age: float, sum_after: float) -> None:
        self._items[slot] = item
        self._ages[slot] = age
        self._count += 1
        item.slot = slot
        item.served_before = self._served
        least, sums = self._least, self._sums
        node = self._capacity + slot
        least[node] = -self._phi * self._served - sum_after
        while node > 1:
            node >>= 1
            right = 2 * node + 1
            value = least[right - 1] + sums[right]
            if least[right] < value:  # noqa: PLR1730 -- min() is a call; this loop is hot
                value = least[right]
            if least[node] == value:
                return  # sums did not change either, so nothing above does
            least[node] = value

    def _vacate(self, item: Waiting, charge: float) -> None:
        least, sums = self._least, self._sums
        node = self._capacity + item.slot
        self._items[item.slot] = None
        least[node] = math.inf
        sums[node] -= charge
        while node > 1:
            node >>= 1
            right = 2 * node + 1
            right_sum = sums[right]
            sums[node] = sums[right - 1] + right_sum
            value = least[right - 1] + right_sum
            if least[right] < value:  # noqa: PLR1730 -- min() is a call; this loop is hot
                value = least[right]
            least[node] = value
        self._count -= 1
        if self._count * 8 < self._capacity > _MIN_CAPACITY:
            self._renew()

    def _least_before(self, slot: int) -> float:
        """Least v_j + Σ_{k>j} c_k over the slots j < slot; inf where none waits."""
        least, sums = self._least, self._sums
        node, found = self._capacity + slot, math.inf
        while node > 1:
            if node & 1:
                value = least[node - 1] + sums[node]
                if value < found:  # noqa: PLR1730 -- min() is a call; this loop is hot
                    found = value
            else:
                found += sums[node + 1]
            node >>= 1
        return found

    def _sum_after(self, slot: int) -> float:
        sums, node, total = self._sums, self._capacity + slot, 0.0
        while node > 1:
            if not node & 1:
                total += sums[node + 1]
            node >>= 1
        return total

    def _folded(self, low: int, high: int) -> _Row:
        """Give what waits in a range, the c of the range folded into its v."""
        base = self._capacity
        # The sum of c after each slot, to the end of the range; the last one is the whole.
        after = list(accumulate(reversed(self._sums[base + low : base + high]), initial=0.0))
        after.reverse()
        items = self._items
        held = [slot for slot in range(low, high) if items[slot] is not None]
        return _Row(
            items=[item for item in items[low:high] if item is not None],
            ages=[self._ages[slot] for slot in held],
            values=[self._least[base + slot] + after[slot - low + 1] for slot in held],
            total=after[0],
        )

    def _renew(self) -> None:
        """Pack the waiting into a table of fitting size, and count served work from zero."""
        served, offset = self._served, self._phi * self._served
        waiting = self._folded(0, self._end)
        waiting.values = [value + offset for value in waiting.values]
        for item in waiting.items:
            item.served_before -= served
        capacity = _MIN_CAPACITY
        while capacity < 2 * (len(waiting.items) + 1):
            capacity *= 2
        self._install(waiting, capacity)

    def _install(self, waiting: _Row, capacity: int) -> None:
        n = len(waiting.items)
        self._capacity = capacity
        self._end = self._count = n
        self._served = 0.0
        self._sums = [0.0] * (2 * capacity)
        self._items: list[Waiting | None] = [*waiting.items, *[None] * (capacity - n)]
        self._ages = waiting.ages + [0.0] * (capacity - n)
        for slot, item in enumerate(waiting.items):
            item.slot = slot
        # All sums are zero, so a level is the pairwise least of the one below; only the part of
        # it that holds anything is computed.
        levels, level, width = [], waiting.values, capacity
        while True:
            levels.append(level + [math.inf] * (width - len(level)))
            if width == 1:
                break
            if len(level) % 2:
                level.append(math.inf)
            level = list(map(min, level[::2], level[1::2]))
            width //= 2
        self._least = [math.inf]
        for level in reversed(levels):
            self._least += level

    def _insert_spreading(self, item: Waiting, slot: int, age: float) -> None:
        """Insert before the item at a slot after spreading the waiting around it."""
        height = self._capacity.bit_length() - 1
        size, level = 1, 0
        while True:
            size, level = 2 * size, level + 1
            if size > self._capacity:
                self._renew()  # packed and at least half empty: the next attempt finds room
                self.insert(item)
                return
            low = slot & -size
            held = sum(other is not None for other in self._items[low : low + size])
            if held + 1 <= size * (1.0 - (1.0 - _ROOT_DENSITY) * level / height):
                break
        rank = sum(other is not None for other in self._items[low:slot])
        self._spread(low, size, rank, (item, age))

    def _spread(self, low: int, size: int, rank: int, new: tuple[Waiting, float]) -> None:
        """Space out what waits in an aligned range, with a new item at a rank among it."""
        capacity, least, sums = self._capacity, self._least, self._sums
        row = self._folded(low, low + size)
        row.items.insert(rank, new[0])
        row.ages.insert(rank, new[1])
        row.values.insert(rank, math.inf)
        for slot in range(low, low + size):
            self._items[slot] = None
            least[capacity + slot] = math.inf
            sums[capacity + slot] = 0.0
        sums[capacity + low] = row.total  # counts for the slots before the range only
        n = len(row.items)
        for index, item in enumerate(row.items):
            slot = low + index * size // n
            self._items[slot] = item
            least[capacity + slot] = row.values[index]
            item.slot = slot
            # The empty slots that follow take the age along, so that ages never fall.
            until = low + (index + 1) * size // n
            self._ages[slot:until] = [row.ages[index]] * (until - slot)
        self._end = max(self._end, low + size)
        first, width = (capacity + low) // 2, size // 2
        while width:
            for node in range(first, first + width):
                self._combine(node)
            first, width = first // 2, width // 2
        while first:
            self._combine(first)
            first //= 2
        self._place(new[0], new[0].slot, new[1], self._sum_after(new[0].slot))

    def _combine(self, node: int) -> None:
        least, sums, right = self._least, self._sums, 2 * node + 1
        sums[node] = sums[right - 1] + sums[right]
        least[node] = min(least[right], least[right - 1] + sums[right])
