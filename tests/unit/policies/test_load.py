"""What arrivals found lately, and what a policy makes of it."""

import math

from sched_client.model import PolicyParameters
from sched_client.policies import WaitingEntry, create_policy
from sched_client.policies.load import QUIET_S, WINDOW, RecentLoad


def test_an_overload_begins_with_a_quarter_and_ends_below_a_tenth() -> None:
    load = RecentLoad(above=8)
    highs = []
    for found in [8] * WINDOW + [9] * (WINDOW // 4) + [0] * WINDOW:
        load.arrived(found, 0.0)
        highs.append(load.high)
    begins = WINDOW + WINDOW // 4 - 1
    # The sixteen long ones are the youngest then; eleven of them have to be forgotten.
    ends = begins + WINDOW - WINDOW // 4 + 11
    assert [n for n, high in enumerate(highs) if high] == list(range(begins, ends))


def test_what_it_counts_does_not_drift() -> None:
    load = RecentLoad(above=0)
    for number in range(1000):
        load.arrived(number % 5 == 0, float(number))
    assert not load.high
    for number in range(1000):
        load.arrived(number % 3 == 0, float(number))
    assert load.high


def test_in_an_overload_few_are_ordered_too() -> None:
    parameters = PolicyParameters(burst_work=math.inf, reorder_above=8, reorder_until=6)
    policy = create_policy("sjf", parameters)
    policy.add(WaitingEntry("long", 0.0, 9.0, 90.0))
    policy.add(WaitingEntry("short", 1.0, 1.0, 10.0))
    assert policy.peek(2.0).request_id == "long"
    for _ in range(WINDOW):
        policy.load.arrived(30, 2.0)
    assert policy.peek(3.0).request_id == "short"
    for _ in range(WINDOW):
        policy.load.arrived(2, 3.0)
    assert policy.peek(4.0).request_id == "long"


def test_what_is_long_follows_the_parameters() -> None:
    policy = create_policy("hrrn", PolicyParameters(reorder_above=3))
    assert policy.load.above == 3
    policy.update(PolicyParameters(reorder_above=20))
    assert policy.load.above == 20


def overloaded(at_s: float) -> RecentLoad:
    load = RecentLoad(above=8)
    for _ in range(WINDOW):
        load.arrived(30, at_s)
    return load


def test_a_quiet_engine_forgets_an_overload_with_its_next_arrival() -> None:
    load = overloaded(100.0)
    # Hours with few arrivals: two found somebody, none a long queue.
    highs = []
    for at_s in (100.0 + QUIET_S, 100.001 + QUIET_S):
        load.arrived(2, at_s)
        highs.append(load.high)
    assert highs == [True, False]
    # Another one begins as the first did, with a quarter.
    highs = []
    for number in range(WINDOW // 4):
        load.arrived(9, 1e4 + number)
        highs.append(load.high)
    assert highs == [False] * (WINDOW // 4 - 1) + [True]


def test_an_overload_of_rare_arrivals_does_not_end_by_itself() -> None:
    load = overloaded(0.0)
    for number in range(1, 20):
        load.arrived(9, number * 0.9 * QUIET_S)
        assert load.high


def test_a_clock_that_steps_back_ends_nothing() -> None:
    load = overloaded(1e6)
    load.arrived(2, 0.0)
    assert load.high
