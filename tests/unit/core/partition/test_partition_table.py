"""The table of all models: from completions to revisions."""

import json
from dataclasses import replace

import numpy as np
import pytest

from estimator.core.partition import (
    FitJob,
    PartitionConfig,
    PartitionRevision,
    PartitionTable,
    fit,
)
from estimator.core.partition.mixture import Array
from sched_client.model import ServiceTime
from sched_client.settings import Partition

SERVICE = ServiceTime(overhead_s=0.0, seconds_per_token=0.01)


def work(n: int, k: int, seed: int) -> Array:
    rng = np.random.default_rng(seed)
    return 1.2 * rng.integers(0, k, n) + 0.3 * rng.standard_normal(n)


def feed(
    table: PartitionTable, x: Array, *, model: str = "m", service: ServiceTime = SERVICE
) -> list[PartitionRevision]:
    """Tell of completions and fit at once what is due, as the twin does."""
    revisions = []
    for seconds in np.exp(x):
        table.observe(model, float(seconds) / 0.01, 0.0)
        job = table.due(model, service)
        if job is not None:
            revision = table.install(fit(job))
            revisions += [revision] if revision is not None else []
    return revisions


def table_with(x: Array) -> PartitionTable:
    table = PartitionTable()
    feed(table, x)
    return table


def job_from(table: PartitionTable, model: str = "m") -> FitJob:
    job = table.due(model, SERVICE)
    assert job is not None
    return job


def test_before_there_is_enough_there_is_one_queue_and_the_status_says_so() -> None:
    table = PartitionTable()
    assert "one queue" in table.status("never seen").text
    assert feed(table, work(199, 3, 1)) == []
    status = table.status("m")
    assert (status.points, status.fits) == (199, 0)
    assert "one queue: 199 completions seen, 200 are needed" in status.text
    assert table.entries() == {}
    (first,) = feed(table, work(1, 3, 1))
    assert (first.number, first.reason, first.points) == (1, "first", 200)
    assert table.entries() == {"m": first.partition}
    assert table.status("m").text == first.text


def test_a_steady_stream_settles() -> None:
    table = PartitionTable()
    revisions = feed(table, work(16_000, 3, 1))
    assert [r.number for r in revisions] == list(range(1, len(revisions) + 1))
    assert {len(r.partition.queue_ids) for r in revisions} == {3}
    assert revisions[-1].completions <= 4096
    assert revisions[-1].partition.boundaries_s == pytest.approx(
        np.exp([0.6, 1.8]).tolist(), rel=0.05
    )
    assert table.status("m").fits > len(revisions)


@pytest.mark.parametrize("share", [0.02, 0.2, 1.0])
def test_a_new_class_has_a_queue_within_200_requests_of_it(share: float) -> None:
    table = table_with(work(4500, 2, 1))
    rng = np.random.default_rng(2)
    seen = 0
    for seconds in work(10_000, 2, 3):
        new = rng.random() < share
        seen += new
        revisions = feed(table, np.array([4.0 + 0.3 * rng.normal() if new else seconds]))
        if revisions and len(revisions[-1].partition.queue_ids) == 3:
            break
    assert seen <= 200
    assert table.entries()["m"].queue_ids[-1] == revisions[-1].partition.queue_of(np.exp(4.0))
    assert "new" in revisions[-1].text


def test_one_job_is_out_at_a_time() -> None:
    table = PartitionTable()
    for seconds in np.exp(work(200, 2, 1)):
        table.observe("m", float(seconds) / 0.01, 0.0)
    job = job_from(table)
    assert table.due("m", SERVICE) is None
    assert "has not come back" in table.status("m").text
    table.give_up("m")
    assert table.install(fit(job)) is None
    again = job_from(table)
    assert np.array_equal(again.points, job.points)
    table.observe("m", 1.0, 0.0)
    assert len(again.points) == 200
    assert table.install(fit(again)) is not None
    assert table.due("m", SERVICE) is None


def test_a_drift_is_dated_by_what_came_not_by_when_a_fit_was_last_asked_for() -> None:
    table = table_with(work(5000, 1, 1))
    for seconds in np.exp(work(600, 1, 2)):
        table.observe("m", float(seconds) / 0.01, 0.0)
    table.note_drift("m")
    assert table.due("m", SERVICE) is None
    for seconds in np.exp(work(256, 1, 3)):
        table.observe("m", float(seconds) / 0.01, 0.0)
    assert job_from(table).reason == "drift"


def test_a_drift_makes_it_due() -> None:
    table = table_with(work(5000, 2, 1))
    for seconds in np.exp(work(100, 2, 2)):
        table.observe("m", float(seconds) / 0.01, 0.0)
    table.note_drift("m")
    table.note_drift("never seen")
    table.give_up("never seen")
    assert table.due("m", SERVICE) is None
    for seconds in np.exp(work(256, 2, 3)):
        table.observe("m", float(seconds) / 0.01, 0.0)
    assert job_from(table).reason == "drift"


def test_new_rates_make_it_due_and_move_the_boundaries() -> None:
    table = table_with(work(5000, 2, 1))
    before = table.entries()["m"]
    slower = replace(SERVICE, seconds_per_token=0.015)
    revisions = feed(table, work(200, 2, 2), service=slower)
    assert [r.reason for r in revisions] == ["rates"]
    assert "work is +50 % seconds" in revisions[0].text
    after = table.entries()["m"]
    assert after.queue_ids == before.queue_ids
    assert after.boundaries_s == pytest.approx([1.5 * at for at in before.boundaries_s], rel=0.01)
    assert feed(table, work(500, 2, 3), service=replace(slower, seconds_per_token=0.0152)) == []


def test_models_are_apart_and_the_least_recently_used_goes() -> None:
    table = PartitionTable(PartitionConfig(max_models=2))
    feed(table, work(200, 1, 1), model="a")
    feed(table, work(200, 2, 1), model="b")
    assert [len(p.queue_ids) for p in table.entries().values()] == [1, 2]
    for _ in range(200):
        table.observe("a", 5.0, 0.0)
    job = job_from(table, "a")
    feed(table, work(1, 1, 1), model="")
    assert table.models() == ("a", "")
    feed(table, work(1, 1, 1), model="c")
    assert table.models() == ("", "c")
    assert table.install(fit(job)) is None
    assert table.due("a", SERVICE) is None


def test_a_restored_table_goes_on_as_the_first_would_have() -> None:
    live = table_with(work(1000, 3, 1))
    state = json.loads(json.dumps(live.state()))
    restored = PartitionTable()
    restored.restore(state)
    assert restored.entries() == live.entries()
    assert restored.status("m") == live.status("m")
    more = work(900, 3, 2)
    assert feed(restored, more) == feed(live, more) != []
    assert restored.state() == live.state()
    assert live.state("other") == {}


@pytest.mark.parametrize("damage", ["sample", "trigger", "incumbent", "next_number"])
def test_a_damaged_state_is_refused(damage: str) -> None:
    state = json.loads(json.dumps(table_with(work(300, 2, 1)).state()))
    state["m"][damage] = "x"
    with pytest.raises((ValueError, KeyError, TypeError)):
        PartitionTable().restore(state)
    del state["m"][damage]
    with pytest.raises(KeyError):
        PartitionTable().restore(state)


def test_the_histogram_counts_the_sample() -> None:
    table = PartitionTable()
    assert table.histogram("m", SERVICE) == ([], [])
    x = work(500, 2, 1)
    for seconds in np.exp(x):
        table.observe("m", float(seconds) / 0.01, 0.0)
    edges, counts = table.histogram("m", SERVICE, bins=12)
    assert (len(edges), sum(counts)) == (13, 500)
    assert edges[0] == pytest.approx(np.exp(x.min()), rel=1e-3)
    assert edges[-1] == pytest.approx(np.exp(x.max()), rel=1e-3)


def test_routing_is_a_bisect_over_boundaries() -> None:
    partition = table_with(work(2000, 3, 1)).entries()["m"]
    assert isinstance(partition, Partition)
    routed = [partition.queue_of(float(np.exp(1.2 * k))) for k in range(3)]
    assert routed == list(partition.queue_ids)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("capacity", 10), ("max_queues", 0), ("least_points", 0), ("refit_every", 0),
        ("max_models", 0), ("least_count", 0), ("gap_alpha", 0.0), ("latency_alpha", 1.0),
        ("least_share", 1.0), ("least_separation", -1.0), ("rates_ratio", 0.0),
        ("latency_ratio", 1.0),
    ],
)  # fmt: skip
def test_a_constant_outside_its_domain_is_refused(name: str, value: float) -> None:
    with pytest.raises(ValueError, match=name):
        PartitionConfig(**{name: value})  # type: ignore[arg-type]  # one of any type
