"""The queues that ewsjf serves from: the partition's, and a few for what is outside of all.

A request is put into a queue when it arrives or gets a new estimate, and stays there while it
waits: another partition changes where the next ones go, in O(queues). Standard library only.
"""

from bisect import bisect_right
from collections.abc import Callable
from math import inf
from typing import TYPE_CHECKING, Final

from sched_client.model import Partition, PolicyParameters

if TYPE_CHECKING:
    from sched_client.policies.cells import Cell
    from sched_client.policies.waiting import Waiting

    Value = Callable[[Cell, Waiting], tuple[float, float]]

# Beyond these of what a queue was seen to hold, a request is none of its own (EWSJF, §3.2).
LOWER_TOLERANCE: Final = 0.90
UPPER_TOLERANCE: Final = 1.10
# A bubble reaches from half to twice the work that opened it, so that one holds a new class.
BUBBLE_WIDTH: Final = 2.0
# Rounds without a request after which a bubble is dropped (EWSJF: 20 empty cycles).
IDLE_ROUNDS: Final = 20
MAX_BUBBLES: Final = 8
# Queues of former partitions that still hold requests; with more, those are put anew.
MAX_DRAINING: Final = 8
# The work of a queue of which nothing was learned, seconds.
_UNKNOWN_SIZE_S: Final = 1.0
# A mean outside of these would make aging infinite or nothing.
_LEAST_S: Final = 1e-6
_MOST_S: Final = 1e9
# Sums of tokens are kept in 1/1024 and therefore exact; a request counts as no more than that.
TOKEN: Final = 1024
_MOST_TOKENS: Final = 1e12
_MOST_AMOUNT: Final = int(_MOST_TOKENS) * TOKEN


class Queue:
    """One queue: what belongs to it, and how much of it waits.

    Attributes
    ----------
    queue_id : str
        The partition's name of it; of a bubble, ``bubble`` and a number.
    low_s, high_s : float
        The work that it takes, in seconds, tolerance included.
    size_s : float
        Its mean work in seconds; of a bubble, the work that opened it.
    rate : float
        Score a second of waiting.
    position : int
        Place among the queues that take requests, 1 the shortest work.
    count, tokens : int
        How many wait in it, and their remaining tokens in 1/`TOKEN`.
    gone : bool
        Whether it takes no more requests.
    emptied : bool
        Whether those that wait, or waited, in it are put into another next time.
    idle_since : int
        The round in which it was last left empty.
    """

    __slots__ = (
        "count",
        "emptied",
        "gone",
        "high_s",
        "idle_since",
        "low_s",
        "position",
        "queue_id",
        "rate",
        "size_s",
        "tokens",
    )

    def __init__(self, queue_id: str, low_s: float, high_s: float, size_s: float) -> None:
        self.queue_id = queue_id
        self.low_s = low_s
        self.high_s = high_s
        self.size_s = size_s
        self.rate = 0.0
        self.position = 1
        self.count = self.tokens = 0
        self.gone = self.emptied = False
        self.idle_since = 0

    def holds(self, service_s: float) -> bool:
        """Tell whether an amount of work is within the queue's limits."""
        return self.low_s <= service_s <= self.high_s


class QueueBook:
    """All queues of one policy, and which of them a request goes to.

    Parameters
    ----------
    parameters : PolicyParameters
        Holds the partition and what ages a queue.
    value : callable, optional
        Gives a cell's ``level`` and ``rate`` for its head, in place of ewsjf's own; then a queue
        keeps the order of arrival whatever ``within`` says.

    Attributes
    ----------
    parameters : PolicyParameters
        The latest.
    value : callable or None
        As given.
    by_arrival : bool
        Whether queues keep the order of arrival.
    version : int
        Counts up when anything but the counts of the waiting has changed.
    tokens : int
        Remaining tokens of all that wait in queues, in 1/`TOKEN`.
    """

    __slots__ = (
        "_bounds",
        "_bubbles",
        "_draining",
        "_opened",
        "_queues",
        "_rounds",
        "by_arrival",
        "parameters",
        "tokens",
        "value",
        "version",
    )

    def __init__(self, parameters: PolicyParameters, value: "Value | None" = None) -> None:
        self.parameters = parameters
        self.value = value
        self.by_arrival = value is not None or parameters.within == "fcfs"
        self.version = 0
        self.tokens = 0
        self._rounds = self._opened = 0
        self._bounds: tuple[float, ...] = ()
        self._queues: list[Queue] = []
        self._bubbles: list[Queue] = []
        self._draining: list[Queue] = []
        self._install(parameters.partition)

    @property
    def queues(self) -> list[Queue]:
        """The queues that take requests, shortest work first."""
        return sorted([*self._queues, *self._bubbles], key=lambda queue: queue.size_s)

    @property
    def draining(self) -> list[Queue]:
        """The queues that only wait until they are empty."""
        return [queue for queue in self._draining if queue.count]

    def queue_of(self, service_s: float) -> Queue:
        """Give the queue for an amount of work, and open a bubble where there is none."""
        queue = self._queues[bisect_right(self._bounds, service_s)]
        if queue.low_s <= service_s <= queue.high_s:
            return queue
        return self._bubble_of(service_s) or queue

    def enter(self, queue: Queue, tokens: float) -> int:
        """Count a request that begins to wait in a queue; give what it counts as in 1/`TOKEN`."""
        amount = int(tokens * TOKEN) or 1 if tokens < _MOST_TOKENS else _MOST_AMOUNT
        queue.count += 1
        queue.tokens += amount
        self.tokens += amount
        return amount

    def leave(self, queue: Queue, amount: int) -> None:
        """Count a request that leaves a queue, as what it entered: a round."""
        queue.count -= 1
        queue.tokens -= amount
        self.tokens -= amount
        self._rounds += 1
        if not queue.count:
            queue.idle_since = self._rounds
        if self._bubbles:
            self._drop_idle()

    def update(self, parameters: PolicyParameters) -> bool:
        """Apply new parameters, O(queues); tell whether all that wait must be put anew."""
        before, self.parameters = self.parameters, parameters
        self._let_go(self._draining)
        self._draining = self.draining
        self.by_arrival = self.value is not None or parameters.within == "fcfs"
        if parameters.partition == before.partition:
            self._renew()
        else:
            self._install(parameters.partition)
        overfull = len(self._draining) > MAX_DRAINING
        for queue in self._draining:
            queue.emptied = overfull
        return overfull or self._ranks_otherwise(before)

    def _ranks_otherwise(self, before: PolicyParameters) -> bool:
        """Tell whether those that wait in a queue, or their tiers, are ranked in another way."""
        after = self.parameters
        if before.tier_weight != after.tier_weight:
            return True
        if self.value is not None or before.within == after.within == "fcfs":
            return False
        if before.within != after.within or before.aging_rate or after.aging_rate:
            return _ranked_by(before) != _ranked_by(after)
        # Without aging the fewest tokens go first, whatever urgency weighs.
        return (before.w_urgency > 0.0) != (after.w_urgency > 0.0)

    def clear(self) -> None:
        """Count from zero: all that wait are about to enter again."""
        for queue in (*self._queues, *self._bubbles, *self._draining):
            if queue.count:
                queue.idle_since = self._rounds
            queue.count = queue.tokens = 0
        self.tokens = 0

    def _bubble_of(self, service_s: float) -> Queue | None:
        """Give the bubble for work beyond its own queue; None where that takes it all the same."""
        if any(queue.holds(service_s) for queue in self._queues):
            return None  # near the boundary, seen in the neighbour: as the boundary says
        for bubble in self._bubbles:
            if bubble.holds(service_s):
                return bubble
        if len(self._bubbles) >= MAX_BUBBLES:
            return None
        low_s, high_s = service_s / BUBBLE_WIDTH, service_s * BUBBLE_WIDTH
        for queue in (*self._queues, *self._bubbles):
            if queue.high_s < service_s:
                low_s = max(low_s, queue.high_s)
            else:
                high_s = min(high_s, queue.low_s)
        self._opened += 1
        bubble = Queue(f"bubble{self._opened}", low_s, high_s, service_s)
        self._bubbles.append(bubble)
        self._renew()
        return bubble

    def _drop_idle(self) -> None:
        latest = self._rounds - IDLE_ROUNDS
        for bubble in self._bubbles:
            if not bubble.count and bubble.idle_since <= latest:
                bubble.gone = bubble.emptied = True
                self._bubbles.remove(bubble)  # at most one a round was left empty so long ago
                self._renew()
                return

    def _install(self, partition: Partition) -> None:
        """Take over a partition: known names keep their queue, what is gone drains."""
        known = {queue.queue_id: queue for queue in (*self._queues, *self._draining)}
        before = (*self._queues, *self._bubbles, *self._draining)
        sizes = sizes_of(partition)
        self._bounds = partition.boundaries_s
        self._queues = []
        self._bubbles = []
        for index, queue_id in enumerate(partition.queue_ids):
            queue = known.get(queue_id) or Queue(queue_id, 0.0, inf, 0.0)
            queue.size_s = max(sizes[index], _LEAST_S)  # it divides, and bounds may be 0
            queue.low_s, queue.high_s = -inf, inf
            if partition.lowers_s and partition.uppers_s:
                queue.low_s = LOWER_TOLERANCE * partition.lowers_s[index]
                queue.high_s = UPPER_TOLERANCE * partition.uppers_s[index]
            queue.gone = queue.emptied = False
            self._queues.append(queue)
        live = set(self._queues)
        gone = [queue for queue in before if queue not in live]
        for queue in gone:
            queue.gone = True
        self._let_go(gone)
        self._draining = [queue for queue in gone if queue.count]
        self._renew()

    @staticmethod
    def _let_go(queues: list[Queue]) -> None:
        """Let nobody come back to those that are empty: they are about to be forgotten."""
        for queue in queues:
            if not queue.count:
                queue.emptied = True

    def _renew(self) -> None:
        """Compute again what depends on the weights and on who is there."""
        rate, power = self.parameters.aging_rate, self.parameters.aging_power
        for position, queue in enumerate(self.queues, 1):
            queue.position = position
        for queue in (*self._queues, *self._bubbles, *self._draining):
            queue.rate = rate * min(max(queue.size_s, _LEAST_S), _MOST_S) ** -power
        self.version += 1


def sizes_of(partition: Partition) -> list[float]:
    """Give the work that stands for each queue, ascending: its mean, kept within its bounds.

    Without means: the middle of its bounds, half the first one, and one and a half of the last.
    """
    bounds = partition.boundaries_s
    if not bounds:
        return [partition.means_s[0] if partition.means_s else _UNKNOWN_SIZE_S]
    lows, highs = (0.0, *bounds), (*bounds, 2.0 * bounds[-1])
    middles = [(low + high) / 2.0 for low, high in zip(lows, highs, strict=True)]
    if not partition.means_s:
        return middles
    last = len(bounds)
    return [
        max(lows[index], mean if index == last else min(mean, highs[index]))
        for index, mean in enumerate(partition.means_s)
    ]


def _ranked_by(parameters: PolicyParameters) -> tuple[object, ...]:
    return (
        parameters.within,
        parameters.w_urgency,
        parameters.aging_rate,
        parameters.aging_power,
    )
