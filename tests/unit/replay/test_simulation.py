"""Single runs by hand: times in nanoseconds, one rule each."""

from collections.abc import Iterator
from typing import Any

import pytest

from estimator.replay.estimates import TrueEstimates
from estimator.replay.job import NS_PER_S, Job
from estimator.replay.outcome import Outcome, Totals
from estimator.replay.profile import EngineProfile
from estimator.replay.simulation import simulate
from sched_client.policies import create_policy
from tests.support.twin import UNGUARDED


def _ns(**changes: Any) -> EngineProfile:
    """Make an engine whose costs are told in nanoseconds."""
    values: dict[str, Any] = {"name": "hand", "slots": 4, "step_s": 10}
    values |= changes
    for name in values:
        if name.endswith("_s"):
            values[name] *= 1e-9
    return EngineProfile(**values)


def _run(
    profile: EngineProfile, *jobs: Job, policy: str = "fcfs"
) -> tuple[dict[int, Outcome], list[tuple[int, int, int]], Totals]:
    outcomes: dict[int, Outcome] = {}
    admissions: list[tuple[int, int, int]] = []
    estimates = TrueEstimates(profile, UNGUARDED)
    totals = simulate(
        jobs,
        profile,
        create_policy(policy, estimates.parameters),
        estimates,
        on_outcome=lambda outcome: outcomes.update({outcome.job.index: outcome}),
        on_admission=lambda job, at_ns, again: admissions.append((job.index, at_ns, again)),
    )
    assert totals.arrived == totals.finished + totals.aborted == len(outcomes)
    return outcomes, admissions, totals


def _text(index: int, arrival_ns: int, tokens: int, prompt: int = 1, **others: Any) -> Job:
    return Job(index, arrival_ns, tokens, None, prompt, task="text", kind="text", **others)


def test_a_request_takes_its_prefill_and_a_step_for_each_further_token() -> None:
    outcomes, _, totals = _run(
        _ns(admission_s=100, per_prompt_token_s=3, per_sequence_s=1), _text(0, 7, 4, prompt=5)
    )
    first = 7 + (10 + 1 + 100 + 5 * 3)
    assert outcomes[0][1:] == (7, first, first + 3 * 11, 4, 0, 1.0, 4.0, outcomes[0][8], "stop")
    assert (totals.steps, totals.busy_ns, totals.running_ns) == (4, 126 + 33, 126 + 33)
    assert (totals.first_arrival_ns, totals.last_end_ns) == (7, first + 33)


def test_each_token_of_the_context_is_read_in_every_step() -> None:
    outcomes, _, _ = _run(_ns(per_context_token_s=2), _text(0, 0, 3, prompt=5))
    # Contexts of 5, 6 and 7 tokens once each step's own token is in.
    assert outcomes[0].finished_ns == 3 * 10 + 2 * (5 + 6 + 7)


def test_an_admission_holds_up_all_that_run() -> None:
    outcomes, _, _ = _run(_ns(admission_s=100), _text(0, 0, 3), _text(1, 105, 1))
    # 0 to 110; then both, 1 with its admission; 0 ends a step later.
    assert (outcomes[1].admitted_ns, outcomes[1].finished_ns) == (110, 220)
    assert outcomes[0].finished_ns == 230
    assert outcomes[0].concurrency == (110 + 2 * 110 + 10) / 230
    assert outcomes[1].concurrency == 2.0


def test_a_step_that_admits_beside_running_ones_costs_its_share_once() -> None:
    jobs = (_text(0, 0, 3), _text(1, 105, 1), _text(2, 106, 1))
    outcomes, _, _ = _run(_ns(admission_s=100, mixed_step_s=7), *jobs)
    # 0 alone: 110. Two join in one step of 10 + 2 * 100 + 7. The last step decodes alone.
    assert [outcomes[i].finished_ns for i in range(3)] == [337, 327, 327]


def test_a_slot_that_ends_with_a_step_is_filled_in_the_next() -> None:
    outcomes, admissions, _ = _run(_ns(slots=1), _text(0, 0, 2), _text(1, 0, 1), _text(2, 0, 1))
    assert admissions == [(0, 0, 0), (1, 20, 0), (2, 30, 0)]
    assert [outcomes[i].finished_ns for i in range(3)] == [20, 30, 40]


def test_at_most_so_many_are_admitted_in_a_step() -> None:
    _, admissions, _ = _run(
        _ns(max_admissions_per_step=1), *(_text(index, 0, 5) for index in range(3))
    )
    assert [at_ns for _, at_ns, _ in admissions] == [0, 10, 20]


def test_a_long_prompt_is_computed_in_chunks_beside_those_that_decode() -> None:
    outcomes, _, totals = _run(
        _ns(max_tokens_per_step=8, per_prompt_token_s=1),
        _text(0, 0, 3),
        _text(1, 0, 2, prompt=15),
    )
    # 1 + 7 prompt tokens, then 7 beside one that decodes, then the last one.
    assert outcomes[0].finished_ns == 18 + 17 + 11
    assert outcomes[1].first_token_ns == 46
    assert outcomes[1].finished_ns == 56
    assert totals.steps == 4


def test_audio_is_not_computed_in_chunks_and_those_behind_wait_with_it() -> None:
    profile = _ns(max_tokens_per_step=4)
    _, admissions, _ = _run(profile, _text(0, 0, 2), Job(1, 0, 1, 1.0, 4), Job(2, 0, 1, 1.0, 1))
    # In the second step one token of four is taken by the first; it leaves room in the third.
    assert admissions == [(0, 0, 0), (1, 20, 0), (2, 30, 0)]


def test_the_last_admitted_gives_way_when_blocks_run_out() -> None:
    # Two blocks of 4: 0 takes its second for its fifth token, in its fifth step.
    profile = _ns(kv_blocks=2, block_size=4, per_prompt_token_s=1)
    outcomes, admissions, totals = _run(profile, _text(0, 0, 6), _text(1, 0, 3), _text(2, 15, 1))
    assert admissions == [(0, 0, 0), (1, 0, 0), (2, 32, 0)]
    assert totals.preemptions == 0
    # Now with one of them longer: at 0's fifth token 1 holds the other block, and loses it.
    outcomes, admissions, totals = _run(profile, _text(0, 0, 6), _text(1, 0, 8))
    assert totals.preemptions == outcomes[1].preemptions == 1
    # Steps of 12, 10, 10, 10, then 0 alone for 10 and 10; then 1 computes 1 + 4 tokens anew.
    assert outcomes[0].finished_ns == 62
    assert admissions == [(0, 0, 0), (1, 0, 0), (1, 62, 1)]
    assert outcomes[1].first_token_ns == 12
    assert outcomes[1].admitted_ns == 0
    assert outcomes[1].finished_ns == 62 + 15 + 3 * 10
    assert outcomes[1].tokens == 8


def test_nobody_is_admitted_past_one_that_does_not_fit() -> None:
    profile = _ns(kv_blocks=3, block_size=4)
    _, admissions, _ = _run(
        profile, _text(0, 0, 4, prompt=5), _text(1, 0, 1, prompt=8), _text(2, 0, 1)
    )
    assert admissions == [(0, 0, 0), (1, 40, 0), (2, 40, 0)]


def test_blocks_besides_the_tokens_are_held_too() -> None:
    profile = _ns(kv_blocks=2 * 95, blocks_per_admission=94)
    _, admissions, _ = _run(profile, *(Job(index, 0, 3, 1.0, 4) for index in range(3)))
    assert [at_ns for _, at_ns, _ in admissions] == [0, 0, 30]


def test_who_leaves_while_waiting_never_ran() -> None:
    outcomes, _, totals = _run(_ns(slots=1), _text(0, 0, 9), _text(1, 1, 5, abort_ns=33))
    assert outcomes[1][1:7] == (None, None, 33, 0, 0, 0.0)
    assert outcomes[1].finish == "aborted"
    assert totals.aborted == 1


def test_who_leaves_while_running_keeps_the_slot_to_the_end_of_the_step() -> None:
    outcomes, admissions, totals = _run(_ns(slots=1), _text(0, 0, 9, abort_ns=33), _text(1, 0, 1))
    assert (outcomes[0].finished_ns, outcomes[0].tokens) == (40, 4)
    assert outcomes[0].finish == "aborted"
    assert admissions[1] == (1, 40, 0)
    assert totals.output_tokens == 5


def test_who_leaves_with_the_step_that_ends_it_has_ended() -> None:
    outcomes, _, _ = _run(_ns(), _text(0, 0, 3, abort_ns=30))
    assert (outcomes[0].finish, outcomes[0].tokens) == ("stop", 3)


def test_a_limit_cuts_and_says_so() -> None:
    outcomes, _, _ = _run(_ns(), _text(0, 0, 9, max_tokens=2))
    assert (outcomes[0].finish, outcomes[0].tokens, outcomes[0].finished_ns) == ("length", 2, 20)


def test_an_idle_engine_waits_for_the_next_arrival() -> None:
    outcomes, _, totals = _run(_ns(), _text(0, 5, 1), _text(1, 1000, 1))
    assert outcomes[1].finished_ns == 1010
    assert totals.busy_ns == 20


def test_an_arrival_with_the_end_of_a_step_is_in_time_for_the_next() -> None:
    _, admissions, _ = _run(_ns(), _text(0, 0, 5), _text(1, 10, 1), _text(2, 11, 1))
    assert admissions[1:] == [(1, 10, 0), (2, 20, 0)]


def test_ends_of_one_step_come_in_order_of_admission() -> None:
    order: list[int] = []
    profile = _ns(max_admissions_per_step=1)
    estimates = TrueEstimates(profile)
    simulate(
        [_text(0, 0, 4), _text(1, 0, 3), _text(2, 0, 2)],
        profile,
        create_policy("fcfs", estimates.parameters),
        estimates,
        on_outcome=lambda outcome: order.append(outcome.job.index),
    )
    assert order == [0, 1, 2]


def test_the_shortest_goes_first_under_sjf_and_the_oldest_under_fcfs() -> None:
    jobs = [_text(0, 0, 9), _text(1, 1, 8), _text(2, 2, 1), _text(3, 3, 4)]
    profile = _ns(slots=1)
    orders = {
        name: [index for index, _, _ in _run(profile, *jobs, policy=name)[1]]
        for name in ("fcfs", "sjf")
    }
    assert orders == {"fcfs": [0, 1, 2, 3], "sjf": [0, 2, 3, 1]}


def test_no_jobs_at_all() -> None:
    _, _, totals = _run(_ns())
    assert totals == Totals(0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0)


def test_jobs_are_read_only_as_far_as_time_has_come() -> None:
    read: list[int] = []
    ahead: list[int] = []

    def endless() -> Iterator[Job]:
        for index in range(200):
            read.append(index)
            yield _text(index, index * 100, 3)

    profile = _ns()
    estimates = TrueEstimates(profile)
    simulate(
        endless(),
        profile,
        create_policy("fcfs", estimates.parameters),
        estimates,
        on_outcome=lambda outcome: ahead.append(read[-1] - outcome.job.index),
    )
    assert max(ahead) == 1


@pytest.mark.parametrize(
    ("profile", "jobs", "message"),
    [
        (_ns(), [_text(0, 9, 1), _text(1, 8, 1)], "job 1 arrives at 8 ns, not after job 0 at 9"),
        (_ns(), [_text(1, 9, 1), _text(0, 9, 1)], "sort the jobs by arrival_ns, then index"),
        (_ns(), [_text(0, 0, 0)], "job 0: output_tokens is 0"),
        (
            _ns(kv_blocks=2, block_size=4),
            [_text(0, 0, 5, prompt=5)],
            "job 0 needs 3 KV blocks for 5 prompt and 5 output.*; leave the job out or raise kv_b",
        ),
        (
            _ns(max_tokens_per_step=4),
            [Job(0, 0, 9, 1.0, 5)],
            "job 0 may have to compute 5 tokens in one step.* raise max_tokens_per_step",
        ),
        (
            _ns(max_tokens_per_step=8, kv_blocks=9),
            [Job(0, 0, 9, 1.0, 1)],
            "job 0 may have to compute 9 tokens in one step",
        ),
    ],
)
def test_what_cannot_be_run_is_refused(
    profile: EngineProfile, jobs: list[Job], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        _run(profile, *jobs)


def test_ten_days_in_nanoseconds_stay_exact() -> None:
    far = 10 * 86_400 * NS_PER_S + 1
    outcomes, _, _ = _run(_ns(), _text(0, far, 7))
    assert outcomes[0].finished_ns == far + 70
