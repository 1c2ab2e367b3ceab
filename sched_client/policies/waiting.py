"""What a policy keeps of one waiting request, and what it refuses to take in.

Standard library only.
"""

import math
from collections.abc import Callable
from typing import Final

from sched_client.model import OrderBy, PolicyParameters
from sched_client.policies.base import WaitingEntry

# 10^12 s is 30,000 years. Work beyond it is counted as this much by the guard, so that sums of
# charges stay finite whatever an estimate says; the order itself compares the true value.
MAX_CHARGE: Final = 1e12


class Waiting:
    """One stay of an entry in the queue; giving an entry back begins another stay.

    A new object for each stay makes lazy deletion safe: a stale heap item stays stale.

    Attributes
    ----------
    entry : WaitingEntry
        The request; replaced when it is re-estimated.
    enqueued_s : float
        The entry's, at hand for comparisons.
    work : float
        The field of ``entry`` that the order counts in.
    sequence : int
        Counts stays up; breaks ties, so that entries themselves are never compared.
    returned : bool
        Whether this stay began with a give-back: it goes first and is charged to nobody.
    present : bool
        False once it has left; heaps drop such items when they meet them.
    slot, leaf : int
        Where the guard's ledger and the hrrn tournament keep it.
    served_before : float
        Work served up to the start of this stay, on the ledger's own count.
    """

    __slots__ = (
        "enqueued_s",
        "entry",
        "leaf",
        "present",
        "returned",
        "sequence",
        "served_before",
        "slot",
        "work",
    )

    def __init__(self, entry: WaitingEntry, work: float, sequence: int, *, returned: bool) -> None:
        self.entry = entry
        self.enqueued_s = entry.enqueued_s
        self.work = work
        self.sequence = sequence
        self.returned = returned
        self.present = True
        self.slot = -1
        self.leaf = -1
        self.served_before = 0.0

    def revised(self, entry: WaitingEntry, work: float) -> "Waiting":
        """Give the object that stands for this stay from now on, under a new estimate."""
        item = Waiting(entry, work, self.sequence, returned=self.returned)
        item.slot = self.slot
        item.served_before = self.served_before
        return item

    @property
    def charge(self) -> float:
        """Work charged to those who wait when this one is popped."""
        return 0.0 if self.returned else min(self.work, MAX_CHARGE)


def work_of(entry: WaitingEntry, order_by: OrderBy) -> float:
    """Give the work of an entry in the unit that a policy counts in."""
    return entry.service_s if order_by == "service" else entry.tokens


def check_entry(entry: WaitingEntry) -> None:
    """Refuse an entry that no order can rank.

    Raises
    ------
    ValueError
        If work is not finite and > 0, or the enqueue time is not finite.
    """
    # One chain for the usual case: this runs for each request on the engine's thread.
    if 0.0 < entry.service_s < math.inf > entry.tokens > 0.0 and math.isfinite(entry.enqueued_s):
        return
    for name in ("service_s", "tokens"):
        value = getattr(entry, name)
        if not 0.0 < value < math.inf:
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
    if parameters.guard_s is not None and not parameters.guard_s > 0.0:
        raise ValueError(f"guard_s is {parameters.guard_s}, and must be > 0; None switches it off")


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
