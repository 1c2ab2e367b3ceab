"""Counts beside a queue what the guard's theorem is about, without asking the queue's ledger."""

import math
from collections.abc import Callable, Iterator

from sched_client.model import PolicyParameters
from sched_client.policies import Policy, WaitingEntry
from sched_client.policies.waiting import work_of

# Sums of floats in two orders.
_ROUNDING = 1.0 + 1e-9


class Witness:
    """A policy, and the bound of docs/guard.md checked at each pop.

    Parameters
    ----------
    policy : Policy
        Empty; does what it is asked.
    parameters : PolicyParameters
        What it was made with; they must stand, and estimates too.

    Attributes
    ----------
    checked, beyond : int
        Requests that were popped, and those of which more was served than the bound allows.
    largest_share : float
        The most of its bound that any request came to: served · (1 - φ) / (A + b₀).
    """

    def __init__(self, policy: Policy, parameters: PolicyParameters) -> None:
        self.name = policy.name
        self.load = policy.load
        self.checked = self.beyond = 0
        self.largest_share = 0.0
        self._policy = policy
        self._parameters = parameters
        self._waiting = self._served = 0.0
        # Work that waited, and had been served, when it came.
        self._came: dict[str, tuple[float, float]] = {}
        self.peek = policy.peek

    def add(self, entry: WaitingEntry) -> None:
        """Add an entry, and note what it found."""
        self._policy.add(entry)
        self._came[entry.request_id] = (self._waiting, self._served)
        self._waiting += work_of(entry, self._parameters.order_by)

    def pop(self, now_s: float) -> WaitingEntry:
        """Pop, and check the bound."""
        entry = self._policy.pop(now_s)
        work = work_of(entry, self._parameters.order_by)
        ahead, served_before = self._came.pop(entry.request_id)
        self.checked += 1
        phi, burst_work = self._parameters.phi, self._parameters.burst_work
        if burst_work < math.inf:
            allowed = (ahead + burst_work) / (1.0 - phi)
            share = (self._served - served_before) / allowed
            self.largest_share = max(self.largest_share, share)
            self.beyond += share > _ROUNDING
        self._waiting -= work
        self._served += work
        return entry

    def remove(self, request_id: str) -> None:
        """Refuse: the jobs of these runs stay to the end."""
        raise NotImplementedError(f"{request_id} leaves; the witness counts full stays only")

    def give_back(self, entry: WaitingEntry) -> None:
        """Refuse: the engines of these runs do not preempt."""
        raise NotImplementedError(f"{entry.request_id} is given back; a stay counts once here")

    def update(
        self,
        parameters: PolicyParameters,
        re_estimate: Callable[[WaitingEntry], WaitingEntry] | None = None,
    ) -> None:
        """Refuse: the theorem is about parameters that stand."""
        raise NotImplementedError(f"{parameters} with {re_estimate}: the bound is of fixed ones")

    def revise(self, entry: WaitingEntry) -> None:
        """Refuse: estimates stand."""
        raise NotImplementedError(f"{entry.request_id} is revised; estimates must stand")

    def __len__(self) -> int:
        return len(self._policy)

    def __iter__(self) -> Iterator[WaitingEntry]:
        return iter(self._policy)
