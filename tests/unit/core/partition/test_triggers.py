"""When a model is due."""

import json

import numpy as np
import pytest

from estimator.core.partition.config import PartitionConfig
from estimator.core.partition.sample import BLOCK
from estimator.core.partition.triggers import Trigger

CONFIG = PartitionConfig()
LEVEL = np.random.default_rng(0).normal(-1.0, 0.7, 4096)


def fitted(at: int, *, changed: bool = True) -> Trigger:
    trigger = Trigger(CONFIG)
    trigger.n_seen_ = at
    trigger.fitted(at=at, log_densities=LEVEL, changed=changed)
    return trigger


def test_nothing_is_due_before_there_are_enough_points() -> None:
    trigger = Trigger(CONFIG)
    trigger.n_seen_ = 199
    trigger.drift()
    assert trigger.reason(199) is None
    trigger.n_seen_ = 200
    assert trigger.reason(200) == "first"


def test_the_count_doubles_until_it_is_the_configured_one() -> None:
    trigger = fitted(200)
    for seen, due in ((399, None), (400, "count")):
        trigger.n_seen_ = seen
        assert trigger.reason(seen) == due
    trigger = fitted(50_000)
    for since, due in ((4095, None), (4096, "count")):
        trigger.n_seen_ = 50_000 + since
        assert trigger.reason(4096) == due


def test_a_drift_makes_it_due_once_what_is_new_is_in_the_sample() -> None:
    trigger = fitted(50_000)
    trigger.drift()
    trigger.n_seen_ += 2 * BLOCK - 1
    assert trigger.reason(4096) is None
    trigger.n_seen_ += 1
    assert trigger.reason(4096) == "drift"
    trigger.fitted(at=trigger.n_seen_, log_densities=LEVEL, changed=False)
    assert trigger.reason(4096) is None


def test_a_drift_while_a_job_is_out_is_not_forgotten() -> None:
    trigger = fitted(50_000)
    trigger.n_seen_ = 50_500
    trigger.drift()
    trigger.fitted(at=50_400, log_densities=LEVEL, changed=True)
    trigger.n_seen_ = 50_500 + 2 * BLOCK
    assert trigger.reason(4096) == "drift"


def test_a_fit_before_what_is_new_is_in_the_sample_does_not_end_a_drift() -> None:
    trigger = fitted(50_000)
    trigger.n_seen_ = 50_500
    trigger.drift()
    trigger.fitted(at=50_510, log_densities=LEVEL, changed=True)
    trigger.n_seen_ = 50_500 + 2 * BLOCK
    assert trigger.reason(4096) == "drift"
    trigger.fitted(at=trigger.n_seen_, log_densities=LEVEL, changed=True)
    assert trigger.reason(4096) is None


def blocks_until_due(trigger: Trigger, mean: float, most: int, seed: int = 1) -> int | None:
    rng = np.random.default_rng(seed)
    for count in range(most):
        trigger.block(rng.normal(mean, 0.7, BLOCK))
        trigger.n_seen_ += BLOCK
        if trigger.reason(4096) == "likelihood":
            return count + 1
    return None


@pytest.mark.parametrize(("mean", "blocks"), [(-3.0, 1), (-1.5, 3), (-1.2, 10)])
def test_a_falling_likelihood_makes_it_due(mean: float, blocks: int) -> None:
    # 0.2 is 3.2 deviations of a block's mean.
    found = blocks_until_due(fitted(50_000), mean, 31)
    assert found is not None
    assert found <= blocks


def test_an_even_or_rising_likelihood_does_not() -> None:
    for seed in range(20):
        trigger = fitted(50_000)
        for mean in (-1.0, -0.5):
            rng = np.random.default_rng(seed)
            for _ in range(200):
                trigger.block(rng.normal(mean, 0.7, BLOCK))
        trigger.n_seen_ += BLOCK
        assert trigger.reason(4096) is None


def test_fits_that_change_nothing_come_more_rarely() -> None:
    trigger, waits = fitted(50_000), []
    for _ in range(4):
        began = trigger.n_seen_
        found = blocks_until_due(trigger, -3.0, 31)
        assert found is not None
        waits.append((trigger.n_seen_ - began) // BLOCK)
        trigger.fitted(at=trigger.n_seen_, log_densities=LEVEL, changed=False)
    assert waits == [1, 2, 4, 8]
    trigger.fitted(at=trigger.n_seen_, log_densities=LEVEL, changed=True)
    assert blocks_until_due(trigger, -3.0, 31) == 1


def test_a_restored_trigger_goes_on() -> None:
    trigger = fitted(50_000)
    blocks_until_due(trigger, -1.2, 2)
    restored = Trigger(CONFIG)
    restored.restore(json.loads(json.dumps(trigger.state())))
    assert restored.state() == trigger.state()
    assert blocks_until_due(restored, -1.2, 31) == blocks_until_due(trigger, -1.2, 31)
