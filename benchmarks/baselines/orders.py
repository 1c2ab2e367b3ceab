"""Highest response ratio as others find it: a look at all, or a sort of all, for each pop.

The paper scans (arXiv 2603.11273); SGLang sorts in each pass of its scheduler. Neither has a
guard or priorities here, so that their cost is the least it can be.
"""

from sched_client.policies.waiting import Waiting


class ScannedRatio:
    """The highest ratio by a look at all that wait; O(n) for each choice."""

    def __init__(self) -> None:
        self._items: dict[int, Waiting] = {}

    def __len__(self) -> int:
        """Count the items."""
        return len(self._items)

    def push(self, item: Waiting) -> None:
        """Take in a waiting item."""
        self._items[item.sequence] = item

    def discard(self, item: Waiting) -> None:
        """Forget an item that is in it."""
        del self._items[item.sequence]

    def first(self, now_s: float) -> Waiting:
        """Give the item that goes next, the first that came among equals."""
        return max(self._items.values(), key=lambda item: (now_s - item.enqueued_s) / item.work)


class SortedRatio(ScannedRatio):
    """The same by a sort of all, as a pass that may admit several does; O(n log n)."""

    def first(self, now_s: float) -> Waiting:
        """Give the item that goes next, the first that came among equals."""
        in_order = sorted(
            self._items.values(), key=lambda item: (item.enqueued_s - now_s) / item.work
        )
        return in_order[0]
