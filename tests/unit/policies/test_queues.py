"""Which queue a request belongs to: the partition's, a bubble, or one that only drains."""

import math
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sched_client.model import Partition, PolicyParameters
from sched_client.policies import WaitingEntry, create_policy
from sched_client.policies.queues import TOKEN, Queue, QueueBook, sizes_of
from sched_client.validity import invalid_partition_reason

IDLE_ROUNDS, MAX_BUBBLES, MAX_DRAINING = 20, 8, 8

SEEN = Partition(
    boundaries_s=(2.0,),
    queue_ids=("a", "b"),
    lowers_s=(0.5, 10.0),
    uppers_s=(1.0, 20.0),
    means_s=(0.75, 14.0),
)


def book(partition: Partition = SEEN) -> QueueBook:
    return QueueBook(PolicyParameters(partition=partition))


def enter(queues: QueueBook, service_s: float) -> Queue:
    queue = queues.queue_of(service_s)
    queues.enter(queue, 1.0)
    return queue


def names(queues: QueueBook) -> list[str]:
    return [queue.queue_id for queue in queues.queues]


@pytest.mark.parametrize(
    ("service_s", "expected"),
    [(0.5, "a"), (0.45, "a"), (1.1, "a"), (9.0, "b"), (14.0, "b"), (22.0, "b")],
)
def test_a_request_goes_to_its_queue_up_to_a_tenth_beyond_what_was_seen(
    service_s: float, expected: str
) -> None:
    queues = book()
    assert queues.queue_of(service_s).queue_id == expected
    assert names(queues) == ["a", "b"]


@pytest.mark.parametrize("bounds", [(0.0,), (-1.0, 1.0)])
@pytest.mark.parametrize("name", ["ewsjf", "ewsjf-paper"])
def test_a_queue_for_no_work_at_all_does_no_harm(name: str, bounds: tuple[float, ...]) -> None:
    # Such a partition passes sched_client.validity; an exception would mean the stock order.
    partition = Partition(boundaries_s=bounds, queue_ids=("a", "b", "c")[: len(bounds) + 1])
    assert invalid_partition_reason(partition) is None
    parameters = PolicyParameters(between="shortest", aging_rate=1.0, aging_power=4.0)
    policy = create_policy(name, replace(parameters, partition=partition))
    for number, service_s in enumerate((5.0, 0.5)):
        policy.add(WaitingEntry(f"{number}", float(number), service_s, 3.0))
    policy.update(
        replace(parameters, partition=replace(partition, means_s=(1.0,) * (len(bounds) + 1)))
    )
    assert {policy.pop(9.0).request_id for _ in range(2)} == {"0", "1"}


@pytest.mark.parametrize(
    ("service_s", "low_s", "high_s", "place"),
    [
        (0.1, 0.05, 0.2, 0),
        (0.4, 0.2, 0.45, 0),  # the lower queue begins at 0.9 · 0.5
        (1.2, 1.1, 2.4, 1),
        (6.0, 3.0, 9.0, 1),
        (30.0, 22.0, 60.0, 2),
        (1000.0, 500.0, 2000.0, 2),
    ],
)
def test_a_bubble_reaches_from_half_to_twice_the_work_up_to_its_neighbours(
    service_s: float, low_s: float, high_s: float, place: int
) -> None:
    queues = book()
    bubble = enter(queues, service_s)
    assert (bubble.low_s, bubble.high_s) == pytest.approx((low_s, high_s))
    assert queues.queues[place] is bubble
    assert [queue.position for queue in queues.queues] == [1, 2, 3]


def test_bubbles_bound_each_other() -> None:
    queues = book()
    first, second = enter(queues, 100.0), enter(queues, 210.0)
    assert (first.high_s, second.low_s) == (200.0, 200.0)
    assert queues.queue_of(150.0) is first
    assert queues.queue_of(400.0) is second


def test_without_limits_nothing_is_strange() -> None:
    queues = book(Partition(boundaries_s=(2.0,), queue_ids=("a", "b")))
    assert queues.queue_of(1e-300).queue_id == "a"
    assert queues.queue_of(1e300).queue_id == "b"


def test_a_bubble_is_dropped_after_twenty_idle_rounds_and_not_before() -> None:
    queues = book()
    bubble = enter(queues, 100.0)
    queues.leave(bubble, TOKEN)
    for _ in range(IDLE_ROUNDS - 1):
        queues.leave(enter(queues, 0.7), TOKEN)
    assert queues.queue_of(100.0) is bubble
    queues.leave(enter(queues, 0.7), TOKEN)
    assert names(queues) == ["a", "b"]
    assert bubble.gone
    assert bubble.emptied
    assert queues.queue_of(100.0) is not bubble


def test_a_bubble_that_somebody_waits_in_stays_and_counts_anew() -> None:
    queues = book()
    bubble = enter(queues, 100.0)
    for _ in range(100):
        queues.leave(enter(queues, 0.7), TOKEN)
    queues.leave(bubble, TOKEN)
    for _ in range(IDLE_ROUNDS - 1):
        queues.leave(enter(queues, 0.7), TOKEN)
    assert enter(queues, 100.0) is bubble
    queues.leave(bubble, TOKEN)
    for _ in range(IDLE_ROUNDS - 1):
        queues.leave(enter(queues, 0.7), TOKEN)
    assert not bubble.gone


def test_there_are_no_more_bubbles_than_the_limit() -> None:
    queues = book()
    work = [100.0 * 5.0**number for number in range(3 * MAX_BUBBLES)]
    assert [enter(queues, service_s).queue_id for service_s in work[MAX_BUBBLES:]][-1] == "b"
    assert len(queues.queues) == 2 + MAX_BUBBLES


def test_a_known_name_keeps_its_queue_and_what_is_gone_drains() -> None:
    queues = book()
    kept, gone = enter(queues, 0.7), enter(queues, 14.0)
    bubble = enter(queues, 100.0)
    after = Partition(boundaries_s=(5.0,), queue_ids=("a", "c"), means_s=(1.0, 50.0))
    assert not queues.update(PolicyParameters(partition=after))
    assert enter(queues, 3.0) is kept
    assert queues.draining == [gone, bubble]
    assert queues.queue_of(14.0).queue_id == "c"
    queues.leave(gone, TOKEN)
    queues.leave(bubble, TOKEN)
    assert queues.draining == []
    # A name that comes back is a queue like any other.
    assert not queues.update(PolicyParameters(partition=SEEN))
    assert queues.queue_of(14.0).queue_id == "b"


def test_when_too_many_queues_drain_those_that_wait_in_them_are_put_anew() -> None:
    queues = book()
    told = []
    for number in range(MAX_DRAINING + 2):
        queue = enter(queues, 14.0)
        partition = Partition(queue_ids=(f"n{number}",))
        told.append(queues.update(PolicyParameters(partition=partition)))
        assert queue.gone
    assert told == [False] * MAX_DRAINING + [True, True]
    assert queue.emptied


def test_nobody_comes_back_to_a_queue_that_was_forgotten() -> None:
    # As they would from halves, during which nobody waits in queues.
    queues = book()
    left, drained = enter(queues, 0.7), enter(queues, 14.0)
    queues.leave(left, TOKEN)
    queues.update(PolicyParameters(partition=Partition(queue_ids=("c",))))
    assert (left.emptied, drained.emptied) == (True, False)
    queues.leave(drained, TOKEN)
    queues.update(PolicyParameters(partition=SEEN))
    assert drained not in queues.queues
    assert drained.emptied


def test_what_is_about_to_be_put_anew_keeps_its_bubble() -> None:
    queues = book()
    bubble = enter(queues, 100.0)
    for _ in range(2 * IDLE_ROUNDS):
        queues.leave(enter(queues, 0.7), TOKEN)
    queues.clear()
    queues.leave(enter(queues, 0.7), TOKEN)
    assert enter(queues, 100.0) is bubble


def test_the_rate_falls_with_the_mean_work() -> None:
    queues = book()
    queues.update(PolicyParameters(partition=SEEN, aging_rate=3.0, aging_power=2.0))
    rates = [queue.rate for queue in queues.queues]
    assert rates == [3.0 / 0.75**2, 3.0 / 14.0**2]
    assert enter(queues, 100.0).rate == pytest.approx(3.0 / 100.0**2)


def test_only_what_ranks_those_that_wait_makes_all_of_them_be_put_anew() -> None:
    first = PolicyParameters(partition=SEEN, within="score")

    def told(**changes: object) -> bool:
        queues = QueueBook(first)
        return queues.update(replace(first, **changes))  # type: ignore[arg-type]  # any field

    assert not told(w_fairness=3.0, between="ratio", phi=0.1, w_urgency=9.0)
    assert not told(partition=Partition())
    assert told(within="fcfs")
    assert told(w_urgency=0.0)
    assert told(aging_rate=1.0)
    assert told(tier_weight=2.0)


def test_a_queue_without_a_mean_stands_for_the_middle_of_its_bounds() -> None:
    bare = Partition(boundaries_s=(2.0, 6.0), queue_ids=("a", "b", "c"))
    assert sizes_of(bare) == [1.0, 4.0, 9.0]
    assert sizes_of(replace(bare, means_s=(5.0, 3.0, 1.0))) == [2.0, 3.0, 6.0]
    assert sizes_of(Partition()) == [1.0]


@settings(max_examples=200, deadline=None)
@given(
    works=st.lists(
        st.one_of(
            st.floats(0.0, allow_nan=False, allow_infinity=False, exclude_min=True),
            st.floats(0.01, 100.0),
        ),
        max_size=60,
    ),
    stay=st.integers(0, 5),
)
def test_any_work_finds_a_queue_and_the_queues_stay_few_and_apart(
    works: list[float], stay: int
) -> None:
    queues = book()
    waiting: list[Queue] = []
    for service_s in works:
        waiting.append(enter(queues, service_s))
        if len(waiting) > stay:
            queues.leave(waiting.pop(0), TOKEN)
        live = queues.queues
        assert len(live) <= 2 + MAX_BUBBLES
        assert all(math.isfinite(queue.rate) for queue in live)
        bubbles = sorted(
            (queue for queue in live if queue.queue_id.startswith("bubble")),
            key=lambda queue: queue.low_s,
        )
        assert all(one.high_s <= other.low_s for one, other in pairwise(bubbles))
        assert sum(queue.count for queue in live) == len(waiting)
