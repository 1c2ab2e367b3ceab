import json
import random

import pytest

from estimator.core.level import Level, Shape

# A line of 3 tokens a second, and completions of 10 s: 30 tokens, give or take 5.
SHAPE = Shape(3.0, 0.0, 30.0, 25.0 / 30.0)


def new_level(hazard: float = 0.01) -> Level:
    return Level(hazard=hazard, forgetting=0.998, pull=2.0)


def feed(
    level: Level, n: int, tokens: float, *, seed: int = 0, deviations: float = 1.0
) -> list[float]:
    """Feed completions around ``tokens``; give the mixed factor after each."""
    rng = random.Random(seed)
    factors = []
    for _ in range(n):
        y = tokens + 5.0 * deviations * rng.gauss(0.0, 1.0)
        old = 30.0 * level.factor(3.0, 0.0, 30.0)
        z = min(max((y - old) / 5.0, -2.5), 2.5)
        if level.add(10.0, min(max(y, old - 12.5), old + 12.5), z):
            level.inspect(SHAPE)
        factors.append(level.mixed(level.factor(3.0, 0.0, 30.0)))
    return factors


def test_before_any_data_the_factor_is_one() -> None:
    assert new_level().factor(3.0, 0.0, 30.0) == 1.0


def test_it_averages_what_came_over_what_was_expected() -> None:
    level = Level(hazard=0.01, forgetting=1.0, pull=1e-9)
    for size, y in ((2.0, 9.0), (6.0, 15.0)):
        level.add(size, y, 0.0)
    assert level.factor(3.0, 0.0, 30.0) == pytest.approx(24.0 / 24.0)
    assert level.factor(1.0, 1.0, 8.0) == pytest.approx(24.0 / 10.0)


@pytest.mark.parametrize("tokens", [18.0, 42.0])
def test_a_change_moves_the_estimate_before_it_is_certain(tokens: float) -> None:
    level = new_level()
    feed(level, 200, 30.0)
    factors = feed(level, 40, tokens, seed=1)
    target = tokens / 30.0
    assert abs(factors[7] - target) < 0.35 * abs(target - 1.0)
    assert factors[-1] == pytest.approx(target, rel=0.06)
    assert level.n_changes_ == 1


def test_where_nothing_changes_nothing_is_dropped() -> None:
    drops = 0
    for seed in range(10):
        level = new_level()
        feed(level, 1_000, 30.0, seed=seed)
        drops += level.n_changes_
    assert drops <= 1


def test_one_completion_is_no_change() -> None:
    level = new_level()
    feed(level, 200, 30.0)
    before = level.mixed(level.factor(3.0, 0.0, 30.0))
    after = feed(level, 1, 60.0, deviations=0.0)[0]
    assert after == pytest.approx(before, rel=0.03)


def test_a_smaller_hazard_is_slower() -> None:
    quick, slow = new_level(0.05), new_level(0.0005)
    for level in (quick, slow):
        feed(level, 200, 30.0)
    pairs = zip(feed(quick, 8, 40.0, seed=1), feed(slow, 8, 40.0, seed=1), strict=True)
    assert all(a >= b for a, b in pairs)


@pytest.mark.parametrize("sign", [-1.0, 1.0])
def test_as_surprising_a_ratio_is_believed_sooner_where_languages_differ_by_it(
    sign: float,
) -> None:

    def worth(ratio: float) -> float:
        level = new_level()
        feed(level, 200, 30.0, deviations=0.0)
        # As many completions as make the ratio 3.5 standard errors.
        dispersion = 4 * 30.0 * ((ratio - 1.0) / 3.5) ** 2
        for _ in range(4):
            level.add(10.0, 30.0 * ratio, sign * 2.5)
        level.inspect(Shape(3.0, 0.0, 30.0, dispersion))
        return level.odds_

    assert worth(1.7**sign) > 2.0 * worth(1.1**sign) > 0.0


def test_a_young_level_is_not_left_as_soon() -> None:
    odds = []
    for n in (20, 150, 400):
        level = new_level()
        feed(level, n, 30.0, deviations=0.0)
        for _ in range(3):
            level.add(10.0, 39.0, 1.8)
        assert not level.inspect(SHAPE)
        odds.append(level.odds_)
    assert 0.0 < odds[0] < 0.25 * odds[1]
    # From 150 on it is old, and only what it knows better makes a difference.
    assert odds[1] == pytest.approx(odds[2], rel=0.5)


def test_memory_is_constant() -> None:
    level = new_level()
    longest = 0
    rng = random.Random(0)
    for _ in range(3_000):
        # Residuals that keep both sums away from 0 without ever being a change.
        level.add(10.0, 30.0, rng.choice((-2.5, 2.5)))
        longest = max(longest, len(level.state()))
    assert longest <= 10 + 4 * 27


@pytest.mark.parametrize("n", [0, 3, 200, 206, 230])
def test_state_round_trip_continues_alike(n: int) -> None:
    live = new_level()
    feed(live, min(n, 200), 30.0)
    feed(live, max(n - 200, 0), 42.0, seed=1)
    restored = new_level().restore(json.loads(json.dumps(live.state())))
    assert restored.state() == live.state()
    assert feed(restored, 60, 20.0, seed=2) == feed(live, 60, 20.0, seed=2)
    assert restored.state() == live.state()


def test_damaged_marks_are_refused() -> None:
    state = new_level().state()
    with pytest.raises(ValueError, match="damaged"):
        new_level().restore([*state, 1.0])
    with pytest.raises(ValueError, match="damaged"):
        new_level().restore([*state[:-1], 900.0, 1.0, 1.0, 1.0, 1.0])


def test_levels_of_nothing_are_survived() -> None:
    level = new_level()
    for _ in range(60):
        if level.add(0.0, 0.0, -2.5):
            level.inspect(Shape(0.0, 0.0, 1.0, 1.0))
    assert level.mixed(level.factor(0.0, 0.0, 0.0)) > 0.0
