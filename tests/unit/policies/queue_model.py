"""ewsjf's queues written as naively as docs/policies.md: every figure is counted anew."""

import math
from dataclasses import dataclass, field

from sched_client.model import Partition, PolicyParameters


@dataclass(eq=False)
class QueueState:
    name: str
    low_s: float
    high_s: float
    size_s: float
    position: int = 1
    rate: float = 0.0
    closed: bool = False
    empty_since: int = 0

    def holds(self, service_s: float) -> bool:
        return self.low_s <= service_s <= self.high_s


@dataclass(eq=False)
class Job:
    """What an order sees as one: a request, or what waits of a group."""

    sequence: int
    enqueued_s: float
    service_s: float
    tokens: float
    work: float
    priority: int
    queue: QueueState | None = None
    # Sequence and work of the member that arrived last: of a group each member is an arrival.
    newest: tuple[int, float] = (-1, 0.0)
    is_long: bool = False
    # By what it is ranked in its queue, fixed when the queue's first came in.
    rank_by: tuple[float, float] | None = None


def factor_of(priority: int, weight: float) -> float:
    if not priority or weight == math.inf:
        return 1.0
    return weight ** -max(-4, min(4, priority))


@dataclass
class QueueModel:
    name: str
    parameters: PolicyParameters
    live: list[QueueState] = field(default_factory=list)
    bubbles: list[QueueState] = field(default_factory=list)
    draining: list[QueueState] = field(default_factory=list)
    jobs: list[Job] = field(default_factory=list)
    rounds: int = 0
    opened: int = 0
    # In halves: who waits, what works tell who is short, and the youngest of them.
    halved: list[Job] = field(default_factory=list)
    works: list[float] = field(default_factory=list)
    latest: int = -1
    share: float = 1.0
    # How far the share may rise, the works at both sides of a gap, and arrivals since a look.
    limit: float = 1.0
    gap: tuple[float, float] | None = None
    unseen: int = 0

    def __post_init__(self) -> None:
        self.look()
        self.install()

    # -- who belongs where

    @property
    def in_halves(self) -> bool:
        return self.name == "ewsjf" and self.parameters.between == "halves"

    def served(self, *, held_up: bool) -> None:
        least = self.parameters.short_share
        self.share = (
            max(least, self.share - 0.01) if held_up else min(self.limit, self.share + 0.001)
        )

    def moved(self, work: float, ratio: float) -> None:
        found = [i for i, one in enumerate(self.works) if math.isclose(one, work / ratio)]
        if found:
            # Of equals the smallest, and of those the oldest.
            place = min(found, key=lambda i: (self.works[i], i))
            self.works[place] = work

    def count(self, work: float) -> None:
        self.works = [*self.works, work][-256:]
        self.unseen += 1
        if self.unseen == 64:
            self.look()

    def look(self) -> None:
        """Find the widest of the gaps, the lowest of equals."""
        least, most = self.parameters.short_share, self.parameters.short_share_most
        self.limit, self.gap, self.unseen = max(least, most), None, 0
        works = sorted(self.works)
        gaps = [
            (works[place] / works[place - 1], -place)
            for place in range(1, len(works))
            if least * len(works) <= place <= 0.95 * len(works)
        ]
        if most > least and len(works) >= 128 and max(gaps)[0] > 2.0:
            place = -max(gaps)[1]
            if sum(works[:place]) <= self.parameters.phi * sum(works):
                self.limit = place / len(works)
                self.gap = works[place - 1], works[place]
        self.share = min(max(self.share, least), self.limit)

    def halve(self, job: Job) -> None:
        sequence, work = job.newest
        if sequence > self.latest:
            self.latest = sequence
            self.count(work)
        below = sum(other < job.work for other in self.works)
        alike = sum(other == job.work for other in self.works)
        job.is_long = below + alike / 2 > self.share * len(self.works)
        if self.gap is not None and self.share == self.limit:
            # As far from both sides of the gap.
            job.is_long = job.work**2 >= self.gap[0] * self.gap[1]
        self.halved.append(job)

    def enter(self, job: Job) -> None:
        if self.in_halves:
            self.halve(job)
            return
        if job.queue is None or job.queue.closed:
            job.queue = self.route(job.service_s)
        cell = self.cell(job)
        other = next((other for other in self.jobs if self.cell(other) == cell), None)
        if self.name == "ewsjf-paper" or self.parameters.within == "fcfs":
            fresh = None
        else:
            fresh = (self.parameters.w_urgency, job.queue.rate)
        job.rank_by = fresh if other is None else other.rank_by
        self.jobs.append(job)

    def leave(self, job: Job) -> None:
        if job in self.halved:
            self.halved.remove(job)
            return
        self.jobs.remove(job)
        self.rounds += 1
        queue = job.queue
        assert queue is not None
        if not self.waiting(queue):
            queue.empty_since = self.rounds
        idle = [
            bubble
            for bubble in self.bubbles
            if not self.waiting(bubble) and self.rounds - bubble.empty_since >= 20
        ]
        for bubble in idle:
            bubble.closed = True
            self.bubbles.remove(bubble)
        if idle:
            self.renew()

    def route(self, service_s: float) -> QueueState:
        name = self.parameters.partition.queue_of(service_s)
        named = next(queue for queue in self.live if queue.name == name)
        if any(queue.holds(service_s) for queue in self.live):
            return named
        for bubble in self.bubbles:
            if bubble.holds(service_s):
                return bubble
        if len(self.bubbles) == 8:
            return named
        others = [*self.live, *self.bubbles]
        below = [queue.high_s for queue in others if queue.high_s < service_s]
        above = [queue.low_s for queue in others if queue.high_s >= service_s]
        low_s, high_s = max([*below, service_s / 2.0]), min([*above, service_s * 2.0])
        self.opened += 1
        bubble = QueueState(f"bubble {self.opened}", low_s, high_s, service_s)
        self.bubbles.append(bubble)
        self.renew()
        return bubble

    def waiting(self, queue: QueueState) -> list[Job]:
        return [job for job in self.jobs if job.queue is queue]

    def cell(self, job: Job) -> tuple[object, object]:
        """Give what those share that wait in one line: queue and tier."""
        weight = self.parameters.tier_weight
        tier = job.priority if weight == math.inf else factor_of(job.priority, weight)
        return (id(job.queue), tier)

    # -- who goes next

    def first(self, now_s: float) -> Job | None:
        strict = self.parameters.tier_weight == math.inf
        if self.halved:
            return min(
                self.halved,
                key=lambda job: (job.priority if strict else 0, job.is_long, job.sequence),
            )
        heads: dict[object, Job] = {}
        for job in sorted(self.jobs, key=self.rank):
            heads.setdefault(self.cell(job), job)

        def best(job: Job) -> tuple[float, float, int]:
            return (job.priority if strict else 0, -self.score(job, now_s), job.sequence)

        return min(heads.values(), key=best, default=None)

    def rank(self, job: Job) -> tuple[float, int]:
        if job.rank_by is None:
            return (0.0, job.sequence)
        urgency, rate = job.rank_by
        return (rate * job.enqueued_s - urgency / job.tokens, job.sequence)

    def score(self, job: Job, now_s: float) -> float:
        queue, parameters = job.queue, self.parameters
        assert queue is not None
        factor = factor_of(job.priority, parameters.tier_weight)
        wait = now_s - job.enqueued_s
        if self.name == "ewsjf-paper":
            size = job.tokens + 1.0  # both slopes of the weights are 0
            factor *= queue.position / size
            rate = factor * 1.0 / job.service_s
            level = factor * (1.0 + 0.5 * math.log(size)) - rate * job.enqueued_s
            return level + rate * now_s
        if parameters.between == "ratio":
            return wait / job.work
        if parameters.between == "shortest":
            return factor / queue.size_s
        # Added in this order as there, so that equal scores are equal here, too.
        rate = factor * queue.rate
        score = factor * (parameters.w_urgency / job.tokens) - rate * job.enqueued_s + rate * now_s
        if not parameters.w_fairness:
            return score
        density = len(self.waiting(queue)) * (1.0 / sum(other.tokens for other in self.jobs))
        return score + factor * parameters.w_fairness * density

    # -- what changes

    def update(self, parameters: PolicyParameters) -> None:
        before, self.parameters = self.parameters, parameters
        if parameters.order_by != before.order_by:
            self.works.clear()
            self.share = 1.0
            self.room = 256
            self.latest = -1
        self.look()
        self.drain(self.draining)
        if parameters.partition != before.partition:
            self.install()
        else:
            self.renew()
        for queue in self.draining:
            queue.closed = len(self.draining) > 8

    def install(self) -> None:
        partition = self.parameters.partition
        former = [*self.live, *self.bubbles, *self.draining]
        known = {queue.name: queue for queue in (*self.live, *self.draining)}
        self.live = []
        for index, name in enumerate(partition.queue_ids):
            queue = known.get(name) or QueueState(name, 0.0, 0.0, 0.0)
            queue.low_s, queue.high_s = -math.inf, math.inf
            if partition.lowers_s:
                queue.low_s = 0.90 * partition.lowers_s[index]
                queue.high_s = 1.10 * partition.uppers_s[index]
            queue.size_s = size_of(partition, index)
            queue.closed = False
            self.live.append(queue)
        self.bubbles = []
        self.drain([queue for queue in former if queue not in self.live])
        self.renew()

    def drain(self, queues: list[QueueState]) -> None:
        for queue in queues:
            queue.closed = queue.closed or not self.waiting(queue)
        self.draining = [queue for queue in queues if self.waiting(queue)]

    def renew(self) -> None:
        parameters = self.parameters
        ordered = sorted([*self.live, *self.bubbles], key=lambda queue: queue.size_s)
        for index, queue in enumerate(ordered):
            queue.position = index + 1
        for queue in (*ordered, *self.draining):
            queue.rate = parameters.aging_rate * queue.size_s**-parameters.aging_power

    def ranks_anew(self, before: PolicyParameters) -> bool:
        """Tell whether who waits has to be put in anew."""
        after = self.parameters
        if before.tier_weight != after.tier_weight or any(queue.closed for queue in self.draining):
            return True
        if self.name == "ewsjf" and (before.between == "halves") != self.in_halves:
            return True
        if self.name == "ewsjf-paper" or before.within == after.within == "fcfs":
            return False
        names = ("within", "w_urgency", "aging_rate", "aging_power")
        if before.within == after.within and not before.aging_rate and not after.aging_rate:
            return (before.w_urgency == 0.0) != (after.w_urgency == 0.0)
        return any(getattr(before, name) != getattr(after, name) for name in names)


def size_of(partition: Partition, index: int) -> float:
    bounds = partition.boundaries_s
    if not bounds:
        return partition.means_s[0] if partition.means_s else 1.0
    low = bounds[index - 1] if index else 0.0
    high = bounds[index] if index < len(bounds) else 2.0 * bounds[-1]
    if not partition.means_s:
        return (low + high) / 2.0
    mean = partition.means_s[index]
    return max(low, mean if index == len(bounds) else min(mean, high))
