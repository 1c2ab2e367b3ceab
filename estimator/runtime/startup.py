"""Puts the runtime together: store, state, first snapshot, learner."""

import asyncio
import contextlib
import math
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final

from estimator.core.pipeline import SCHEMA, CoreConfig, Pipeline
from estimator.runtime.config import ServeConfig
from estimator.runtime.learner import Learner
from estimator.runtime.publisher import Publisher
from estimator.runtime.seed import SeedError, read_seed
from estimator.runtime.store_worker import StoreWorker
from estimator.runtime.versions import VERSION_BLOCK
from estimator.store.base import Checkpoint, Store, StoreError
from estimator.store.memory import MemoryStore
from estimator.store.sqlite import open_store
from estimator.telemetry.logs import get_logger
from estimator.telemetry.metrics import Metrics
from sched_client.model import MODES, Mode, Settings, Snapshot
from sched_client.validity import invalid_reason

__all__ = ["build_learner", "create_store"]

STORE_NAME: Final = "kappad.sqlite3"
IN_MEMORY: Final = ":memory:"

_log = get_logger("startup")


def create_store(config: ServeConfig) -> Store:
    """Open the store that the configuration names.

    Raises
    ------
    StoreError
        If it cannot be opened; the message says why and what to do.
    """
    if config.state_dir == IN_MEMORY:
        return MemoryStore(
            max_completions=config.retention_completions,
            max_kappa_points_per_key=config.kappa_points_per_key_limit,
            max_kappa_points=config.kappa_points_limit,
            max_drift_events=config.drift_events_limit,
            max_partitions=config.partitions_limit,
            max_mode_changes=config.mode_changes_limit,
        )
    store, warnings = open_store(
        Path(config.state_dir) / STORE_NAME,
        max_completions=config.retention_completions,
        max_kappa_points_per_key=config.kappa_points_per_key_limit,
        max_kappa_points=config.kappa_points_limit,
        max_drift_events=config.drift_events_limit,
        max_partitions=config.partitions_limit,
        max_mode_changes=config.mode_changes_limit,
        synchronous=config.store_synchronous,
    )
    for warning in warnings:
        _log.warning("store", warning=warning)
    return store


async def build_learner(
    config: ServeConfig,
    store: Store,
    metrics: Metrics,
    *,
    now_s: Callable[[], float] = time.time,
) -> tuple[StoreWorker, Learner]:
    """Restore what was learned and make everything ready to run.

    Parameters
    ----------
    config : ServeConfig
        Bounds, and the settings that no switch has changed.
    store : Store
        Open; owned by the returned worker.
    metrics : Metrics
        Counts.
    now_s : callable
        Unix time.

    Returns
    -------
    worker : StoreWorker
        To be closed when the learner has drained.
    learner : Learner
        To be run. Its snapshot's version is above every one published before.

    Raises
    ------
    StoreError
        If the store cannot be read; it is closed then. One that cannot be written is no error:
        what was learned is served, and reports are refused until it can be.
    SeedError
        If there is nothing to go on from but a seed, and that cannot be used; the store is
        closed then.
    """
    worker = StoreWorker(store, metrics)
    try:
        checkpoint = await worker.read(store.load_checkpoint)
        switches = await worker.read(lambda: store.list_mode_changes(limit=1))
        pipeline, learned_row_id = _restore(config, checkpoint)
        if config.seed:
            pipeline = await _seeded(config, worker, pipeline)
    except (StoreError, SeedError):
        await worker.close()
        raise
    settings = config.settings()
    if switches and switches[0].mode in MODES and switches[0].mode != settings.mode:
        settings = replace(settings, mode=switches[0].mode)
        _log.warning(
            "the mode that was set at run time wins; change it by `kappad mode set`",
            mode=settings.mode,
            configured=config.mode,
        )
    publisher = Publisher(
        _first_snapshot(pipeline, store.instance_id, checkpoint, settings, now_s()),
        ring_limit=config.delta_limit,
    )
    learner = Learner(
        worker=worker,
        pipeline=pipeline,
        publisher=publisher,
        config=config,
        metrics=metrics,
        learned_row_id=learned_row_id,
        now_s=now_s,
    )
    await learner.checkpoint(publisher.snapshot.version + VERSION_BLOCK)
    _bind_metrics(metrics, learner, config)
    return worker, learner


def _core_config(config: ServeConfig) -> CoreConfig:
    return CoreConfig(prior_kappa_tokens_per_s=config.prior_kappa, max_keys=config.key_limit)


def _restore(config: ServeConfig, checkpoint: Checkpoint | None) -> tuple[Pipeline, int]:
    core = _core_config(config)
    if checkpoint is None:
        return Pipeline(core), 0
    try:
        return Pipeline(core, state=checkpoint.state), checkpoint.row_id
    except ValueError as error:
        _log.error("the checkpoint is not usable; all stored rows are replayed", error=str(error))
        return Pipeline(core), 0


async def _seeded(config: ServeConfig, worker: StoreWorker, pipeline: Pipeline) -> Pipeline:
    """Start from the seed where the store knows nothing; what it knows is nearer the truth."""
    row_id = await worker.read(worker.store.last_row_id)
    if row_id or pipeline.learned_count:
        _log.info(
            "the seed is not read: this store has learned already; an empty --state-dir starts "
            "from it",
            seed=config.seed,
            learned=pipeline.learned_count,
            completions=row_id,
        )
        return pipeline
    # In a thread, as tests run a sidecar in their own loop; nothing is served yet.
    seeded = await asyncio.to_thread(_from_seed, config)

    def save() -> None:
        for event in seeded.open_drifts:
            worker.store.save_drift(event)

    # A store that cannot be written is no error at the start, see `build_learner`.
    with contextlib.suppress(StoreError):
        await worker.write(save)
    return seeded


def _from_seed(config: ServeConfig) -> Pipeline:
    seed = read_seed(config.seed)
    schema = seed.state.get("schema")
    if schema != SCHEMA:
        by = f"kappad {seed.kappad_version}"
        raise SeedError(
            config.seed, f"its state, by {by}, has schema {schema!r}, this version reads {SCHEMA}"
        )
    try:
        pipeline = Pipeline(_core_config(config), state=seed.state)
        # What clients would refuse must not be served; settings are no part of a seed.
        probe = Snapshot(
            version=1,
            instance_id="seed",
            created_s=0.0,
            kappas=pipeline.kappas(),
            services=pipeline.services(),
            partitions=pipeline.partitions(),
        )
        reason = invalid_reason(probe)
    except (ValueError, TypeError, AttributeError, OverflowError) as error:
        # What a state may hold is the core's; whatever is misshapen, it is the file's fault.
        raise SeedError(config.seed, f"is damaged: {error}") from error
    if reason is not None:
        raise SeedError(config.seed, f"is damaged: {reason}")
    _log.info(
        "started from a seed",
        seed=config.seed,
        learned=seed.learned_count,
        keys=pipeline.key_count,
        created=seed.created,
        kappad_version=seed.kappad_version,
    )
    return pipeline


def _first_snapshot(
    pipeline: Pipeline,
    instance_id: str,
    checkpoint: Checkpoint | None,
    settings: Settings,
    created_s: float,
) -> Snapshot:
    changes = pipeline.take_changes()  # the first call gives all
    return Snapshot(
        # The checkpoint's version is the highest that may have been used.
        version=1 + (checkpoint.snapshot_version if checkpoint else 0),
        instance_id=instance_id,
        created_s=created_s,
        kappas=pipeline.kappas() | changes.kappas,
        services=pipeline.services() | changes.services,
        partitions=changes.partitions,
        settings=settings,
    )


def _or_nan(value: float | None) -> float:
    return math.nan if value is None else value


def _bind_metrics(metrics: Metrics, learner: Learner, config: ServeConfig) -> None:
    metrics.backlog_limit.set(config.backlog_limit)
    metrics.key_limit.set(config.key_limit)
    metrics.watcher_limit.set(config.watcher_limit)
    metrics.read_from(metrics.backlog, lambda: learner.backlog.n_rows)
    metrics.read_from(metrics.replaying, lambda: learner.replaying)
    metrics.read_from(metrics.snapshot_version, lambda: learner.publisher.snapshot.version)
    metrics.read_from(metrics.keys, lambda: learner.pipeline.key_count)
    metrics.read_from(metrics.open_drifts, lambda: learner.pipeline.open_drift_count)
    metrics.read_from(metrics.p90_coverage, lambda: _or_nan(learner.pipeline.p90_coverage_ratio))
    for mode in MODES:
        metrics.read_from(metrics.mode.labels(mode), partial(_is_mode, learner.publisher, mode))


def _is_mode(publisher: Publisher, mode: Mode) -> float:
    return float(publisher.snapshot.settings.mode == mode)
