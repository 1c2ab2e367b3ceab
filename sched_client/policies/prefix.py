"""Least values of prefixes, where a change at a place counts for all before it.

Standard library only.
"""

import math
from typing import Final

NONE: Final = math.inf


class PrefixTree:
    """Values in a row; a charge at a place lowers every value before it.

    Parameters
    ----------
    capacity : int
        Places, a power of two, >= 2.
    values : list of float, optional
        The first values, `capacity` at most; the other places hold none, which is infinite.

    Notes
    -----
    With v_j the value put at a place and c_k the charges at one (a negative sum), the value is
    v_j + Σ_{k>j} c_k. A node keeps Σ c of its places and the least v_j + Σ_{k>j, in the node} c_k,
    so that a change and the least of a prefix are each one walk from leaf to root.
    """

    __slots__ = ("capacity", "least", "sums")

    def __init__(self, capacity: int, values: list[float] | None = None) -> None:
        self.capacity = capacity
        self.sums = [0.0] * (2 * capacity)
        if not values:
            self.least = [NONE] * (2 * capacity)
            return
        # No charges yet, so a level is the pairwise least of the one below.
        level = values + [NONE] * (capacity - len(values))
        levels = [level]
        while len(level) > 1:
            level = list(map(min, level[::2], level[1::2]))
            levels.append(level)
        self.least = [NONE]
        for level in reversed(levels):
            self.least += level

    def put(self, place: int, value: float) -> None:
        """Replace the value of a place, not counting what is charged after it."""
        least, sums = self.least, self.sums
        node = self.capacity + place
        least[node] = value
        while node > 1:
            if node & 1:
                other = least[node - 1] + sums[node]
            else:
                value += sums[node + 1]
                other = least[node + 1]
            if other < value:  # noqa: PLR1730 -- min() is a call; this loop is hot
                value = other
            node >>= 1
            if least[node] == value:
                return
            least[node] = value

    def append(self, place: int, value: float) -> bool:
        """Put a value behind all others, or a lower one at the last place that holds any.

        Nothing may have been charged after it, so that each sum up to the root stands.

        Returns
        -------
        bool
            Whether it is the least of all.
        """
        least, node = self.least, self.capacity + place
        while node and value < least[node]:
            least[node] = value
            node >>= 1
        return not node

    def charge(self, place: int, value: float, amount: float) -> float:
        """Replace the value of a place, lower all before it; give the least of all."""
        least, sums = self.least, self.sums
        node = self.capacity + place
        least[node] = value
        sums[node] = total = sums[node] - amount
        while node > 1:
            if node & 1:
                other = least[node - 1] + total
                total += sums[node - 1]
            else:
                after = sums[node + 1]
                value += after
                total += after
                other = least[node + 1]
            if other < value:  # noqa: PLR1730 -- min() is a call; this loop is hot
                value = other
            node >>= 1
            least[node] = value
            sums[node] = total
        return value

    def least_before(self, place: int) -> float:
        """Give the least of the values before a place; infinite where there is none."""
        least, sums = self.least, self.sums
        node, found = self.capacity + place, NONE
        while node > 1:
            if node & 1:
                value = least[node - 1] + sums[node]
                if value < found:  # noqa: PLR1730 -- min() is a call; this loop is hot
                    found = value
            else:
                found += sums[node + 1]
            node >>= 1
        return found

    def sum_after(self, place: int) -> float:
        """Give Σ c of the places after one."""
        sums, node, total = self.sums, self.capacity + place, 0.0
        while node > 1:
            if not node & 1:
                total += sums[node + 1]
            node >>= 1
        return total

    def first(self) -> int:
        """Find the first place that holds a value; there must be one."""
        least, node = self.least, 1
        while node < self.capacity:
            node *= 2
            if least[node] == NONE:
                node += 1
        return node - self.capacity

    def next(self, place: int) -> int:
        """Find the next place after one that holds a value; -1 if none does."""
        least, node = self.least, self.capacity + place
        while node > 1:
            if not node & 1 and least[node + 1] != NONE:
                node += 1
                while node < self.capacity:
                    node *= 2
                    if least[node] == NONE:
                        node += 1
                return node - self.capacity
            node >>= 1
        return -1
