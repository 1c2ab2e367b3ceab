"""A preempted request waits with what is left of it."""

import pytest

from estimator.replay.estimates import DurationEstimates, Estimating, TrueEstimates
from estimator.replay.job import Job
from estimator.replay.learned import LearnedEstimates
from estimator.replay.outcome import Outcome
from estimator.replay.profile import EngineProfile
from estimator.replay.request import Request
from estimator.replay.simulation import simulate
from sched_client.model import KappaEntry, evaluate
from sched_client.policies import WaitingEntry
from sched_client.policies.create import create_policy
from sched_client.policies.guarded import GuardedPolicy
from sched_client.remaining import remaining_tokens

# Two of 40 + 40 tokens fit by their prompts, and not to their ends.
SHORT_OF_MEMORY = EngineProfile(
    name="short", slots=2, step_s=0.01, admission_s=0.05, kv_blocks=7, block_size=16
)
JOBS = [
    Job(index, 0, 40, audio_s=12.0, prompt_tokens=40, kind="transcription") for index in range(2)
]


def given_back(estimates: Estimating) -> tuple[list[WaitingEntry], list[Outcome]]:
    policy = create_policy("sjf", estimates.parameters)
    assert isinstance(policy, GuardedPolicy)
    seen: list[WaitingEntry] = []

    class Watched(GuardedPolicy):
        __slots__ = ()

        def give_back(self, entry: WaitingEntry) -> None:
            seen.append(entry)
            super().give_back(entry)

    policy.__class__ = Watched
    outcomes: list[Outcome] = []
    simulate(JOBS, SHORT_OF_MEMORY, policy, estimates, on_outcome=outcomes.append)
    return seen, outcomes


def produced_of(entry: WaitingEntry) -> float:
    return 40.0 - entry.tokens


def test_it_carries_what_is_left_and_its_context_is_computed_again() -> None:
    (entry,), outcomes = given_back(TrueEstimates(SHORT_OF_MEMORY))
    produced = round(produced_of(entry))
    assert 0 < produced < 40
    assert entry.service_s == SHORT_OF_MEMORY.service_s(40.0 - produced, 40 + produced, 2)
    # What it was expected to be as a whole is what its outcome is compared with.
    assert {outcome.estimate_tokens for outcome in outcomes} == {40.0}


def test_without_knowing_its_length_the_estimate_grows() -> None:
    (known,), _ = given_back(TrueEstimates(SHORT_OF_MEMORY))
    produced = round(produced_of(known))
    # Half a token a second: 6 of 40 were expected, and more than that have come.
    (entry,), _ = given_back(DurationEstimates(SHORT_OF_MEMORY, kappa_tokens_per_s=0.5))
    assert produced > 6
    assert 1.0 < entry.tokens < 6.0


def test_a_learner_is_asked_for_what_is_left() -> None:
    (known,), _ = given_back(TrueEstimates(SHORT_OF_MEMORY))
    produced = round(produced_of(known))
    estimates = LearnedEstimates()
    (entry,), outcomes = given_back(estimates)
    whole = evaluate(LearnedEstimates().snapshot, JOBS[0].features)
    assert entry.tokens == pytest.approx(remaining_tokens(whole, produced))
    assert {outcome.estimate_tokens for outcome in outcomes} == {whole.tokens}


def test_duration_estimates_spread_as_a_prior_does() -> None:
    estimates = DurationEstimates(SHORT_OF_MEMORY, kappa_tokens_per_s=2.0)
    request = Request(JOBS[0])
    estimates.first(request)
    request.produced = 30
    prior = KappaEntry(kappa_tokens_per_s=2.0)
    least = 24.0 * prior.ratio_p90 - 30.0
    assert estimates.remains(request).tokens > least > 0.0
