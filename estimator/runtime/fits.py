"""Fits models' queues in a thread of its own: one at a time, and a small share of the time.

A thread and no process: an interpreter of its own would hold 130 MiB, and a fit takes some 20 ms
in which numpy lets go of the interpreter's lock (benchmarks/server_fits.py measures both).
"""

import asyncio
import math
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final, NamedTuple

from estimator.core.partition import Fit, FitJob, PartitionRevision
from estimator.core.partition import fit as fit_queues
from estimator.core.pipeline import Pipeline
from estimator.runtime.pace import Pace
from estimator.telemetry.logs import get_logger
from estimator.telemetry.metrics import Metrics
from sched_client.validity import invalid_partition_reason

__all__ = ["Fits", "Installed"]

_log = get_logger("fits")

# Of one core: at full load a model is due every 70 ms, and completions wait to be learned.
_BUSY_SHARE: Final = 0.01
_IDLE_SHARE: Final = 0.05
# A model's first fit comes once, and until then its requests are not told apart: 40 models that
# become due at once have their queues within 20 s, however busy the sidecar is.
_FIRST_SHARE: Final = 0.1
# What is due at once for several reasons is fitted once.
_LEAST_S: Final = 0.2
# To see whether its rates have moved, 0.15 ms a model are spent on the event loop.
_ASKED_AT_ONCE: Final = 8
_MOST_S: Final = 30.0


class Installed(NamedTuple):
    """A partition that came into force, and the seconds that its fit took."""

    revision: PartitionRevision
    fit_s: float


class _Timed(NamedTuple):
    fit: Fit
    wall_s: float
    cpu_s: float


class _Running(NamedTuple):
    job: FitJob
    begun_s: float
    done: asyncio.Future[_Timed]


def _check(fit: Fit) -> None:
    """Refuse queues that clients would refuse, and the whole snapshot with them."""
    reason = invalid_partition_reason(fit.best.partition)
    if reason is not None:
        raise ValueError(f"clients would refuse the queues found: partition{reason}")


class Fits:
    """Begins what is due and installs what is done, whenever the learner asks.

    Parameters
    ----------
    pipeline : Pipeline
        Owns the samples; touched on the event loop's thread only.
    metrics : Metrics
        Counts fits, failures and seconds.
    wake : callable
        Called when a fit is done, on the event loop's thread.
    fit : callable
        Replaced by tests.
    """

    def __init__(
        self,
        pipeline: Pipeline,
        metrics: Metrics,
        wake: Callable[[], None],
        *,
        fit: Callable[[FitJob], Fit] = fit_queues,
    ) -> None:
        self._pipeline = pipeline
        self._metrics = metrics
        self._wake = wake
        self._fit = fit
        self._executor = ThreadPoolExecutor(1, thread_name_prefix="kappad-fit")
        self._busy, self._idle = (
            Pace(share=share, least_s=_LEAST_S, most_s=_MOST_S)
            for share in (_BUSY_SHARE, _IDLE_SHARE)
        )
        self._running: _Running | None = None
        self._closed = False
        # Models that may be due; those of a restored state may.
        self._unasked = 0
        self.note_learned()
        # Read when asked for: models are forgotten between fits.
        metrics.read_from(metrics.queues, lambda: float(sum(self._counts())))
        metrics.read_from(
            metrics.partitioned_models, lambda: float(sum(count > 1 for count in self._counts()))
        )

    @property
    def next_at(self) -> float:
        """When `step` may begin something if nothing else is to be done; infinite for never."""
        return self._next_at(self._idle)

    def _next_at(self, pace: Pace) -> float:
        if self._unasked <= 0 or self._running is not None or self._closed:
            return math.inf
        return pace.next_at

    def note_learned(self) -> None:
        """Say that completions were learned, so that something may be due."""
        self._unasked = len(self._pipeline.queue_table.models())

    def step(self, now_s: float, *, busy: bool = False) -> Installed | None:
        """Install the fit that is done, else begin the next one that is due.

        Parameters
        ----------
        now_s : float
            The loop's clock.
        busy : bool
            Whether completions wait to be learned.

        Returns
        -------
        Installed or None
            What came into force, if anything did.
        """
        running = self._running
        if running is None:
            if now_s >= self._next_at(self._busy if busy else self._idle):
                self._begin(now_s)
            return None
        if not running.done.done():
            return None
        self._running = None
        self.note_learned()
        return self._end(running)

    def _begin(self, now_s: float) -> None:
        job = self._pipeline.due_fit(_ASKED_AT_ONCE)
        if job is None:
            self._unasked -= _ASKED_AT_ONCE
            self._took(now_s, 0.0)
            return
        loop = asyncio.get_running_loop()
        done = loop.run_in_executor(self._executor, self._timed, job)
        done.add_done_callback(lambda _: self._wake())
        self._running = _Running(job, now_s, done)

    def _timed(self, job: FitJob) -> _Timed:
        begun_s, begun_cpu_s = time.perf_counter(), time.thread_time()
        fit = self._fit(job)
        return _Timed(fit, time.perf_counter() - begun_s, time.thread_time() - begun_cpu_s)

    def _took(self, begun_s: float, cpu_s: float, *, first: bool = False) -> None:
        for pace in (self._busy, self._idle):
            counted_s = cpu_s * pace.share / _FIRST_SHARE if first else cpu_s
            pace.took(begun_s, begun_s + counted_s)

    def _end(self, running: _Running) -> Installed | None:
        job = running.job
        try:
            fit, fit_s, cpu_s = running.done.result()
            _check(fit)
            revision = self._pipeline.install_fit(fit)
        except Exception as error:  # noqa: BLE001  # a model that cannot be fitted keeps its queues
            self._pipeline.give_up_fit(job.model)
            self._took(running.begun_s, _MOST_S)
            self._metrics.fit_failures.inc()
            _log.exception(
                "a model's queues could not be fitted; those in force are kept",
                reason=job.reason,
                error=f"{type(error).__name__}: {error}",
            )
            return None
        self._took(running.begun_s, cpu_s, first=job.reason == "first")
        self._metrics.fits.labels(job.reason).inc()
        self._metrics.fit_s.observe(fit_s)
        if revision is None:
            return None
        self._metrics.partitions.labels(job.reason).inc()
        _log.info(
            "queues",
            model=revision.model,
            queues=len(revision.partition.queue_ids),
            reason=revision.reason,
            what=revision.text,
            fit_s=round(fit_s, 3),
        )
        return Installed(revision, fit_s)

    def _counts(self) -> list[int]:
        return [len(one.queue_ids) for one in self._pipeline.partitions().values()]

    def close(self) -> None:
        """Begin nothing more; what runs is left alone, its result forgotten."""
        self._closed = True
        running, self._running = self._running, None
        if running is not None:
            running.done.cancel()
            self._pipeline.give_up_fit(running.job.model)
        self._executor.shutdown(wait=False, cancel_futures=True)
