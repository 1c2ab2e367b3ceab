"""Hand-computed cases of ewsjf and ewsjf-paper: scores, queues, tiers."""

import math
import sys
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from sched_client.model import Partition, PolicyParameters
from sched_client.policies import POLICY_NAMES, Policy, WaitingEntry, create_policy
from sched_client.policies.ewsjf_paper import PaperWeights, paper_orders
from sched_client.policies.guarded import GuardedPolicy
from tests.support.collector import counted_by

TWO = Partition(boundaries_s=(1.0,), queue_ids=("short", "long"), means_s=(0.5, 4.0))
OFF = PolicyParameters(burst_work=math.inf, partition=TWO)


def fill(policy: Policy, *entries: tuple[str, float, float, float], priority: int = 0) -> None:
    for request_id, enqueued_s, service_s, tokens in entries:
        policy.add(WaitingEntry(request_id, enqueued_s, service_s, tokens, priority=priority))


def drain(policy: Policy, now_s: float) -> list[str]:
    return [policy.pop(now_s).request_id for _ in range(len(policy))]


# -- the score


def test_the_seeds_sentence() -> None:
    # w_urgency / remaining_tokens + w_fairness · queue_density: within = score, no aging, no
    # guard. Density: requests of the queue a remaining token of all queues.
    policy = create_policy(
        "ewsjf", replace(OFF, within="score", between="score", w_urgency=1.0, w_fairness=10.0)
    )
    fill(policy, ("a", 0.0, 0.5, 20.0), ("b", 0.0, 0.5, 10.0), ("c", 0.0, 4.0, 40.0))
    fill(policy, ("d", 0.0, 4.0, 30.0), ("e", 0.0, 4.0, 100.0))
    # 200 tokens:  b 1/10 + 10·2/200 = 0.200    d 1/30 + 10·3/200 = 0.183
    # 190 tokens:  a 1/20 + 10·1/190 = 0.103    d 1/30 + 10·3/190 = 0.191
    # 160 tokens:  a 1/20 + 10·1/160 = 0.113    c 1/40 + 10·2/160 = 0.150
    # 120 tokens:  a 1/20 + 10·1/120 = 0.133    e 1/100 + 10·1/120 = 0.093
    assert drain(policy, 50.0) == ["b", "d", "c", "a", "e"]


def test_density_counts_the_tokens_that_wait_now() -> None:
    policy = create_policy("ewsjf", replace(OFF, within="score", w_fairness=10.0))
    fill(policy, ("a", 0.0, 0.5, 20.0), ("b", 0.0, 4.0, 80.0), ("c", 0.0, 4.0, 80.0))
    fill(policy, ("many", 0.0, 0.5, 300.0))
    # 480 tokens: a 1/20 + 10·2/480 = 0.092, b 1/80 + 10·2/480 = 0.054.
    assert policy.peek(1.0).request_id == "a"
    policy.remove("many")
    # 180 tokens: a 1/20 + 10·1/180 = 0.106, b 1/80 + 10·2/180 = 0.124.
    assert policy.peek(1.0).request_id == "b"


def test_a_draining_queue_is_scored_by_the_weights_of_today() -> None:
    policy = create_policy("ewsjf", OFF)
    fill(policy, ("long", 0.0, 4.0, 100.0), ("short", 0.5, 0.5, 20.0))
    after = replace(OFF, partition=Partition(queue_ids=("short",), means_s=(1.0,)))
    policy.update(after)
    assert policy.peek(1.0).request_id == "short"
    # 1/100 + 1·10/4^0 against 1/20 + 1·9.5/1^0.
    policy.update(replace(after, aging_rate=1.0))
    assert policy.peek(10.0).request_id == "long"


def test_without_fairness_the_seeds_sentence_is_the_fewest_tokens_first() -> None:
    policy = create_policy("ewsjf", replace(OFF, within="score"))
    fill(policy, ("a", 0.0, 0.5, 20.0), ("b", 0.0, 0.5, 10.0), ("c", 0.0, 4.0, 15.0))
    assert drain(policy, 50.0) == ["b", "c", "a"]


def test_within_a_queue_arrival_order_or_the_score() -> None:
    entries = (("a", 0.0, 0.5, 20.0), ("b", 1.0, 0.5, 10.0), ("c", 2.0, 0.5, 15.0))
    for within, expected in (("fcfs", ["a", "b", "c"]), ("score", ["b", "c", "a"])):
        policy = create_policy("ewsjf", replace(OFF, within=within))  # type: ignore[arg-type]  # a literal
        fill(policy, *entries)
        assert drain(policy, 3.0) == expected


def test_a_head_ages_at_the_rate_of_its_queue() -> None:
    # 1/20 + 0.02·(t - 9) / 0.5 against 1/100 + 0.02·t / 4: equal at t = 9 + 0.145 … below that
    # the long one leads. Power 0: both at 0.02 a second, and the older one leads for ever.
    for power, now_s, expected in ((1.0, 9.1, "long"), (1.0, 9.2, "short"), (0.0, 9e3, "long")):
        policy = create_policy("ewsjf", replace(OFF, aging_rate=0.02, aging_power=power))
        fill(policy, ("long", 0.0, 4.0, 100.0), ("short", 9.0, 0.5, 20.0))
        assert policy.peek(now_s).request_id == expected


def test_within_a_queue_the_score_ages_too() -> None:
    # Both age at 0.01·0.5^0: the older is ahead by 0.04 at all times, the shorter by 1/10 - 1/20.
    policy = create_policy("ewsjf", replace(OFF, within="score", aging_rate=0.01))
    fill(policy, ("older", 0.0, 0.5, 20.0), ("shorter", 4.0, 0.5, 10.0))
    assert [policy.peek(now_s).request_id for now_s in (4.0, 1e6)] == ["shorter", "shorter"]
    fill(policy, ("shorter still", 100.0, 0.5, 2.0))  # 1/2 - 1/20 < 0.01·100
    assert drain(policy, 200.0) == ["shorter", "older", "shorter still"]


def test_between_queues_the_ratio_of_heads() -> None:
    # Heads only: 8/4 = 2 and, behind a younger long one, (10 - 9.5)/0.5 = 1.
    policy = create_policy("ewsjf", replace(OFF, between="ratio"))
    fill(policy, ("a", 2.0, 4.0, 1.0), ("b", 9.5, 0.5, 50.0), ("c", 9.6, 0.1, 50.0))
    assert drain(policy, 10.0) == ["a", "b", "c"]


def test_between_queues_the_shortest() -> None:
    policy = create_policy("ewsjf", replace(OFF, between="shortest"))
    fill(policy, ("a", 0.0, 4.0, 1.0), ("b", 1.0, 0.5, 900.0), ("c", 2.0, 0.9, 900.0))
    assert drain(policy, 1e9) == ["b", "c", "a"]


def test_of_equal_scores_the_older_goes_first() -> None:
    policy = create_policy("ewsjf", OFF)
    fill(policy, ("a", 0.0, 4.0, 10.0), ("b", 0.0, 0.5, 10.0), ("c", 0.0, 4.0, 10.0))
    assert drain(policy, 1.0) == ["a", "b", "c"]


def test_one_queue_and_no_aging_is_first_come_first_served() -> None:
    policy = create_policy("ewsjf", PolicyParameters(burst_work=math.inf))
    fill(policy, ("a", 0.0, 4.0, 90.0), ("b", 1.0, 0.5, 1.0), ("c", 2.0, 1.0, 10.0))
    assert drain(policy, 3.0) == ["a", "b", "c"]


# -- ewsjf-paper


def test_the_papers_score() -> None:
    policy = create_policy("ewsjf-paper", OFF)
    fill(policy, ("short", 6.0, 0.5, 9.0), ("long", 0.0, 4.0, 99.0), ("hidden", 6.0, 0.5, 1.0))
    # At 6: 1/10 · (1 + 0 + ½ ln 10) = 0.215, 2/100 · (1 + 6/4 + ½ ln 100) = 0.096.
    assert policy.peek(6.0).request_id == "short"
    # It does not age: at any later time 1/10 · 2 a second beats 2/100 · ¼ a second.
    assert drain(policy, 1e4) == ["short", "hidden", "long"]


def test_the_papers_weights_are_lines_over_the_queues_mean() -> None:
    # Means 9 and (99 + 301)/2 = 200: w_urg 0.59 and 2.5, w_fair 0.43 and 4.25. At t:
    # 1/10 · (2 + 0.59·(t - 6)/0.5 + 0.43·ln 10) and 2/100 · (2 + 2.5·t/4 + 4.25·ln 100), which
    # are equal at 7.966. With the heads' own sizes for means the short one leads from the start.
    weights = PaperWeights(w_base=2.0, a_u=0.01, b_u=0.5, a_f=0.02, b_f=0.25)
    for now_s, expected in ((7.96, "long"), (7.97, "short")):
        policy = GuardedPolicy("ewsjf-paper", paper_orders(OFF, weights), OFF)
        fill(policy, ("short", 6.0, 0.5, 9.0), ("long", 0.0, 4.0, 99.0), ("x", 0.0, 4.0, 301.0))
        assert policy.peek(now_s).request_id == expected


# -- tiers


def test_a_tier_multiplies_the_score() -> None:
    policy = create_policy("ewsjf", replace(OFF, within="score", tier_weight=4.0))
    fill(policy, ("paid", 0.0, 4.0, 100.0), priority=0)  # 1/100
    fill(
        policy, ("free", 0.0, 0.5, 20.0), ("free long", 0.0, 4.0, 40.0), priority=1
    )  # 1/80, 1/160
    fill(policy, ("gold", 0.0, 4.0, 150.0), priority=-1)  # 4/150
    assert drain(policy, 1.0) == ["gold", "free", "paid", "free long"]


@pytest.mark.parametrize(("weight", "expected"), [(3.0, "free"), (5.0, "paid"), (1.0, "free")])
def test_in_sjf_a_tier_divides_the_work(weight: float, expected: str) -> None:
    policy = create_policy("sjf", replace(OFF, tier_weight=weight))
    fill(policy, ("free", 0.0, 1.0, 1.0), priority=1)
    fill(policy, ("paid", 0.0, 4.0, 1.0), priority=0)
    assert policy.peek(1.0).request_id == expected


@pytest.mark.parametrize("name", ["hrrn", "ewsjf"])
def test_in_a_ratio_a_tier_divides_the_work(name: str) -> None:
    policy = create_policy(name, replace(OFF, between="ratio", tier_weight=4.0))
    fill(policy, ("free", 0.0, 0.5, 1.0), priority=1)  # 8 / 2
    fill(policy, ("paid", 0.0, 4.0, 1.0), priority=0)  # 8 / 4
    fill(policy, ("free long", 0.0, 2.0, 1.0), priority=1)  # 8 / 8
    assert drain(policy, 8.0)[0] == "free"


@pytest.mark.parametrize("name", sorted(set(POLICY_NAMES) - {"fcfs"}))
def test_an_infinite_weight_is_a_strict_priority(name: str) -> None:
    policy = create_policy(name, OFF)
    fill(policy, ("free", 0.0, 0.1, 1.0), priority=1)
    fill(policy, ("paid long", 9.0, 50.0, 90.0), ("paid", 9.0, 0.5, 9.0), priority=0)
    fill(policy, ("gold", 9.5, 90.0, 400.0), priority=-3)
    served = drain(policy, 10.0)
    assert (served[0], served[-1]) == ("gold", "free")


def test_tiers_far_apart_are_no_more_than_four_steps_apart() -> None:
    policy = create_policy("ewsjf", replace(OFF, tier_weight=2.0))
    for priority in range(40, -41, -1):
        fill(policy, (f"r{priority}", 0.0, 4.0, 16.0), priority=priority)
    served = drain(policy, 1.0)
    # Those beyond are alike, and go in the order of their arrival.
    assert served[:37] == [f"r{priority}" for priority in range(-4, -41, -1)]
    assert served[37:44] == [f"r{priority}" for priority in range(-3, 4)]
    assert served[44:] == [f"r{priority}" for priority in range(40, 3, -1)]


@pytest.mark.parametrize("name", sorted(set(POLICY_NAMES) - {"fcfs"}))
def test_another_weight_of_tiers_holds_for_those_that_wait(name: str) -> None:
    policy = create_policy(name, OFF)
    fill(policy, ("free", 0.0, 0.5, 10.0), priority=1)
    fill(policy, ("paid", 0.0, 4.0, 100.0), priority=0)
    assert policy.peek(1.0).request_id == "paid"
    policy.update(replace(OFF, tier_weight=1.5))
    assert policy.peek(1.0).request_id == "free"
    policy.update(OFF)
    assert policy.peek(1.0).request_id == "paid"


# -- what it costs


def calls(act: Callable[[], Any]) -> int:
    """Count the calls of Python functions that something makes."""
    count = 0

    def note(_frame: object, event: str, _arg: object) -> None:
        nonlocal count
        count += event == "call"

    sys.setprofile(note)
    try:
        act()
    finally:
        sys.setprofile(None)
    return count


def waiting(n: int, parameters: PolicyParameters) -> Policy:
    policy = create_policy("ewsjf", parameters)
    fill(policy, *((f"r{number}", number / 8, 0.5 + number % 4, 10.0) for number in range(n)))
    return policy


@pytest.mark.parametrize("within", ["fcfs", "score"])
def test_new_queues_and_weights_of_heads_cost_the_same_however_many_wait(within: Any) -> None:
    before = replace(OFF, within=within)
    after = replace(
        before,
        w_fairness=2.0,
        partition=Partition(boundaries_s=(2.0, 3.0), queue_ids=("short", "x", "y")),
    )
    few, many = waiting(50, before), waiting(3000, before)
    assert calls(lambda: many.update(after)) <= calls(lambda: few.update(after))
    assert calls(lambda: many.peek(1e4)) <= calls(lambda: few.peek(1e4))


def test_an_arrival_leaves_one_object_to_the_collector() -> None:
    policy = waiting(400, replace(OFF, within="score"))
    entries = [WaitingEntry(f"n{number}", 90.0, 0.5, 20.0) for number in range(300)]

    def arrive() -> None:
        for entry in entries:
            policy.add(entry)

    assert counted_by(arrive) <= 300 + 60  # a table of the ledger, once
