"""The kinetic tournament against a scan, with real numbers and many waiting."""

import random
from collections.abc import Iterable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sched_client.policies import WaitingEntry
from sched_client.policies.hrrn import HighestRatioFirst
from sched_client.policies.waiting import Waiting


def stay(number: int, enqueued_s: float, work: float) -> Waiting:
    return Waiting(WaitingEntry(f"r{number}", enqueued_s, work, 1.0), work, number, returned=False)


def leave(order: HighestRatioFirst, item: Waiting) -> None:
    order.discard(item)


@settings(max_examples=60, deadline=None)
@given(
    steps=st.lists(
        st.tuples(
            st.floats(1e-3, 1e3),
            st.one_of(st.floats(0.0, 20.0), st.floats(-20.0, 20.0)),
            st.sampled_from(["push", "push", "push", "take", "drop"]),
        ),
        max_size=150,
    ),
    seed=st.integers(0, 2**32),
)
def test_the_first_has_the_highest_ratio_whatever_the_works_are(
    steps: list[tuple[float, float, str]], seed: int
) -> None:
    rng = random.Random(seed)
    order = HighestRatioFirst()
    waiting: list[Waiting] = []
    now_s = 1e5
    for number, (work, step, action) in enumerate(steps):
        now_s += step
        if action == "push":
            waiting.append(stay(number, now_s, work))
            order.push(waiting[-1])
        elif waiting and action == "drop":
            leave(order, waiting.pop(rng.randrange(len(waiting))))
        if waiting:
            first = order.first(now_s)
            best = max((now_s - item.enqueued_s) / item.work for item in waiting)
            assert (now_s - first.enqueued_s) / first.work == pytest.approx(best, rel=1e-12)
            if action == "take":
                waiting.remove(first)
                leave(order, first)
        assert len(order) == len(waiting)


class Counted(HighestRatioFirst):
    """Counts the matches played."""

    __slots__ = ("matches",)

    def _play(self, nodes: Iterable[int], *, until_same: bool = False) -> None:
        def counted() -> Iterable[int]:
            for node in nodes:
                self.matches += 1
                yield node

        if not hasattr(self, "matches"):
            self.matches = 0
        super()._play(counted(), until_same=until_same)


@pytest.mark.parametrize("together", [False, True])
def test_an_operation_plays_few_matches_however_many_wait(together: bool) -> None:
    rng = random.Random(5)
    order = Counted()
    n, turns = 3000, 2000
    for number in range(n):
        order.push(stay(number, 0.0 if together else number / 10, rng.lognormvariate(-1.0, 0.8)))
    order.first(n / 10)
    before = order.matches
    for number in range(n, n + turns):
        now_s = number / 10
        order.push(stay(number, now_s, rng.lognormvariate(-1.0, 0.8)))
        leave(order, order.first(now_s))
    # The tree is 12 levels high; a scan would look at 3,000.
    assert (order.matches - before) / turns < 30
