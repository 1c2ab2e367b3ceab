"""A scan, a sort and kappad's own order serve alike; the benchmark runs all of them."""

import random

from benchmarks.baselines.orders import ScannedRatio, SortedRatio
from benchmarks.policies import PARAMETERS, _of_order, _of_policy, _single_calls, works
from sched_client.policies import WaitingEntry, create_policy
from sched_client.policies.hrrn import HighestRatioFirst
from sched_client.policies.orders import Order
from sched_client.policies.waiting import Waiting


def served(order: Order, count: int) -> list[str]:
    rng = random.Random(6)
    names = []
    for number, work in enumerate(works(count, rng)):
        entry = WaitingEntry(f"r{number}", number / 10, work, 1.0)
        order.push(Waiting(entry, work, number, returned=False))
        if number >= count // 3:
            item = order.first(number / 10)
            order.discard(item)
            names.append(item.request_id)
    assert len(order) == count // 3
    return names


def test_a_scan_a_sort_and_the_front_serve_the_same() -> None:
    expected = served(ScannedRatio(), 600)
    assert served(SortedRatio(), 600) == expected
    assert served(HighestRatioFirst(), 600) == expected


def test_a_contestant_keeps_as_many_waiting_as_it_is_told() -> None:
    policy = create_policy("hrrn", PARAMETERS)
    contestant = _of_policy(policy, 50)
    assert contestant.block(20) > 0.0
    assert len(policy) == 50
    order = ScannedRatio()
    assert _of_order(order, 30).block(5) > 0.0
    assert len(order) == 30
    calls = _single_calls(policy, contestant.source)
    assert set(calls) == {"add", "peek", "pop", "remove"}
    assert len(policy) == 50
