"""A change of level is told by when requests started."""

import heapq
import math
import random
from collections import deque

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from estimator.core.censored import Bound, Line
from estimator.core.cohort import MAX_RECENT, Recent, newest_factor

LINE = Line(3.0, 3.0)
SLOTS = 48


class _Engine:
    """Runs requests in slots, a token a second each; knows what the sidecar would be told."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.recent: deque[Recent] = deque(maxlen=MAX_RECENT)
        self.running: list[tuple[float, float, float]] = []
        self.now_s = 1.0
        self.factor = 1.0
        self.changed_s = math.inf

    def _start(self) -> None:
        size = self.rng.uniform(2.0, 12.0)
        mean = self.factor * LINE.at(size)
        tokens = max(1.0, round(self.rng.gauss(mean, 0.9 * math.sqrt(mean))))
        heapq.heappush(self.running, (self.now_s + tokens, self.now_s, size))

    def finish(self, n: int) -> None:
        """Let ``n`` requests finish, each replaced at once."""
        while len(self.running) < SLOTS:
            self._start()
            self.now_s += 0.5
        for _ in range(n):
            self.now_s, started_s, size = heapq.heappop(self.running)
            self.recent.append(Recent(started_s, size, self.now_s - started_s))
            self._start()

    def bounds(self) -> list[Bound]:
        return [
            Bound(size, max(self.now_s - started_s, 0.0), 1.0, started_s)
            for _, started_s, size in self.running
        ]

    def change(self, factor: float) -> None:
        self.factor, self.changed_s = factor, self.now_s

    def newest(self) -> float:
        return newest_factor(LINE, 0.9, self.recent, self.bounds())

    def n_of_the_new(self) -> int:
        return sum(one.started_s > self.changed_s for one in self.recent)


@pytest.mark.parametrize("seed", range(5))
def test_where_nothing_changes_nothing_is_called_for(seed: int) -> None:
    engine = _Engine(seed)
    for _ in range(20):
        engine.finish(20)
        assert engine.newest() == pytest.approx(1.0, abs=0.05)


@pytest.mark.parametrize("factor", [0.6, 1.7])
@pytest.mark.parametrize("seed", range(4))
def test_a_change_is_seen_by_few_of_the_new_while_the_old_still_finish(
    factor: float, seed: int
) -> None:
    engine = _Engine(seed)
    engine.finish(300)
    engine.change(factor)
    while engine.n_of_the_new() < 16:
        engine.finish(1)
    # The last 32 completions are of both kinds, and the new ones among them are the short ones.
    last = list(engine.recent)[-32:]
    blind = sum(one.tokens for one in last) / sum(LINE.at(one.size) for one in last)
    assert engine.newest() == pytest.approx(factor, rel=0.12)
    assert abs(engine.newest() - factor) < abs(blind - factor)


@pytest.mark.parametrize("factor", [0.6, 1.7])
def test_a_spread_that_the_change_has_widened_hides_it_not(factor: float) -> None:
    engine = _Engine(11)
    engine.finish(300)
    engine.change(factor)
    while engine.n_of_the_new() < 12:
        engine.finish(1)
    # A learner's spread grows by 1.5 % with each residual that the change makes large.
    widened = newest_factor(LINE, 1.8, engine.recent, engine.bounds())
    assert widened == pytest.approx(factor, rel=0.15)
    # Of few completions there is no other.
    few = list(engine.recent)[-20:]
    narrow, wide = (newest_factor(LINE, scale, few, engine.bounds()) for scale in (0.9, 1.8))
    assert wide != narrow


def test_a_line_that_is_off_by_a_little_is_no_change() -> None:
    engine = _Engine(12)
    engine.factor = 1.06
    engine.finish(300)
    assert engine.newest() == pytest.approx(1.0, abs=0.02)


def test_once_the_line_has_followed_the_old_ones_pull_nothing_back() -> None:
    engine = _Engine(7)
    engine.finish(300)
    engine.change(1.7)
    engine.finish(160)
    followed = Line(1.7 * LINE.kappa, 1.7 * LINE.intercept)
    assert newest_factor(followed, 0.9, engine.recent, engine.bounds()) == pytest.approx(
        1.0, abs=0.06
    )


def test_repetition_loops_that_run_are_no_change() -> None:
    engine = _Engine(8)
    engine.finish(300)
    bounds = engine.bounds()
    # A loop runs ten times as long as speech, so that 5 % of all are a third of what runs.
    loops = [bound._replace(tokens=20.0 * LINE.at(bound.size)) for bound in bounds[::3]]
    others = [bound for index, bound in enumerate(bounds) if index % 3]
    assert newest_factor(LINE, 0.9, engine.recent, [*others, *loops]) == pytest.approx(
        1.0, abs=0.05
    )


def test_without_starts_or_without_company_the_line_stands() -> None:
    engine = _Engine(9)
    engine.finish(100)
    assert newest_factor(LINE, 0.9, engine.recent, []) == 1.0
    unknown = [bound._replace(started_s=0.0) for bound in engine.bounds()]
    assert newest_factor(LINE, 0.9, engine.recent, unknown) == 1.0
    assert newest_factor(LINE, 0.9, list(engine.recent)[:4], engine.bounds()) == 1.0


times = st.floats(min_value=1.0, max_value=2e9)
sizes = st.floats(min_value=1e-3, max_value=86_400.0)
tokens = st.floats(min_value=0.0, max_value=1e7)


@settings(deadline=None)
@given(
    st.lists(st.builds(Recent, times, sizes, tokens), min_size=16, max_size=40),
    st.lists(st.builds(Bound, sizes, tokens, st.floats(1.0, 16.0), times), max_size=20),
    st.floats(min_value=1e-3, max_value=1e6),
)
def test_the_factor_is_one_of_those_weighed(
    recent: list[Recent], bounds: list[Bound], scale: float
) -> None:
    assert 0.4 - 1e-9 <= newest_factor(LINE, scale, recent, bounds) <= 2.5 + 1e-9
