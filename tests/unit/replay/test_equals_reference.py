"""Taking many steps at once is exactly taking them one by one."""

from collections.abc import Callable, Iterable
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from estimator.replay.estimates import Estimating, TrueEstimates
from estimator.replay.job import Job
from estimator.replay.outcome import Outcome, Totals
from estimator.replay.profile import EngineProfile
from estimator.replay.request import Request
from estimator.replay.simulation import simulate
from sched_client.model import Settings
from sched_client.policies import POLICY_NAMES, create_policy
from tests.support import twin_reference

Runner = Callable[..., Totals]


class Restless(TrueEstimates):
    """Estimates that move at times of their own, for all that wait and for the head alone."""

    def __init__(self, profile: EngineProfile, settings: Settings, every_ns: int) -> None:
        super().__init__(profile, settings)
        self.every_ns = every_ns
        self.wake_ns: int | None = every_ns
        self.version = 0
        self.seen: list[object] = []

    def first(self, request: Request) -> None:
        """Estimate by the version."""
        super().first(request)
        self._scale(request)

    def _scale(self, request: Request) -> None:
        request.checked_version = self.version
        factor = 1 + (request.job.index * 7 + self.version * 3) % 5
        request.service_s = 0.01 * factor * request.total

    def revised(self, request: Request) -> bool:
        """Estimate again, by another version."""
        if request.checked_version == self.version:
            return False
        self._scale(request)
        return request.job.index % 3 > 0

    def finished(self, request: Request, outcome: Outcome) -> None:  # noqa: ARG002
        """Remember it."""
        self.seen.append(outcome)

    def wake(
        self,
        now_ns: int,
        *,
        waiting: Callable[[], Iterable[Request]],
        running: Callable[[], Iterable[tuple[Request, int]]],
        revise: Callable[[Request], object],
    ) -> None:
        """Move every third version, else leave it to the heads."""
        self.version += 1
        self.seen.append([now_ns, *((one.request_id, tokens) for one, tokens in running())])
        if self.version % 3 == 0:
            for request in waiting():
                revise(request)
        if self.version % 5 == 0:
            self.parameters = type(self.parameters)(burst_work=0.1 * (self.version % 4))
        self.wake_ns = (now_ns // self.every_ns + 1) * self.every_ns


@st.composite
def profiles(draw: st.DrawFn) -> EngineProfile:
    slots = draw(st.integers(1, 6))
    blocks = draw(st.none() | st.integers(14, 40))
    return EngineProfile(
        name="drawn",
        slots=slots,
        step_s=draw(st.integers(1, 12)) * 1e-9,
        per_sequence_s=draw(st.integers(0, 3)) * 1e-9,
        admission_s=draw(st.integers(0, 30)) * 1e-9,
        mixed_step_s=draw(st.integers(0, 9)) * 1e-9,
        per_prompt_token_s=draw(st.integers(0, 2)) * 1e-9,
        per_context_token_s=draw(st.integers(0, 2)) * 1e-9,
        max_admissions_per_step=draw(st.none() | st.integers(1, 2)),
        max_tokens_per_step=draw(st.none() | st.integers(slots, slots + 8)),
        kv_blocks=blocks,
        block_size=draw(st.integers(2, 5)),
        blocks_per_admission=draw(st.integers(0, 2)),
    )


@st.composite
def workloads(draw: st.DrawFn, profile: EngineProfile) -> list[Job]:
    # Audio is not computed in chunks: what a preemption may leave to do must fit in a step.
    most = min(12, profile.max_tokens_per_step or 12)
    gap = st.sampled_from((0, 0, 1, 5, 10, 20, 60, 400))
    jobs, now = [], 0
    for index in range(draw(st.integers(1, 25))):
        now += draw(gap)
        audio = draw(st.booleans())
        most_out = most if audio else 12
        jobs.append(
            Job(
                index,
                now,
                draw(st.integers(1, most_out)),
                1.0 if audio else None,
                draw(st.integers(0, 1 if audio else 12)),
                task="transcribe" if audio else "text",
                max_tokens=draw(st.none() | st.integers(1, 12)),
                priority=draw(st.sampled_from((0, 0, 0, 1))),
                abort_ns=draw(st.none() | st.integers(now + 1, now + 300)),
            )
        )
    return jobs


def _trail(run: Runner, jobs: list[Job], profile: EngineProfile, name: str, es: Estimating) -> Any:
    trail: list[object] = []
    totals = run(
        jobs,
        profile,
        create_policy(name, es.parameters),
        es,
        on_outcome=trail.append,
        on_admission=lambda job, at_ns, again: trail.append((job.index, at_ns, again)),
    )
    return trail, totals


@settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    case=profiles().flatmap(lambda profile: st.tuples(st.just(profile), workloads(profile))),
    name=st.sampled_from(POLICY_NAMES),
    every_ns=st.none() | st.integers(1, 200),
    guard=st.sampled_from(((12.0, None), (0.0, None), (1.0, 1e-7))),
)
def test_many_steps_at_once_equal_single_steps(
    case: tuple[EngineProfile, list[Job]],
    name: str,
    every_ns: int | None,
    guard: tuple[float, float | None],
) -> None:
    profile, jobs = case
    operator = Settings(burst_requests=guard[0], guard_s=guard[1])

    def estimates() -> Any:
        if every_ns is None:
            return TrueEstimates(profile, operator)
        return Restless(profile, operator, every_ns)

    fast, plain = estimates(), estimates()
    expected = _trail(twin_reference.simulate, jobs, profile, name, plain)
    assert _trail(simulate, jobs, profile, name, fast) == expected
    assert getattr(fast, "seen", None) == getattr(plain, "seen", None)
