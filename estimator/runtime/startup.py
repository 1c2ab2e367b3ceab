"""Puts the runtime together: store, state, first snapshot, learner."""

import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final

from estimator.core.pipeline import CoreConfig, Pipeline
from estimator.runtime.config import ServeConfig
from estimator.runtime.learner import VERSION_BLOCK, Learner
from estimator.runtime.publisher import Publisher
from estimator.runtime.store_worker import StoreWorker
from estimator.store.base import Checkpoint, Store, StoreError
from estimator.store.memory import MemoryStore
from estimator.store.sqlite import open_store
from estimator.telemetry.logs import get_logger
from estimator.telemetry.metrics import Metrics
from sched_client.model import MODES, Mode, Settings, Snapshot

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
            max_mode_changes=config.mode_changes_limit,
        )
    store, warnings = open_store(
        Path(config.state_dir) / STORE_NAME,
        max_completions=config.retention_completions,
        max_kappa_points_per_key=config.kappa_points_per_key_limit,
        max_kappa_points=config.kappa_points_limit,
        max_drift_events=config.drift_events_limit,
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
    """
    worker = StoreWorker(store, metrics)
    try:
        checkpoint = await worker.read(store.load_checkpoint)
        switches = await worker.read(lambda: store.list_mode_changes(limit=1))
    except StoreError:
        await worker.close()
        raise
    pipeline, learned_row_id = _restore(config, checkpoint)
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


def _restore(config: ServeConfig, checkpoint: Checkpoint | None) -> tuple[Pipeline, int]:
    core = CoreConfig(prior_kappa_tokens_per_s=config.prior_kappa, max_keys=config.key_limit)
    if checkpoint is None:
        return Pipeline(core), 0
    try:
        return Pipeline(core, state=checkpoint.state), checkpoint.row_id
    except ValueError as error:
        _log.error("the checkpoint is not usable; all stored rows are replayed", error=str(error))
        return Pipeline(core), 0


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


def _bind_metrics(metrics: Metrics, learner: Learner, config: ServeConfig) -> None:
    metrics.backlog_limit.set(config.backlog_limit)
    metrics.key_limit.set(config.key_limit)
    metrics.watcher_limit.set(config.watcher_limit)
    metrics.read_from(metrics.backlog, lambda: learner.backlog.n_rows)
    metrics.read_from(metrics.replaying, lambda: learner.replaying)
    metrics.read_from(metrics.snapshot_version, lambda: learner.publisher.snapshot.version)
    metrics.read_from(metrics.keys, lambda: learner.pipeline.key_count)
    metrics.read_from(metrics.open_drifts, lambda: learner.pipeline.open_drift_count)
    for mode in MODES:
        metrics.read_from(metrics.mode.labels(mode), partial(_is_mode, learner.publisher, mode))


def _is_mode(publisher: Publisher, mode: Mode) -> float:
    return float(publisher.snapshot.settings.mode == mode)
