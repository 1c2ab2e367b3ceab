"""The bound of docs/guard.md, request by request, whatever the estimates are worth."""

import math
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sched_client.model import PolicyParameters
from sched_client.policies import WaitingEntry, create_policy

# Work arrives in quarters, φ and b₀ are dyadic: no rounding, so the bound is checked exactly.
_TRUE_WORK = st.integers(1, 120).map(lambda quarters: quarters / 4)


# How far an estimate may be from the truth, as a factor either way; None: anything.
_WORST_FACTOR = {"right": 1.0, "ten times wrong": 10.0, "random": None}


def _estimate(kind: str, true_work: float, rng: random.Random) -> float:
    if kind == "right":
        return true_work
    if kind == "ten times wrong":
        return true_work * rng.choice([0.125, 8.0, 10.0])
    return rng.randint(1, 400) / 4


@pytest.mark.parametrize("kind", ["right", "ten times wrong", "random"])
@pytest.mark.parametrize("name", ["sjf", "hrrn"])
@settings(max_examples=40, deadline=None)
@given(
    works=st.lists(_TRUE_WORK, min_size=2, max_size=80),
    bursts=st.lists(st.tuples(st.integers(0, 6), st.integers(0, 4)), min_size=1, max_size=60),
    phi=st.sampled_from([0.0, 0.25, 0.5, 0.875]),
    burst_work=st.sampled_from([0.0, 4.0, 64.0]),
    seed=st.integers(0, 2**32),
)
def test_nobody_sees_more_work_served_than_the_bound(
    kind: str,
    name: str,
    works: list[float],
    bursts: list[tuple[int, int]],
    phi: float,
    burst_work: float,
    seed: int,
) -> None:
    rng = random.Random(seed)
    policy = create_policy(name, PolicyParameters(phi=phi, burst_work=burst_work))
    served = 0.0
    served_truly = 0.0
    factor = _WORST_FACTOR[kind]
    # At its arrival: work served so far and work waiting, as estimated and in truth.
    arrived: dict[str, tuple[float, float, float, float]] = {}
    pending = list(enumerate(works))
    now_s = 0.0

    def pop() -> None:
        nonlocal served, served_truly
        entry = policy.pop(now_s)
        before, truly_before, ahead, truly_ahead = arrived.pop(entry.request_id)
        assert (served - before) * (1.0 - phi) <= ahead + burst_work
        if factor is not None:
            bound = factor**2 * truly_ahead + factor * burst_work
            assert (served_truly - truly_before) * (1.0 - phi) <= bound
        served += entry.service_s
        served_truly += works[int(entry.request_id)]

    for arrivals, departures in bursts:
        for _ in range(min(arrivals, len(pending))):
            number, work = pending.pop(0)
            ahead = math.fsum(entry.service_s for entry in policy)
            truly_ahead = math.fsum(works[int(entry.request_id)] for entry in policy)
            arrived[str(number)] = (served, served_truly, ahead, truly_ahead)
            estimate = _estimate(kind, work, rng)
            priority = rng.choice([0, 0, 1])
            policy.add(WaitingEntry(str(number), now_s, estimate, 1.0, priority=priority))
        now_s += rng.choice([0.25, 3.0])
        for _ in range(min(departures, len(policy))):
            pop()
    while len(policy):
        pop()


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
