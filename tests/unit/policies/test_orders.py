"""Hand-computed cases of sjf, hrrn, priorities and give-backs."""

import math
from typing import Any

import pytest

from sched_client.model import PolicyParameters
from sched_client.policies import Policy, WaitingEntry, create_policy
from sched_client.policies.guarded import FixedOrders, GuardedPolicy
from sched_client.policies.orders import KeyedOrder, shortest_first_rank

UNGUARDED = PolicyParameters(burst_work=math.inf)


def fill(policy: Policy, *entries: tuple[str, float, float], priority: int = 0) -> None:
    for request_id, enqueued_s, service_s in entries:
        policy.add(
            WaitingEntry(request_id, enqueued_s, service_s, 100.0 - service_s, priority=priority)
        )


def drain(policy: Policy, now_s: float) -> list[str]:
    return [policy.pop(now_s).request_id for _ in range(len(policy))]


def test_unknown_policy_lists_the_known_ones() -> None:
    with pytest.raises(ValueError, match="'lifo' is unknown; use one of fcfs, sjf, hrrn"):
        create_policy("lifo", UNGUARDED)


def test_sjf_takes_the_least_work_then_the_oldest() -> None:
    policy = create_policy("sjf", UNGUARDED)
    fill(policy, ("a", 0.0, 3.0), ("b", 1.0, 1.0), ("c", 2.0, 2.0), ("d", 3.0, 1.0))
    assert drain(policy, 4.0) == ["b", "d", "c", "a"]


def test_sjf_breaks_ties_by_enqueue_time_then_by_arrival() -> None:
    policy = create_policy("sjf", UNGUARDED)
    fill(policy, ("late", 5.0, 1.0), ("early", 4.0, 1.0), ("early too", 4.0, 1.0))
    assert drain(policy, 6.0) == ["early", "early too", "late"]


def test_sjf_by_tokens_takes_the_fewest_tokens() -> None:
    policy = create_policy("sjf", PolicyParameters(order_by="tokens", burst_work=math.inf))
    fill(policy, ("a", 0.0, 3.0), ("b", 1.0, 1.0), ("c", 2.0, 2.0))  # tokens 97, 99, 98
    assert drain(policy, 4.0) == ["a", "c", "b"]


def test_hrrn_follows_the_ratio_as_time_goes_on() -> None:
    # 1 + (t - 0)/10 of the long one against 1 + (t - 9)/2 of the short one: equal at 11.25.
    for now_s, expected in ((11.0, "long"), (11.25, "long"), (11.5, "short")):
        policy = create_policy("hrrn", UNGUARDED)
        fill(policy, ("long", 0.0, 10.0), ("short", 9.0, 2.0))
        assert policy.peek(now_s).request_id == expected


def test_hrrn_follows_the_ratio_back_in_time() -> None:
    policy = create_policy("hrrn", UNGUARDED)
    fill(policy, ("long", 0.0, 10.0), ("short", 9.0, 2.0))
    seen = [policy.peek(now_s).request_id for now_s in (10.0, 12.0, 11.0, 1000.0, 9.5)]
    assert seen == ["long", "short", "long", "short", "long"]


def test_hrrn_gives_the_papers_ratio_its_order() -> None:
    # At 10: 1 + 10/4 = 3.5, 1 + 8/2 = 5, 1 + 4/1 = 5 (younger), 1 + 1/0.5 = 3.
    policy = create_policy("hrrn", UNGUARDED)
    fill(policy, ("a", 0.0, 4.0), ("b", 2.0, 2.0), ("c", 6.0, 1.0), ("d", 9.0, 0.5))
    assert drain(policy, 10.0) == ["b", "c", "a", "d"]


@pytest.mark.parametrize("name", ["sjf", "hrrn"])
def test_a_smaller_priority_goes_first(name: str) -> None:
    policy = create_policy(name, UNGUARDED)
    fill(policy, ("free short", 0.0, 0.5), priority=1)
    fill(policy, ("paid long", 1.0, 50.0), ("paid short", 1.0, 5.0), priority=0)
    fill(policy, ("urgent", 2.0, 90.0), priority=-3)
    assert drain(policy, 3.0) == ["urgent", "paid short", "paid long", "free short"]


def test_fcfs_ignores_priority_as_vllms_own_does() -> None:
    policy = create_policy("fcfs", UNGUARDED)
    fill(policy, ("free", 0.0, 9.0), priority=1)
    fill(policy, ("paid", 1.0, 1.0), priority=0)
    assert drain(policy, 2.0) == ["free", "paid"]


@pytest.mark.parametrize("name", ["sjf", "hrrn"])
def test_the_guard_holds_across_priorities(name: str) -> None:
    policy = create_policy(name, PolicyParameters(phi=0.5, burst_work=3.0))
    fill(policy, ("free", 0.0, 1.0), priority=1)
    order = []
    for number in range(8):  # each costs the free one half of its 1.0: six of them fit into 3.0
        fill(policy, (f"paid{number}", 1.0 + number, 1.0), priority=0)
        order.append(policy.pop(2.0 + number).request_id)
    assert order.index("free") == 6


def test_a_younger_request_keeps_the_slack_that_the_oldest_does_not_need() -> None:
    # φ = 0.5, b₀ = 2. "first" (8) is served; then "a" has gained 4 and "b", who came after, 0.
    policy = create_policy("sjf", PolicyParameters(phi=0.5, burst_work=2.0))
    fill(policy, ("first", 0.0, 8.0), ("a", 1.0, 9.0))
    policy.remove("none")
    fill(policy, ("tiny", 1.5, 4.0))
    assert policy.pop(2.0).request_id == "tiny"  # slack of first and a: 2 - 4/2 = 0
    fill(policy, ("small", 2.5, 1.0))
    assert policy.pop(3.0).request_id == "first"  # small would put first at -0.5; a gains 4
    fill(policy, ("b", 3.0, 9.5), ("e", 4.0, 4.0), ("f", 5.0, 1.0))
    assert policy.pop(6.0).request_id == "small"  # a: 4 - 0.5 = 3.5
    assert policy.pop(6.0).request_id == "f"  # a: 3, b: 2.5 - 0.5 = 2, e likewise
    assert policy.pop(6.0).request_id == "e"  # a: 1, b: 0
    fill(policy, ("g", 7.0, 1.0))
    # The oldest alone could bear g (1 - 0.5); b, in between, could not.
    assert policy.pop(8.0).request_id == "a"


def test_only_older_requests_hold_a_candidate_back() -> None:
    policy = create_policy("sjf", PolicyParameters(phi=0.5, burst_work=2.0))
    fill(policy, ("first", 0.0, 8.0), ("a", 1.0, 9.0))
    assert policy.pop(2.0).request_id == "first"  # a: 2 + 4 = 6
    fill(policy, ("c", 3.0, 4.0), ("b", 4.0, 9.5), ("x", 5.0, 3.0))
    assert policy.pop(6.0).request_id == "x"  # a: 4.5, c: 0.5, b: 0.5
    # c costs each older one 2.0, and a has that; b has not, but is younger and gains.
    assert policy.pop(6.0).request_id == "c"


def test_a_burst_of_zero_and_no_share_is_first_come_first_served() -> None:
    policy = create_policy("sjf", PolicyParameters(phi=0.0, burst_work=0.0))
    fill(policy, ("a", 0.0, 3.0), ("b", 1.0, 1.0), ("c", 2.0, 2.0))
    assert drain(policy, 4.0) == ["a", "b", "c"]


def test_the_guard_in_seconds_lets_the_oldest_go_first() -> None:
    policy = create_policy("sjf", PolicyParameters(burst_work=math.inf, guard_s=5.0))
    fill(policy, ("a", 0.0, 9.0), ("b", 1.0, 8.0), ("c", 2.0, 1.0), ("d", 2.5, 2.0))
    assert policy.peek(5.0).request_id == "c"  # waited exactly 5.0 s, not longer
    assert policy.pop(6.5).request_id == "c"  # peeked before
    assert [policy.pop(6.5).request_id for _ in range(3)] == ["a", "b", "d"]


class _Told(FixedOrders):
    """Notes what an order hears of those that went."""

    def __init__(self, parameters: PolicyParameters) -> None:
        super().__init__(lambda: KeyedOrder(shortest_first_rank), parameters)
        self.told: list[bool] = []

    def served(self, *, held_up: bool) -> None:
        self.told.append(held_up)


def test_what_the_guard_in_seconds_takes_says_nothing_of_the_order() -> None:
    parameters = PolicyParameters(phi=0.0, burst_work=1.0, guard_s=5.0)
    orders = _Told(parameters)
    policy = GuardedPolicy("told", orders, parameters)
    fill(policy, ("a", 0.0, 9.0), ("b", 1.0, 8.0), ("c", 2.0, 1.0), ("d", 2.5, 2.0))
    # c in its order, a instead of d, b as it waited for 6 s, d in its order.
    assert [policy.pop(now_s).request_id for now_s in (4.0, 4.0, 7.0, 7.0)] == ["c", "a", "b", "d"]
    assert orders.told == [False, True, False]


def test_few_go_by_arrival_and_more_by_the_order() -> None:
    parameters = PolicyParameters(burst_work=math.inf, reorder_above=2, reorder_until=2)
    policy = create_policy("sjf", parameters)
    fill(policy, ("a", 0.0, 9.0), ("b", 1.0, 8.0), ("c", 2.0, 1.0), ("d", 3.0, 2.0))
    assert [policy.pop(4.0).request_id for _ in range(4)] == ["c", "d", "a", "b"]
    fill(policy, ("e", 5.0, 3.0), ("f", 6.0, 1.0))
    assert policy.peek(7.0).request_id == "e"
    fill(policy, ("g", 8.0, 2.0))
    assert policy.peek(9.0).request_id == "f"


def test_a_queue_that_was_long_is_ordered_until_it_is_short() -> None:
    parameters = PolicyParameters(burst_work=math.inf, reorder_above=3, reorder_until=1)
    policy = create_policy("sjf", parameters)
    fill(policy, ("a", 0.0, 9.0), ("b", 1.0, 8.0), ("c", 2.0, 1.0))
    assert policy.pop(3.0).request_id == "a"  # never more than three
    fill(policy, ("d", 4.0, 7.0), ("e", 5.0, 2.0))
    assert [policy.pop(6.0).request_id for _ in range(3)] == ["c", "e", "d"]  # four, three, two
    fill(policy, ("f", 7.0, 1.0), ("g", 8.0, 0.5))
    assert policy.pop(9.0).request_id == "g"  # it was not down to one when asked
    assert policy.pop(9.0).request_id == "f"
    assert policy.peek(9.0).request_id == "b"  # one waits: from here on by arrival
    fill(policy, ("h", 10.0, 0.25))
    assert policy.peek(11.0).request_id == "b"


@pytest.mark.parametrize("leave", ["pop", "remove"])
def test_a_queue_that_has_been_empty_goes_by_arrival(leave: str) -> None:
    parameters = PolicyParameters(burst_work=math.inf, reorder_above=3, reorder_until=0)
    policy = create_policy("sjf", parameters)
    fill(policy, ("a", 0.0, 9.0), ("b", 1.0, 8.0), ("c", 2.0, 1.0), ("d", 3.0, 2.0))
    assert policy.peek(4.0).request_id == "c"
    for _ in range(4):
        if leave == "pop":
            policy.pop(4.0)
        else:
            policy.remove(policy.peek(4.0).request_id)
    fill(policy, ("e", 5.0, 3.0), ("f", 6.0, 1.0))
    assert policy.peek(7.0).request_id == "e"


class _Unwalked(dict[str, Any]):
    """A dictionary that must not be walked: that takes as long as the most it ever held."""

    def values(self) -> Any:
        raise AssertionError("walked")

    __iter__ = items = keys = values


@pytest.mark.parametrize("name", ["sjf", "hrrn"])
def test_to_choose_among_few_takes_no_longer_after_many_have_waited(name: str) -> None:
    parameters = PolicyParameters(burst_work=math.inf, reorder_above=8, reorder_until=8)
    policy = create_policy(name, parameters)
    assert isinstance(policy, GuardedPolicy)
    policy._by_id = _Unwalked()
    fill(policy, *((f"r{number}", float(number), 1.0) for number in range(2000)))
    while len(policy) > 8:
        policy.remove(f"r{2000 - len(policy)}")
    assert sum(chunk.end for chunk in policy._ledger._chunks if chunk is not None) <= 64
    assert drain(policy, 2000.0) == [f"r{number}" for number in range(1992, 2000)]


def test_a_given_back_entry_is_charged_once() -> None:
    policy = create_policy("sjf", PolicyParameters(phi=0.5, burst_work=2.0))
    fill(policy, ("long", 0.0, 40.0), ("short", 1.0, 3.0))
    for _ in range(9):  # the first pop takes 1.5 of the 2.0; a second charge would not fit
        popped = policy.pop(2.0)
        assert popped.request_id == "short"
        policy.give_back(popped)
    assert policy.pop(2.0).request_id == "short"
    fill(policy, ("other", 3.0, 1.0), ("next", 3.0, 1.5))
    assert policy.pop(4.0).request_id == "other"  # 2.0 - 1.5 - 0.5 = 0: nothing was doubled
    assert policy.pop(4.0).request_id == "long"


def test_a_given_back_entry_waits_behind_a_better_priority() -> None:
    policy = create_policy("sjf", UNGUARDED)
    fill(policy, ("free", 0.0, 1.0), priority=1)
    popped = policy.pop(1.0)
    fill(policy, ("paid", 2.0, 9.0), priority=0)
    fill(policy, ("free short", 2.0, 0.1), priority=1)
    policy.give_back(popped)
    assert drain(policy, 3.0) == ["paid", "free", "free short"]


def test_another_phi_counts_as_if_it_had_held_from_the_start() -> None:
    policy = create_policy("sjf", PolicyParameters(phi=0.0, burst_work=4.0))
    fill(policy, ("long", 0.0, 40.0))
    for number in range(4):
        fill(policy, (f"s{number}", 1.0, 1.0))
        policy.pop(2.0)
    fill(policy, ("x", 3.0, 2.0))
    assert policy.peek(3.0).request_id == "long"  # all of b₀ is spent
    policy.update(PolicyParameters(phi=0.5, burst_work=4.0))  # half of it comes back: 4 - 2 = 2
    assert policy.peek(3.0).request_id == "x"  # 2 - 1 = 1


def test_another_unit_of_work_starts_the_accounts_anew() -> None:
    policy = create_policy("sjf", PolicyParameters(phi=0.0, burst_work=1.0))
    fill(policy, ("long", 0.0, 40.0), ("s", 1.0, 1.0))
    assert policy.pop(1.0).request_id == "s"
    fill(policy, ("t", 1.0, 60.0), ("u", 1.0, 70.0))  # tokens 40 and 30 against 60
    assert policy.peek(1.0).request_id == "long"
    policy.update(PolicyParameters(order_by="tokens", phi=0.0, burst_work=30.0))
    assert policy.peek(1.0).request_id == "u"


@pytest.mark.parametrize("name", ["sjf", "hrrn"])
def test_many_give_backs_keep_the_order_of_enqueueing(name: str) -> None:
    policy = create_policy(name, UNGUARDED)
    entries = [WaitingEntry(f"r{i}", i / 8, 1.0 + i * 37 % 101, 5.0) for i in range(400)]
    for entry in entries:
        policy.add(entry)
    popped = [policy.pop(60.0) for _ in range(300)]
    for number in range(400, 900):  # the places they left are packed away meanwhile
        policy.add(WaitingEntry(f"r{number}", number / 8, 1.0, 5.0))
    for entry in popped:
        policy.give_back(entry)
    ages = [entry.enqueued_s for entry in policy]
    assert ages == sorted(ages)
    assert len(ages) == 900
    assert drain(policy, 200.0)[:300] == [
        entry.request_id for entry in sorted(popped, key=lambda entry: entry.enqueued_s)
    ]
