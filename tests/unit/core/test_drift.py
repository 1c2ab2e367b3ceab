import json
import math
import random

import pytest

from estimator.core.drift import Change, LevelWatch, Sample


def feed(
    watch: LevelWatch, n: int, true_level: float, *, learned: float | None = None, seed: int = 0
) -> list[tuple[int, Change]]:
    """Feed completions of 10 units each; the learner stands at ``learned``, or follows."""
    rng = random.Random(seed)
    found = []
    for i in range(n):
        level = true_level if learned is None else learned
        y = 10.0 * true_level * rng.lognormvariate(-0.02, 0.2)
        reference = watch.reference_[0] if watch.reference_ else level
        change = watch.update(
            Sample(y, 10.0 * level, 10.0 * reference, 2.0 * level, 0.0, 10.0, [level])
        )
        if change is not None:
            found.append((i, change))
    return found


def new_watch() -> LevelWatch:
    return LevelWatch(threshold=9.0, tolerance=0.6)


@pytest.mark.parametrize("factor", [0.5, 0.7, 1.4, 2.0])
def test_a_change_is_seen_once_with_both_levels(factor: float) -> None:
    watch = new_watch()
    assert feed(watch, 300, 3.0) == []
    found = feed(watch, 60, 3.0 * factor, learned=3.0)
    assert [change.begun for _, change in found] == [True]
    index, change = found[0]
    assert index < 50
    assert change.before == pytest.approx(3.0, rel=0.1)
    assert change.after == pytest.approx(3.0 * factor, rel=0.25)
    assert watch.is_open


def test_it_ends_when_the_learner_has_followed() -> None:
    watch = new_watch()
    feed(watch, 300, 3.0)
    feed(watch, 60, 6.0, learned=3.0)
    assert watch.is_open
    found = feed(watch, 60, 6.0, learned=6.0)
    assert [change.begun for _, change in found] == [False]
    assert found[0][1].completions >= 8
    assert found[0][1].after == pytest.approx(6.0, rel=0.15)
    assert not watch.is_open


def test_a_change_is_seen_even_if_the_learner_follows_at_once() -> None:
    watch = new_watch()
    feed(watch, 300, 3.0)
    found = feed(watch, 60, 5.0)
    assert [change.begun for _, change in found] == [True, False]


def test_nothing_is_seen_where_nothing_changes() -> None:
    assert [feed(new_watch(), 3_000, 3.0, seed=seed) for seed in range(5)] == [[]] * 5


def test_a_change_of_less_than_ten_percent_is_no_event() -> None:
    watch = new_watch()
    feed(watch, 300, 3.0)
    assert feed(watch, 2_000, 3.09) == []


def test_a_second_change_is_a_second_event() -> None:
    watch = new_watch()
    feed(watch, 300, 3.0)
    feed(watch, 200, 6.0)
    found = feed(watch, 200, 3.0)
    assert [change.begun for _, change in found] == [True, False]


def test_levels_of_zero_are_survived() -> None:
    watch = new_watch()
    samples = [Sample(0.0, 0.0, 0.5 * (i % 2), 1.0, 0.0, 0.0, [0.0]) for i in range(200)]
    samples += [Sample(50.0, 1.0, 1.0, 1.0, 0.0, 0.0, [0.0])] * 200
    changes = [change for change in map(watch.update, samples) if change is not None]
    assert changes
    assert all(math.isfinite(c.before) and math.isfinite(c.after) for c in changes)


@pytest.mark.parametrize("n", [0, 1, 40, 200, 320])
def test_state_round_trip_continues_alike(n: int) -> None:
    live = new_watch()
    feed(live, min(n, 300), 3.0)
    feed(live, max(n - 300, 0), 6.0, learned=3.0)
    restored = new_watch().restore(json.loads(json.dumps(live.state())))
    assert restored.state() == live.state()
    assert feed(restored, 200, 5.0, seed=2) == feed(live, 200, 5.0, seed=2)
    assert restored.state() == live.state()
