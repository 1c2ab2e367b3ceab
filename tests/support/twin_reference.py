"""The twin once more, one step at a time and as plainly as it can be said.

What `estimator.replay.simulation` must equal, outcome by outcome and call by call.
"""

import heapq
from collections.abc import Callable, Iterable, Iterator

from estimator.replay.estimates import Estimating
from estimator.replay.job import NS_PER_S, Job, check_job
from estimator.replay.outcome import Finish, Outcome, Totals
from estimator.replay.profile import EngineProfile
from estimator.replay.request import Request
from sched_client.policies import Policy, WaitingEntry

OnOutcome = Callable[[Outcome], object]
# The job, when, and how often it was preempted before: 0 is its first admission.
OnAdmission = Callable[[Job, int, int], object]


def simulate(
    jobs: Iterable[Job],
    profile: EngineProfile,
    policy: Policy,
    estimates: Estimating,
    *,
    on_outcome: OnOutcome,
    on_admission: OnAdmission | None = None,
) -> Totals:
    """Run jobs through an engine, as `estimator.replay.simulation.simulate`."""
    return _Run(jobs, profile, policy, estimates, on_outcome, on_admission).run()


def _ns(seconds: float) -> int:
    return round(seconds * NS_PER_S)


class _Run:
    def __init__(
        self,
        jobs: Iterable[Job],
        profile: EngineProfile,
        policy: Policy,
        estimates: Estimating,
        on_outcome: OnOutcome,
        on_admission: OnAdmission | None,
    ) -> None:
        self.profile, self.policy, self.estimates = profile, policy, estimates
        self.on_outcome, self.on_admission = on_outcome, on_admission
        self.jobs: Iterator[Job] = iter(jobs)
        self.next_job = next(self.jobs, None)
        self.last: tuple[int, int] = (-1, -1)
        self.now = 0
        self.waiting: dict[str, Request] = {}
        self.running: list[Request] = []
        self.held: dict[int, int] = {}
        self.free = profile.kv_blocks
        self.aborts: list[tuple[int, int, Request]] = []
        self.prefilling: set[int] = set()
        self.parameters = estimates.parameters
        self.integral = self.busy = self.steps = self.admissions = self.preempted = 0
        self.arrived = self.finished = self.aborted = self.output = self.most = 0
        self.first_arrival = self.last_end = 0

    def run(self) -> Totals:
        while True:
            self.events()
            cost = self.schedule()
            if cost is None:
                if self.running or self.waiting:
                    continue
                nxt = None if self.next_job is None else self.next_job.arrival_ns
                if nxt is None:
                    break
                wake = self.estimates.wake_ns
                self.now = max(self.now, nxt if wake is None else min(nxt, wake))
                continue
            self.now += cost
            self.steps += 1
            self.busy += cost
            self.integral += cost * len(self.running)
            self.end_step()
        return Totals(
            self.arrived, self.finished, self.aborted, self.output, self.preempted,
            self.admissions, self.steps, self.busy, self.integral, self.first_arrival,
            self.last_end, self.most,
        )  # fmt: skip

    def events(self) -> None:
        wake = self.estimates.wake_ns
        if wake is not None and wake <= self.now:
            self.arrivals_and_aborts(wake - 1)
            self.estimates.wake(
                self.now,
                waiting=lambda: list(self.waiting.values()),
                running=lambda: [(r, r.produced) for r in self.running],
                revise=self.revise,
            )
        self.arrivals_and_aborts(self.now)

    def arrivals_and_aborts(self, until: int) -> None:
        while self.next_job is not None and self.next_job.arrival_ns <= until:
            job = self.next_job
            self.abort_until(job.arrival_ns)
            self.arrive(job)
            self.next_job = next(self.jobs, None)
        self.abort_until(until)

    def arrive(self, job: Job) -> None:
        check_job(job)
        if (job.arrival_ns, job.index) <= self.last:
            raise ValueError(
                f"job {job.index} arrives at {job.arrival_ns} ns, not after job {self.last[1]} at "
                f"{self.last[0]} ns; sort the jobs by arrival_ns, then index"
            )
        self.last = (job.arrival_ns, job.index)
        if not self.arrived:
            self.first_arrival = job.arrival_ns
        self.arrived += 1
        request = Request(job)
        request.enqueued_s = self.now / NS_PER_S
        self.estimates.first(request)
        self.waiting[request.request_id] = request
        self.most = max(self.most, len(self.waiting))
        self.policy.load.arrived(len(self.policy), request.enqueued_s)
        self.policy.add(self.entry(request))
        if job.abort_ns is not None:
            heapq.heappush(self.aborts, (job.abort_ns, job.index, request))

    def blocks_of(self, tokens: int) -> int:
        return -(-tokens // self.profile.block_size) + self.profile.blocks_per_admission

    def entry(self, request: Request) -> WaitingEntry:
        job = request.job
        service_s, tokens, queue_id = request.service_s, request.tokens, request.queue_id
        if request.preemptions and request.produced:
            service_s, tokens, queue_id = self.estimates.remains(request)
        return WaitingEntry(
            request.request_id,
            request.enqueued_s,
            service_s,
            tokens,
            queue_id,
            job.group_id,
            job.priority,
        )

    def revise(self, request: Request) -> bool:
        if self.estimates.revised(request):
            self.policy.revise(self.entry(request))
            return True
        return False

    def abort_until(self, until: int) -> None:
        while self.aborts and self.aborts[0][0] <= until:
            at, _, request = heapq.heappop(self.aborts)
            if request.ended:
                continue
            if request.running:
                self.running.remove(request)
                self.release(request)
                self.end(request, self.now, "aborted")
            else:
                del self.waiting[request.request_id]
                self.policy.remove(request.request_id)
                self.end(request, at, "aborted")

    def release(self, request: Request) -> None:
        request.running = False
        self.prefilling.discard(request.job.index)
        if self.free is not None:
            self.free += self.held.pop(request.job.index)

    def end(self, request: Request, at: int, finish: Finish) -> None:
        job = request.job
        request.ended = True
        concurrency = 0.0
        if request.admitted_ns is not None and at > request.admitted_ns:
            resident = at - request.admitted_ns
            concurrency = (self.integral - request.admitted_integral) / resident
        outcome = Outcome(
            job, request.admitted_ns, request.first_token_ns, at, request.produced,
            request.preemptions, concurrency, request.tokens, request.service_s, finish,
        )  # fmt: skip
        if finish == "aborted":
            self.aborted += 1
        else:
            self.finished += 1
        self.output += request.produced
        self.last_end = max(self.last_end, at)
        self.estimates.finished(request, outcome)
        self.on_outcome(outcome)

    def allocate(self, request: Request, tokens: int) -> bool:
        if self.free is None:
            return True
        more = self.blocks_of(tokens) - self.held[request.job.index]
        if more > self.free:
            return False
        self.free -= more
        self.held[request.job.index] += more
        return True

    def schedule(self) -> int | None:
        profile = self.profile
        budget = profile.max_tokens_per_step
        left = 1 << 60 if budget is None else budget
        prefilled, preempted, scheduled = 0, False, 0
        index = 0
        while index < len(self.running):
            request = self.running[index]
            goal = request.prompt + request.produced
            new = min(goal - request.computed, left)
            while not self.allocate(request, request.computed + new):
                preempted = True
                victim = self.running.pop()
                self.release(victim)
                victim.preemptions += 1
                victim.computed = 0
                self.preempted += 1
                self.waiting[victim.request_id] = victim
                self.most = max(self.most, len(self.waiting))
                self.policy.give_back(self.entry(victim))
                if victim is request:
                    break
            if not request.running:
                break
            if request.job.index in self.prefilling:
                prefilled += new
            request.computed += new
            left -= new
            scheduled += 1
            index += 1
        admitted, revisions = 0, 8
        if self.estimates.parameters != self.parameters:
            self.parameters = self.estimates.parameters
            self.policy.update(self.parameters)
        if not preempted:
            limit = profile.max_admissions_per_step
            while (
                left > 0
                and self.waiting
                and len(self.running) < profile.slots
                and (limit is None or admitted < limit)
            ):
                head = self.policy.peek(self.now / NS_PER_S)
                if revisions and self.revise(self.waiting[head.request_id]):
                    revisions -= 1
                    continue
                computed = self.admit(left)
                if computed is None:
                    break
                prefilled += computed
                left -= computed
                admitted += 1
                scheduled += 1
        if not scheduled:
            return None
        context = sum(request.computed for request in self.running)
        return (
            _ns(profile.step_s)
            + _ns(profile.per_sequence_s) * len(self.running)
            + _ns(profile.admission_s) * admitted
            + _ns(profile.mixed_step_s) * (0 < admitted < len(self.running))
            + _ns(profile.per_prompt_token_s) * prefilled
            + _ns(profile.per_context_token_s) * context
        )

    def admit(self, left: int) -> int | None:
        now_s = self.now / NS_PER_S
        request = self.waiting[self.policy.peek(now_s).request_id]
        goal = request.prompt + request.produced
        if goal > left and request.job.audio_s is not None:
            return None
        if self.free is not None and self.blocks_of(goal) > self.free:
            return None
        self.policy.pop(now_s)
        del self.waiting[request.request_id]
        new = min(goal, left)
        self.held[request.job.index] = 0
        request.running = True
        self.prefilling.add(request.job.index)
        self.allocate(request, new)
        request.computed = new
        self.running.append(request)
        self.admissions += 1
        if self.on_admission is not None:
            self.on_admission(request.job, self.now, request.preemptions)
        if request.admitted_ns is None:
            request.admitted_ns = self.now
            request.admitted_integral = self.integral
        return new

    def end_step(self) -> None:
        for request in list(self.running):
            if request.computed < request.prompt + request.produced:
                continue
            self.prefilling.discard(request.job.index)
            request.produced += 1
            if request.first_token_ns is None:
                request.first_token_ns = self.now
            if request.produced == request.job.produced_tokens:
                self.running.remove(request)
                self.release(request)
                self.end(request, self.now, request.job.end)
