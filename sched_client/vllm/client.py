"""kappad's part of one engine: requests, estimates, the mode in force, reports.

Everything here runs on the engine's thread, between or beside vLLM's own steps: no RPC, no file,
no lock, no unbounded loop. Imports neither vLLM nor grpc; the link is given.
"""

import logging
import os
import time
from collections.abc import Callable
from typing import Any, Final, Protocol

from sched_client.completion import CompletionReport, EngineStatus, RunningSource
from sched_client.estimates import Estimates, Remains
from sched_client.model import PolicyParameters, Snapshot, policy_parameters
from sched_client.options import ClientOptions
from sched_client.policies import POLICY_NAMES, create_policy
from sched_client.vllm.features import FeatureReader
from sched_client.vllm.mode import Decision, decide, failed
from sched_client.vllm.preemption import Victims
from sched_client.vllm.queue import KappadQueue
from sched_client.vllm.record import Record
from sched_client.vllm.tracker import Tracker

logger = logging.getLogger("kappad")

_MAX_REASON: Final = 200
# Snapshots that are taken in, a step each, before new estimates have a step of theirs.
_MOST_ADOPTED: Final = 2


class LinkLike(Protocol):
    """What is used of `sched_client.transport.link.Link`."""

    status: EngineStatus
    running: RunningSource | None

    @property
    def snapshot(self) -> Snapshot:
        """The newest valid snapshot."""

    @property
    def stale_since_s(self) -> float | None:
        """Monotonic seconds of the last sign of the sidecar while it is silent, else None."""

    @property
    def kill_switch(self) -> bool:
        """Whether the file named ``off`` is there."""

    def report(self, report: CompletionReport) -> None:
        """Take a report; never waits."""

    def close(self) -> None:
        """Stop the background thread."""


class EngineClient:
    """What one scheduler calls at each of its hooks.

    Parameters
    ----------
    options : ClientOptions
        The engine's options.
    link : LinkLike
        The way to the sidecar.
    reader : FeatureReader
        Reads requests.
    new_queue : callable
        Makes the queue for its owner, this client.
    priorities : bool
        Whether vLLM schedules by priority; otherwise it ignores what callers write there.
    victims : Victims, optional
        Says whom vLLM preempts; None where it must be vLLM's choice.
    clock : callable
        Monotonic seconds.

    Attributes
    ----------
    queue : KappadQueue
        What takes the place of ``Scheduler.waiting``.
    decision : Decision
        The mode in force, and why.
    failures : int
        Exceptions of our own since boot.
    """

    def __init__(
        self,
        *,
        options: ClientOptions,
        link: LinkLike,
        reader: FeatureReader,
        new_queue: Callable[["EngineClient"], KappadQueue],
        priorities: bool = False,
        victims: Victims | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.options = options
        self.link = link
        self.reader = reader
        self.priorities = priorities
        self.victims = victims
        self.clock = clock
        self.tracker = Tracker()
        self.failures = 0
        self.failure = ""
        self.estimates = Estimates(link.snapshot)
        self.decision = Decision("off", "fcfs")
        self.queue = new_queue(self)
        self._parameters = PolicyParameters()
        self._signals: tuple[bool, bool] | None = None
        self._adopted_in_a_row = 0  # steps since new estimates had one
        self._least_lost = False
        self._arranged = False  # in this step

    # -- the scheduler's hooks ----------------------------------------------------------------

    def begin_step(self) -> None:
        """Freeze time, snapshot and mode for one ``schedule()``."""
        now_s = self.clock()
        self.queue.begin_step(now_s)
        if self.failure:
            return
        self.tracker.advance(now_s)
        link = self.link
        since_s = link.stale_since_s
        stale = since_s is not None and now_s - since_s > self.options.stale_fcfs_after_s
        signals = (link.kill_switch, stale)
        snapshot, estimates = link.snapshot, self.estimates
        moved = snapshot is not estimates.snapshot
        if signals != self._signals or (moved and not self._revises_first(snapshot)):
            self._adapt(snapshot, signals, None if since_s is None else now_s - since_s)
            self._adopted_in_a_row += 1
        # Not in one step with the above: each takes some 40 µs, so no step takes both.
        elif estimates.busy:
            estimates.revise_some(self.clock, self.queue.records, self.queue.revise)
            self._adopted_in_a_row = 0
        # Last: nothing of ours may fail between this and vLLM's own step.
        if self._least_lost and self.victims is not None:
            self._arranged = True
            self.victims.arrange()

    def end_step(self, output: Any, running: int) -> None:
        """Note who was admitted; say how the engine is.

        Parameters
        ----------
        output : vllm.v1.core.sched.output.SchedulerOutput
            Any: vLLM is not imported here.
        running : int
            Running requests after the step.
        """
        if self._arranged and self.victims is not None:
            # After a failure in between too: from then on the order must be vLLM's own.
            self._arranged = False
            self.victims.restore()
        if not self.failure:
            tracker, now_s = self.tracker, self.queue.now_s
            tracker.advance(now_s, running)
            for admitted in output.scheduled_new_reqs:
                tracker.admit(admitted.req_id, now_s)
        self.link.status = self._status(running)

    def arrive(self, request: Any) -> None:
        """Stamp a request that the scheduler sees for the first time."""
        if not self.failure:
            record = self.tracker.arrive(request, self.clock())
            if record.group:
                self._regroup()

    def finish(self, request: Any) -> None:
        """Report a request that ended, however it did."""
        if self.failure:
            return
        report = self.tracker.finish(request, self.clock(), time.time())
        if report is not None and self.decision.reports:
            self.link.report(report)

    def fail(self, error: Exception) -> None:
        """Give everything back to vLLM; never raises."""
        self.queue.fail(error)

    def close(self) -> None:
        """Stop the link."""
        self.link.close()

    # -- the queue's owner --------------------------------------------------------------------

    def note_waiting(self, request: Any) -> None:
        """Give a session that waits for its next turn a new place in time; read for the report."""
        record = self.tracker.records.get(request.request_id)
        if record is not None and record.admitted_s is not None:
            self.tracker.come_again(record, self.clock())
        if self.decision.policy == "fcfs" and self.decision.reports:
            self.record_of(request)  # no policy will ask for it

    def record_of(self, request: Any) -> Record:
        """Give the record of a request, with features and estimate."""
        record = self.tracker.records.get(request.request_id)
        if record is None:
            record = self.tracker.arrive(request, self.clock())
        if not record.service_s:
            record.take(self.reader.read(request))
            hints = record.hints
            if self.options.trust_hints and hints.group:
                self.tracker.join(record, f"hint:{hints.group}")
                self._regroup()
            self.estimates.first(record)
            tier = hints.tier if self.options.trust_hints else None
            if tier is None:
                tier = request.priority if self.priorities else 0
            record.priority = tier
            record.group_id = self.tracker.group_id(record)
        return record

    def revised(self, record: Record) -> bool:
        """Estimate a request anew if the newest snapshot moves it enough; say whether it did."""
        return self.estimates.revised(record)

    def remains(self, record: Record) -> Remains:
        """Estimate what is left of a request that was preempted."""
        return self.estimates.remains(record, record.request.num_output_tokens)

    def on_failure(self, error: Exception) -> None:
        """Count a failure of our own, log it once, and stand aside."""
        self.failures += 1
        self.failure = _place_of(error)
        self.decision = failed(self.failure)
        # Nothing comes to take them out any more, and each holds its clip.
        self.link.running = None
        self.tracker.forget()
        self.estimates = Estimates(self.estimates.snapshot)
        logger.error(
            "kappad failed and gave every waiting request back to vLLM's own order", exc_info=error
        )

    # -- inside -------------------------------------------------------------------------------

    def _regroup(self) -> None:
        """Let the policy know whose group has just come to count."""
        for record in self.tracker.grouped():
            self.queue.regroup(record)

    def _revises_first(self, snapshot: Snapshot) -> bool:
        """Say whether a new snapshot waits for the next step.

        Where steps are as long as snapshots are apart, nobody would be estimated anew but the
        heads. Settings are obeyed at once.
        """
        if self._adopted_in_a_row < _MOST_ADOPTED:
            return False
        estimates = self.estimates
        return estimates.busy and snapshot.settings == estimates.snapshot.settings

    def _adapt(
        self, snapshot: Snapshot, signals: tuple[bool, bool], stale_for_s: float | None
    ) -> None:
        """Follow a new snapshot, a kill switch or a silence."""
        if snapshot is not self.estimates.snapshot:
            self.estimates.adopt(snapshot)
        model = self.reader.model
        self._signals = signals
        self.reader.mean_audio_s = snapshot.service_of(model).mean_audio_s
        before = self.decision
        now = decide(
            self.options,
            snapshot,
            policies=POLICY_NAMES,
            kill_switch=signals[0],
            stale_for_s=stale_for_s,
        )
        parameters = policy_parameters(snapshot, model)
        if (before.mode, before.policy) != (now.mode, now.policy):
            # First come, first served is vLLM's own queue, whatever that does with priorities.
            policy = None if now.policy == "fcfs" else create_policy(now.policy, parameters)
            self.queue.switch(now.mode, policy, parameters)
            logger.info(
                "kappad: mode %s, policy %s%s",
                now.mode,
                now.policy,
                f" ({now.reason})" if now.reason else "",
            )
        elif parameters != self._parameters:
            self.queue.settle(parameters)
        self._parameters = parameters
        if not self.failure:
            self.decision = now
            self.link.running = self.tracker if now.reports else None
            self._least_lost = now.mode == "on" and snapshot.settings.preemption == "least_lost"

    def _status(self, running: int) -> EngineStatus:
        decision, queue = self.decision, self.queue
        return EngineStatus(
            decision.mode,
            decision.reason,
            decision.policy,
            len(queue),
            running,
            self.tracker.admitted,
            queue.reordered,
            self.failures,
        )


def _place_of(error: Exception) -> str:
    """Say what was raised where, for the sidecar: the text may hold a request's id."""
    name, trace = type(error).__name__, error.__traceback__
    if trace is not None:
        while trace.tb_next is not None:
            trace = trace.tb_next
        name = f"{name} at {os.path.basename(trace.tb_frame.f_code.co_filename)}:{trace.tb_lineno}"  # noqa: PTH119  a name, no file
    return name[:_MAX_REASON]
