"""A policy written as naively as its definition: sorted lists and scans.

Ratios are fractions; accounts are floats, exact for the dyadic numbers that the tests use.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

from sched_client.model import PolicyParameters
from sched_client.policies import WaitingEntry
from tests.unit.policies.queue_model import Job, QueueModel, factor_of


@dataclass(eq=False)
class Stay:
    entry: WaitingEntry
    sequence: int
    returned: bool
    age_s: float
    served: float = 0.0
    overtaken: float = 0.0
    # What an order of ewsjf sees it as; shared by the members of a group.
    job: Job | None = None


class SortedListModel:
    """What every policy must do, in O(n) or worse."""

    def __init__(self, name: str, parameters: PolicyParameters) -> None:
        self.name = name
        self.parameters = parameters
        self.stays: list[Stay] = []  # oldest first
        self.choice: Stay | None = None
        self.reordering = self.overloaded = False
        self.held_up: bool | None = False
        self.found: list[bool] = []
        self.long_at_s = -math.inf
        self.sequence = 0
        self.youngest_s = float("-inf")
        queued = name in ("ewsjf", "ewsjf-paper")
        self.queues = QueueModel(name, parameters) if queued else None
        self.next_job: Job | None = None
        # What was added up for one decision.
        self.units: dict[tuple[str, int], tuple[Stay, float]] = {}

    def work(self, entry: WaitingEntry) -> float:
        return entry.service_s if self.parameters.order_by == "service" else entry.tokens

    def ids(self) -> list[str]:
        return [stay.entry.request_id for stay in self.stays]

    def add(self, entry: WaitingEntry) -> None:
        self.sequence += 1
        self.youngest_s = max(self.youngest_s, entry.enqueued_s)
        stay = Stay(entry, self.sequence, returned=False, age_s=self.youngest_s)
        self.stays.append(stay)
        self.enter(stay)

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
            self.reordering = self.reordering and bool(self.stays)
            self.leave(gone[0])
            if self.choice is gone[0]:
                self.choice = None

    def slack(self, stay: Stay) -> float:
        parameters = self.parameters
        return parameters.phi * stay.served + parameters.burst_work - stay.overtaken

    def charge(self, stay: Stay) -> float:
        return 0.0 if stay.returned else self.work(stay.entry)

    def members(self, stay: Stay) -> list[Stay]:
        """Give all that wait and are one to an order, the first that goes before the others."""
        entry = stay.entry
        if not entry.group_id:
            return [stay]
        group = (entry.group_id, entry.priority)
        return [
            other
            for other in sorted(self.stays, key=lambda other: other.sequence)
            if not other.returned and (other.entry.group_id, other.entry.priority) == group
        ]

    def enter(self, stay: Stay, job: Job | None = None) -> None:
        """Put a stay into ewsjf's queues, in the place of what its group was before."""
        if self.queues is not None and not stay.returned:
            members = [other for other in self.members(stay) if other is stay or other.job]
            former = next(
                (other.job for other in members if other is not stay and other.job), None
            )
            if former is not None:
                self.queues.leave(former)
            self.put(members, job)

    def leave(self, stay: Stay) -> None:
        """Take a stay out of ewsjf's queues; it is not among the waiting any more."""
        if self.queues is not None and stay.job is not None:
            self.queues.leave(stay.job)
            rest = [other for other in self.stays if other.job is stay.job and other is not stay]
            stay.job = None
            if rest:
                self.put(sorted(rest, key=lambda other: other.sequence), None)

    def put(self, members: list[Stay], job: Job | None) -> None:
        assert self.queues is not None
        first, entries = members[0], [other.entry for other in members]
        one = Job(
            first.sequence,
            first.entry.enqueued_s,
            sum(entry.service_s for entry in entries),
            sum(entry.tokens for entry in entries),
            sum(self.order_work(entry) for entry in entries),
            first.entry.priority,
            None if job is None or first.entry.group_id else job.queue,
            (members[-1].sequence, self.order_work(entries[-1])),
        )
        for other in members:
            other.job = one
        self.queues.enter(one)

    def lane(self, entry: WaitingEntry) -> int:
        return entry.priority if self.parameters.tier_weight == math.inf else 0

    def order_work(self, entry: WaitingEntry) -> float:
        return self.work(entry) / factor_of(entry.priority, self.parameters.tier_weight)

    def rank(self, stay: Stay, now_s: float) -> tuple[object, ...]:
        entry = stay.entry
        if self.name == "fcfs":
            if stay.returned:
                return (0, entry.enqueued_s, -stay.sequence)
            return (1, stay.sequence)
        lane = self.lane(entry)
        if stay.returned:
            return (lane, 0, entry.enqueued_s, -stay.sequence)
        if self.queues is not None:
            return (lane, 1, stay.job is not self.next_job, stay.sequence)
        first, work = self.units.get((entry.group_id, entry.priority)) or self.unit(stay)
        enqueued_s = first.entry.enqueued_s
        key: float | Fraction = work
        if self.name == "hrrn":
            wait = max(Fraction(now_s) - Fraction(enqueued_s), Fraction(0))
            key = -(1 + wait / Fraction(work))
        return (lane, 1, key, enqueued_s, first.sequence, stay.sequence)

    def unit(self, stay: Stay) -> tuple[Stay, float]:
        """Give the first of those that are one to an order, and their work together."""
        members = self.members(stay)
        unit = members[0], sum(self.order_work(other.entry) for other in members)
        if stay.entry.group_id:
            self.units[stay.entry.group_id, stay.entry.priority] = unit
        return unit

    def rank_by_arrival(self, stay: Stay, _now_s: float) -> tuple[object, ...]:
        lane = self.lane(stay.entry)
        if stay.returned:
            return (lane, 0, stay.entry.enqueued_s, -stay.sequence)
        return (lane, 1, stay.sequence)

    def keeps_slack(self, candidate: Stay) -> bool:
        charge = self.charge(candidate)
        phi = self.parameters.phi
        older = self.stays[: self.stays.index(candidate)]
        return all(self.slack(stay) + phi * charge - charge >= 0 for stay in older)

    def decide(self, now_s: float) -> Stay:
        self.held_up = False
        if len(self.stays) > self.parameters.reorder_above or self.overloaded:
            self.reordering = True
        elif len(self.stays) <= self.parameters.reorder_until:
            self.reordering = False
        self.units.clear()
        if self.queues is not None:
            self.next_job = self.queues.first(now_s)
        rank = self.rank_by_arrival if not self.reordering and self.name != "fcfs" else self.rank
        candidate = min(self.stays, key=lambda stay: rank(stay, now_s))
        if self.name == "fcfs":
            return candidate
        oldest = self.stays[0]
        guard_s = self.parameters.guard_s
        if guard_s is not None and now_s - oldest.entry.enqueued_s > guard_s:
            self.held_up = None
            return oldest
        self.held_up = not self.keeps_slack(candidate)
        return oldest if self.held_up else candidate

    def arrived(self, waiting: int, now_s: float) -> None:
        if now_s - self.long_at_s > 300.0:
            self.found = []
        is_long = waiting > self.parameters.reorder_above
        self.found = [*self.found[-63:], is_long]
        self.long_at_s = now_s if is_long else self.long_at_s
        if sum(self.found) >= 16:
            self.overloaded = True
        elif sum(self.found) < 6:
            self.overloaded = False

    def peek(self, now_s: float) -> WaitingEntry:
        self.choice = self.decide(now_s)
        return self.choice.entry

    def pop(self, now_s: float) -> WaitingEntry:
        chosen = self.choice or self.decide(now_s)
        self.choice = None
        charge = self.charge(chosen)
        position = self.stays.index(chosen)
        del self.stays[position]
        if self.queues is not None and self.reordering and self.held_up is not None:
            self.queues.served(held_up=self.held_up)
        self.reordering = self.reordering and bool(self.stays)
        self.leave(chosen)
        for index, stay in enumerate(self.stays):
            stay.served += charge
            if index < position:
                stay.overtaken += charge
        return chosen.entry

    def revise(self, entry: WaitingEntry) -> None:
        for stay in self.stays:
            if stay.entry.request_id == entry.request_id:
                self.leave(stay)
                ratio = self.work(entry) / self.work(stay.entry)
                stay.entry = entry
                if self.queues is not None and self.queues.in_halves:
                    self.queues.moved(self.order_work(entry), ratio)
                self.enter(stay)

    def update(
        self, parameters: PolicyParameters, re_estimate: Callable[[WaitingEntry], WaitingEntry]
    ) -> None:
        before, self.parameters = self.parameters, parameters
        restarted = parameters.order_by != before.order_by
        if restarted:
            for stay in self.stays:
                stay.served = stay.overtaken = 0.0
        former = {id(stay): stay.job for stay in self.stays}
        moved: list[tuple[Stay, float]] = []
        for stay in self.stays:
            entry = re_estimate(stay.entry)
            if entry is not stay.entry:
                moved.append((stay, self.work(entry) / self.work(stay.entry)))
                stay.entry = entry
                former[id(stay)] = None
        if self.queues is None:
            return
        self.queues.update(parameters)
        for stay, ratio in moved if self.queues.in_halves else ():
            self.queues.moved(self.order_work(stay.entry), ratio)
        revised = any(former[id(stay)] is not stay.job for stay in self.stays)
        if restarted or revised or self.queues.ranks_anew(before):
            for queue in {id(job.queue): job.queue for job in self.queues.jobs}.values():
                assert queue is not None
                queue.empty_since = self.queues.rounds
            self.queues.jobs.clear()
            self.queues.halved.clear()
            for stay in self.stays:
                stay.job = None
            for stay in self.stays:
                self.enter(stay, former[id(stay)])
