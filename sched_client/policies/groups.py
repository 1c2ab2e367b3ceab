"""Pieces of one file as one job: an order that holds a unit for each group.

A caller who sent a file of ten minutes waits for its last piece, so its pieces are ranked by what
the file still needs, and come out one after another. Standard library only.
"""

from heapq import heappop, heappush
from typing import Final

from sched_client.policies.base import WaitingEntry
from sched_client.policies.orders import Order
from sched_client.policies.waiting import MAX_CHARGE, Waiting

# Work is summed in 2^-30 seconds or tokens, in whole numbers: a sum of floats from which others
# are taken again may end up at nothing, or below it, while somebody still waits.
_RESOLUTION: Final = 2.0**30
# A heap is cleaned when more than half of it has left; below this it is not worth it.
_MIN_STALE: Final = 32


class GroupUnit(Waiting):
    """The waiting members of one group, as an order sees them: one item.

    Its work, seconds and tokens are the sums of its members'; its age and its place among equals
    are those of the member that goes next. Nothing in it may change while an order holds it.

    Attributes
    ----------
    newest : int
        The sequence of the member that arrived last, for orders that count arrivals; it may have
        left, and nothing else of it is kept then.
    newest_work : float
        The work of that one.
    """

    __slots__ = (
        "_heap",
        "_members",
        "_service",
        "_tokens",
        "_work",
        "newest",
        "newest_work",
    )

    def __init__(self, item: Waiting) -> None:
        super().__init__(item.entry, item.work, item.sequence, returned=False)
        self.newest, self.newest_work = item.sequence, item.work
        self._members = {item.sequence: item}
        self._heap = [item.sequence]
        self._service = _counted(item.service_s)
        self._tokens = _counted(item.tokens)
        self._work = _counted(item.work)

    def __len__(self) -> int:
        """Count the members."""
        return len(self._members)

    @property
    def first(self) -> Waiting:
        """The member that goes next: the first that arrived."""
        return self._members[self._heap[0]]

    def join(self, item: Waiting) -> None:
        """Take in a member."""
        if item.sequence >= self.newest:
            self.newest, self.newest_work = item.sequence, item.work
        self._members[item.sequence] = item
        heappush(self._heap, item.sequence)
        self._service += _counted(item.service_s)
        self._tokens += _counted(item.tokens)
        self._work += _counted(item.work)
        self._renew()

    def leave(self, item: Waiting) -> None:
        """Let a member go; another one must remain."""
        members, heap = self._members, self._heap
        del members[item.sequence]
        self._service -= _counted(item.service_s)
        self._tokens -= _counted(item.tokens)
        self._work -= _counted(item.work)
        if len(heap) > 2 * len(members) + _MIN_STALE:
            heap[:] = sorted(members)
        while heap[0] not in members:
            heappop(heap)
        self._renew()

    def _renew(self) -> None:
        """Take over the sums; what one member alone is, is not rounded."""
        first = self.first
        self.request_id = first.request_id
        self.enqueued_s, self.sequence = first.enqueued_s, first.sequence
        work = first.work
        service_s, tokens = first.service_s, first.tokens
        if len(self._members) > 1:
            work = self._work / _RESOLUTION
            service_s, tokens = self._service / _RESOLUTION, self._tokens / _RESOLUTION
        self.take(
            WaitingEntry(
                first.request_id,
                first.enqueued_s,
                service_s,
                tokens,
                first.queue_id,
                first.group_id,
                first.priority,
            )
        )
        self.count(work)


class GroupedOrder:
    """An order of items in which the members of a group are one item.

    Parameters
    ----------
    order : Order
        Empty; ranks items without a group, and a `GroupUnit` for each group.

    Notes
    -----
    A member that comes, goes or gets a new estimate takes the unit out of the order and puts it
    back as it is then: O(log n), whatever the size of the group. What runs or has ended does not
    count: a group ranks by what still waits of it (docs/groups.md has what counting it would
    change). An item without a group costs one comparison more.
    """

    __slots__ = ("_members", "_order", "_units")

    def __init__(self, order: Order) -> None:
        self._order = order
        # By group and priority: a caller may give the pieces of what it calls one file several.
        self._units: dict[tuple[str, int], GroupUnit] = {}
        self._members = 0

    def __len__(self) -> int:
        """Count the items, each member of a group by itself."""
        return len(self._order) - len(self._units) + self._members

    def push(self, item: Waiting) -> None:
        """Take in a waiting item."""
        group_id = item.group_id
        if not group_id:
            self._order.push(item)
            return
        key = (group_id, item.priority)
        unit = self._units.get(key)
        if unit is None:
            unit = self._units[key] = GroupUnit(item)
        else:
            self._order.discard(unit)
            unit.join(item)
        self._members += 1
        self._order.push(unit)

    def discard(self, item: Waiting) -> None:
        """Forget an item that is in it."""
        group_id = item.group_id
        if not group_id:
            self._order.discard(item)
            return
        key = (group_id, item.priority)
        unit = self._units[key]
        self._order.discard(unit)
        self._members -= 1
        if len(unit) == 1:
            del self._units[key]
        else:
            unit.leave(item)
            self._order.push(unit)

    def first(self, now_s: float) -> Waiting:
        """Give the item that goes next, of a group its first member; there must be one."""
        item = self._order.first(now_s)
        return item.first if item.__class__ is GroupUnit else item


def _counted(work: float) -> int:
    """Give an amount of work in whole units, at least one."""
    return round(min(work, MAX_CHARGE) * _RESOLUTION) or 1
