"""Estimates that are learned while jobs complete, by production's own code at its own pace.

Owns the virtual reporter and publisher. The learner is `estimator.core.Pipeline`, an estimate
`sched_client.model.evaluate`, and who is estimated anew when decides
`sched_client.estimates.Estimates`, as inside vLLM.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any, Final

from estimator.core.observation import Completion, completion_of
from estimator.core.pipeline import CoreConfig, Pipeline
from estimator.core.running import MAX_REPORTED, Running, running_of
from estimator.replay.job import NS_PER_S
from estimator.replay.outcome import Outcome
from estimator.replay.queues import fit_due
from estimator.replay.request import Request
from estimator.runtime.delta import SnapshotDelta
from sched_client.estimates import Estimates, Remains
from sched_client.model import (
    DEFAULT_MODEL,
    GLOBAL_KEY,
    YOUNG_SAMPLES,
    PolicyParameters,
    Settings,
    Snapshot,
    policy_parameters,
)

__all__ = ["LearnedEstimates", "completion_from"]

# Defaults of the client's `Timing` and of the sidecar's configuration.
FLUSH_S: Final = 0.5
RUNNING_S: Final = 1.0
PUBLISH_S: Final = 0.2
# Virtual time 0 as a Unix time: the learner takes 0 as unknown.
EPOCH_S: Final = 1e6
_CLIENT: Final = "twin"
_TEACHING: Final = ("transcription", "text")


class LearnedEstimates:
    """What a sidecar would have told an engine by now.

    Parameters
    ----------
    settings : Settings, optional
        The operator's: guard and unit of work.
    config : CoreConfig, optional
        The learner's constants.
    warm : iterable of Completion
        Learned before the first arrival; cold by default.
    state : Mapping, optional
        What `Pipeline.state` gave, such as a seed: learning goes on from there (JSON, hence Any).
    queues : bool
        Find queues in what completes, for policies that have some; they move no estimate.
    flush_s : float
        Completions wait for others at most this long, ≥ 0; with 0 each is reported at once.
    running_s : float
        What runs is told this often, > 0; while it is of a young key, with each report.
    publish_s : float
        Least time between two snapshots, ≥ 0.
    slot_context_tokens : float
        Tokens of KV memory that come to a slot of the engine, as it says with its first report; 0
        where it does not know.

    Attributes
    ----------
    pipeline : Pipeline
        All that was learned.
    wake_ns : int or None
        As `Estimating`.

    Raises
    ------
    ValueError
        For times outside their limits, or a state that cannot be read.
    """

    def __init__(
        self,
        settings: Settings | None = None,
        *,
        config: CoreConfig | None = None,
        warm: Iterable[Completion] = (),
        state: Mapping[str, Any] | None = None,
        queues: bool = False,
        flush_s: float = FLUSH_S,
        running_s: float = RUNNING_S,
        publish_s: float = PUBLISH_S,
        slot_context_tokens: float = 0.0,
    ) -> None:
        for name, value, least in (
            ("flush_s", flush_s, 0.0),
            ("running_s", running_s, 1e-3),
            ("publish_s", publish_s, 0.0),
        ):
            if not least <= value <= 3600.0:  # noqa: PLR2004 - an hour: something else was meant
                raise ValueError(f"{name} is {value}, must be {least:g} to 3600 seconds")
        self.pipeline = Pipeline(config or CoreConfig(), state=state)
        self.wake_ns: int | None = None
        self._flush_ns = round(flush_s * NS_PER_S)
        self._running_ns = round(running_s * NS_PER_S)
        self._publish_ns = round(publish_s * NS_PER_S)
        self._reports: list[Completion] = []
        self._report_ns = self._next_running_ns = self._next_publish_ns = 0
        self._due = self._dirty = False
        self._model = DEFAULT_MODEL
        self._slot_context_tokens = slot_context_tokens
        self._count = 0
        for completion in _dated(warm):
            self.pipeline.learn_one(completion)
        pipeline = self.pipeline
        pipeline.take_changes()
        self._queues = queues
        if queues:
            fit_due(pipeline)
        self._estimates = Estimates(
            Snapshot(
                version=1,
                instance_id=_CLIENT,
                created_s=EPOCH_S,
                kappas=pipeline.kappas(),
                services=pipeline.services(),
                partitions=pipeline.partitions() if queues else {},
                settings=settings or Settings(),
            )
        )
        self.parameters: PolicyParameters = policy_parameters(self.snapshot, self._model)

    @property
    def snapshot(self) -> Snapshot:
        """What estimates are made of now."""
        return self._estimates.snapshot

    def first(self, request: Request) -> None:
        """Estimate a request that arrives."""
        features = request.job.features
        request.ordering = features
        if features.model != self._model:
            # An engine serves one model; its mean work scales the guard's burst.
            self._model = features.model
            self.parameters = policy_parameters(self.snapshot, self._model)
        self._estimates.first(request)

    def revised(self, request: Request) -> bool:
        """Estimate a request anew if the newest snapshot moves it by 5 %."""
        return self._estimates.revised(request)

    def remains(self, request: Request) -> Remains:
        """Estimate what is left of a request that was preempted."""
        return self._estimates.remains(request, request.produced)

    def finished(self, request: Request, outcome: Outcome) -> None:
        """Keep a completion for the next report."""
        self._count += 1
        self._reports.append(completion_from(outcome, self._count, request.estimated_version))
        # Who left while it waited tells little, and goes with the next that ran.
        if not self._due and outcome.admitted_ns is not None:
            # The reporter looks once in flush_s, whenever the last report was.
            flush_ns, at_ns = self._flush_ns, outcome.finished_ns
            self._report_ns = (at_ns // flush_ns + 1) * flush_ns if flush_ns else at_ns
            self._due = True
            self._set_wake()

    def wake(
        self,
        now_ns: int,
        *,
        waiting: Callable[[], Iterable[Request]],
        running: Callable[[], Iterable[tuple[Request, int]]],
        revise: Callable[[Request], object],
    ) -> None:
        """Report, learn, publish and estimate anew, whatever is due."""
        if self._due and self._report_ns <= now_ns:
            self._tell_running(now_ns, running)
            self.pipeline.note_slot_context(
                self._model, self._slot_context_tokens, EPOCH_S + now_ns / NS_PER_S
            )
            learn_one = self.pipeline.learn_one
            for completion in self._reports:
                learn_one(completion)
            self._reports.clear()
            if self._queues:
                fit_due(self.pipeline)
            self._due, self._dirty = False, True
        if self._dirty and self._next_publish_ns <= now_ns:
            self._dirty = False
            if self._publish(now_ns):
                # A step's share of real time does not count here: all at once.
                self._estimates.revise_some(_no_time, waiting, revise)
        self._set_wake()

    def _set_wake(self) -> None:
        due = []
        if self._due:
            due.append(self._report_ns)
        if self._dirty:
            due.append(self._next_publish_ns)
        self.wake_ns = min(due, default=None)

    def _tell_running(
        self, now_ns: int, running: Callable[[], Iterable[tuple[Request, int]]]
    ) -> None:
        """Tell what runs, as the client's reporter does with a report."""
        listed = [pair for pair in running() if pair[0].job.kind in _TEACHING]
        # An even part of many: which ones must not depend on how long they have run.
        listed = listed[:: -(-len(listed) // MAX_REPORTED) or 1]
        due = now_ns >= self._next_running_ns
        if due:
            self._next_running_ns = now_ns + self._running_ns
        elif not self._is_one_young(request for request, _ in listed):
            return
        told = (_running_from(request, tokens) for request, tokens in listed)
        self.pipeline.note_running(
            _CLIENT, [one for one in told if one is not None], EPOCH_S + now_ns / NS_PER_S
        )

    def _is_one_young(self, requests: Iterable[Request]) -> bool:
        kappas = self.snapshot.kappas
        for key in dict.fromkeys(request.key for request in requests):
            entry = kappas.get(key)
            if entry is None or entry.sample_count < YOUNG_SAMPLES:
                return True
        return False

    def _publish(self, now_ns: int) -> bool:
        changes = self.pipeline.take_changes()
        if not changes:
            return False
        old = self.snapshot
        delta = SnapshotDelta(
            base_version=old.version,
            version=old.version + 1,
            kappas=changes.kappas,
            removed=changes.removed - {GLOBAL_KEY} - set(changes.kappas),
            services=changes.services,
            partitions=changes.partitions if self._queues else {},
        )
        new = delta.applied_to(old, created_s=EPOCH_S + now_ns / NS_PER_S)
        self._estimates.adopt(new)
        self.parameters = policy_parameters(new, self._model)
        self._next_publish_ns = now_ns + self._publish_ns
        return True


def _no_time() -> float:
    return 0.0


def completion_from(outcome: Outcome, count: int, snapshot_version: int = 0) -> Completion:
    """Give what an engine reports of a job.

    Parameters
    ----------
    outcome : Outcome
        Of a job that ended, however it did.
    count : int
        Makes the completion's id.
    snapshot_version : int
        What made the estimate.

    Returns
    -------
    Completion
        With times as Unix times from `EPOCH_S` on.
    """
    job, end_ns, admitted_ns = outcome.job, outcome.finished_ns, outcome.admitted_ns
    begun_ns = end_ns if admitted_ns is None else admitted_ns
    return completion_of(
        f"{_CLIENT}-{count}",
        job.model,
        job.task,
        job.language,
        job.timestamps,
        job.kind,
        job.audio_s,
        "none" if job.audio_s is None else "hint",
        job.prompt_tokens,
        0,
        outcome.tokens,
        job.max_tokens,
        outcome.finish,
        EPOCH_S + end_ns / NS_PER_S,
        (begun_ns - job.arrival_ns) / NS_PER_S,
        (end_ns - begun_ns) / NS_PER_S,
        outcome.concurrency,
        outcome.preemptions,
        outcome.estimate_tokens,
        snapshot_version,
        str(job.index),
        job.group_id,
        job.request_type,
        "q0",
        _CLIENT,
        job.priority,
    )


def _running_from(request: Request, tokens: int) -> Running | None:
    job, admitted_ns = request.job, request.admitted_ns or 0
    return running_of(
        request.key,
        job.kind,
        audio_s=job.audio_s,
        prompt_tokens=job.prompt_tokens,
        tokens=tokens,
        request_hash=request.request_id,
        started_s=EPOCH_S + admitted_ns / NS_PER_S,
    )


def _dated(completions: Iterable[Completion]) -> Iterable[Completion]:
    """Let the past end where virtual time begins."""
    listed = list(completions)
    last_s = max((one.finished_s for one in listed), default=0.0)
    for index, one in enumerate(listed):
        ended_s = max(EPOCH_S - (last_s - one.finished_s), 0.0)
        yield replace(one, completion_id=f"warm-{index}", finished_s=ended_s)
