"""How much work a job is expected to be: learned as in production, by its duration, or known.

`LearnedEstimates` is the third kind (`estimator.replay.learned`); all are asked through
`Estimating`, so that a run does not know which it has.
"""

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Final, Protocol

from estimator.replay.job import Job
from estimator.replay.outcome import Outcome
from estimator.replay.profile import EngineProfile
from estimator.replay.queues import ArrivedWork
from estimator.replay.request import Request
from sched_client.estimates import Remains
from sched_client.model import (
    DEFAULT_KAPPA_TOKENS_PER_S,
    DEFAULT_MEAN_AUDIO_S,
    DEFAULT_TEXT_TOKENS,
    WHISPER_MAX_TOKENS,
    Estimate,
    KappaEntry,
    PolicyParameters,
    ServiceTime,
    Settings,
    parameters_of,
)
from sched_client.remaining import remaining_tokens

__all__ = ["DurationEstimates", "Estimating", "TrueEstimates"]

_PRIOR: Final = ServiceTime()
_PRIOR_KAPPA: Final = KappaEntry(kappa_tokens_per_s=DEFAULT_KAPPA_TOKENS_PER_S)


class Estimating(Protocol):
    """What a run asks for estimates, and tells of its completions."""

    @property
    def parameters(self) -> PolicyParameters:
        """What the policy works with from now on."""

    @property
    def wake_ns(self) -> int | None:
        """When `wake` wants to be called next, at the first end of a step from then on."""

    def first(self, request: Request) -> None:
        """Fill in the estimate of a request that arrives."""

    def revised(self, request: Request) -> bool:
        """Renew the estimate of a request that is about to go next; say whether it moved."""

    def remains(self, request: Request) -> Remains:
        """Estimate what is left of a request that was preempted and has produced something."""

    def finished(self, request: Request, outcome: Outcome) -> None:
        """Take a request that ended."""

    def wake(
        self,
        now_ns: int,
        *,
        waiting: Callable[[], Iterable[Request]],
        running: Callable[[], Iterable[tuple[Request, int]]],
        revise: Callable[[Request], object],
    ) -> None:
        """Do what is due.

        Parameters
        ----------
        now_ns : int
            The time.
        waiting : callable
            Lists who waits.
        running : callable
            Lists who runs, in order of admission, with their tokens so far.
        revise : callable
            Asks for `revised` and tells the queue.
        """


class FixedEstimates:
    """Estimates that nothing is learned for, and that never move.

    Parameters
    ----------
    profile : EngineProfile
        Turns tokens into seconds, at full slots: residence, whatever KV memory it holds.
    settings : Settings, optional
        The guard and the unit of work.
    mean_service_s, mean_tokens : float, optional
        Work of a mean request, which scales the guard's burst, > 0.
    queues : bool
        Find queues in the work of what arrives, for policies that have some.
    """

    wake_ns: int | None = None

    def __init__(
        self,
        profile: EngineProfile,
        settings: Settings | None = None,
        *,
        mean_service_s: float = _PRIOR.mean_service_s,
        mean_tokens: float = _PRIOR.mean_tokens,
        queues: bool = False,
    ) -> None:
        settings = settings or Settings()
        mean = mean_service_s if settings.order_by == "service" else mean_tokens
        self.parameters = parameters_of(settings, mean_work=mean)
        slots = profile.slots
        self._profile = profile
        self._slots = slots
        self._work = ArrivedWork() if queues else None

    def expected_tokens(self, job: Job) -> float:
        """Give the tokens that a job is expected to produce, ≥ 1; those that will come out."""
        return float(job.produced_tokens)

    def first(self, request: Request) -> None:
        """Fill in the estimate of a request that arrives."""
        job = request.job
        tokens = self.expected_tokens(job)
        request.tokens = tokens
        request.service_s = self._profile.service_s(tokens, job.prompt_tokens, self._slots)
        work = self._work
        if work is not None:
            if work.take(job.model, request.service_s):
                self.parameters = replace(self.parameters, partition=work.partition)
            request.queue_id = work.partition.queue_of(request.service_s)

    def revised(self, request: Request) -> bool:  # noqa: ARG002 - the protocol's; nothing moves
        """Say that no estimate moves."""
        return False

    def remains(self, request: Request) -> Remains:
        """Estimate what is left of a preempted request, whose context is computed again."""
        job, produced = request.job, request.produced
        tokens = self.remaining_tokens(job, produced)
        prompt_tokens = job.prompt_tokens + produced
        service_s = self._profile.service_s(tokens, prompt_tokens, self._slots)
        return Remains(service_s, tokens, self.parameters.partition.queue_of(service_s))

    def remaining_tokens(self, job: Job, produced: int) -> float:
        """Give the tokens that a job is expected to produce yet, ≥ 1."""
        return max(self.expected_tokens(job) - produced, 1.0)

    def finished(self, request: Request, outcome: Outcome) -> None:
        """Learn nothing."""

    def wake(
        self,
        now_ns: int,
        *,
        waiting: Callable[[], Iterable[Request]],
        running: Callable[[], Iterable[tuple[Request, int]]],
        revise: Callable[[Request], object],
    ) -> None:
        """Do nothing: nothing is ever due."""


class TrueEstimates(FixedEstimates):
    """The tokens that a job will produce if nobody leaves: what no scheduler can know."""


class DurationEstimates(FixedEstimates):
    """One κ for all, and no intercept: what can be said before anything is learned.

    Parameters
    ----------
    profile, settings, mean_service_s, mean_tokens, queues
        As `FixedEstimates`.
    kappa_tokens_per_s : float
        Output tokens per second of audio, > 0. Text counts as `DEFAULT_TEXT_TOKENS`.
    """

    def __init__(
        self,
        profile: EngineProfile,
        settings: Settings | None = None,
        *,
        mean_service_s: float = _PRIOR.mean_service_s,
        mean_tokens: float = _PRIOR.mean_tokens,
        queues: bool = False,
        kappa_tokens_per_s: float = DEFAULT_KAPPA_TOKENS_PER_S,
    ) -> None:
        super().__init__(
            profile,
            settings,
            mean_service_s=mean_service_s,
            mean_tokens=mean_tokens,
            queues=queues,
        )
        self._kappa = kappa_tokens_per_s

    def expected_tokens(self, job: Job) -> float:
        """Give κ · seconds of audio, at least one and at most what may come out."""
        if job.kind in ("detection", "beam_step"):
            return 1.0
        if job.kind == "text":
            tokens = DEFAULT_TEXT_TOKENS
        else:
            audio_s = DEFAULT_MEAN_AUDIO_S if job.audio_s is None else job.audio_s
            tokens = self._kappa * audio_s
        return min(max(tokens, 1.0), float(job.max_tokens or WHISPER_MAX_TOKENS))

    def remaining_tokens(self, job: Job, produced: int) -> float:
        """Give the tokens still expected, with the spread that a prior has."""
        tokens = self.expected_tokens(job)
        most = float(job.max_tokens or WHISPER_MAX_TOKENS)
        ratios = (_PRIOR_KAPPA.ratio_p50, _PRIOR_KAPPA.ratio_p90, _PRIOR_KAPPA.ratio_p99)
        p50, p90, p99 = (min(tokens * ratio, most) for ratio in ratios)
        estimate = Estimate(tokens, p50, p90, p99, 1.0, "", "prior", 0)
        return remaining_tokens(estimate, produced, job.max_tokens)
