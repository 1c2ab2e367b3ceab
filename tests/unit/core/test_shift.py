import json
import math
import random
from collections.abc import Sequence

import pytest

from estimator.core.cusum import Cusum, Row, Shift
from estimator.core.shift import BATCH, ShiftTest


def new_test(*, threshold: float = 10.5, least_scale: float = 0.1) -> ShiftTest:
    return ShiftTest(threshold=threshold, tolerance=0.6, least_scale=least_scale)


def noise(n: int, *, mean: float = 0.0, sd: float = 0.3, seed: int = 0) -> list[Row]:
    """Give logarithms of amounts that are 2 on average at a value of 0, in units of 1."""
    rng = random.Random(seed)
    values = [mean + rng.gauss(0.0, sd) for _ in range(n)]
    return [(value, 2.0 * math.exp(value), 2.0, 1.0) for value in values]


def feed(test: ShiftTest, rows: Sequence[Row]) -> list[tuple[int, Shift]]:
    found = []
    for i in range(0, len(rows), BATCH):
        shift = test.update(rows[i : i + BATCH])
        if shift is not None:
            found.append((i + BATCH, shift))
    return found


@pytest.mark.parametrize("shift", [0.405, -0.405])
def test_a_shift_is_seen_with_levels_place_and_certainty(shift: float) -> None:
    test = new_test()
    assert feed(test, noise(400)) == []
    [(after, found)] = feed(test, noise(40, mean=shift, seed=1))
    assert 8 <= after <= 40
    assert abs(found.completions - after) <= 8
    # Means of a log-normal: e^(0.3² / 2) times the medians.
    assert found.before == pytest.approx(2.0 * 1.046, rel=0.06)
    assert found.after == pytest.approx(2.0 * 1.046 * math.exp(shift), rel=0.15)
    assert math.copysign(1.0, found.z) == math.copysign(1.0, shift)
    assert abs(found.z) > 4.5


def test_it_begins_again_after_a_shift() -> None:
    test = new_test()
    feed(test, noise(400))
    assert len(feed(test, noise(400, mean=1.0, seed=1))) == 1
    assert len(feed(test, noise(400, seed=2))) == 1


@pytest.mark.parametrize("sd", [0.15, 0.3, 0.6])
def test_one_threshold_holds_for_every_spread(sd: float) -> None:
    assert [feed(new_test(), noise(20_000, sd=sd, seed=seed)) for seed in range(3)] == [[]] * 3


def test_heavy_tails_are_no_shift() -> None:
    rng = random.Random(5)
    rows = [(v, math.exp(v), 1.0, 1.0) for v in (rng.gauss(0.0, 0.2) for _ in range(20_000))]
    # Loops and empty transcripts, one in twenty each.
    rows = [
        (4.0, 60.0, 1.0, 1.0) if i % 20 == 7 else (-4.0, 0.02, 1.0, 1.0) if i % 20 == 17 else row
        for i, row in enumerate(rows)
    ]
    assert feed(new_test(), rows) == []


def test_a_loop_does_not_make_the_level_after() -> None:
    test = new_test()
    feed(test, noise(400, sd=0.15))
    rows = noise(40, mean=0.4, sd=0.15, seed=1)
    rows[2] = (6.0, 2.0 * math.exp(6.0), 2.0, 1.0)
    [(_, found)] = feed(test, rows)
    assert found.after < 2.0 * math.exp(0.4) * 1.6


def test_a_spread_below_the_least_is_no_shift() -> None:
    test = new_test(least_scale=0.4)
    feed(test, noise(400, sd=0.05))
    # Half of the least scale would be ten standard deviations.
    assert feed(test, noise(400, mean=0.11, sd=0.05, seed=1)) == []


def test_a_large_number_of_values_keeps_the_tolerance() -> None:
    """River's own forgetting of sums wears the tolerance out after 10,000 values."""
    rng = random.Random(2)
    cusum = Cusum(threshold=10.5, tolerance=0.6, known=8)
    found = [
        cusum.update(rng.gauss(0.0, 1.0), 4, 1.0, 1.0, 1.0) is not None for _ in range(100_000)
    ]
    assert sum(found) <= 1


def test_an_early_shift_is_not_taken_into_the_mean() -> None:
    seen = 0
    for seed in range(40):
        test = new_test()
        feed(test, noise(120, seed=seed))
        seen += bool(feed(test, noise(80, mean=0.29, seed=100 + seed)))
    assert seen >= 36


@pytest.mark.parametrize("n", [0, 2, 30, 33, 200, 410, 420])
def test_state_round_trip_continues_alike(n: int) -> None:
    rows = [*noise(400), *noise(200, mean=0.3, seed=1)]
    live = new_test()
    feed(live, rows[:n])
    restored = new_test().restore(json.loads(json.dumps(live.state(), allow_nan=False)))
    assert restored.state() == live.state()
    assert feed(restored, rows[n:]) == feed(live, rows[n:])
    assert restored.state() == live.state()


def test_no_spread_is_too_wide_for_a_level() -> None:
    """Audio of 1e-300 s is valid, and its logarithm -690."""
    test = new_test()
    wide = [(value, math.exp(value), 1.0, 1.0) for value in (-690.0, 3.0) * 32]
    assert feed(test, wide) == []
    [(_, found)] = feed(test, [(3.0, 20.0, 1.0, 1.0)] * 40)
    assert math.isfinite(found.before)
