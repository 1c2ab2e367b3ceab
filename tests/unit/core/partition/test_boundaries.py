"""Queues in seconds."""

import numpy as np
import pytest

from estimator.core.partition.boundaries import queues_of
from estimator.core.partition.refine import Cut


def test_queues_are_described_in_seconds() -> None:
    short, long = np.linspace(1.0, 2.0, 300), np.linspace(10.0, 20.0, 100)
    x = np.log(np.concatenate([short, long]))
    found = queues_of(x, [Cut(at=float(np.log(5.0)), why="density")], ["q1", "q4"])
    assert found.boundaries_s == pytest.approx([5.0])
    assert found.queue_ids == ("q1", "q4")
    assert found.means_s == pytest.approx([1.5, 15.0])
    assert found.shares == pytest.approx([0.75, 0.25])
    assert found.lowers_s == pytest.approx([1.0, 10.0], rel=0.01)
    assert found.uppers_s == pytest.approx([2.0, 20.0], rel=0.01)
    assert [found.queue_of(s) for s in (0.1, 4.99, 5.01, 1e9)] == ["q1", "q1", "q4", "q4"]


def test_a_stray_point_does_not_widen_a_queue() -> None:
    x = np.log(np.concatenate([np.linspace(1.0, 2.0, 999), [1000.0]]))
    assert queues_of(x, [], ["q0"]).uppers_s[0] < 2.1


def test_every_point_lies_in_the_queue_that_counts_it() -> None:
    x = np.sort(np.random.default_rng(0).standard_normal(1000))
    cuts = [Cut(at=at, why="gap") for at in (-0.5, 0.1, 1.0)]
    found = queues_of(x, cuts, ["a", "b", "c", "d"])
    routed = [found.queue_of(float(np.exp(value))) for value in x]
    shares = [routed.count(name) / len(x) for name in found.queue_ids]
    assert found.shares == pytest.approx(shares)
