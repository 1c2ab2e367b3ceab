"""ewsjf in halves: who is short, who goes first, and what must not change it."""

import random
from collections.abc import Sequence
from dataclasses import replace

import pytest

from sched_client.model import Partition, PolicyParameters
from sched_client.policies import Policy, WaitingEntry, create_policy
from sched_client.policies.halves import WINDOW, Halves
from sched_client.policies.waiting import Waiting
from tests.unit.policies.queue_model import Job, QueueModel

HALVES = PolicyParameters(between="halves", short_share=0.5, burst_work=float("inf"))


def entry(name: str, work: float, enqueued_s: float = 0.0, priority: int = 0) -> WaitingEntry:
    return WaitingEntry(name, enqueued_s, service_s=work, tokens=10.0 * work, priority=priority)


def filled(parameters: PolicyParameters, works: Sequence[float]) -> Policy:
    policy = create_policy("ewsjf", parameters)
    for index, work in enumerate(works):
        policy.add(entry(f"{index}", work, float(index)))
    return policy


def drained(policy: Policy) -> str:
    return "".join(policy.pop(1e3).request_id for _ in range(len(policy)))


def test_the_shorter_half_goes_first_and_each_half_by_arrival() -> None:
    # Judged at the arrival: 5 alone is the median of itself and half of it is less, so short; of
    # (5, 9) 9 is not; of (5, 9, 1) 1 is; 6 has two of four below and half of itself: not; 3 is.
    assert drained(filled(HALVES, (5, 9, 1, 6, 3))) == "02413"


def test_requests_that_are_all_alike_are_first_come_first_served() -> None:
    assert drained(filled(replace(HALVES, short_share=0.48), [2.0] * 9)) == "012345678"


@pytest.mark.parametrize(
    ("share", "works", "order"),
    [
        (0.0, (7, 8, 9, 1), "0123"),  # nobody is short
        (1.0, (7, 8, 9, 1), "0123"),  # all are
        (0.25, (7, 8, 9, 1), "3012"),  # of four, 1 alone has an eighth below it
    ],
)
def test_the_share_says_how_many_are_short(
    share: float, works: tuple[float, ...], order: str
) -> None:
    assert drained(filled(replace(HALVES, short_share=share), works)) == order


def test_a_mix_that_changed_is_forgotten_with_the_window() -> None:
    policy = filled(HALVES, [1.0] * WINDOW)
    drained(policy)
    for index in range(WINDOW):
        policy.add(entry(f"new {index}", 10.0 + index % 2, 1.0))
        policy.pop(2.0)
    policy.add(entry("long", 11.0, 3.0))
    policy.add(entry("short", 10.0, 4.0))
    # Among tens and elevens a ten is short; beside the ones both were long.
    assert policy.pop(5.0).request_id == "short"


def test_works_in_another_unit_are_forgotten() -> None:
    # In tokens all are ten times what they are in seconds: beside those all would be long.
    policy = filled(HALVES, [1.0 + index % 9 for index in range(WINDOW)])
    drained(policy)
    policy.add(entry("waits", 5.0, 1e4))
    policy.update(replace(HALVES, order_by="tokens"))
    policy.add(entry("long", 9.0, 1e4))
    policy.add(entry("short", 1.0, 1e4))
    assert [policy.pop(2e4).request_id for _ in range(3)] == ["waits", "short", "long"]


def test_who_is_put_into_the_order_again_counts_once() -> None:
    # Ten revisions of a long one would make the median long, and 5 with it short.
    policy = filled(HALVES, (1, 2, 3, 9))
    for step in range(10):
        policy.revise(entry("3", 9.0 + step, 3.0))
    policy.add(entry("5", 5.0, 4.0))
    policy.add(entry("1.5", 1.5, 5.0))
    names = [policy.pop(10.0).request_id for _ in range(len(policy))]
    assert names.index("1.5") < names.index("3")
    assert names.index("1.5") < names.index("5")


def test_a_new_estimate_is_judged_anew() -> None:
    policy = filled(HALVES, (4, 1, 5, 6))
    policy.revise(entry("3", 0.5, 3.0))
    # 4 and 1 are short, 5 is not, and 6, which is 0.5 now, is.
    assert drained(policy) == "0132"


def test_halves_may_be_switched_on_and_off_while_requests_wait() -> None:
    works = (4.0, 9.0, 1.0, 6.0, 2.0)
    policy = filled(replace(HALVES, between="shortest"), works)
    policy.update(HALVES)
    # Put into the halves in order of arrival, as if they came now.
    assert drained(policy) == drained(filled(HALVES, works))
    policy = filled(HALVES, works)
    cut = Partition(boundaries_s=(5.0,), queue_ids=("a", "b"))
    policy.update(replace(HALVES, between="shortest", partition=cut))
    assert drained(policy) == "02413"


def test_the_share_may_change_while_requests_wait() -> None:
    policy = filled(HALVES, (5, 9, 1, 6, 3))
    policy.update(replace(HALVES, short_share=0.0))
    policy.add(entry("x", 0.1, 9.0))
    # Who waits stays what it is; who comes is judged by the new share.
    assert drained(policy) == "02413x"


def test_strict_priorities_go_before_halves() -> None:
    policy = create_policy("ewsjf", HALVES)
    policy.add(entry("free", 1.0, 0.0, priority=1))
    policy.add(entry("paid long", 90.0, 1.0, priority=0))
    assert policy.pop(2.0).request_id == "paid long"


def test_the_published_score_knows_no_halves() -> None:
    # between is ewsjf's; ewsjf-paper scores its queues whatever it says.
    rng = random.Random(3)
    works = [rng.lognormvariate(0.0, 1.0) for _ in range(9)]
    cut = Partition(boundaries_s=(1.0,), queue_ids=("a", "b"))
    orders = []
    for between in ("halves", "score"):
        parameters = replace(HALVES, between=between, partition=cut)
        policy = create_policy("ewsjf-paper", parameters)
        for index, work in enumerate(works):
            policy.add(entry(f"{index}", work, float(index)))
        orders.append(drained(policy))
    assert orders[0] == orders[1]
    assert orders[0] != drained(filled(HALVES, works))


def test_the_median_of_what_comes_splits_a_stream_in_two() -> None:
    rng = random.Random(1)
    policy = create_policy("ewsjf", replace(HALVES, short_share=0.48))
    works = [rng.lognormvariate(0.0, 0.7) for _ in range(2_000)]
    short = 0
    for index, work in enumerate(works):
        policy.add(entry("long one", 1e6, float(index)))
        policy.add(entry("it", work, float(index)))
        short += policy.pop(float(index)).request_id == "it"
        policy.pop(float(index))
    # Half of the arrivals are the long one, so 96 % of the others are short.
    assert 0.92 < short / len(works) < 1.0


def test_the_share_falls_where_the_guard_holds_up_and_rises_where_it_does_not() -> None:
    halves = Halves(0.46, 0.58, 0.3)
    assert halves.share == 0.58
    for _ in range(3):
        halves.served(held_up=True)
    assert halves.share == pytest.approx(0.55)
    for _ in range(10):
        halves.served(held_up=False)
    assert halves.share == pytest.approx(0.56)
    for _ in range(100):
        halves.served(held_up=True)
    assert halves.share == 0.46
    for _ in range(1000):
        halves.served(held_up=False)
    assert halves.share == 0.58
    halves.bound(0.7, 0.0, 0.3)
    halves.served(held_up=True)
    assert halves.share == 0.7


def test_in_a_long_overload_the_guard_finds_the_share() -> None:
    # Sizes without a gap; with φ 0 and little burst nothing may pass.
    shares = {}
    for phi, burst_work in ((0.0, 2.0), (0.9, 1e9)):
        parameters = PolicyParameters(
            between="halves",
            short_share=0.2,
            short_share_most=0.6,
            phi=phi,
            burst_work=burst_work,
        )
        policy = create_policy("ewsjf", parameters)
        for number in range(400):
            work = 1.5 ** (number % 7)
            policy.add(WaitingEntry(f"r{number}", float(number), work, work))
            if number % 2:
                policy.pop(float(number))
        shares[phi] = policy._orders._halves.share  # type: ignore[attr-defined]  # what it chose
    assert shares[0.0] == 0.2
    assert shares[0.9] == 0.6


def mixed(rng: random.Random, small: float, times: float = 10.0) -> float:
    """Draw from two kinds of requests, one so many times as long as the other."""
    return rng.uniform(1.0, 1.9) * (1.0 if rng.random() < small else times)


def arrive(policy: Policy, works: Sequence[float]) -> None:
    for index, work in enumerate(works):
        policy.add(entry(f"{index}", work, float(index)))
        policy.pop(float(index))


KINDS = replace(HALVES, short_share=0.46, short_share_most=0.58, phi=0.4)


def is_short(policy: Policy, work: float) -> bool:
    """Tell whether one of that work passes a very long one that waits."""
    policy.add(entry("long", 1e5, 1e4))
    policy.add(entry("asked", work, 1e4))
    first = policy.pop(1e4).request_id
    policy.pop(1e4)
    return first == "asked"


def test_a_kind_of_requests_is_short_as_a_whole() -> None:
    # 80 % hold a third of the work, less than φ; without the gap the longest of them were long.
    rng = random.Random(5)
    policy = create_policy("ewsjf", KINDS)
    arrive(policy, [mixed(rng, 0.8) for _ in range(2_000)])
    assert is_short(policy, 1.9)
    assert not is_short(policy, 10.0)
    # As a geometric mean: as far, in ratio, from 1.9 as from 10.
    assert is_short(policy, 4.2)
    assert not is_short(policy, 4.5)


def test_another_guard_lets_a_kind_pass_or_not() -> None:
    rng = random.Random(8)
    policy = create_policy("ewsjf", KINDS)
    arrive(policy, [mixed(rng, 0.8) for _ in range(1_000)])
    policy.update(replace(KINDS, phi=0.2))
    assert not is_short(policy, 1.9)
    policy.update(KINDS)
    arrive(policy, [mixed(rng, 0.8) for _ in range(400)])
    assert is_short(policy, 1.9)


def test_the_middle_of_a_gap_is_long() -> None:
    # A geometric mean of 1 and 4 is 2.
    policy = create_policy("ewsjf", replace(KINDS, phi=0.9))
    arrive(policy, [1.0, 1.0, 1.0, 1.0, 4.0, 1.0, 1.0] * 60)
    assert is_short(policy, 1.999)
    assert not is_short(policy, 2.0)


@pytest.mark.parametrize(
    ("parameters", "small"),
    [
        (replace(KINDS, phi=0.2), 0.8),  # they hold more work than may overtake
        (replace(KINDS, short_share_most=0.0), 0.8),  # the share is told to stand still
        (KINDS, 0.98),  # the long ones are too few to be a kind
    ],
)
def test_where_a_gap_is_no_cut(parameters: PolicyParameters, small: float) -> None:
    rng = random.Random(6)
    policy = create_policy("ewsjf", parameters)
    arrive(policy, [mixed(rng, small) for _ in range(2_000)])
    assert not is_short(policy, 1.9)


def test_a_gap_below_the_most_cuts_there_too() -> None:
    # Half are small: with .58 some of the large would be short, as the smallest of them is here.
    rng = random.Random(7)
    policy = create_policy("ewsjf", KINDS)
    arrive(policy, [mixed(rng, 0.52) for _ in range(1_000)])
    assert not is_short(policy, 10.0)
    assert is_short(policy, 1.9)


def test_one_broad_class_has_no_gap() -> None:
    for seed in range(40):
        rng = random.Random(seed)
        halves = Halves(0.46, 0.58, 0.9)
        for number in range(640):
            work = rng.lognormvariate(0.0, 1.5)
            halves.rank(Waiting(entry(f"{number}", work), work, number, returned=False))
            halves.served(held_up=False)
            assert halves.share <= 0.58


def test_of_many_that_wait_only_the_first_are_judged_by_old_works() -> None:
    works = [1.0 + 2.0 * (index % 2) for index in range(1_000)]
    policy = filled(replace(HALVES, short_share=0.5), works)
    for index, work in enumerate(works):
        policy.revise(entry(f"{index}", 7.0 * work, float(index)))
    order = [int(policy.pop(1e4).request_id) for _ in works]
    late = [index for index in order if index > 200]
    assert late == sorted(late, key=lambda index: (index % 2, index))


def test_who_is_estimated_anew_as_halves_begin_counts_once() -> None:
    # Switched on, and another unit, with new estimates of all: each is in the window once.
    def twice(one: WaitingEntry) -> WaitingEntry:
        return one._replace(service_s=2.0 * one.service_s, tokens=3.0 * one.tokens)

    works = [float(index) for index in range(1, 41)]
    policy = filled(replace(HALVES, between="shortest"), works)
    for parameters, counted in (
        (HALVES, [2.0 * work for work in works]),
        (replace(HALVES, order_by="tokens"), [90.0 * work for work in works]),
    ):
        policy.update(parameters, twice)
        assert policy._orders._halves._sorted == counted  # type: ignore[attr-defined]  # the window


def test_new_estimates_of_all_that_wait_fill_the_window() -> None:
    works = [float(index) for index in range(1, 41)]
    policy = filled(HALVES, works)
    policy.update(HALVES, lambda one: one._replace(service_s=3.0 * one.service_s))
    window = policy._orders._halves._sorted  # type: ignore[attr-defined]  # the window
    assert window == [3.0 * work for work in works]


def test_what_comes_while_there_are_no_halves_is_not_kept() -> None:
    parameters = replace(HALVES, short_share_most=0.58)
    policy = filled(parameters, (1.0, 2.0))
    policy.update(replace(parameters, between="shortest"))
    policy.revise(entry("0", 50.0))
    halves = policy._orders._halves  # type: ignore[attr-defined]  # the window and the share
    assert halves._sorted == [1.0, 2.0]
    policy._orders.served(held_up=True)  # type: ignore[attr-defined]  # as a guard that holds up
    assert halves.share == 0.58


def test_an_old_work_is_found_though_ratios_are_rounded() -> None:
    rng = random.Random(4)
    halves, work = Halves(0.5, 0.5, 0.3), 1.0
    halves.rank(Waiting(entry("it", work), work, 0, returned=False))
    for _ in range(300):
        before, work = work, rng.lognormvariate(0.0, 1.0)
        halves.moved(work, work / before)
        assert halves._sorted == list(halves._recent) == [work]


def test_a_new_estimate_takes_the_place_of_its_own_old_one() -> None:
    halves = Halves(0.5, 0.5, 0.3)
    for number, work in enumerate((3.0, 1.0, 7.0, 1.0)):
        halves.rank(Waiting(entry("it", work), work, number, returned=False))
    halves.moved(9.0, 3.0)
    assert list(halves._recent) == [9.0, 1.0, 7.0, 1.0]
    halves.moved(0.1, 0.1)
    assert list(halves._recent) == [9.0, 0.1, 7.0, 1.0]
    # Of one that came before all that are remembered nothing is.
    halves.moved(50.0, 10.0)
    assert halves._sorted == [0.1, 1.0, 7.0, 9.0]


def test_an_estimate_that_falls_below_all_numbers_is_no_error() -> None:
    policy = filled(HALVES, (1e300, 2.0))
    policy.revise(entry("0", 1e-300))
    assert drained(policy) == "01"


def test_a_gap_beyond_all_numbers_is_between_the_two() -> None:
    policy = create_policy("ewsjf", replace(KINDS, phi=0.9))
    arrive(policy, [1e-200, 1e-200, 1e-200, 1e200] * 128)
    assert is_short(policy, 0.9)
    assert not is_short(policy, 1.1)


def test_a_gap_below_the_least_share_is_none() -> None:
    halves = Halves(0.3, 0.58, 0.9)
    for number in range(2 * WINDOW):
        work = 1.0 if number % WINDOW < 76 else 4.0  # 29.7 %
        halves.rank(Waiting(entry("it", work), work, number, returned=False))
    for _ in range(300):
        halves.served(held_up=False)
    assert halves.share == 0.58


def test_those_that_wait_do_not_crowd_out_what_comes() -> None:
    """The long wait and are estimated anew, again and again; half of what comes is short."""
    halves = Halves(0.5, 0.5, 0.3)
    for number in range(512):
        work = 100.0 if number % 2 else 1.0
        halves.rank(Waiting(entry("it", work), work, number, returned=False))
    for before, after in ((100.0, 150.0), (150.0, 90.0)):
        for _ in range(300):
            halves.moved(after, after / before)
    assert halves._sorted == [1.0] * 128 + [90.0] * 128


@pytest.mark.parametrize("seed", range(30))
def test_the_share_and_the_window_agree_with_the_model(seed: int) -> None:
    rng = random.Random(seed)
    parameters = KINDS
    halves, model = Halves(0.46, 0.58, 0.4), QueueModel("ewsjf", parameters)
    small, scale = (0.5, 0.95, 0.7, 0.95, 0.85)[seed % 5], 1.0
    for number in range(1_500):
        # Of even seeds: gaps that are equal, and such as are just not wide enough.
        work = scale * (
            mixed(rng, small, 60.0) if seed % 2 else rng.choice((1.0, 1.0, 2.0, 8.0, 32.0))
        )
        item = Waiting(entry(f"{number}", work), work, number, returned=False)
        job = Job(number, 0.0, work, work, work, 0, newest=(number, work))
        model.halve(job)
        assert halves.rank(item)[0] == job.is_long
        for _ in range(rng.choice([0, 1, 4])):
            held_up = rng.random() < 0.02
            halves.served(held_up=held_up)
            model.served(held_up=held_up)
        if rng.random() < 0.01:
            ratio = rng.choice([0.3, 0.9, 1.1, 3.0])
            halves.moved(work * ratio, ratio)
            model.moved(work * ratio, ratio)
        if rng.random() < 0.005:
            parameters = replace(
                parameters,
                short_share=rng.choice([0.1, 0.46]),
                short_share_most=rng.choice([0.0, 0.58]),
                phi=rng.choice([0.05, 0.4]),
            )
            halves.bound(parameters.short_share, parameters.short_share_most, parameters.phi)
            model.update(parameters)
        if rng.random() < 0.002:
            scale *= 3.0
        assert halves.share == model.share
