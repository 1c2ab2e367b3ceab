"""The one task that stores, learns, publishes and checkpoints; everybody else asks it.

History first: rows are committed, then acknowledged, then learned. Committing runs in the store's
thread, learning on the event loop in slices, so that calls are answered meanwhile.
"""

import asyncio
import contextlib
import math
import time
from collections.abc import Callable, Sequence
from typing import Final

from estimator.core.drift import load_detector
from estimator.core.observation import Completion
from estimator.core.pipeline import Pipeline
from estimator.core.running import SILENCE_S, Running
from estimator.runtime import heap
from estimator.runtime.backlog import Backlog, Report, ReportResult, acknowledge, refuse
from estimator.runtime.config import ServeConfig
from estimator.runtime.errors import UnavailableError
from estimator.runtime.fits import Fits
from estimator.runtime.pace import Pace
from estimator.runtime.publisher import Publisher
from estimator.runtime.recorder import Recorder
from estimator.runtime.state_export import ExportedState, StateExports
from estimator.runtime.store_worker import StoreWorker
from estimator.runtime.versions import VERSION_BLOCK, Versions
from estimator.store.base import Checkpoint, StoredCompletion, StoreError
from estimator.telemetry.logs import get_logger
from estimator.telemetry.metrics import Metrics
from sched_client.model import Settings

__all__ = ["Learner"]

_log = get_logger("learner")

# The longest that learning holds the event loop: a call waits so much longer at most.
SLICE_S: Final = 0.002
# Rows committed and learned together: about 50 ms of learning until the next commit.
GROUP_ROWS: Final = 1024
# More than that, so that a replay catches up with a full load that goes on meanwhile.
_REPLAY_ROWS: Final = 2 * GROUP_ROWS
# How often a store that failed is tried again when nobody reports.
_STORE_RETRY_S: Final = 2.0
_STOPPED: Final = "the learner stopped"
# Shares of the time for publishing and saving: under full load on 5,000 keys they took 8 % and 6 %
# at their configured intervals. What publishing may be put off to by its share.
_PUBLISH_SHARE: Final = 0.025
_CHECKPOINT_SHARE: Final = 0.02
_PUBLISH_WITHIN_S: Final = 1.0


class Learner:
    """Consumes the backlog until it is told to drain.

    Parameters
    ----------
    worker : StoreWorker
        The store.
    pipeline : Pipeline
        The state as of ``learned_row_id``; touched by this object alone from now on.
    publisher : Publisher
        Holds the initial snapshot.
    config : ServeConfig
        Bounds and intervals.
    metrics : Metrics
        Counts.
    learned_row_id : int
        The last row that the pipeline has learned; the rows after it are replayed first.
    now_s : callable
        Unix time.
    """

    def __init__(
        self,
        *,
        worker: StoreWorker,
        pipeline: Pipeline,
        publisher: Publisher,
        config: ServeConfig,
        metrics: Metrics,
        learned_row_id: int,
        now_s: Callable[[], float] = time.time,
    ) -> None:
        self.pipeline = pipeline
        self.publisher = publisher
        self.backlog = Backlog(config.backlog_limit)
        self.replaying = True
        self.failure = ""
        self.on_failure: Callable[[], None] = lambda: None
        self.on_loaded: Callable[[], None] = lambda: None
        self._worker = worker
        self._config = config
        self._metrics = metrics
        self._now_s = now_s
        self._learned_row_id = learned_row_id
        self._versions = Versions(publisher.snapshot.version)
        self._fresh: list[StoredCompletion] = []
        self._recorder = Recorder(worker, metrics, config.kappa_point_interval_s)
        self._recorder.seed(publisher.snapshot, now_s())
        self._dirty = False
        self._draining = False
        self._wake = asyncio.Event()
        self._exports = StateExports(self._wake.set)
        self._fits = Fits(pipeline, metrics, self._wake.set)
        least_s, save_s = config.publish_interval_s, config.checkpoint_interval_s
        self._publishing = Pace(
            share=_PUBLISH_SHARE, least_s=least_s, most_s=max(least_s, _PUBLISH_WITHIN_S)
        )
        self._saving = Pace(share=_CHECKPOINT_SHARE, least_s=0.0, most_s=save_s)
        self._tried_checkpoint = 0.0
        self._n_since_checkpoint = 0
        metrics.learner_up.set(1)

    def submit(self, completions: Sequence[Completion]) -> asyncio.Future[ReportResult]:
        """Queue valid rows; the future resolves once they are committed.

        Raises
        ------
        ExhaustedError
            If the backlog is full.
        UnavailableError
            If the sidecar drains or the learner is dead.
        """
        self._check_running()
        done = self.backlog.put(completions)
        self._wake.set()
        return done

    def note_running(self, client_id: str, running: Sequence[Running]) -> None:
        """Take a client's newest list of running requests; nothing of it is stored."""
        before = self.pipeline.running_count
        self.pipeline.note_running(client_id, running, asyncio.get_running_loop().time())
        if before or running:
            self._dirty = True
            self._wake.set()

    def note_slot_context(self, model: str, tokens: float) -> None:
        """Take the KV memory that comes to a slot of an engine, 0 where it does not know."""
        if self.pipeline.note_slot_context(model, tokens, asyncio.get_running_loop().time()):
            self._dirty, self._n_since_checkpoint = True, self._n_since_checkpoint + 1
            self._wake.set()

    async def export_state(self, model: str = "") -> ExportedState:
        """Give the state between two completions (of one model); raises as `StateExports.ask`."""
        self._check_running()
        return await self._exports.ask(model)

    def _check_running(self) -> None:
        if self.failure:
            text = "the learner stopped by an error of its own, see the log; restart the sidecar"
            raise UnavailableError(text, reason="LEARNER_DEAD", retry_after_s=5.0)
        if self._draining:
            text = "the sidecar is shutting down; send the report again to its successor"
            raise UnavailableError(text, reason="DRAINING", retry_after_s=1.0)

    def publish_settings(self, settings: Settings) -> int:
        """Publish new settings at once and give the version that carries them.

        Raises
        ------
        UnavailableError
            If the store could not promise more versions for so long that none are left.
        """
        self.check_version_left()
        delta = self.publisher.publish(created_s=self._now_s(), settings=settings)
        self._metrics.publications.inc()
        self._wake.set()  # the store may have to promise more versions
        return delta.version

    def check_version_left(self) -> None:
        """Raise `UnavailableError` where `publish_settings` would."""
        if not self._versions.is_one_left(self.publisher.snapshot.version):
            raise UnavailableError(
                f"no snapshot version is left to publish: {self._worker.error or 'starting'}; "
                "repair the store, or put a file named 'off' beside the socket",
                reason="STORE_UNAVAILABLE",
                retry_after_s=_STORE_RETRY_S,
            )

    def drain(self) -> None:
        """Take nothing more; `run` returns when what was taken is stored."""
        self._draining = True
        self._wake.set()

    async def run(self) -> None:
        """Work until drained. An error of our own ends the task loudly, and nothing else."""
        try:
            # Predictions, watches and switches are served meanwhile; reports wait in the backlog.
            await asyncio.to_thread(load_detector)
            self.on_loaded()
            while not (self._draining and not self.backlog and not self._fresh):
                await self._wait_for_work()
                await self._step()
            await self._finish()
        except Exception as error:  # noqa: BLE001  # top of the task: our bug must be seen
            self.failure = f"{type(error).__name__}: {error}"
            self._metrics.learner_up.set(0)
            _log.exception("the learner died; snapshots stay as they are", error=self.failure)
            self.backlog.fail(UnavailableError(_STOPPED, reason="LEARNER_DEAD"))
            self._exports.refuse(UnavailableError(_STOPPED, reason="LEARNER_DEAD"))
            self.on_failure()

    async def _wait_for_work(self) -> None:
        if self.backlog or self._fresh or self.replaying or self._draining:
            # Even under full load the calls get their turn.
            await asyncio.sleep(0)
            return
        due = [self._checkpoint_at(), self._fits.next_at]
        if self._dirty and self._may_publish:
            due.append(self._publishing.next_at)
        if self._recorder.held:
            due.append(asyncio.get_running_loop().time() + self._recorder.interval_s)
        if self.pipeline.running_count:
            due.append(asyncio.get_running_loop().time() + SILENCE_S)
        with contextlib.suppress(TimeoutError):
            earliest = min(due)
            async with asyncio.timeout_at(None if earliest == math.inf else earliest):
                await self._wake.wait()
        self._wake.clear()

    async def _step(self) -> None:
        group = self.backlog.take(GROUP_ROWS)
        if group:
            await self._commit(group)
        if self.replaying:
            await self._replay()
        elif self._fresh:
            fresh, self._fresh = self._fresh, []
            await self._learn(fresh)
            self.backlog.settle(len(fresh))
        now = asyncio.get_running_loop().time()
        installed = self._fits.step(now, busy=self.replaying or bool(self.backlog))
        if installed is not None:
            self._recorder.add_partition(installed, self.publisher.snapshot.version)
            self._dirty = True
            # Saved soon: a crash would give the same numbers and names to other queues.
            self._n_since_checkpoint += self._config.checkpoint_completions
        self._publish_if_due()
        await self._record()
        await self._checkpoint_if_due()
        if self._exports and not self.replaying:
            await self._exports.answer(self.pipeline)

    async def _commit(self, group: list[Report]) -> None:
        rows = [row for report in group for row in report.completions]
        start = time.perf_counter()
        try:
            result = await self._worker.write(lambda: self._worker.store.append(rows))
        except StoreError as error:
            self.backlog.settle(len(rows))
            text, retry_s = f"the store does not take completions: {error}", _STORE_RETRY_S
            reason = "STORE_UNAVAILABLE"
            refuse(group, UnavailableError(text, reason=reason, retry_after_s=retry_s))
            return
        except Exception:
            refuse(group, UnavailableError(_STOPPED, reason="LEARNER_DEAD"))
            raise
        self._metrics.commit_s.observe(time.perf_counter() - start)
        acknowledge(group, result.duplicate_indices, result.too_old_indices)
        if self.replaying:
            # The replay reads on until it has met these too.
            self.backlog.settle(len(rows))
        else:
            self.backlog.settle(len(rows) - len(result.accepted))
            self._fresh.extend(result.accepted)

    async def _replay(self) -> None:
        after, store = self._learned_row_id, self._worker.store
        try:
            page, last = await self._worker.read(
                lambda: (store.read(after_row_id=after, limit=_REPLAY_ROWS), store.last_row_id())
            )
        except StoreError:
            await asyncio.sleep(_STORE_RETRY_S)
            return
        await self._learn(page, forgive=True)
        if not page or page[-1].row_id >= last:  # nothing is committed between the read and here
            known = {event.event_id for event in self.pipeline.open_drifts}
            await self._recorder.end_forgotten(known, self._now_s())
            self.replaying = False
            _log.info("replayed", learned=self.pipeline.learned_count)

    async def _learn(self, rows: Sequence[StoredCompletion], *, forgive: bool = False) -> None:
        learn_one = self.pipeline.learn_one
        start = time.perf_counter()
        for stored in rows:
            try:
                events = learn_one(stored.completion)
                if events:
                    self._recorder.add_events(events)
            except Exception:
                # A row that killed the learner once must not kill it again at each start.
                if not forgive:
                    raise
                self._metrics.unlearnable.inc()
                _log.exception("a stored completion is skipped", row_id=stored.row_id)
            self._learned_row_id = stored.row_id
            elapsed = time.perf_counter() - start
            if elapsed >= SLICE_S:
                self._metrics.slice_s.observe(elapsed)
                self._dirty = True
                self._publish_if_due()
                await asyncio.sleep(0)
                start = time.perf_counter()
        if rows:
            self._dirty = True
            self._n_since_checkpoint += len(rows)
            self._metrics.learned.inc(len(rows))
            self._fits.note_learned()

    @property
    def _may_publish(self) -> bool:
        return self._versions.may_publish(self.publisher.snapshot.version)

    def _publish_if_due(self) -> None:
        now = asyncio.get_running_loop().time()
        self._dirty |= self.pipeline.expire_running(now)
        if not (self._dirty and self._may_publish and now >= self._publishing.next_at):
            return
        self._dirty = False
        changes = self.pipeline.take_changes()
        if changes:
            self._recorder.add_published(
                self.publisher.publish(
                    created_s=self._now_s(),
                    kappas=changes.kappas,
                    removed=changes.removed,
                    services=changes.services,
                    partitions=changes.partitions,
                )
            )
            self._metrics.publications.inc()
        # Finding that nothing has moved costs as much, and each slice of learning asks again.
        self._publishing.took(now, asyncio.get_running_loop().time())

    async def _record(self, *, flush: bool = False) -> None:
        version = self.publisher.snapshot.version
        await self._recorder.write(version=version, now_s=self._now_s(), flush=flush)

    def _checkpoint_at(self) -> float:
        if self._worker.error:
            # It is the probe, too, that finds out that a store works again.
            return self._tried_checkpoint + _STORE_RETRY_S
        if self._versions.is_low(self.publisher.snapshot.version):
            return 0.0
        if self._n_since_checkpoint >= self._config.checkpoint_completions:
            return self._saving.next_at
        if self._n_since_checkpoint:
            return self._tried_checkpoint + self._config.checkpoint_interval_s
        return math.inf

    async def _checkpoint_if_due(self) -> None:
        if asyncio.get_running_loop().time() >= self._checkpoint_at():
            await self.checkpoint(self.publisher.snapshot.version + VERSION_BLOCK)

    async def checkpoint(self, version: int) -> bool:
        """Save the state, and promise that versions up to ``version`` may have been used.

        Returns
        -------
        bool
            False if the store failed; it is tried again soon.
        """
        self._tried_checkpoint = asyncio.get_running_loop().time()
        row_id, now_s = self._learned_row_id, self._now_s()

        def save() -> None:
            # In the store's thread: 5,000 keys take longer than the event loop may be held, and
            # nothing is learned meanwhile, since the learner's task waits here.
            self._worker.store.save_checkpoint(
                Checkpoint(
                    row_id=row_id,
                    state=self.pipeline.state(lazy=True),
                    snapshot_version=version,
                    created_s=now_s,
                )
            )
            heap.trim()

        try:
            await self._worker.write(save)
        except StoreError:
            return False
        self._saving.took(self._tried_checkpoint, asyncio.get_running_loop().time())
        self._versions.promised = version
        self._n_since_checkpoint = 0
        self._metrics.checkpoints.inc()
        return True

    async def _finish(self) -> None:
        self._exports.refuse(UnavailableError(_STOPPED, reason="DRAINING", retry_after_s=1.0))
        self._fits.close()
        await self._record(flush=True)
        # The exact version: nothing is published after this.
        if await self.checkpoint(self.publisher.snapshot.version):
            _log.info("drained", row_id=self._learned_row_id)
