"""From points to queues."""

import copy
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from estimator.core.partition import Fit, FitJob, PartitionConfig, fit
from estimator.core.partition.boundaries import queues_of
from estimator.core.partition.mixture import Array, Mixture
from estimator.core.partition.refine import Cut
from sched_client.model import ServiceTime

RATE_S = 0.01
SERVICE = ServiceTime(overhead_s=0.0, seconds_per_token=RATE_S)
CONFIG = PartitionConfig()


def classes(n: int, k: int, seed: int, *, apart: float = 3.0, sd: float = 0.3) -> Array:
    """Draw log seconds of k alike classes whose neighbours are so many deviations apart."""
    rng = np.random.default_rng(seed)
    return apart * sd * rng.integers(0, k, n) + sd * rng.standard_normal(n)


def job_of(x: Array, *, after: Fit | None = None, observed_s: Array | None = None) -> FitJob:
    observed = np.zeros(len(x)) if observed_s is None else observed_s
    # Every token count is at least 1.
    points = np.column_stack([1.0 + np.exp(x + 5.0) / RATE_S, np.zeros(len(x)), observed])
    return FitJob(
        model="m",
        reason="count",
        points=points,
        service=SERVICE,
        completions=len(x),
        config=CONFIG,
        incumbent=None if after is None else after.best,
        next_number=1 if after is None else after.next_number,
    )


@pytest.mark.parametrize("k", [1, 2, 3, 4, 5, 6])
def test_known_classes_three_deviations_apart_are_found(k: int) -> None:
    found = [fit(job_of(classes(2000, k, seed))) for seed in range(3)]
    assert [len(one.best.partition.queue_ids) for one in found] == [k] * 3


def test_unlike_classes_are_found() -> None:
    rng = np.random.default_rng(1)
    which = rng.choice(3, 3000, p=[0.7, 0.25, 0.05])
    x = np.array([0.0, 1.5, 4.0])[which] + np.array([0.2, 0.4, 0.3])[which] * rng.normal(size=3000)
    partition = fit(job_of(x)).best.partition
    assert len(partition.queue_ids) == 3
    assert partition.shares == pytest.approx([0.7, 0.25, 0.05], abs=0.03)


@pytest.mark.parametrize("shape", ["gamma", "uniform", "skewed", "exponential"])
def test_one_class_that_is_not_log_normal_is_one_queue(shape: str) -> None:
    rng = np.random.default_rng(2)
    draws = {
        "gamma": np.log(rng.gamma(2.0, 1.0, 4096)),
        "uniform": np.log(rng.uniform(1.0, 30.0, 4096)),
        "skewed": np.log(rng.lognormal(0.0, 0.5, 4096) + 1.0),
        "exponential": np.log(rng.exponential(1.0, 4096)),
    }
    assert len(fit(job_of(draws[shape])).best.partition.queue_ids) == 1


def test_what_few_points_left_open_is_settled_by_more() -> None:
    flat = np.random.default_rng(4).uniform(0.0, 4.0, 3000)
    mixture = Mixture.sorted(np.ones(3) / 3.0, np.array([5.7, 7.0, 8.3]), np.ones(3) * 0.45)
    cuts = (Cut(at=6.35, why="density"), Cut(at=7.65, why="density"))
    torn = replace(
        fit(job_of(flat[:200])).best,
        mixture=mixture,
        cuts=cuts,
        partition=queues_of(np.sort(flat[:200] + 5.0), cuts, ("q1", "q2", "q3")),
    )
    again = fit(replace(job_of(flat), incumbent=torn))
    assert again.best.cuts == ()
    assert len(again.best.partition.queue_ids) == 1


@given(st.floats(0.01, 100.0), st.integers(0, 50))
@settings(max_examples=8, deadline=None)
def test_work_that_all_takes_longer_moves_boundaries_along(factor: float, seed: int) -> None:
    job = job_of(classes(800, 3, seed, apart=5.0))
    scaled = replace(job, service=replace(SERVICE, seconds_per_token=factor * RATE_S))
    one, two = fit(job).best.partition, fit(scaled).best.partition
    assert len(one.queue_ids) == 3
    assert two.boundaries_s == pytest.approx([factor * at for at in one.boundaries_s], rel=1e-6)


def test_the_order_of_completions_is_nothing() -> None:
    job = job_of(classes(800, 3, 1))
    other = np.random.default_rng(0).permutation(len(job.points))
    shuffled = fit(replace(job, points=job.points[other]))
    assert shuffled.best.partition.boundaries_s == fit(job).best.partition.boundaries_s


def test_the_first_queues_are_numbered_in_order() -> None:
    one = fit(job_of(classes(500, 3, 1, apart=6.0)))
    assert one.best.partition.queue_ids == ("q1", "q2", "q3")
    assert one.next_number == 4
    assert fit(job_of(classes(500, 1, 1))).best.partition.queue_ids == ("q0",)


def test_the_same_work_again_changes_nothing() -> None:
    one = fit(job_of(classes(4096, 3, 1)))
    for seed in range(2, 8):
        again = fit(job_of(classes(4096, 3, seed), after=one))
        assert (again.changed, again.best) == (False, one.best)
        assert again.text.startswith("kept")


def test_a_new_class_gets_a_new_name_and_the_others_keep_theirs() -> None:
    one = fit(job_of(classes(4096, 2, 1)))
    assert one.best.partition.queue_ids == ("q1", "q2")
    long = 4.0 + 0.3 * np.random.default_rng(3).standard_normal(30)
    two = fit(job_of(np.concatenate([classes(4066, 2, 2), long]), after=one))
    assert two.best.partition.queue_ids == ("q1", "q2", "q3")
    assert "new q3" in two.text
    assert "beyond all work seen before" in two.text
    gone = fit(job_of(classes(4096, 2, 4), after=two))
    assert gone.best.partition.queue_ids == ("q1", "q2")
    back = fit(job_of(np.concatenate([classes(4066, 2, 5), long]), after=gone))
    assert back.best.partition.queue_ids == ("q1", "q2", "q4")


def test_fewer_than_enough_make_no_queue() -> None:
    stray = np.full(8, 6.0)
    x = np.concatenate([classes(2000, 2, 1), stray])
    assert len(fit(job_of(x)).best.partition.queue_ids) == 2


def test_there_are_at_most_the_queues_allowed() -> None:
    job = job_of(classes(3000, 6, 1, apart=6.0))
    found = fit(replace(job, config=replace(CONFIG, max_queues=3))).best.partition
    assert len(found.queue_ids) == 3
    assert min(found.shares) > 0.15


@pytest.mark.parametrize("factor", [0.5, 2.0])
def test_on_another_machine_boundaries_scale_and_names_stay(factor: float) -> None:
    x = classes(4096, 3, 1)
    one = fit(job_of(x))
    faster = replace(SERVICE, seconds_per_token=factor * RATE_S)
    two = fit(replace(job_of(x, after=one), service=faster))
    assert two.changed
    assert two.best.partition.queue_ids == one.best.partition.queue_ids
    scaled = [factor * at for at in one.best.partition.boundaries_s]
    assert two.best.partition.boundaries_s == pytest.approx(scaled, rel=1e-3)
    # A change that is within the fit's own noise moves nothing.
    near = replace(SERVICE, seconds_per_token=1.02 * RATE_S)
    assert not fit(replace(job_of(x, after=one), service=near)).changed


def test_a_part_whose_work_takes_longer_gets_a_queue() -> None:
    x = classes(3000, 1, 1)
    log_s = np.log(np.exp(x + 5.0) + RATE_S)
    noise = 0.2 * np.random.default_rng(2).standard_normal(3000)
    even = fit(job_of(x, observed_s=np.exp(log_s + noise)))
    assert len(even.best.partition.queue_ids) == 1
    slow = np.where(x > 0.1, np.log(3.0), 0.0)
    found = fit(job_of(x, observed_s=np.exp(log_s + noise + slow)))
    assert [cut.why for cut in found.best.cuts] == ["latency"]
    assert "1 by latency" in found.text
    # In force already, it gets the same queues with their names.
    again = fit(job_of(x, observed_s=np.exp(log_s + noise + slow), after=even))
    assert again.best.cuts == found.best.cuts


def test_it_is_pure() -> None:
    job = job_of(classes(400, 2, 1))
    before = job.points.copy()
    first, second = fit(job), fit(copy.deepcopy(job))
    assert first.best.partition == second.best.partition
    assert first.text == second.text
    assert np.array_equal(job.points, before)


@given(
    st.lists(st.sampled_from([1.0, 2.0, 30.0, 400.0, 1e5, 1e7]), min_size=1, max_size=60),
    st.floats(0.0, 1e3),
)
@settings(max_examples=10, deadline=None)
def test_any_points_give_a_partition(tokens: list[float], seconds: float) -> None:
    points = np.column_stack([tokens, np.zeros(len(tokens)), np.full(len(tokens), seconds)])
    job = replace(job_of(np.zeros(1)), points=points)
    found = fit(job).best.partition
    edges = found.boundaries_s
    assert list(edges) == sorted(set(edges))
    assert len(found.queue_ids) == len(set(found.queue_ids)) == len(edges) + 1 <= 8
    assert sum(found.shares) == pytest.approx(1.0)
    assert all(
        low <= mean <= high or share < 0.02
        for low, mean, high, share in zip(
            found.lowers_s, found.means_s, found.uppers_s, found.shares, strict=True
        )
    )
    assert np.isfinite([*edges, *found.means_s, *found.lowers_s, *found.uppers_s]).all()
