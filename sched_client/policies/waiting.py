"""What a policy keeps of one waiting request, and what it refuses to take in.

Standard library only.
"""

from collections.abc import Callable
from math import inf
from operator import lt
from typing import TYPE_CHECKING, Final, get_args

from sched_client.model import MAX_REORDER_ABOVE, Between, OrderBy, PolicyParameters, Within
from sched_client.policies.base import WaitingEntry
from sched_client.policies.tiers import strict, tier_factor, tier_of
from sched_client.settings import MAX_TIER_WEIGHT, WEIGHT_LIMITS

if TYPE_CHECKING:
    from sched_client.policies.blocks import Block
    from sched_client.policies.cells import Cell
    from sched_client.policies.chunk import Chunk

# 10^12 s is 30,000 years. Work beyond it is counted as this much by the guard, so that sums of
# charges stay finite whatever an estimate says; the order itself compares the true value.
MAX_CHARGE: Final = 1e12
# What is left of a work that a tier's weight has multiplied or divided is positive and finite.
_LEAST_WORK: Final = 1e-300
_MOST_WORK: Final = 1e300


class Waiting:
    """One stay of an entry in the queue; giving an entry back begins another stay.

    Attributes
    ----------
    request_id, enqueued_s, service_s, tokens, queue_id, group_id, priority
        As in `WaitingEntry`; the estimate is replaced by `take`.
    work, charge : float
        What the order counts in, ``service_s`` or ``tokens``, divided by the weight of its tier;
        and what is charged to those who wait when this one is popped, which no tier changes.
    sequence : int
        Counts stays up; breaks ties between stays that were enqueued at the same time.
    returned : bool
        Whether this stay began with a give-back: it goes first and is charged to nobody.
    lane : int
        Its priority where a smaller one always goes first, else 0.
    cell : Cell or None
        The queue that ewsjf put it into, which sets it; None before, and after a new estimate.
    amount : int
        Its tokens as that queue counts them, which ewsjf sets, too.
    chunk, slot : Chunk, int
        Where the guard's ledger keeps it; that sets them.
    block, place : Block, int
        Where hrrn keeps it; that sets them.
    rank : bytes
        By what a `KeyedOrder` ranks it; that sets it.
    served_before : float
        Work served up to the start of this stay, on the ledger's own count, which sets it.

    Notes
    -----
    The values of an entry and not the entry, and nothing else that Python's garbage collector
    counts: each object more that stays with a request lets the collector run in 0.15 % more of
    the arrivals, for some 60 µs (benchmarks/scheduler.py).
    """

    __slots__ = (
        "amount",
        "block",
        "cell",
        "charge",
        "chunk",
        "enqueued_s",
        "group_id",
        "lane",
        "place",
        "priority",
        "queue_id",
        "rank",
        "request_id",
        "returned",
        "sequence",
        "served_before",
        "service_s",
        "slot",
        "tokens",
        "work",
    )

    amount: int
    chunk: "Chunk"
    slot: int
    block: "Block"
    place: int
    rank: bytes
    served_before: float

    def __init__(self, entry: WaitingEntry, work: float, sequence: int, *, returned: bool) -> None:
        (
            self.request_id,
            self.enqueued_s,
            self.service_s,
            self.tokens,
            self.queue_id,
            self.group_id,
            self.priority,
        ) = entry
        self.work = work
        charged = work if work < MAX_CHARGE else MAX_CHARGE  # noqa: FURB136 -- min() is a call
        self.charge = 0.0 if returned else charged
        self.sequence = sequence
        self.returned = returned
        self.lane = self.priority
        self.cell: Cell | None = None

    @property
    def entry(self) -> WaitingEntry:
        """The request as a policy shows it, built anew each time."""
        # As WaitingEntry._make, without the call and the count of what is here.
        return tuple.__new__(
            WaitingEntry,
            (
                self.request_id,
                self.enqueued_s,
                self.service_s,
                self.tokens,
                self.queue_id,
                self.group_id,
                self.priority,
            ),
        )

    def take(self, entry: WaitingEntry) -> None:
        """Take over a new estimate; what it counts as is told by `count`."""
        self.service_s, self.tokens = entry.service_s, entry.tokens
        self.queue_id, self.group_id = entry.queue_id, entry.group_id
        self.cell = None

    def count(self, work: float) -> None:
        """Count as another amount of work from now on, whatever its tier."""
        self.work = work
        self.charge = 0.0 if self.returned else min(work, MAX_CHARGE)

    def weigh(self, parameters: PolicyParameters) -> None:
        """Let the order see the work that was counted divided by the weight of its tier."""
        if strict(parameters):
            self.lane = self.priority
            return
        self.lane = 0
        weight = parameters.tier_weight
        factor = tier_factor(tier_of(self.priority, weight), weight)
        if factor != 1.0:
            self.work = min(max(self.work / factor, _LEAST_WORK), _MOST_WORK)


def work_of(entry: WaitingEntry | Waiting, order_by: OrderBy) -> float:
    """Give the work of a request in the unit that a policy counts in."""
    return entry.service_s if order_by == "service" else entry.tokens


def check_entry(entry: WaitingEntry) -> None:
    """Refuse an entry that no order can rank.

    Raises
    ------
    ValueError
        If work is not finite and > 0, or the enqueue time is not finite.
    """
    # One chain for the usual case: this runs for each request on the engine's thread.
    if 0.0 < entry.service_s < inf > entry.tokens > 0.0 and -inf < entry.enqueued_s < inf:
        return
    for name in ("service_s", "tokens"):
        value = getattr(entry, name)
        if not 0.0 < value < inf:
            raise ValueError(
                f"{name} of {entry.request_id!r} is {value}, and must be finite and > 0; "
                "estimate it with sched_client.model.evaluate()"
            )
    raise ValueError(
        f"enqueued_s of {entry.request_id!r} is {entry.enqueued_s}, and must be finite; "
        "stamp it with time.monotonic()"
    )


def check_parameters(parameters: PolicyParameters) -> None:
    """Refuse parameters that would make the guard meaningless.

    Raises
    ------
    ValueError
        Naming the value, its limit and the remedy.
    """
    if parameters.order_by not in ("service", "tokens"):
        raise ValueError(f"order_by is {parameters.order_by!r}; use service or tokens")
    if not 0.0 <= parameters.phi < 1.0:
        raise ValueError(f"phi is {parameters.phi}, and must be in [0, 1); 0.3 is the default")
    if not parameters.burst_work >= 0.0:
        raise ValueError(
            f"burst_work is {parameters.burst_work}, and must be >= 0; inf switches the guard off"
        )
    for name in ("reorder_above", "reorder_until"):
        value = getattr(parameters, name)
        if not 0 <= value <= MAX_REORDER_ABOVE:
            raise ValueError(
                f"{name} is {value}, and must be in [0, {MAX_REORDER_ABOVE}]; "
                "0 always asks the order"
            )
    if parameters.guard_s is not None and not parameters.guard_s > 0.0:
        raise ValueError(f"guard_s is {parameters.guard_s}, and must be > 0; None switches it off")
    _check_scoring(parameters)


def _check_scoring(parameters: PolicyParameters) -> None:
    for name, known in (("within", get_args(Within)), ("between", get_args(Between))):
        if getattr(parameters, name) not in known:
            raise ValueError(f"{name} is {getattr(parameters, name)!r}; use {' or '.join(known)}")
    for name, limit in WEIGHT_LIMITS.items():
        value = getattr(parameters, name)
        if not 0.0 <= value <= limit:
            raise ValueError(f"{name} is {value}, and must be in [0, {limit:g}]")
    weight = parameters.tier_weight
    if not (1.0 <= weight <= MAX_TIER_WEIGHT or weight == inf):
        raise ValueError(
            f"tier_weight is {weight}, and must be in [1, {MAX_TIER_WEIGHT:g}] or infinite"
        )
    partition = parameters.partition
    bounds, count = partition.boundaries_s, len(partition.queue_ids)
    if count != len(bounds) + 1 or not all(map(lt, bounds, bounds[1:])):
        raise ValueError(f"boundaries_s are {bounds} and must ascend, one fewer than queue_ids")
    for name in ("lowers_s", "uppers_s", "means_s"):
        if len(getattr(partition, name)) not in (0, count):
            raise ValueError(f"{name} of the partition must be {count} or none")


def re_estimated(
    entry: WaitingEntry, re_estimate: Callable[[WaitingEntry], WaitingEntry]
) -> WaitingEntry:
    """Give the new estimate of an entry, or refuse it.

    Raises
    ------
    ValueError
        If no order can rank the result, or it is not the same request any more.
    """
    after = re_estimate(entry)
    if after is not entry:
        check_revision(entry, after)
    return after


def check_revision(before: WaitingEntry, after: WaitingEntry) -> None:
    """Refuse a new estimate that no order can rank, or that is of another request.

    Raises
    ------
    ValueError
        Naming what changed, from what to what.
    """
    check_entry(after)
    for name in ("request_id", "enqueued_s", "priority"):
        old, new = getattr(before, name), getattr(after, name)
        if old != new:
            raise ValueError(
                f"re_estimate changed {name} of {before.request_id!r} from {old!r} to {new!r}; "
                "change only service_s, tokens, queue_id and group_id"
            )
