"""Other cuts than production's, which benchmarks compare it with: by hand on a few works."""

import random
from dataclasses import replace

import pytest

from benchmarks.baselines.cuts import NAMES, cut_policy
from sched_client.model import PolicyParameters
from sched_client.policies import Policy, WaitingEntry, create_policy

HALVES = PolicyParameters(
    between="halves", short_share=0.5, short_share_most=0.6, burst_work=float("inf")
)


def entry(name: str, work: float) -> WaitingEntry:
    return WaitingEntry(name, 0.0, work, work)


def is_short(policy: Policy, works: list[float], work: float) -> bool:
    """Tell whether one of that work passes a long one, after those have come and gone."""
    for index, one in enumerate(works):
        policy.add(entry(f"{index}", one))
    while len(policy):
        policy.pop(0.0)
    policy.add(entry("long", 1e6))
    policy.add(entry("asked", work))
    return policy.pop(1.0).request_id == "asked"


# With one of a million among them all others together are next to no work, and short by that; by
# count at most 60 % are, which no ten is.
_WORKS = [1.0] * 14 + [4.0] * 14 + [10.0] * 14


@pytest.mark.parametrize(
    ("name", "short"),
    [
        ("halves-no-gap", [1.0, 4.0]),
        ("halves-work", [1.0, 4.0, 10.0]),
        ("halves-more", [1.0, 4.0, 10.0]),
        ("halves-less", [1.0, 4.0]),
    ],
)
def test_who_is_short_where_nearly_all_work_is_in_one(name: str, short: list[float]) -> None:
    found = [work for work in (1.0, 4.0, 10.0) if is_short(cut_policy(name, HALVES), _WORKS, work)]
    assert found == short


def test_where_works_are_alike_a_share_of_the_work_is_fewer_than_half() -> None:
    # Of 1, 1.01, 1.02, … a third of the work is a third of the requests.
    works = [1.0 + index / 100.0 for index in range(60)]
    policy = cut_policy("halves-work", HALVES)
    for index, work in enumerate(works):
        policy.add(entry(f"{index}", work))
    policy.add(entry("a third", 1.18))
    policy.add(entry("a half", 1.25))
    order = [policy.pop(0.0).request_id for _ in range(len(policy))]
    assert order.index("a third") < order.index("50") < order.index("a half")


def test_without_a_gap_production_cuts_alike() -> None:
    rng = random.Random(1)
    ours, theirs = create_policy("ewsjf", HALVES), cut_policy("halves-no-gap", HALVES)
    for number in range(600):
        one = entry(f"{number}", rng.lognormvariate(0.0, 0.7))
        ours.add(one)
        theirs.add(one)
        if number % 3:
            assert ours.pop(0.0) == theirs.pop(0.0)


def test_a_gap_makes_the_difference() -> None:
    rng = random.Random(2)
    parameters = replace(HALVES, phi=0.9)
    works = [rng.uniform(1.0, 1.9) * (1.0 if rng.random() < 0.8 else 9.0) for _ in range(900)]
    assert is_short(create_policy("ewsjf", parameters), works, 1.89)
    assert not is_short(cut_policy("halves-no-gap", parameters), works, 1.89)


def test_the_names_are_those_of_the_module() -> None:
    assert [cut_policy(name, HALVES).name for name in NAMES] == list(NAMES)
