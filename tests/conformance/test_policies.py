"""What every policy must do, with its guard on and off; a new policy is done when it is here."""

import math

import pytest

from sched_client.model import Partition, PolicyParameters
from sched_client.policies import POLICY_NAMES, Policy, WaitingEntry, create_policy

GUARDS = {
    "guard on": PolicyParameters(phi=0.25, burst_work=4.0),
    "guard off": PolicyParameters(burst_work=math.inf),
    "few by arrival": PolicyParameters(phi=0.25, burst_work=4.0, reorder_above=3, reorder_until=2),
    "guard in seconds": PolicyParameters(burst_work=math.inf, guard_s=30.0),
    "queues, weights and tiers": PolicyParameters(
        phi=0.25,
        burst_work=4.0,
        within="score",
        w_fairness=10.0,
        aging_rate=0.1,
        aging_power=1.0,
        tier_weight=2.0,
        partition=Partition(
            boundaries_s=(1.5, 6.0),
            queue_ids=("q0", "q1", "q2"),
            lowers_s=(0.5, 2.0, 8.0),
            uppers_s=(1.0, 4.0, 16.0),
        ),
    ),
    "halves": PolicyParameters(phi=0.25, burst_work=4.0, between="halves"),
}


@pytest.fixture(params=POLICY_NAMES)
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(params=list(GUARDS.values()), ids=list(GUARDS))
def policy(request: pytest.FixtureRequest, name: str) -> Policy:
    return create_policy(name, request.param)


def entry(number: int, work: float = 1.0, *, priority: int = 0) -> WaitingEntry:
    return WaitingEntry(f"r{number}", float(number), work, 10.0 * work, priority=priority)


def with_field(waiting: WaitingEntry, field: str, value: object) -> WaitingEntry:
    return waiting._replace(**{field: value})  # type: ignore[arg-type]  # any field


def ids(policy: Policy) -> list[str]:
    return [waiting.request_id for waiting in policy]


def drain(policy: Policy, now_s: float = 100.0) -> list[str]:
    return [policy.pop(now_s).request_id for _ in range(len(policy))]


def test_it_carries_its_name(policy: Policy, name: str) -> None:
    assert policy.name == name


def test_nothing_waits_at_first(policy: Policy) -> None:
    assert len(policy) == 0
    assert list(policy) == []
    for method in (policy.peek, policy.pop):
        with pytest.raises(IndexError):
            method(0.0)


def test_everything_comes_out_once(policy: Policy) -> None:
    for number in range(300):
        policy.add(entry(number, 0.5 + (number * 7919 % 31)))
    assert sorted(drain(policy)) == sorted(f"r{number}" for number in range(300))
    assert len(policy) == 0


def test_equals_come_out_in_order_of_arrival(policy: Policy) -> None:
    for number in range(50):
        policy.add(entry(number))
    assert drain(policy) == [f"r{number}" for number in range(50)]


def test_it_iterates_in_order_of_arrival(policy: Policy) -> None:
    for number, work in enumerate([5.0, 1.0, 3.0, 2.0]):
        policy.add(entry(number, work))
    assert ids(policy) == ["r0", "r1", "r2", "r3"]


def test_pop_obeys_peek_whatever_arrives_or_changes_between(policy: Policy) -> None:
    policy.add(entry(1, 5.0))
    peeked = policy.peek(6.0)
    policy.add(entry(2, 0.001, priority=-5))
    policy.update(
        PolicyParameters(order_by="tokens"),
        lambda waiting: waiting._replace(tokens=99.0),
    )
    assert policy.pop(1e6) is peeked
    assert ids(policy) == ["r2"]


def test_a_peeked_entry_that_is_removed_is_forgotten(policy: Policy) -> None:
    policy.add(entry(1))
    policy.add(entry(2))
    gone = policy.peek(3.0).request_id
    policy.remove(gone)
    assert policy.pop(3.0).request_id != gone
    assert len(policy) == 0


def test_peek_twice_gives_the_same(policy: Policy) -> None:
    for number in range(5):
        policy.add(entry(number, 5.0 - number))
    assert policy.peek(9.0) == policy.peek(9.0)


def test_removing_an_absent_id_changes_nothing(policy: Policy) -> None:
    policy.add(entry(1))
    policy.add(entry(2))
    popped = policy.pop(3.0)
    before = ids(policy)
    policy.remove("never seen")
    policy.remove(popped.request_id)
    assert ids(policy) == before
    assert len(policy) == 1


def test_a_removed_id_may_come_again(policy: Policy) -> None:
    policy.add(entry(1, 2.0))
    policy.remove("r1")
    policy.add(entry(1, 3.0))
    assert policy.pop(2.0) == entry(1, 3.0)


@pytest.mark.parametrize("field", ["service_s", "tokens", "enqueued_s"])
@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_values_that_are_not_finite_are_refused(policy: Policy, field: str, value: float) -> None:
    policy.add(entry(1))
    bad = with_field(entry(2), field, value)
    for method in (policy.add, policy.give_back):
        with pytest.raises(ValueError, match=rf"{field} of 'r2' is {value}"):
            method(bad)
    assert ids(policy) == ["r1"]
    policy.add(entry(2))
    assert len(policy) == 2


@pytest.mark.parametrize("field", ["service_s", "tokens"])
@pytest.mark.parametrize("value", [0.0, -1.0])
def test_work_that_is_not_positive_is_refused(policy: Policy, field: str, value: float) -> None:
    with pytest.raises(ValueError, match=f"{field}.*must be finite and > 0"):
        policy.add(with_field(entry(2), field, value))
    assert len(policy) == 0


def test_an_id_that_waits_is_refused(policy: Policy) -> None:
    policy.add(entry(1))
    for method in (policy.add, policy.give_back):
        with pytest.raises(ValueError, match="'r1' is waiting already"):
            method(entry(1, 7.0))
    assert list(policy) == [entry(1)]


def test_the_given_back_go_first_by_enqueue_time(policy: Policy) -> None:
    for number in range(6):
        policy.add(entry(number))
    popped = [policy.pop(6.0) for _ in range(3)]
    policy.add(entry(6, 0.001))
    for back in (popped[1], popped[2], popped[0]):
        policy.give_back(back)
    assert ids(policy) == ["r0", "r1", "r2", "r3", "r4", "r5", "r6"]
    assert [policy.pop(7.0) for _ in range(3)] == popped


def test_the_clock_may_do_anything(policy: Policy) -> None:
    for number in range(60):
        policy.add(entry(number, 1.0 + number % 7))
    clock = [50.0, -1e9, 1e12, 50.0, math.nan, math.inf, -math.inf, 0.0, 1e-300]
    popped = [policy.pop(clock[i % len(clock)]).request_id for i in range(60)]
    assert len(set(popped)) == 60


def test_extreme_works_do_no_harm(policy: Policy) -> None:
    works = [1e308, 5e-324, 1.7e308, 1.0, 1e300, 1e-300]
    for number in range(60):
        policy.add(entry(number, 1.0))
    for number, work in enumerate(works * 20, 60):
        policy.add(WaitingEntry(f"r{number}", float(number), work, work))
        policy.pop(float(number))
    assert len(set(drain(policy, 1e3))) == 60


@pytest.mark.parametrize("bad", [math.nan, -1.0, 0.0])
def test_an_update_that_fails_changes_nothing(policy: Policy, bad: float) -> None:
    for number in range(3):
        policy.add(entry(number))

    def re_estimate(waiting: WaitingEntry) -> WaitingEntry:
        return waiting._replace(service_s=bad if waiting.request_id == "r2" else 9.0)

    with pytest.raises(ValueError, match="service_s of 'r2'"):
        policy.update(PolicyParameters(), re_estimate)
    assert list(policy) == [entry(number) for number in range(3)]


def test_an_estimate_may_come_and_go_and_come_again(policy: Policy) -> None:
    for number in range(40):
        policy.add(entry(number, 1.0 + number))
    for work in (50.0, 0.5, 50.0, 0.5, 39.0):
        policy.revise(entry(38)._replace(service_s=work, tokens=10.0 * work))
    assert next(waiting for waiting in policy if waiting.request_id == "r38").service_s == 39.0
    assert sorted(drain(policy)) == sorted(f"r{number}" for number in range(40))


@pytest.mark.parametrize("bad", [math.nan, math.inf, 0.0, -1.0])
def test_a_revision_that_no_order_can_rank_changes_nothing(policy: Policy, bad: float) -> None:
    policy.add(entry(1))
    policy.add(entry(2))
    with pytest.raises(ValueError, match="service_s"):
        policy.revise(with_field(entry(1), "service_s", bad))
    with pytest.raises(ValueError, match="priority"):
        policy.revise(with_field(entry(1), "priority", 7))
    assert list(policy) == [entry(1), entry(2)]
    assert drain(policy) == ["r1", "r2"]


@pytest.mark.parametrize("change", [{"request_id": "x"}, {"enqueued_s": 9.0}, {"priority": 1}])
def test_re_estimating_may_not_change_who_a_request_is(
    policy: Policy, change: dict[str, object]
) -> None:
    policy.add(entry(1))
    with pytest.raises(ValueError, match=f"re_estimate changed {next(iter(change))}"):
        policy.update(
            PolicyParameters(),
            lambda waiting: with_field(waiting, *next(iter(change.items()))),
        )
    assert list(policy) == [entry(1)]


@pytest.mark.parametrize(
    ("parameters", "named"),
    [
        (PolicyParameters(phi=1.0), "phi is 1.0"),
        (PolicyParameters(phi=-0.1), "phi is -0.1"),
        (PolicyParameters(phi=math.nan), "phi is nan"),
        (PolicyParameters(burst_work=-1.0), "burst_work is -1.0"),
        (PolicyParameters(burst_work=math.nan), "burst_work is nan"),
        (PolicyParameters(guard_s=0.0), "guard_s is 0.0"),
        (PolicyParameters(reorder_above=-1), "reorder_above is -1"),
        (PolicyParameters(reorder_above=65), "reorder_above is 65"),
        (PolicyParameters(within="lifo"), "within is 'lifo'"),  # type: ignore[arg-type]  # bad on purpose
        (PolicyParameters(between="lifo"), "between is 'lifo'"),  # type: ignore[arg-type]  # bad on purpose
        (PolicyParameters(w_urgency=-1.0), "w_urgency is -1.0"),
        (PolicyParameters(w_fairness=math.nan), "w_fairness is nan"),
        (PolicyParameters(aging_rate=math.inf), "aging_rate is inf"),
        (PolicyParameters(aging_power=5.0), "aging_power is 5.0"),
        (PolicyParameters(short_share=1.5), "short_share is 1.5"),
        (PolicyParameters(tier_weight=0.5), "tier_weight is 0.5"),
        (PolicyParameters(tier_weight=1e7), "tier_weight is 1"),
        (PolicyParameters(tier_weight=math.nan), "tier_weight is nan"),
        (PolicyParameters(partition=Partition(queue_ids=())), "boundaries_s"),
        (
            PolicyParameters(
                partition=Partition(boundaries_s=(2.0, 1.0), queue_ids=("a", "b", "c"))
            ),
            r"boundaries_s are \(2.0, 1.0\)",
        ),
        (PolicyParameters(partition=Partition(means_s=(1.0, 2.0))), "means_s"),
        (PolicyParameters(order_by="size"), "order_by is 'size'"),  # type: ignore[arg-type]  # bad on purpose
    ],
)
def test_parameters_outside_their_limits_are_refused(
    name: str, parameters: PolicyParameters, named: str
) -> None:
    with pytest.raises(ValueError, match=named):
        create_policy(name, parameters)
    policy = create_policy(name, PolicyParameters())
    with pytest.raises(ValueError, match=named):
        policy.update(parameters)


def test_memory_follows_the_number_waiting(policy: Policy) -> None:
    def size(root: object) -> int:
        seen: set[int] = set()
        stack, total = [root], 0
        while stack:
            value = stack.pop()
            if id(value) in seen:
                continue
            seen.add(id(value))
            if isinstance(value, (list, tuple)):
                total += len(value)
                stack += value
            elif isinstance(value, dict):
                total += len(value)
                stack += [*value, *value.values()]
            else:
                slots = getattr(type(value), "__slots__", ())
                stack += [getattr(value, slot, None) for slot in slots]
        return total

    for number in range(5000):
        policy.add(entry(number, 1.0 + number % 13, priority=number))
    full = size(policy)
    for number in range(4990):
        if number % 3:
            policy.remove(f"r{number}")
    drained = 0
    while len(policy) > 10:
        policy.pop(1e4)
        drained += 1
    assert drained > 1000
    assert size(policy) < full / 20


def test_a_turnover_keeps_memory_where_it_was(policy: Policy) -> None:
    # The long one at the bottom of every heap must not keep alive all that passed it.
    policy.add(entry(0, 50.0))
    for number in range(1, 3000):
        policy.add(entry(number, 1.0, priority=number % 3))
        policy.remove(f"r{number}") if number % 2 else policy.pop(float(number))
    assert len(policy) <= 1
