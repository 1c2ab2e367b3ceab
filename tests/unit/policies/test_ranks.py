"""Orders by rank: equal works, what left in the middle, how much is kept."""

import itertools
import math
import random

import pytest

from sched_client.policies.base import WaitingEntry
from sched_client.policies.orders import KeyedOrder, returned_rank, shortest_first_rank
from sched_client.policies.waiting import Waiting

TINY, LARGE = 5e-324, 1.7e308
TIMES = (-LARGE, -2.0, -1.0, -TINY, -0.0, 0.0, TINY, 1.0, math.nextafter(1.0, 2.0), 2.0, LARGE)
WORKS = (TINY, 1e-4, 0.5, 1.0, math.nextafter(1.0, 2.0), 3.0, LARGE)


def waiting(number: int, work: float = 1.0, enqueued_s: float | None = None) -> Waiting:
    at_s = float(number) if enqueued_s is None else enqueued_s
    return Waiting(WaitingEntry(f"r{number}", at_s, work, 1.0), work, number, returned=False)


def drain(order: KeyedOrder) -> list[str]:
    names = []
    while len(order):
        item = order.first(0.0)
        order.discard(item)
        names.append(item.request_id)
    return names


def test_ranks_compare_as_what_they_stand_for() -> None:
    items = [
        waiting(number, work, at_s)
        for work, at_s, number in itertools.product(WORKS, TIMES, (1, 2, 255, 256, 1 << 40))
    ]
    random.Random(1).shuffle(items)
    assert sorted(items, key=shortest_first_rank) == sorted(
        items, key=lambda item: (item.work, item.enqueued_s, item.sequence)
    )
    items = [item for item in items if item.work == 1.0]
    assert sorted(items, key=returned_rank) == sorted(
        items, key=lambda item: (item.enqueued_s, -item.sequence)
    )


@pytest.mark.parametrize("works", [1, 3, 1000])
def test_the_least_work_goes_first_and_the_oldest_among_equals(works: int) -> None:
    rng = random.Random(works)
    order, present = KeyedOrder(shortest_first_rank), []
    for number in range(3000):
        # Some come with a time before those that wait already.
        item = waiting(number, 1.0 + rng.randrange(works), float(number - rng.randrange(9)))
        order.push(item)
        present.append(item)
        if rng.random() < 0.4:
            gone = rng.choice(present) if rng.random() < 0.5 else order.first(0.0)
            order.discard(gone)
            present.remove(gone)
        assert len(order) == len(present)
    present.sort(key=lambda item: (item.work, item.enqueued_s, item.sequence))
    assert drain(order) == [item.request_id for item in present]


def test_what_comes_back_to_its_rank_goes_once() -> None:
    order = KeyedOrder(shortest_first_rank)
    order.push(waiting(1, 1.0))
    stay = waiting(2, 2.0)
    order.push(stay)
    for work in (3.0, 2.0, 3.0, 2.0):  # behind the least: the old ranks stay in the heap
        revised = waiting(2, work)  # of the same age
        order.discard(stay)
        order.push(revised)
        stay = revised
    assert drain(order) == ["r1", "r2"]


@pytest.mark.parametrize("works", [1, 7, 5000])
def test_what_is_kept_follows_the_number_waiting(works: int) -> None:
    order = KeyedOrder(shortest_first_rank)
    items = [waiting(number, 1.0 + number % works) for number in range(5000)]
    for item in items:
        order.push(item)
    for item in items[:1:-1]:  # from the back: nothing comes up by itself
        order.discard(item)
    assert len(order._heap) < 100
    assert drain(order) == ["r0", "r1"]


def test_nothing_is_kept_where_nothing_waits() -> None:
    order = KeyedOrder(shortest_first_rank)
    items = [waiting(number, 1.0 + number) for number in range(1000)]
    for item in items:
        order.push(item)
    for item in items[:499:-1]:  # as many as may leave in the middle before the heap is cleaned
        order.discard(item)
    assert len(order._heap) == 1000
    assert drain(order) == [item.request_id for item in items[:500]]
    assert order._heap == []
