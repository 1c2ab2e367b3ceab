"""Fitting beside the event loop: one at a time, paced, and never anybody's death."""

import asyncio
import math
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any

import pytest

from estimator.core.partition import Fit, FitJob
from estimator.core.partition import fit as fit_queues
from estimator.core.pipeline import Pipeline
from estimator.runtime.delta import SnapshotDelta
from estimator.runtime.fits import Fits, Installed, _Timed
from estimator.runtime.publisher import Publisher
from estimator.telemetry.metrics import Metrics
from tests.support.runtime import (
    FragileStore,
    completions,
    config,
    running,
    two_classes,
    until,
)


@dataclass
class Bench:
    """Fits of a pipeline, with a clock of their own."""

    pipeline: Pipeline
    fits: Fits
    metrics: Metrics
    woken: asyncio.Event
    jobs: list[FitJob]

    @property
    def last(self) -> FitJob:
        """The last job that was fitted."""
        return self.jobs[-1]

    def learn(self, n: int, *, models: int = 1) -> None:
        """Learn so many completions more of each model."""
        for completion in two_classes(n * models, models=models):
            self.pipeline.learn_one(completion)
        self.fits.note_learned()

    async def done(self, now_s: float) -> Installed | None:
        """Wait for the fit that runs, and ask for it."""
        await asyncio.wait_for(self.woken.wait(), 20.0)
        self.woken.clear()
        return self.fits.step(now_s)

    def value(self, name: str, **labels: str) -> float:
        return self.metrics.registry.get_sample_value(f"kappad_{name}", labels) or 0.0


@asynccontextmanager
async def bench(
    fit: Callable[[FitJob], Fit] = fit_queues, *, n: int = 300, models: int = 1
) -> AsyncIterator[Bench]:
    pipeline, metrics, woken = Pipeline(), Metrics(), asyncio.Event()
    for completion in two_classes(n * models, models=models):
        pipeline.learn_one(completion)
    jobs: list[FitJob] = []

    def noted(job: FitJob) -> Fit:
        jobs.append(job)
        return fit(job)

    fits = Fits(pipeline, metrics, woken.set, fit=noted)
    try:
        yield Bench(pipeline, fits, metrics, woken, jobs)
    finally:
        fits.close()


async def test_a_fit_runs_in_another_thread_and_is_installed_on_the_loops() -> None:
    threads: list[str] = []

    def fit(job: FitJob) -> Fit:
        threads.append(threading.current_thread().name)
        return fit_queues(job)

    async with bench(fit) as one:
        assert one.fits.step(1.0) is None
        assert one.pipeline.partitions() == {}
        installed = await one.done(2.0)
        assert installed is not None
        assert len(one.pipeline.partitions()["m"].queue_ids) == 2
        assert installed.revision.partition == one.pipeline.partitions()["m"]
        assert installed.fit_s > 0.0
        assert threads[0].startswith("kappad-fit")
        assert one.value("queues") == 2.0
        assert one.value("partitioned_models") == 1.0
        assert one.value("partition_fits_total", reason="first") == 1.0
        assert one.value("partitions_installed_total", reason="first") == 1.0
        assert one.value("partition_fit_seconds_count") == 1.0


async def test_queues_of_a_model_that_is_forgotten_are_no_longer_counted() -> None:
    async with bench() as one:
        one.fits.step(1.0)
        assert await one.done(2.0) is not None
        limit = one.pipeline.queue_table.config.max_models
        for index in range(limit):
            other = replace(two_classes(1)[0], completion_id=str(index), model=f"other{index}")
            one.pipeline.learn_one(other)
        assert one.pipeline.partitions() == {}
        assert one.value("queues") == one.value("partitioned_models") == 0.0


async def test_models_are_fitted_one_after_the_other_and_no_oftener_than_allowed() -> None:
    release = threading.Event()

    def fit(job: FitJob) -> Fit:
        assert release.wait(20.0)
        return fit_queues(job)

    async with bench(fit, models=2) as one:
        one.fits.step(10.0)
        one.fits.step(20.0)
        assert one.fits.next_at == math.inf
        release.set()
        first = await one.done(21.0)
        assert first is not None
        assert 10.2 <= one.fits.next_at <= 10.2 + 10.0 * first.fit_s
        one.fits.step(one.fits.next_at - 1e-6)
        assert not one.woken.is_set()
        one.fits.step(one.fits.next_at)
        second = await one.done(99.0)
        assert second is not None
        assert {first.revision.model, second.revision.model} == {"m", "m1"}


async def test_while_completions_wait_only_first_fits_are_not_put_off(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Each takes a second of CPU: a tenth of the time for first ones, a twentieth for others at
    # rest, at most 30 s where a hundredth would be more.
    monkeypatch.setattr(Fits, "_timed", lambda _, job: _Timed(fit_queues(job), 1.0, 1.0))
    async with bench() as one:
        one.fits.step(10.0, busy=True)
        assert await one.done(10.0) is not None
        assert one.fits.next_at == pytest.approx(20.0)
        one.learn(300)
        one.fits.step(20.0, busy=True)
        assert one.fits.next_at == math.inf  # one runs
        await one.done(20.0)
        assert one.fits.next_at == pytest.approx(40.0)
        one.learn(600)
        one.fits.step(49.0, busy=True)
        assert one.fits.next_at == pytest.approx(40.0)  # nothing has begun
        one.fits.step(50.0, busy=True)
        assert one.fits.next_at == math.inf
        await one.done(51.0)


async def test_models_that_never_had_a_fit_come_before_those_that_had() -> None:
    async with bench(models=2) as one:
        one.fits.step(0.0)
        first = await one.done(1.0)
        assert first is not None
        assert first.revision.model == "m"
        one.learn(600, models=3)  # all are due, and two were never fitted
        fitted = []
        for at in (10.0, 20.0, 30.0):
            one.fits.step(at)
            assert one.fits.next_at == math.inf
            await one.done(at)
            fitted.append(one.last.model)
        assert sorted(fitted[:2]) == ["m1", "m2"]
        assert fitted[2] == "m"


async def test_a_first_fit_that_failed_lets_the_others_go_first() -> None:
    asked = []

    def fit(job: FitJob) -> Fit:
        asked.append(job.model)
        if job.model == "m":
            raise FloatingPointError("singular")
        return fit_queues(job)

    async with bench(fit, models=2) as one:
        for at in (0.0, 100.0, 200.0):
            one.fits.step(at)
            await one.done(at)
        assert asked == ["m", "m1", "m"]


async def test_a_fit_that_fails_is_counted_and_tried_again_later() -> None:
    def fit(job: FitJob) -> Fit:
        raise FloatingPointError("singular")

    async with bench(fit) as one:
        one.fits.step(1.0)
        assert await one.done(2.0) is None
        assert one.value("partition_fit_failures_total") == 1.0
        assert one.value("partition_fits_total", reason="first") == 0.0
        assert one.fits.next_at == pytest.approx(31.0)
        one.fits.step(31.0)
        assert await one.done(32.0) is None
        assert one.value("partition_fit_failures_total") == 2.0


async def test_queues_that_clients_would_refuse_never_come_into_force() -> None:
    def fit(job: FitJob) -> Fit:
        found = fit_queues(job)
        low, _ = found.best.partition.means_s
        unusable = replace(found.best.partition, means_s=(low, 0.0))
        return replace(found, best=replace(found.best, partition=unusable))

    async with bench(fit) as one:
        one.fits.step(1.0)
        assert await one.done(2.0) is None
        assert one.pipeline.partitions() == {}
        assert one.pipeline.take_changes().partitions == {}
        assert one.value("partition_fit_failures_total") == 1.0


async def test_nothing_is_asked_for_until_something_was_learned() -> None:
    async with bench(n=50) as one:
        assert one.fits.next_at == 0.0
        one.fits.step(1.0)
        assert one.fits.next_at == math.inf
        one.fits.note_learned()
        assert 1.0 < one.fits.next_at < 2.0


async def test_the_learner_publishes_and_records_what_was_fitted() -> None:
    store = FragileStore()
    async with running(store, config()) as run:
        await run.learner.submit(two_classes(400))
        await until(lambda: "m" in run.learner.publisher.snapshot.partitions, "published")
        await until(lambda: bool(store.list_partitions()), "recorded")
        partition = run.learner.publisher.snapshot.partitions["m"]
        (_, record), *_ = store.list_partitions()
        assert record.partition == partition
        assert (record.model, record.reason, record.number) == ("m", "first", 1)
        assert record.fit_s > 0.0
    async with running(store, config()) as run:
        assert run.learner.publisher.snapshot.partitions == {"m": partition}


async def test_a_failing_fit_leaves_the_learner_alive(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(self: Pipeline, fit: Fit) -> None:
        raise ValueError("our own bug")

    monkeypatch.setattr(Pipeline, "install_fit", fail)
    async with running(FragileStore(), config()) as run:
        await run.learner.submit(two_classes(400))
        failures = "kappad_partition_fit_failures_total"
        await until(
            lambda: (run.metrics.registry.get_sample_value(failures) or 0.0) > 0.0, "failed"
        )
        await run.learner.submit(completions(10, first=1000))
        await until(lambda: run.learner.pipeline.learned_count == 410, "learned on")
        assert run.learner.failure == ""


async def test_a_drain_does_not_wait_for_a_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    begun, release = threading.Event(), threading.Event()

    timed = Fits._timed

    def slow(self: Fits, job: FitJob) -> object:
        begun.set()
        assert release.wait(60.0)
        return timed(self, job)

    monkeypatch.setattr(Fits, "_timed", slow)
    try:
        async with running(FragileStore(), config()) as run:
            await run.learner.submit(two_classes(400))
            await until(begun.is_set, "a fit runs")
        assert run.learner.pipeline.partitions() == {}
    finally:
        release.set()


async def test_the_history_names_the_snapshot_before_the_one_that_carries_the_queues(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    carried: list[int] = []
    publish = Publisher.publish

    def spy(self: Publisher, **parts: Any) -> SnapshotDelta:  # Any: what a snapshot is made of
        delta = publish(self, **parts)
        if delta.partitions:
            carried.append(delta.version)
        return delta

    monkeypatch.setattr(Publisher, "publish", spy)
    store = FragileStore()
    async with running(store, config()) as run:
        await run.learner.submit(two_classes(400))
        await until(lambda: bool(carried) and bool(store.list_partitions()), "recorded")
        *_, (_, first) = store.list_partitions()
    assert first.snapshot_version == carried[0] - 1


async def test_queues_that_came_into_force_outlive_a_crash_that_follows() -> None:
    store = FragileStore()
    async with running(store, config(), drain=False) as run:
        await run.learner.submit(two_classes(400))
        await until(lambda: bool(store.list_partitions()), "recorded")
        await until(
            lambda: store.checkpoints[-1].row_id == 400, "saved, though little was learned"
        )
        before = run.learner.pipeline.partitions()
    recorded = store.list_partitions()
    async with running(store, config()) as run:
        assert run.learner.publisher.snapshot.partitions == before
        await until(lambda: not run.learner.replaying, "replayed")
    numbers = [record.number for _, record in store.list_partitions()]
    assert numbers[-len(recorded) :] == [record.number for _, record in recorded]
    assert numbers == sorted(set(numbers), reverse=True)


async def test_while_stored_rows_are_replayed_fits_take_the_smaller_share(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[tuple[bool, bool]] = []
    step = Fits.step

    def spy(self: Fits, now_s: float, *, busy: bool = False) -> Installed | None:
        asked.append((run.learner.replaying, busy))
        return step(self, now_s, busy=busy)

    store = FragileStore()
    store.append(two_classes(5000))
    monkeypatch.setattr(Fits, "step", spy)
    async with running(store, config()) as run:
        await until(lambda: not run.learner.replaying, "replayed")
        await until(lambda: asked[-1] == (False, False), "at rest")
    assert (True, True) in asked
    assert (True, False) not in asked
