"""Replays jobs through an engine, a policy and estimates, in virtual time."""

from collections.abc import Callable, Iterable, Iterator
from heapq import heappop, heappush
from typing import Final

from estimator.replay.engine import Engine
from estimator.replay.estimates import Estimating
from estimator.replay.job import NS_PER_S, Job, check_job
from estimator.replay.outcome import Finish, Outcome, Totals
from estimator.replay.profile import EngineProfile
from estimator.replay.request import Request
from sched_client.policies import Policy, WaitingEntry

__all__ = ["OnAdmission", "OnOutcome", "simulate"]

OnOutcome = Callable[[Outcome], object]
# The job, when, and how often it was preempted before: 0 is its first admission.
OnAdmission = Callable[[Job, int, int], object]
_NEVER: Final = 1 << 62
# Fewer than one in so many new estimates are cheaper one by one than all in one go.
_FEW: Final = 16
# Times a step that a new estimate may send the head back, as in `sched_client.vllm.ordered`.
_HEAD_REVISIONS: Final = 8


def simulate(
    jobs: Iterable[Job],
    profile: EngineProfile,
    policy: Policy,
    estimates: Estimating,
    *,
    on_outcome: OnOutcome,
    on_admission: OnAdmission | None = None,
) -> Totals:
    """Run jobs through an engine.

    Parameters
    ----------
    jobs : iterable of Job
        In the order of arrival (by ``arrival_ns``, then ``index``); read only as far as time has
        come.
    profile : EngineProfile
        The engine.
    policy : Policy
        Empty, made with ``estimates.parameters``; decides the order of admission.
    estimates : Estimating
        What the policy orders by; fresh, as it learns.
    on_outcome : callable
        Takes an `Outcome` when a job ends.
    on_admission : callable, optional
        Takes the job, the time, and its preemptions so far, at each admission.

    Returns
    -------
    Totals

    Raises
    ------
    ValueError
        For a job that is invalid, out of order, or that the engine can never hold.

    Notes
    -----
    Order at one instant: the end of a step, with its finishes in order of admission; what the
    estimates do; aborts and arrivals, each by its own time (aborts first, arrivals by index);
    schedule. For the policy a job waits from the end of the step within which it came, as vLLM
    takes requests in between steps; in its outcome, from its arrival. Memory is needed for who
    waits or runs only.
    """
    return _Simulation(jobs, profile, policy, estimates, on_outcome, on_admission).run()


class _Simulation:
    def __init__(
        self,
        jobs: Iterable[Job],
        profile: EngineProfile,
        policy: Policy,
        estimates: Estimating,
        on_outcome: OnOutcome,
        on_admission: OnAdmission | None,
    ) -> None:
        self._profile = profile
        self._engine = Engine(profile)
        self._policy = policy
        self._estimates = estimates
        self._on_outcome = on_outcome
        self._on_admission = on_admission
        self._parameters = estimates.parameters
        self._jobs: Iterator[Job] = iter(jobs)
        self._next = next(self._jobs, None)
        self._last = (-1, -1)
        self._waiting: dict[str, Request] = {}
        # (time, index, request): jobs whose caller will leave, ended ones until they come up.
        self._aborts: list[tuple[int, int, Request]] = []
        self._arrived = self._finished = self._aborted = self._tokens = 0
        self._most_waiting = self._first_ns = self._last_ns = 0

    def run(self) -> Totals:
        engine, waiting, estimates = self._engine, self._waiting, self._estimates
        while True:
            now_ns = engine.now_ns
            wake_ns = estimates.wake_ns
            if wake_ns is not None and wake_ns <= now_ns:
                # What happened before is known by then, also where it was within a step.
                self._take_events(wake_ns - 1)
                self._wake(now_ns)
            self._take_events(now_ns)
            preempted = engine.begin_step()
            if preempted:
                for request in preempted:
                    self._waiting[request.request_id] = request
                    self._policy.give_back(self._entry_of(request))
                self._most_waiting = max(self._most_waiting, len(waiting))
            elif waiting:
                self._admit(now_ns)
            if engine.running:
                once = bool(waiting) and not engine.full
                finished = engine.advance(self._until_ns(), once=once)
                # Of many steps at once: what happened before the last of them comes first.
                self._take_events(engine.begun_ns)
                for request in finished:
                    self._finished += 1
                    self._end(request, engine.now_ns, request.job.end)
            elif not waiting:
                if self._next is None:
                    return self._totals()
                wake_ns = estimates.wake_ns
                arrival_ns = self._next.arrival_ns
                engine.now_ns = arrival_ns if wake_ns is None else min(arrival_ns, wake_ns)
            elif not preempted:
                raise RuntimeError(f"{len(waiting)} jobs wait for an idle engine at {now_ns} ns")

    def _until_ns(self) -> int:
        """Give the time by which the next step may not be like this one."""
        until_ns = _NEVER
        if self._next is not None and not self._engine.full:
            until_ns = self._next.arrival_ns
        if self._aborts and self._aborts[0][0] < until_ns:
            until_ns = self._aborts[0][0]
        wake_ns = self._estimates.wake_ns
        return until_ns if wake_ns is None or wake_ns > until_ns else wake_ns

    def _admit(self, now_ns: int) -> None:
        engine, policy, waiting = self._engine, self._policy, self._waiting
        now_s, revisions = now_ns / NS_PER_S, _HEAD_REVISIONS
        parameters = self._estimates.parameters
        if parameters is not self._parameters:
            self._parameters = parameters
            policy.update(parameters)
        while waiting and engine.open:
            request = waiting[policy.peek(now_s).request_id]
            if revisions and self._revise(request):
                revisions -= 1
                continue
            if not engine.admit(request):
                return
            policy.pop(now_s)
            del waiting[request.request_id]
            if self._on_admission is not None:
                self._on_admission(request.job, now_ns, request.preemptions)

    def _wake(self, now_ns: int) -> None:
        engine, waiting, policy = self._engine, self._waiting, self._policy
        changed: dict[str, WaitingEntry] = {}

        def revise(request: Request) -> bool:
            moved = self._estimates.revised(request)
            if moved:
                changed[request.request_id] = self._entry_of(request)
            return moved

        self._estimates.wake(
            now_ns,
            waiting=lambda: list(waiting.values()),
            running=lambda: [(one, engine.produced(one)) for one in engine.running.values()],
            revise=revise,
        )
        if len(changed) * _FEW < len(waiting):
            for entry in changed.values():
                policy.revise(entry)
        elif changed:
            policy.update(self._parameters, lambda entry: changed.get(entry.request_id, entry))

    def _revise(self, request: Request) -> bool:
        if not self._estimates.revised(request):
            return False
        self._policy.revise(self._entry_of(request))
        return True

    def _entry_of(self, request: Request) -> WaitingEntry:
        """Give the entry of a request as it is now: of a preempted one, with what is left."""
        entry = _entry_of(request)
        if not request.produced:
            return entry
        service_s, tokens, queue_id = self._estimates.remains(request)
        return entry._replace(service_s=service_s, tokens=tokens, queue_id=queue_id)

    def _take_events(self, until_ns: int) -> None:
        """Take arrivals and aborts up to a time, in their order."""
        job, waiting = self._next, self._waiting
        first, add, seen_ns = self._estimates.first, self._policy.add, self._engine.seen_ns
        load = self._policy.load
        while job is not None and job.arrival_ns <= until_ns:
            if self._aborts:
                self._take_aborts(job.arrival_ns)
            self._check(job)
            self._last = (job.arrival_ns, job.index)
            request = Request(job)
            request.enqueued_s = seen_ns(job.arrival_ns) / NS_PER_S
            first(request)
            load.arrived(len(waiting), request.enqueued_s)
            waiting[request.request_id] = request
            add(_entry_of(request))
            self._most_waiting = max(self._most_waiting, len(waiting))
            if job.abort_ns is not None:
                heappush(self._aborts, (job.abort_ns, job.index, request))
            self._next = job = next(self._jobs, None)
        if self._aborts:
            self._take_aborts(until_ns)

    def _check(self, job: Job) -> None:
        check_job(job)
        _check_fits(job, self._profile)
        if (job.arrival_ns, job.index) <= self._last:
            raise ValueError(
                f"job {job.index} arrives at {job.arrival_ns} ns, not after job {self._last[1]} "
                f"at {self._last[0]} ns; sort the jobs by arrival_ns, then index"
            )
        if not self._arrived:
            self._first_ns = job.arrival_ns
        self._arrived += 1

    def _take_aborts(self, until_ns: int) -> None:
        aborts, engine = self._aborts, self._engine
        while aborts and aborts[0][0] <= until_ns:
            at_ns, _, request = heappop(aborts)
            if request.ended:
                continue
            if request.running:
                # vLLM looks for aborts between steps.
                at_ns = engine.now_ns
                engine.abort(request)
            else:
                del self._waiting[request.request_id]
                self._policy.remove(request.request_id)
            self._aborted += 1
            self._end(request, at_ns, "aborted")

    def _end(self, request: Request, at_ns: int, finish: Finish) -> None:
        request.ended = True
        admitted_ns, concurrency = request.admitted_ns, 0.0
        if admitted_ns is not None and at_ns > admitted_ns:
            integral = self._engine.running_ns - request.admitted_integral
            concurrency = integral / (at_ns - admitted_ns)
        outcome = Outcome(
            request.job,
            admitted_ns,
            request.first_token_ns,
            at_ns,
            request.produced,
            request.preemptions,
            concurrency,
            request.tokens,
            request.service_s,
            finish,
        )
        self._tokens += request.produced
        self._last_ns = max(self._last_ns, at_ns)
        self._estimates.finished(request, outcome)
        self._on_outcome(outcome)

    def _totals(self) -> Totals:
        engine = self._engine
        return Totals(
            arrived=self._arrived,
            finished=self._finished,
            aborted=self._aborted,
            output_tokens=self._tokens,
            preemptions=engine.preemptions,
            admissions=engine.admissions,
            steps=engine.step,
            busy_ns=engine.busy_ns,
            running_ns=engine.running_ns,
            first_arrival_ns=self._first_ns,
            last_end_ns=self._last_ns,
            most_waiting=self._most_waiting,
        )


def _entry_of(request: Request) -> WaitingEntry:
    job = request.job
    return WaitingEntry(
        request.request_id,
        request.enqueued_s,
        request.service_s,
        request.tokens,
        request.queue_id,
        job.group_id,
        job.priority,
    )


def _check_fits(job: Job, profile: EngineProfile) -> None:
    """Refuse a job that the engine can never hold: it would wait, and all behind it, for ever."""
    prompt, blocks = job.prompt_tokens or 1, profile.kv_blocks
    # The most it ever computes at once: after a preemption, all but its last token.
    most = prompt if blocks is None else prompt + job.produced_tokens - 1
    if blocks is not None:
        needed = profile.blocks_per_admission - -most // profile.block_size
        if needed > blocks:
            raise ValueError(
                f"job {job.index} needs {needed} KV blocks for {prompt} prompt and "
                f"{job.produced_tokens} output tokens, profile {profile.name!r} has kv_blocks "
                f"{blocks}; leave the job out or raise kv_blocks"
            )
    budget = profile.max_tokens_per_step
    if budget is not None and most > budget and job.audio_s is not None:
        raise ValueError(
            f"job {job.index} may have to compute {most} tokens in one step, profile "
            f"{profile.name!r} has max_tokens_per_step {budget}, and audio is not computed in "
            "chunks; raise max_tokens_per_step"
        )
