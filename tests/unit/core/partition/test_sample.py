"""The biased reservoir: what it keeps, and that nothing else about it matters."""

import json
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from estimator.core.partition.sample import BLOCK, Sample


def filled(n: int, *, capacity: int = 256, seed: int = 0) -> Sample:
    sample = Sample(capacity, seed)
    for index in range(n):
        sample.add(float(index), 2.0, 0.5)
    return sample


def test_all_is_kept_until_it_is_full_and_no_more_than_a_block_beyond() -> None:
    sample = filled(200)
    assert sample.points()[:, 0].tolist() == list(range(200))
    sample = filled(10_000 * BLOCK // BLOCK)
    assert len(sample) == len(sample.points()) < 256 + BLOCK


def test_a_point_is_forgotten_exponentially() -> None:
    capacity, n = 512, 512 * 12
    kept = np.zeros(3)
    for seed in range(40):
        ages = n - 1 - filled(n, capacity=capacity, seed=seed).points()[:, 0]
        kept += np.histogram(ages, bins=[0, capacity, 2 * capacity, 3 * capacity])[0]
    # One in an age bin is still there with probability e^-t, and each age had one point; the
    # last, partial block is put on top.
    shares = kept / 40 / capacity
    expected = [math.exp(-t) * (1.0 - math.exp(-1.0)) for t in range(3)]
    assert shares == pytest.approx(expected, abs=0.02)


def test_points_of_one_block_come_out_as_if_put_in_one_by_one() -> None:
    sample = filled(256 + 20 * BLOCK)
    slots: list[float] = list(range(256))
    one = Sample(1, 0)  # only for its hash
    del one
    from estimator.core.partition.sample import _hashed  # noqa: PLC0415 - the slots themselves

    for index in range(256, 256 + 20 * BLOCK):
        hashed = int(_hashed(np.array([index], dtype=np.uint64), 0)[0])
        slots[(hashed >> 32) * 256 >> 32] = float(index)
    assert sample.points()[:, 0].tolist() == slots


@given(before=st.integers(0, 700), after=st.integers(0, 400))
@settings(max_examples=40, deadline=None)
def test_a_restored_sample_goes_on_as_the_first_would_have(before: int, after: int) -> None:
    live = filled(before)
    restored = Sample(256)
    restored.restore(json.loads(json.dumps(live.state())))
    for index in range(before, before + after):
        blocks = [one.add(float(index), 2.0, 0.5) for one in (live, restored)]
        assert (blocks[0] is None) == (blocks[1] is None)
    assert np.array_equal(live.points(), restored.points())
    assert live.state() == restored.state()


def test_the_state_is_small() -> None:
    assert len(json.dumps(filled(20_000, capacity=4096).state())) < 80_000


def test_a_state_of_a_larger_sample_is_cut() -> None:
    small = Sample(100)
    small.restore(filled(1000).state())
    assert len(small.points()) <= 100 + BLOCK
    for index in range(2 * BLOCK):
        small.add(float(index), 0.0, 0.0)
    assert len(small) <= 100 + BLOCK


def test_a_damaged_state_is_refused() -> None:
    state = filled(300).state()
    nan = Sample(256)
    nan.add(math.nan, 0.0, 0.0)
    for _ in range(BLOCK):
        nan.add(1.0, 0.0, 0.0)
    for bad in ({**state, "points": "%"}, {**state, "points": "AAAA"}, nan.state()):
        with pytest.raises(ValueError, match=r".+"):
            Sample(256).restore(bad)
