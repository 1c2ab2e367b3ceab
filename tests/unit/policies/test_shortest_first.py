"""The order of sjf by itself: equal works, what left in the middle, and how much is kept."""

import random

import pytest

from sched_client.policies.base import WaitingEntry
from sched_client.policies.orders import ShortestFirst
from sched_client.policies.waiting import Waiting


def waiting(number: int, work: float, enqueued_s: float | None = None) -> Waiting:
    at_s = float(number) if enqueued_s is None else enqueued_s
    return Waiting(WaitingEntry(f"r{number}", at_s, work, 1.0), work, number, returned=False)


def leave(order: ShortestFirst, item: Waiting) -> None:
    item.present = False
    order.discard(item)


def drain(order: ShortestFirst) -> list[str]:
    names = []
    while len(order):
        item = order.first(0.0)
        leave(order, item)
        names.append(item.request_id)
    return names


def kept(order: ShortestFirst) -> int:
    """Count the references that the order holds."""
    equals = sum(len(held) for held in order._items.values() if isinstance(held, list))
    return len(order._works) + len(order._items) + equals


@pytest.mark.parametrize("works", [1, 3, 1000])
def test_the_least_work_goes_first_and_the_oldest_among_equals(works: int) -> None:
    rng = random.Random(works)
    order, present = ShortestFirst(), []
    for number in range(3000):
        # Some come with a time before those that wait already.
        item = waiting(number, 1.0 + rng.randrange(works), float(number - rng.randrange(9)))
        order.push(item)
        present.append(item)
        if rng.random() < 0.4:
            gone = rng.choice(present) if rng.random() < 0.5 else order.first(0.0)
            leave(order, gone)
            present.remove(gone)
        assert len(order) == len(present)
    present.sort(key=lambda item: (item.work, item.enqueued_s, item.sequence))
    assert drain(order) == [item.request_id for item in present]


def test_a_work_that_left_and_came_again_is_one_work() -> None:
    order = ShortestFirst()
    least = waiting(0, 1.0)
    order.push(least)
    for number in range(1, 200):
        other = waiting(number, 2.0)  # behind the least: stays in the heap when it leaves
        order.push(other)
        leave(order, other)
    order.push(waiting(200, 2.0))
    assert drain(order) == ["r0", "r200"]


@pytest.mark.parametrize("works", [1, 7, 5000])
def test_what_is_kept_follows_the_number_waiting(works: int) -> None:
    order = ShortestFirst()
    items = [waiting(number, 1.0 + number % works) for number in range(5000)]
    for item in items:
        order.push(item)
    for item in items[:1:-1]:  # from the back: nothing comes up by itself
        leave(order, item)
    assert kept(order) < 150
    assert drain(order) == ["r0", "r1"]


def test_one_of_many_equals_costs_a_few_comparisons(monkeypatch: pytest.MonkeyPatch) -> None:
    count = 0
    older = Waiting.__lt__

    def counted(one: Waiting, other: Waiting) -> bool:
        nonlocal count
        count += 1
        return older(one, other)

    order = ShortestFirst()
    for number in range(4096):
        order.push(waiting(number, 30.0))
    monkeypatch.setattr(Waiting, "__lt__", counted)
    for number in range(4096, 4196):
        order.push(waiting(number, 30.0))
        leave(order, order.first(0.0))
    assert count < 100 * 2 * 13  # 2^12 are 13 levels; a scan would compare 4,096
