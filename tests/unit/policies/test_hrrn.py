"""Highest ratio first against a scan: real numbers, ties, many waiting, a clock that steps."""

import random
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sched_client.policies import WaitingEntry, hrrn
from sched_client.policies.blocks import Block
from sched_client.policies.hrrn import HighestRatioFirst
from sched_client.policies.waiting import Waiting


def stay(number: int, enqueued_s: float, work: float) -> Waiting:
    return Waiting(WaitingEntry(f"r{number}", enqueued_s, work, 1.0), work, number, returned=False)


def scanned(waiting: list[Waiting], now_s: float) -> Waiting:
    """Give the highest ratio, the older one among equals, as the definition says."""
    return min(
        waiting,
        key=lambda item: (
            -(max(0.0, now_s - item.enqueued_s) / item.work),
            item.enqueued_s,
            item.sequence,
        ),
    )


def blocks(order: HighestRatioFirst) -> list[Block]:
    found: list[Block] = []
    block: Block | None = order._blocks.head.blocks[0]
    while block is not None:
        found.append(block)
        block = block.next
    return found


def skyline(by_age: list[Waiting]) -> list[Waiting]:
    """Give those that are shorter than every older one."""
    found: list[Waiting] = []
    for item in by_age:
        if not found or item.work < found[-1].work:
            found.append(item)
    return found


def check_kept(order: HighestRatioFirst, waiting: list[Waiting]) -> None:
    """Compare what is kept with the definitions."""
    by_age = sorted(waiting, key=lambda item: (item.enqueued_s, item.sequence))
    if order._leaders is None:
        front = order._front
        assert front.items == skyline(by_age)
        assert front.ages == [item.enqueued_s for item in front.items]
        assert front.works == [item.work for item in front.items]
    chain = blocks(order)
    assert [item for block in chain for item in block.waiting()] == by_age
    assert list(order._blocks) == by_age
    for block in chain:
        assert block.count == len(block.waiting())
        assert block.works == [float("inf") if one is None else one.work for one in block.items]
        assert block.least == min(block.works, default=float("inf"))
        assert [block.items[place] for place in block.stairs] == skyline(block.waiting())
        assert all(item.block.items[item.place] is item for item in block.waiting())
        assert all(item.block is block for item in block.waiting())
        assert block.shelf.least <= block.least
        assert block in block.shelf.blocks
        # Who has left is kept by nobody.
        for leader in (block.leader, block.shelf.leader):
            assert leader is None or (order._leaders is not None and leader in waiting)
    assert all(block.count for block in chain[:-1])
    assert [block for shelf in order._blocks.shelves() for block in shelf.blocks] == chain


# Few values, so that works, ages and ratios are often equal; and any values.
_WORKS = st.one_of(st.sampled_from([0.5, 1.0, 2.0, 4.0]), st.floats(1e-3, 1e3))
_STEPS = st.one_of(
    st.sampled_from([0.0, 0.0, 1.0, 4.0, -2.0]), st.floats(0.0, 20.0), st.floats(-20.0, 20.0)
)
_ACTIONS = st.sampled_from(["push", "push", "burst", "take", "take", "drain", "drop", "revise"])


@pytest.fixture(params=[False, True], ids=["at hand", "leaders"])
def leaders_soon(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Let leaders take over at the first look, or as it is."""
    soon: bool = request.param
    if soon:
        monkeypatch.setattr(hrrn, "_FEW", 0)
        monkeypatch.setattr(hrrn, "_ALLOWED", 0)
        monkeypatch.setattr(hrrn, "_PATIENCE", -1)
    return soon


@pytest.mark.usefixtures("leaders_soon")
# One setting for all examples of a test, and none for the tests without.
@settings(
    max_examples=120,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    steps=st.lists(st.tuples(_WORKS, _STEPS, _ACTIONS), max_size=60), seed=st.integers(0, 2**32)
)
def test_the_first_is_that_of_a_scan_whatever_happens(
    steps: list[tuple[float, float, str]], seed: int
) -> None:
    rng = random.Random(seed)
    order = HighestRatioFirst()
    waiting: list[Waiting] = []
    now_s, number = 1e3, 0

    def push(work: float) -> None:
        nonlocal number
        number += 1
        waiting.append(stay(number, now_s, work))
        order.push(waiting[-1])

    for work, step, action in steps:
        now_s += step
        if action == "push":
            push(work)
        elif action == "burst":  # shorter and shorter, longer and longer, or by chance
            factor = rng.choice([0.99, 1.01, 1.0, 0.0])
            for power in range(rng.choice([10, 70, 150])):
                push(work * factor**power if factor else rng.lognormvariate(0.0, 1.0))
                now_s += step / 100.0
        elif waiting and action in ("drop", "revise"):
            item = waiting[rng.randrange(len(waiting))]
            order.discard(item)
            if action == "drop":
                waiting.remove(item)
            else:
                item.count(work)
                order.push(item)
        elif action in ("take", "drain"):
            for _ in range(min(len(waiting), 1 if action == "take" else 90)):
                first = order.first(now_s)
                assert first is scanned(waiting, now_s)
                order.discard(first)
                waiting.remove(first)
                now_s += max(step, 0.0) / 10.0
        assert len(order) == len(waiting)
        if waiting:
            assert order.first(now_s) is scanned(waiting, now_s)
    check_kept(order, waiting)


@pytest.mark.parametrize("load", [0.9, 1.0, 1.1])
def test_the_first_is_that_of_a_scan_while_hundreds_wait(load: float, leaders_soon: bool) -> None:
    rng = random.Random(4)
    order = HighestRatioFirst()
    waiting: list[Waiting] = []
    debt, looked = 0.0, 0
    for number in range(2500):
        now_s = number / 10 - (3.0 if number % 500 == 7 else 0.0)
        waiting.append(stay(number, now_s, rng.lognormvariate(-1.0, 0.8)))
        order.push(waiting[-1])
        debt += 1.0 / load if number > 600 else 0.0
        while debt >= 1.0 and waiting:
            first = order.first(now_s)
            assert first is scanned(waiting, now_s)
            order.discard(first)
            waiting.remove(first)
            debt -= 1.0
            short_cut = order._leaders is not None if leaders_soon else order._at_hand.items
            looked += bool(short_cut)
    assert looked > 500  # or the shortcut was never taken
    check_kept(order, waiting)


def test_a_block_that_empties_before_a_large_one_is_not_left_empty() -> None:
    # 5 blocks of 32. Those of the last that come again go to the end of the one before it.
    order = HighestRatioFirst()
    waiting = [stay(number, float(number), 1.0 + number % 7) for number in range(160)]
    for item in waiting:
        order.push(item)
    for item in waiting[128:140]:
        order.discard(item)
        order.push(item)
    for item in waiting[64:96]:
        order.discard(item)
    del waiting[64:96]
    for item in list(waiting):
        order.discard(item)
        item.count(item.work * 0.5)
        order.push(item)
        check_kept(order, waiting)


@pytest.mark.usefixtures("leaders_soon")
@pytest.mark.parametrize("seed", range(3))
def test_the_first_is_that_of_a_scan_when_all_get_new_estimates(seed: int) -> None:
    rng = random.Random(seed)
    order = HighestRatioFirst()
    waiting: list[Waiting] = []
    now_s, number = 0.0, 0

    def arrive(count: int) -> None:
        nonlocal now_s, number
        for _ in range(count):
            now_s += rng.random()
            number += 1
            waiting.append(stay(number, now_s, rng.uniform(0.01, 10.0)))
            order.push(waiting[-1])

    arrive(1200)
    for _ in range(8):
        factor = rng.choice([0.5, 1.3, 2.0])
        for item in rng.choice([waiting, waiting[::-1]]):
            order.discard(item)
            item.count(item.work * factor * rng.uniform(0.9, 1.1))
            order.push(item)
        for _ in range(len(waiting) // 4):
            now_s += 0.01
            first = order.first(now_s)
            assert first is scanned(waiting, now_s)
            order.discard(first)
            waiting.remove(first)
        arrive(120)
    check_kept(order, waiting)


@pytest.mark.parametrize("now_s", [float("nan"), float("inf"), float("-inf"), -5.0])
@pytest.mark.parametrize("count", [3, 200])
def test_at_a_time_that_is_none_the_oldest_goes(
    now_s: float, count: int, leaders_soon: bool
) -> None:
    order = HighestRatioFirst()
    items = [stay(number, number / 10, 100.0 - number / 4) for number in range(count)]
    for item in items:
        order.push(item)
    assert order.first(now_s) is items[0]
    assert order.first(1e4) is scanned(items, 1e4)
    assert (order._leaders is not None) == leaders_soon
    assert order.first(now_s) is items[0]


def lines_of(act: Callable[[], object]) -> int:
    """Count the lines of Python that an action runs."""
    lines = 0

    def trace(_frame: FrameType, event: str, _argument: Any) -> Any:  # Any: as settrace wants
        nonlocal lines
        lines += event == "line"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        act()
    finally:
        sys.settrace(before)
    return lines


_PATTERNS: dict[str, Callable[[int, random.Random], float]] = {
    "by chance": lambda _number, rng: rng.lognormvariate(-1.0, 0.8),
    "equal": lambda _number, _rng: 1.0,
    "two classes": lambda number, _rng: 1.0 + 9.0 * (number % 2),
    "five classes": lambda number, _rng: 1.0 + number % 5,
    "shorter and shorter": lambda number, _rng: 1.0 / (1.0 + number),
    "longer and longer": lambda number, _rng: 1.0 + number,
    "all ratios equal at some time": lambda number, _rng: 1.0 - number / 5000,
}


@pytest.mark.parametrize("together", [False, True])
@pytest.mark.parametrize("pattern", list(_PATTERNS))
def test_an_operation_runs_few_lines_however_many_wait(pattern: str, together: bool) -> None:
    work = _PATTERNS[pattern]

    def lines(n: int) -> float:
        rng = random.Random(5)
        order = HighestRatioFirst()
        turns = 300
        for number in range(n):
            order.push(stay(number, 0.0 if together else number / 10, work(number, rng)))

        def serve() -> None:
            for number in range(n, n + turns):
                order.push(stay(number, number / 10, work(number, rng)))
                order.discard(order.first(number / 10))

        return lines_of(serve) / turns

    # A scan would run ten times the lines for ten times as many.
    few, many = lines(400), lines(4000)
    assert many < 500
    assert many < 2.5 * few


class _Counted(float):
    """A work that counts how often a wait is divided by one."""

    looks = 0

    def __rtruediv__(self, other: float) -> float:
        _Counted.looks += 1
        return other / float(self)


# Each arrival is shorter than all before, and overtakes them soon: 1/x and a power.
_EVER_SHORTER: dict[str, Callable[[float], float]] = {
    "by a curve": lambda share: 1.0 / (1.0 + share),
    "by a share": lambda share: 0.1**share,
}


@pytest.mark.parametrize("pattern", list(_EVER_SHORTER))
def test_what_is_looked_at_does_not_grow_where_arrivals_are_ever_shorter(pattern: str) -> None:
    def looks(n: int) -> float:
        order = HighestRatioFirst()
        waiting: dict[str, Waiting] = {}

        def push(number: int) -> None:
            item = stay(number, number / 10, _Counted(_EVER_SHORTER[pattern](number / n)))
            waiting[item.request_id] = item
            order.push(item)

        for number in range(n):
            push(number)
        _Counted.looks = 0
        for number in range(n, 2 * n):
            push(number)
            first = order.first(number / 10)
            order.discard(first)
            del waiting[first.request_id]
        found = _Counted.looks / n
        assert order.first(n / 5) is scanned(list(waiting.values()), n / 5)
        return found

    # Without leaders 310 and 2,309 of 6,000 were looked at each turn.
    few, many = looks(1500), looks(6000)
    assert many < 150
    assert many < 1.5 * few


@pytest.mark.parametrize(
    "late",
    [
        pytest.param(stay(40, 6.5, 0.01), id="in a new block"),
        pytest.param(stay(40, -90.0, 20.0), id="among the oldest, and longer than who leads"),
    ],
)
def test_leaders_see_who_comes(late: Waiting, leaders_soon: bool) -> None:
    order = HighestRatioFirst()
    items = [stay(number, number / 5, 9.0 - number / 8) for number in range(32)]
    for item in items:
        order.push(item)
    assert order.first(7.0) is scanned(items, 7.0)  # leaders stand from here on
    assert leads(order) == leaders_soon
    assert order.first(8.0) is scanned(items, 8.0)
    order.push(late)
    assert order.first(8.0) is scanned([*items, late], 8.0) is late


def test_who_led_before_the_clock_stepped_back_is_not_taken_for_first(leaders_soon: bool) -> None:
    order = HighestRatioFirst()
    items = [stay(1, 0.0, 10.0), stay(2, 5.0, 1.0)]
    for item in items:
        order.push(item)
    for now_s, first in ((20.0, items[1]), (20.0, items[1]), (5.1, items[0])):
        assert order.first(now_s) is scanned(items, now_s) is first
    assert leads(order) == leaders_soon


def test_a_ratio_beyond_all_numbers_is_the_highest(leaders_soon: bool) -> None:
    order = HighestRatioFirst()
    items = [stay(1, 0.0, 1.0), stay(2, 1.0, 1e-308)]
    for item in items:
        order.push(item)
    assert order.first(1e3) is scanned(items, 1e3) is items[1]
    assert order.first(1e3) is items[1]
    assert leads(order) == leaders_soon


def leads(order: HighestRatioFirst) -> bool:
    return order._leaders is not None


def test_leaders_leave_to_the_front_when_as_many_have_left() -> None:
    order = HighestRatioFirst()
    n = 3000
    for number in range(n):
        order.push(stay(number, number / 10, 0.1 ** (number / n)))
    number, led = n, 0
    while not leads(order):
        number += 1
        order.push(stay(number, number / 10, 0.1 ** (number / n)))
        order.discard(order.first(number / 10))
        assert number < 2 * n
    rng = random.Random(6)
    while leads(order):
        number, led = number + 1, led + 1
        order.push(stay(number, number / 10, rng.lognormvariate(-1.0, 0.8)))
        order.discard(order.first(number / 10))
    assert led == n
    check_kept(order, list(order._blocks))


def test_a_usual_load_is_left_to_the_front() -> None:
    order = HighestRatioFirst()
    rng = random.Random(9)
    for number in range(6_000):
        order.push(stay(number, number / 10, rng.lognormvariate(-1.0, 0.8)))
        if number >= 1_000:
            order.discard(order.first(number / 10))
            assert not leads(order)


def test_what_is_kept_follows_the_number_waiting() -> None:
    order = HighestRatioFirst()
    rng = random.Random(2)
    items = [stay(number, number / 10, rng.lognormvariate(-1.0, 0.8)) for number in range(20_000)]
    for item in items:
        order.push(item)
    assert len(blocks(order)) < 20_000 / 20
    for item in rng.sample(items, 19_900):
        order.discard(item)
    assert len(order) == 100
    assert len(blocks(order)) <= 50
    while len(order):
        order.discard(order.first(3000.0))
    assert len(blocks(order)) == 1
    assert order._at_hand.items == []
