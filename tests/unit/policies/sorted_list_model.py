"""A policy written as naively as its definition: sorted lists and scans.

Ratios are fractions; accounts are floats, exact for the dyadic numbers that the tests use.
"""

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

from sched_client.model import PolicyParameters
from sched_client.policies import WaitingEntry


@dataclass(eq=False)
class Stay:
    entry: WaitingEntry
    sequence: int
    returned: bool
    age_s: float
    served: float = 0.0
    overtaken: float = 0.0


class SortedListModel:
    """What every policy must do, in O(n) or worse."""

    def __init__(self, name: str, parameters: PolicyParameters) -> None:
        self.name = name
        self.parameters = parameters
        self.stays: list[Stay] = []  # oldest first
        self.choice: Stay | None = None
        self.reordering = False
        self.sequence = 0
        self.youngest_s = float("-inf")

    def work(self, entry: WaitingEntry) -> float:
        return entry.service_s if self.parameters.order_by == "service" else entry.tokens

    def ids(self) -> list[str]:
        return [stay.entry.request_id for stay in self.stays]

    def add(self, entry: WaitingEntry) -> None:
        self.sequence += 1
        self.youngest_s = max(self.youngest_s, entry.enqueued_s)
        self.stays.append(Stay(entry, self.sequence, returned=False, age_s=self.youngest_s))

    def give_back(self, entry: WaitingEntry) -> None:
        self.sequence += 1
        self.youngest_s = max(self.youngest_s, entry.enqueued_s)
        older = [stay for stay in self.stays if stay.age_s < entry.enqueued_s]
        stay = Stay(entry, self.sequence, returned=True, age_s=entry.enqueued_s)
        self.stays.insert(len(older), stay)

    def remove(self, request_id: str) -> None:
        gone = [stay for stay in self.stays if stay.entry.request_id == request_id]
        if gone:
            self.stays.remove(gone[0])
            if self.choice is gone[0]:
                self.choice = None

    def slack(self, stay: Stay) -> float:
        parameters = self.parameters
        return parameters.phi * stay.served + parameters.burst_work - stay.overtaken

    def charge(self, stay: Stay) -> float:
        return 0.0 if stay.returned else self.work(stay.entry)

    def rank(self, stay: Stay, now_s: float) -> tuple[object, ...]:
        entry = stay.entry
        if self.name == "fcfs":
            if stay.returned:
                return (0, entry.enqueued_s, -stay.sequence)
            return (1, stay.sequence)
        if stay.returned:
            return (entry.priority, 0, entry.enqueued_s, -stay.sequence)
        if self.name == "sjf":
            key: float | Fraction = self.work(entry)
        else:
            wait = max(Fraction(now_s) - Fraction(entry.enqueued_s), Fraction(0))
            key = -(1 + wait / Fraction(self.work(entry)))
        return (entry.priority, 1, key, entry.enqueued_s, stay.sequence)

    def rank_by_arrival(self, stay: Stay, _now_s: float) -> tuple[object, ...]:
        if stay.returned:
            return (stay.entry.priority, 0, stay.entry.enqueued_s, -stay.sequence)
        return (stay.entry.priority, 1, stay.sequence)

    def keeps_slack(self, candidate: Stay) -> bool:
        charge = self.charge(candidate)
        phi = self.parameters.phi
        older = self.stays[: self.stays.index(candidate)]
        return all(self.slack(stay) + phi * charge - charge >= 0 for stay in older)

    def decide(self, now_s: float) -> Stay:
        if len(self.stays) > self.parameters.reorder_above:
            self.reordering = True
        elif len(self.stays) <= self.parameters.reorder_until:
            self.reordering = False
        rank = self.rank_by_arrival if not self.reordering and self.name != "fcfs" else self.rank
        candidate = min(self.stays, key=lambda stay: rank(stay, now_s))
        if self.name == "fcfs":
            return candidate
        oldest = self.stays[0]
        guard_s = self.parameters.guard_s
        if guard_s is not None and now_s - oldest.entry.enqueued_s > guard_s:
            return oldest
        return candidate if self.keeps_slack(candidate) else oldest

    def peek(self, now_s: float) -> WaitingEntry:
        self.choice = self.decide(now_s)
        return self.choice.entry

    def pop(self, now_s: float) -> WaitingEntry:
        chosen = self.choice or self.decide(now_s)
        self.choice = None
        charge = self.charge(chosen)
        position = self.stays.index(chosen)
        del self.stays[position]
        for index, stay in enumerate(self.stays):
            stay.served += charge
            if index < position:
                stay.overtaken += charge
        return chosen.entry

    def revise(self, entry: WaitingEntry) -> None:
        for stay in self.stays:
            if stay.entry.request_id == entry.request_id:
                stay.entry = entry

    def update(
        self, parameters: PolicyParameters, re_estimate: Callable[[WaitingEntry], WaitingEntry]
    ) -> None:
        if parameters.order_by != self.parameters.order_by:
            for stay in self.stays:
                stay.served = stay.overtaken = 0.0
        self.parameters = parameters
        for stay in self.stays:
            stay.entry = re_estimate(stay.entry)
