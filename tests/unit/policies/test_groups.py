"""An order with groups, op by op against the definition, without a guard that hides it."""

import sys
from collections.abc import Callable
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sched_client.model import PolicyParameters
from sched_client.policies import WaitingEntry, create_policy
from sched_client.policies.groups import GroupedOrder
from sched_client.policies.hrrn import HighestRatioFirst
from sched_client.policies.orders import KeyedOrder, Order, shortest_first_rank
from sched_client.policies.waiting import Waiting

ORDERS: dict[str, Callable[[], Order]] = {
    "sjf": lambda: KeyedOrder(shortest_first_rank),
    "hrrn": HighestRatioFirst,
}
# Dyadic, so that sums are exact whoever adds them up; few, so that ties happen.
_WORKS = st.sampled_from([0.125, 0.5, 1.0, 1.5, 3.0, 8.0])
_OPS = st.lists(
    st.tuples(
        st.sampled_from(["add", "add", "add", "first", "first", "remove", "revise"]),
        st.integers(0, 10**6),
        st.sampled_from(["", "", "a", "b", "c"]),
        _WORKS,
        st.sampled_from([0.0, 0.125, 1.0, 1.0, 16.0]),
    ),
    min_size=5,
    max_size=120,
)


def item_of(number: int, at_s: float, work: float, group: str = "", priority: int = 0) -> Waiting:
    entry = WaitingEntry(f"r{number}", at_s, work, 10.0 * work, "q0", group, priority)
    return Waiting(entry, work, number, returned=False)


def first_by_definition(name: str, items: list[Waiting], now_s: float) -> Waiting:
    """Add up each group by a scan."""

    def rank(item: Waiting) -> tuple[object, ...]:
        members = [item]
        if item.group_id:
            members = [other for other in items if other.group_id == item.group_id]
        work = sum(Fraction(other.work) for other in members)
        first = min(members, key=lambda other: other.sequence)
        wait = Fraction(now_s) - Fraction(first.enqueued_s)
        key = work if name == "sjf" else -(wait / work)
        return (key, first.enqueued_s, first.sequence, item.sequence)

    return min(items, key=rank)


@pytest.mark.parametrize("name", ORDERS)
@settings(max_examples=60, deadline=None)
@given(ops=_OPS)
def test_it_agrees_with_the_definition_after_every_operation(name: str, ops: list[tuple]) -> None:  # type: ignore[type-arg]  # of five kinds
    order, now_s = GroupedOrder(ORDERS[name]()), 0.0
    items: list[Waiting] = []
    for number, (what, pick, group, work, step) in enumerate(ops):
        now_s += step
        if what == "add" or not items:
            items.append(item_of(number, now_s, work, group))
            order.push(items[-1])
        else:
            item = items[pick % len(items)]
            if what == "first":
                item = order.first(now_s)
            order.discard(item)
            if what == "revise":
                item.take(item.entry._replace(service_s=work, tokens=work, group_id=group))
                item.count(work)
                order.push(item)
            else:
                items.remove(item)
        assert len(order) == len(items)
        if items:
            assert order.first(now_s) is first_by_definition(name, items, now_s)


def test_what_is_left_of_a_file_is_what_it_is_ranked_by() -> None:
    order = GroupedOrder(ORDERS["sjf"]())
    pieces = [item_of(number, 0.0, 2.0, "f") for number in range(3)]
    clip = item_of(9, 0.0, 5.0)
    for item in (*pieces, clip):
        order.push(item)
    assert order.first(1.0) is clip
    order.discard(pieces[0])
    assert order.first(1.0) is pieces[1]


def test_a_file_is_as_old_as_what_waits_of_it() -> None:
    order = GroupedOrder(ORDERS["hrrn"]())
    old, young = item_of(0, 0.0, 2.0, "f"), item_of(1, 90.0, 2.0, "f")
    clip = item_of(2, 50.0, 2.0)
    for item in (old, young, clip):
        order.push(item)
    # (100 - 0) / 4 against (100 - 50) / 2, and the older one among equals.
    assert order.first(100.0) is old
    order.discard(old)
    assert order.first(100.0) is clip


def test_sums_leave_nothing_over() -> None:
    order = GroupedOrder(ORDERS["sjf"]())
    huge, tiny = item_of(0, 0.0, 1e300, "f"), item_of(1, 0.0, 1e-3, "f")
    other = item_of(2, 0.0, 2e-3)
    for item in (huge, tiny, other):
        order.push(item)
    assert order.first(0.0) is other
    order.discard(huge)
    # In floats 1e300 + 0.001 - 1e300 is 0.
    assert order.first(0.0) is tiny


def test_the_heap_of_a_group_stays_as_short_as_the_group() -> None:
    order = GroupedOrder(ORDERS["sjf"]())
    items = [item_of(number, 0.0, 1.0, "f") for number in range(5)]
    for item in items:
        order.push(item)
    for _ in range(500):  # new estimates of one in the middle
        order.discard(items[3])
        order.push(items[3])
    (unit,) = order._units.values()
    assert len(unit._heap) <= 2 * len(items) + 40
    assert len(order) == 5


def test_who_has_left_a_group_is_not_kept_while_others_wait() -> None:
    # It knows where it was kept, and so all that stood there: they would stay as long.
    order = GroupedOrder(KeyedOrder(shortest_first_rank))
    first, last = item_of(1, 0.0, 1.0, "file"), item_of(2, 0.0, 1.0, "file")
    held = sys.getrefcount(last)
    order.push(first)
    order.push(last)
    order.discard(last)
    assert order.first(1.0) is first
    assert sys.getrefcount(last) == held


def test_one_group_in_two_priorities_is_two() -> None:
    order = GroupedOrder(ORDERS["sjf"]())
    pieces = [item_of(number, 0.0, 2.0, "f", priority=number) for number in range(2)]
    clip = item_of(9, 0.0, 3.0)
    for item in (*pieces, clip):
        order.push(item)
    assert order.first(0.0) is pieces[0]


class _Counting:
    """An order that counts what is asked of it."""

    def __init__(self) -> None:
        self.inner = ORDERS["sjf"]()
        self.calls = 0

    def __len__(self) -> int:
        return len(self.inner)

    def push(self, item: Waiting) -> None:
        self.calls += 1
        self.inner.push(item)

    def discard(self, item: Waiting) -> None:
        self.calls += 1
        self.inner.discard(item)

    def first(self, now_s: float) -> Waiting:
        self.calls += 1
        return self.inner.first(now_s)


@pytest.mark.parametrize("size", [3, 3000])
def test_a_member_costs_two_calls_of_the_order_whatever_the_size(size: int) -> None:
    counting = _Counting()
    order = GroupedOrder(counting)
    items = [item_of(number, 0.0, 1.0, "f") for number in range(size)]
    for item in items:
        order.push(item)
    assert counting.calls == 2 * size - 1
    counting.calls = 0
    order.discard(items[1])
    order.push(items[1])
    assert counting.calls == 4
    assert order.first(0.0) is items[0]


def test_a_request_without_a_group_costs_no_call_more() -> None:
    counting = _Counting()
    order = GroupedOrder(counting)
    alone = item_of(0, 0.0, 1.0)
    order.push(alone)
    assert order.first(0.0) is alone
    order.discard(alone)
    assert counting.calls == 3


def test_in_halves_each_piece_of_a_file_is_an_arrival() -> None:
    # What is short must not depend on who sends files: of ten arrivals the four clips are.
    policy = create_policy(
        "ewsjf", PolicyParameters(between="halves", short_share=0.5, burst_work=float("inf"))
    )
    for number in range(6):
        policy.add(WaitingEntry(f"f{number}", 0.0, 9.0, 90.0, group_id="f"))
    for number in range(1, 5):
        policy.add(WaitingEntry(f"clip{number}", 1.0, float(number), 10.0))
    order = [policy.pop(2.0).request_id for _ in range(10)]
    assert order == [*(f"clip{n}" for n in range(1, 5)), *(f"f{n}" for n in range(6))]
