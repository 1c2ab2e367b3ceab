import json
import math
import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from estimator.core.config import CoreConfig
from estimator.core.octaves import N_OCTAVES, Octave, Octaves, octave_of

FORGETTING = 0.99
Row = tuple[float, float, float, float, float, float]


def rows_of(n: int, *, seed: int = 0) -> list[Row]:
    """Make rows: tokens, prompt, concurrency, admitted, seconds, weight."""
    rng = random.Random(seed)
    return [
        (
            rng.uniform(1, 90), rng.uniform(0, 500), rng.uniform(1, 16), rng.uniform(0, 40),
            rng.uniform(0.1, 3), rng.uniform(0.1, 4),
        )
        for _ in range(n)
    ]  # fmt: skip


def filled(n: int = 50) -> Octaves:
    octaves = Octaves(CoreConfig())
    for row in rows_of(n):
        octave = octaves.of(octave_of(row[2]))
        octave.rows.extend(row)
        octave.note(row[4] - 1.0)
        if len(octave.rows) >= octave.due:
            octave.fold(FORGETTING)
    return octaves


@given(st.floats(1.0, 1e6))
def test_an_octave_holds_what_is_within_a_root_of_two(concurrency: float) -> None:
    octave = octave_of(concurrency)
    assert 0 <= octave < N_OCTAVES
    if octave < N_OCTAVES - 1:
        assert 2.0 ** (octave - 0.5) <= concurrency * (1.0 + 1e-9)
        assert concurrency <= 2.0 ** (octave + 0.5) * (1.0 + 1e-9)


@pytest.mark.parametrize("at_once", [1, 7, 60])
def test_sums_are_the_same_however_many_rows_are_folded_at_once(at_once: int) -> None:
    octave, rows = Octave(CoreConfig()), rows_of(60)
    for i, row in enumerate(rows, start=1):
        octave.rows.extend(row)
        if i % at_once == 0 or i == len(rows):
            octave.fold(FORGETTING)
    expected = np.zeros_like(octave.sums)
    for age, (n, p, k, a, s, w) in enumerate(reversed(rows)):
        v = np.array([1.0, n, p, k, n * k, a, s])
        expected += FORGETTING**age * w * np.outer(v, v)
    assert octave.sums == pytest.approx(expected, rel=1e-9)
    assert octave.count == pytest.approx(sum(FORGETTING**age for age in range(60)))


def test_rows_of_one_octave_leave_the_memory_of_others_alone() -> None:
    octaves = filled()
    idle, busy = octaves.of(0), octaves.of(4)
    before = idle.sums.copy()
    for row in rows_of(5_000, seed=1):
        busy.rows.extend(row)
        if len(busy.rows) >= busy.due:
            busy.fold(FORGETTING)
    assert (idle.sums == before).all()
    assert busy.count == pytest.approx(1.0 / (1.0 - FORGETTING), rel=0.01)
    assert len(busy.rows) < busy.due <= 256 * 6


def test_neighbours_count_for_a_few_rows_and_the_nearest_for_most() -> None:
    octaves = filled(400)
    sums, count = octaves.around(7)
    assert count == pytest.approx(16.0)
    own, total = octaves.of(3).count, octaves.around(3)[1]
    assert own < total <= own + 16.0
    # Concurrency in the sums around an octave without rows is that of the highest one seen.
    assert sums[0, 3] / sums[0, 0] > 8.0


def test_asking_for_an_octave_that_was_not_seen_leaves_no_trace() -> None:
    # A sidecar that has told its clients must be in the state of one that replays in silence.
    octaves = Octaves(CoreConfig())
    octaves.of(3).rows.extend(rows_of(1)[0])
    octaves.of(3).fold(FORGETTING)
    before = octaves.state()
    assert octaves.admitted(7) != (0.0, 0.0)
    assert octaves.around(8)[1] > 0.0
    assert octaves.state() == before


def test_a_slower_machine_scales_seconds_and_weakens_the_past() -> None:
    octaves = filled()
    before = octaves.around(3)[0]
    count = octaves.of(3).count + len(octaves.of(3).rows) // 6
    octaves.discount(0.1, 1.5)
    after = octaves.around(3)[0]
    assert after[0, 6] / after[0, 0] == pytest.approx(1.5 * before[0, 6] / before[0, 0], rel=0.1)
    assert octaves.of(3).count == pytest.approx(0.1 * count, rel=0.1)
    assert np.linalg.eigvalsh(after).min() > -1e-6 * np.linalg.eigvalsh(after).max()


@pytest.mark.parametrize(("shared", "expected"), [(0.0, 1.0), (0.9, 3.2)])
def test_residuals_that_are_alike_widen_the_spread(shared: float, expected: float) -> None:
    rng = random.Random(0)
    octave = Octave(CoreConfig())
    common = 0.0
    for i in range(2_000):
        if i % 16 == 0:
            common = rng.gauss(0.0, 1.0)
        octave.note(math.sqrt(shared) * common + math.sqrt(1.0 - shared) * rng.gauss(0.0, 1.0))
    assert octave.spread / octave.temper.scale_ == pytest.approx(expected, rel=0.35)


def test_state_round_trip_continues_alike() -> None:
    live = filled()
    restored = Octaves(CoreConfig()).restore(json.loads(json.dumps(live.state())))
    for octaves in (live, restored):
        for row in rows_of(70, seed=3):
            octave = octaves.of(octave_of(row[2]))
            octave.rows.extend(row)
            if len(octave.rows) >= octave.due:
                octave.fold(FORGETTING)
    assert restored.state() == live.state()


@pytest.mark.parametrize("part", [1, 2, 3, 5])
def test_a_damaged_state_is_refused(part: int) -> None:
    state = filled().state()
    damaged = state[2]
    if part == 1:
        damaged[1] = math.inf
    else:
        damaged[part] = [math.nan] * (6 if part == 3 else len(damaged[part]))
    with pytest.raises(ValueError, match="finite"):
        Octaves(CoreConfig()).restore(state)
