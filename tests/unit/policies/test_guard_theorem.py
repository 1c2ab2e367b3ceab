"""The bound of docs/guard.md, request by request, whatever the estimates are worth."""

import heapq
import math
import random
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sched_client.model import Partition, PolicyParameters
from sched_client.policies import POLICY_NAMES, WaitingEntry, create_policy

GUARDED = [name for name in POLICY_NAMES if name != "fcfs"]
# Work arrives in quarters, φ and b₀ are dyadic: no rounding, so the bound is checked exactly.
_TRUE_WORK = st.integers(1, 120).map(lambda quarters: quarters / 4)
_PARAMETERS = st.builds(
    PolicyParameters,
    phi=st.sampled_from([0.0, 0.25, 0.5, 0.875]),
    burst_work=st.sampled_from([0.0, 4.0, 64.0]),
    within=st.sampled_from(["fcfs", "score"]),
    between=st.sampled_from(["score", "ratio", "shortest", "halves"]),
    w_fairness=st.sampled_from([0.0, 10.0]),
    aging_rate=st.sampled_from([0.0, 0.01]),
    tier_weight=st.sampled_from([math.inf, 1.0, 4.0]),
)
# Queues of the true works, with and without room for strangers.
_PARTITIONS = [
    Partition(),
    Partition(boundaries_s=(4.0, 12.0), queue_ids=("a", "b", "c")),
    Partition(
        boundaries_s=(8.0,), queue_ids=("a", "d"), lowers_s=(2.0, 9.0), uppers_s=(5.0, 15.0)
    ),
]

# How far an estimate may be from the truth, as a factor either way; None: anything.
_WORST_FACTOR = {"right": 1.0, "ten times wrong": 10.0, "random": None}


def _estimate(kind: str, true_work: float, rng: random.Random) -> float:
    if kind == "right":
        return true_work
    if kind == "ten times wrong":
        return true_work * rng.choice([0.125, 8.0, 10.0])
    return rng.randint(1, 400) / 4


class _Witness:
    """Sees what is served, and holds every stay to the bound."""

    def __init__(self, name: str, parameters: PolicyParameters, factor: float | None) -> None:
        self.policy = create_policy(name, parameters)
        self.parameters = parameters
        self.factor = factor
        self.true: dict[str, float] = {}
        self.served = self.served_truly = 0.0
        # At the start of a stay: work served so far and work waiting, as estimated and in truth.
        self.stays: dict[str, tuple[float, float, float, float]] = {}
        # The given-back: their next pop charges nothing.
        self.free: set[str] = set()

    def begin(self, entry: WaitingEntry, *, returned: bool = False) -> None:
        charged = [other for other in self.policy if other.request_id not in self.free]
        ahead = math.fsum(other.service_s for other in charged)
        truly = math.fsum(self.true[other.request_id] for other in charged)
        self.stays[entry.request_id] = (self.served, self.served_truly, ahead, truly)
        if returned:
            self.free.add(entry.request_id)
            self.policy.give_back(entry)
        else:
            self.policy.add(entry)

    def pop(self, now_s: float) -> WaitingEntry:
        entry = self.policy.pop(now_s)
        before, truly_before, ahead, truly_ahead = self.stays.pop(entry.request_id)
        phi, burst_work = self.parameters.phi, self.parameters.burst_work
        assert (self.served - before) * (1.0 - phi) <= ahead + burst_work
        if self.factor is not None:
            bound = self.factor**2 * truly_ahead + self.factor * burst_work
            assert (self.served_truly - truly_before) * (1.0 - phi) <= bound
        if entry.request_id in self.free:
            self.free.remove(entry.request_id)
        else:
            self.served += entry.service_s
            self.served_truly += self.true[entry.request_id]
        return entry


@pytest.mark.parametrize("kind", ["right", "ten times wrong", "random"])
@pytest.mark.parametrize("name", GUARDED)
@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    works=st.lists(_TRUE_WORK, min_size=2, max_size=80),
    bursts=st.lists(st.tuples(st.integers(0, 6), st.integers(0, 4)), min_size=1, max_size=60),
    parameters=_PARAMETERS,
    seed=st.integers(0, 2**32),
)
def test_nobody_sees_more_work_served_than_the_bound(
    kind: str,
    name: str,
    works: list[float],
    bursts: list[tuple[int, int]],
    parameters: PolicyParameters,
    seed: int,
) -> None:
    rng = random.Random(seed)
    witness = _Witness(name, parameters, _WORST_FACTOR[kind])
    pending = list(enumerate(works))
    popped: list[WaitingEntry] = []
    now_s = 0.0
    for arrivals, departures in bursts:
        for _ in range(min(arrivals, len(pending))):
            number, work = pending.pop(0)
            witness.true[str(number)] = work
            priority = rng.choice([0, 0, 1, 7])
            estimate = _estimate(kind, work, rng)
            witness.begin(
                WaitingEntry(str(number), now_s, estimate, 4.0 * estimate, priority=priority)
            )
        now_s += rng.choice([0.25, 3.0])
        popped += [witness.pop(now_s) for _ in range(min(departures, len(witness.policy)))]
        if popped and rng.random() < 0.2:  # preempted, or skipped by the engine
            witness.begin(popped.pop(rng.randrange(len(popped))), returned=True)
        if rng.random() < 0.2:  # neither φ nor b₀: the bound goes on
            witness.policy.update(
                replace(parameters, partition=rng.choice(_PARTITIONS), w_urgency=rng.random())
            )
    while len(witness.policy):
        witness.pop(now_s)


@pytest.mark.parametrize("name", GUARDED)
@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    jobs=st.lists(st.tuples(st.integers(0, 40), _TRUE_WORK), min_size=2, max_size=80),
    slots=st.sampled_from([1, 2, 8]),
    parameters=_PARAMETERS,
    seed=st.integers(0, 2**32),
)
def test_nobody_waits_longer_than_the_bound_in_seconds(
    name: str,
    jobs: list[tuple[int, float]],
    slots: int,
    parameters: PolicyParameters,
    seed: int,
) -> None:
    # Slots that serve one unit of work a second, none of them idle while anybody waits.
    rng = random.Random(seed)
    policy = create_policy(name, parameters)
    arrivals, now_s = [], 0.0
    for number, (gap, work) in enumerate(jobs):
        now_s += gap / 16
        arrivals.append((now_s, number, work))
    running: list[float] = []  # when each slot ends
    bound_s: dict[str, float] = {}
    while arrivals or len(policy):
        due_s = running[0] if len(policy) and len(running) == slots else math.inf
        if arrivals and arrivals[0][0] <= due_s:
            now_s, number, work = arrivals.pop(0)
            while running and running[0] <= now_s:
                heapq.heappop(running)
            in_service = math.fsum(end_s - now_s for end_s in running)
            ahead = math.fsum(entry.service_s for entry in policy)
            popped = (ahead + parameters.burst_work) / (1.0 - parameters.phi)
            bound_s[str(number)] = (in_service + popped) / slots
            policy.add(WaitingEntry(str(number), now_s, work, 1.0, priority=rng.choice([0, 1])))
        else:
            now_s = heapq.heappop(running)
        while len(policy) and len(running) < slots:
            entry = policy.pop(now_s)
            assert now_s - entry.enqueued_s <= bound_s[entry.request_id] * (1.0 + 1e-12)
            heapq.heappush(running, now_s + entry.service_s)


@pytest.mark.parametrize("tier_weight", [math.inf, 4.0])
@pytest.mark.parametrize("name", GUARDED)
def test_paid_requests_go_first_and_starve_nobody(name: str, tier_weight: float) -> None:
    # A long free one among an endless stream of short paid ones: φ = 0.5, b₀ = 8, nothing ahead,
    # so that it goes after 16 of work and no later, and the paid do go first until then.
    parameters = PolicyParameters(
        phi=0.5,
        burst_work=8.0,
        between="shortest",
        tier_weight=tier_weight,
        partition=Partition(boundaries_s=(4.0,), queue_ids=("a", "b")),
    )
    policy = create_policy(name, parameters)
    policy.add(WaitingEntry("free", 0.0, 40.0, 160.0, priority=1))
    served: list[str] = []
    for number in range(40):
        policy.add(WaitingEntry(f"paid{number}", float(number), 1.0, 4.0, priority=0))
        served.append(policy.pop(float(number)).request_id)
    assert "free" in served[:17]
    assert served[0] == "paid0" or name == "hrrn"


def test_without_the_guard_the_bound_does_not_hold() -> None:
    # So that the test above cannot pass for a reason of its own: 200 short ones pass a long one.
    policy = create_policy("sjf", PolicyParameters(phi=0.25, burst_work=math.inf))
    policy.add(WaitingEntry("long", 0.0, 40.0, 1.0))
    served = 0.0
    for number in range(200):
        policy.add(WaitingEntry(str(number), 1.0 + number, 1.0, 1.0))
        served += policy.pop(1.0 + number).service_s
    assert [entry.request_id for entry in policy] == ["long"]
    assert served * 0.75 > 4.0


def test_the_bound_is_reached() -> None:
    # φ = 0.5, b₀ = 8: overtaking stops when served is b₀ / (1 - φ) = 16, not before.
    policy = create_policy("sjf", PolicyParameters(phi=0.5, burst_work=8.0))
    policy.add(WaitingEntry("long", 0.0, 40.0, 1.0))
    order = []
    for number in range(20):
        policy.add(WaitingEntry(f"short{number}", 1.0 + number, 1.0, 1.0))
        order.append(policy.pop(1.0 + number).request_id)
    assert order.index("long") == 16
