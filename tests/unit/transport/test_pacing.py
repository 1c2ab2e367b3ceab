"""Delays before retries and pauses within long work, on a clock of the test's own."""

import random

import pytest

from sched_client.transport.pacing import Backoff, Pacer


class Clock:
    """A clock that moves when told, and late by as much as the lock is busy."""

    def __init__(self) -> None:
        self.now_s = 100.0
        self.late_s = 0.0
        self.slept_s: list[float] = []

    def sleep(self, seconds: float) -> None:
        self.slept_s.append(seconds)
        self.now_s += seconds + self.late_s


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def pacer(clock: Clock) -> Pacer:
    return Pacer(0.00015, 0.03, clock=lambda: clock.now_s, sleep=clock.sleep)


def test_delays_stay_in_their_bounds_and_their_range_doubles() -> None:
    backoff = Backoff(0.1, 10.0, random.Random(1))
    ranges = [0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 10.0, 10.0]
    for _ in range(500):
        backoff.reset()
        assert all(0.1 <= backoff.next_s() <= limit for limit in ranges)


def test_delays_are_spread_over_the_whole_range() -> None:
    backoff = Backoff(0.1, 10.0, random.Random(1))
    drawn = sorted(backoff.next_s() for _ in range(2000))[100:-100]
    assert drawn[0] < 1.0
    assert drawn[-1] > 9.0


def test_a_thousand_failures_overflow_nothing() -> None:
    backoff = Backoff(0.1, 10.0, random.Random(1))
    assert max(backoff.next_s() for _ in range(5000)) <= 10.0


def test_work_within_a_slice_is_not_interrupted(pacer: Pacer, clock: Clock) -> None:
    pacer.begin()
    clock.now_s += 0.0001
    pacer.step()
    assert clock.slept_s == []


def test_every_used_up_slice_is_followed_by_a_pause(pacer: Pacer, clock: Clock) -> None:
    pacer.begin()
    for _ in range(100):
        clock.now_s += 0.00005
        pacer.step()
    assert 25 <= len(clock.slept_s) <= 34


def test_pauses_are_long_only_while_the_lock_is_busy(pacer: Pacer, clock: Clock) -> None:
    for late_s in (0.005, 0.005, 0.0, 0.0, 0.005, 0.0):
        clock.late_s = late_s
        clock.now_s += 1.0
        pacer.step()
    assert clock.slept_s == [0.03, 0.03, 0.03, 0.001, 0.001, 0.03]
