"""Work as a request's larger share of the engine, for as long as it stays."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from estimator.core.partition.work import log_ratio, log_work
from sched_client.estimates import Estimates
from sched_client.model import (
    TEXT_TASK,
    Estimate,
    Features,
    KappaEntry,
    Key,
    Partition,
    ServiceTime,
    Snapshot,
    evaluate,
    prior_snapshot,
)
from sched_client.remaining import remaining_service_s
from sched_client.validity import invalid_reason
from sched_client.vllm.features import Reading
from sched_client.vllm.hints import NO_HINTS
from sched_client.vllm.record import Record
from tests.support.vllm_fakes import Request

LLAMA = ServiceTime(
    overhead_s=0.2,
    seconds_per_token=0.04,
    seconds_per_prompt_token=0.0001,
    slot_context_tokens=534.0,
)
_SERVICES = st.builds(
    ServiceTime,
    overhead_s=st.floats(0.0, 10.0),
    seconds_per_token=st.floats(1e-6, 1.0),
    seconds_per_prompt_token=st.floats(0.0, 0.1),
    slot_context_tokens=st.just(0.0) | st.floats(1.0, 1e5),
)
_PROMPTS, _TOKENS = st.integers(0, 200_000), st.floats(1.0, 5_000.0)


def snapshot_of(service: ServiceTime, **others: object) -> Snapshot:
    return replace(prior_snapshot(), version=1, services={"m": service}, **others)  # type: ignore[arg-type]  # names of Snapshot


def text(prompt: int, most: int = 4_096) -> Features:
    return Features("m", TEXT_TASK, "", None, "text", None, prompt, most, "none")


def test_a_context_counts_as_the_slots_whose_memory_it_holds() -> None:
    # 200 tokens after 967 of prompt hold 1,067 in the mean: two slots' part, and one token less.
    assert LLAMA.service_s(967, 200) == pytest.approx((0.2 + 0.0967 + 8.0) * 1067 / 534)
    assert LLAMA.residence_s(967, 200) == pytest.approx(0.2 + 0.0967 + 8.0)
    assert LLAMA.slots_held(967, 200) == pytest.approx(1067 / 534)
    assert (
        LLAMA.slots_held(0, 200) == replace(LLAMA, slot_context_tokens=0.0).slots_held(1, 1) == 1
    )
    assert LLAMA.service_s(434, 200) == LLAMA.residence_s(434, 200)
    unknown = replace(LLAMA, slot_context_tokens=0.0)
    assert unknown.service_s(100_000, 200) == LLAMA.residence_s(100_000, 200)


def test_of_two_that_stay_as_long_the_larger_context_is_more_work() -> None:
    answer = KappaEntry(kappa_tokens_per_s=0.0, intercept_tokens=100.0, sample_count=500)
    kappas = {**prior_snapshot().kappas, Key("m", TEXT_TASK): answer}
    service = replace(LLAMA, seconds_per_prompt_token=0.0)
    small, large = (evaluate(snapshot_of(service, kappas=kappas), text(n)) for n in (484, 4_756))
    assert small.tokens == large.tokens == 100.0
    assert large.service_s == pytest.approx(9.0 * small.service_s, rel=1e-3)


@given(_SERVICES, _PROMPTS, _TOKENS)
def test_work_is_the_residence_or_more_and_grows_with_prompt_and_output(
    service: ServiceTime, prompt: int, tokens: float
) -> None:
    work = service.service_s(prompt, tokens)
    assert math.isfinite(work)
    stays_s, slots = service.residence_s(prompt, tokens), service.slots_held(prompt, tokens)
    assert work >= stays_s
    assert work == 1e-4 or work == pytest.approx(stays_s * slots) or stays_s == 1e-4
    assert service.service_s(prompt + 1, tokens) >= work
    assert service.service_s(prompt, tokens + 1.0) > work or work == 1e-4


@given(
    st.floats(0.01, 30.0), st.integers(0, 224), st.floats(0.01, 5.0), st.floats(1e-4, 0.1),
    st.floats(0.0, 0.01), st.sampled_from(["transcription", "detection", "beam_step"]),
)  # fmt: skip
def test_whisper_is_estimated_to_the_bit_as_by_its_residence(
    audio_s: float, prompt: int, overhead_s: float, per_token_s: float, per_prompt_s: float,
    kind: str,
) -> None:  # fmt: skip
    """Its engines tell no capacity; and if one did, its context is below a slot's part."""
    service = ServiceTime(
        overhead_s=overhead_s, seconds_per_token=per_token_s, seconds_per_prompt_token=per_prompt_s
    )
    features = Features("m", "transcribe", "en", False, kind, audio_s, prompt)  # type: ignore[arg-type]  # three of its kinds
    found = evaluate(snapshot_of(service), features)
    # As it was before engines told anything, the operations in their order.
    seconds = overhead_s + per_prompt_s * prompt + per_token_s * found.tokens
    assert found.service_s == max(seconds, 1e-4)
    told = evaluate(snapshot_of(replace(service, slot_context_tokens=448.0)), features)
    assert told == found


@given(_SERVICES, _PROMPTS, st.integers(1, 2_000), st.floats(1.0, 2_000.0))
def test_what_is_left_is_the_work_of_a_request_with_so_much_to_compute(
    service: ServiceTime, prompt: int, produced: int, remaining: float
) -> None:
    left = remaining_service_s(
        service, prompt_tokens=prompt, produced_tokens=produced, remaining=remaining
    )
    assert left == service.service_s(prompt + produced, remaining)


_SEEN = st.just(0.0) | st.floats(1e-3, 90.0)


@given(_SERVICES, st.lists(st.tuples(_TOKENS, _PROMPTS, _SEEN), min_size=1, max_size=8))
def test_queues_are_found_in_the_work_that_requests_are_routed_by(
    service: ServiceTime, rows: list[tuple[float, int, float]]
) -> None:
    points = np.array(rows, dtype=float)
    works = [service.service_s(prompt, tokens) for tokens, prompt, _ in rows]
    assert np.exp(log_work(points, service)) == pytest.approx(works, rel=1e-9)
    seen = [
        math.log(seconds / service.residence_s(prompt, tokens)) if seconds > 0.0 else math.nan
        for tokens, prompt, seconds in rows
    ]
    assert log_ratio(points, service) == pytest.approx(seen, rel=1e-6, abs=1e-9, nan_ok=True)


def test_the_client_routes_what_is_left_by_its_work_too() -> None:
    queues = Partition(boundaries_s=(30.0,), queue_ids=("q1", "q2"))
    answer = KappaEntry(kappa_tokens_per_s=0.0, intercept_tokens=300.0, sample_count=500)
    kappas = {**prior_snapshot().kappas, Key("m", TEXT_TASK): answer}
    for slot, queue in ((0.0, "q1"), (534.0, "q2")):
        service = replace(LLAMA, slot_context_tokens=slot)
        snapshot = snapshot_of(service, kappas=kappas, partitions={"m": queues})
        estimates, record = Estimates(snapshot), Record(Request("r"), 0.0, 0)
        record.take(Reading(text(4_000), text(4_000), NO_HINTS))
        estimates.first(record)
        whole: Estimate = evaluate(snapshot, record.ordering)
        assert (record.service_s, record.queue_id) == (whole.service_s, queue)
        left = estimates.remains(record, 20)
        assert left.service_s == service.service_s(4_020, left.tokens)
        assert left.queue_id == queue


@pytest.mark.parametrize("value", [-1.0, 1e-310, math.nan, math.inf, 2e12])
def test_memory_that_no_engine_has_is_not_acted_on(value: float) -> None:
    reason = invalid_reason(snapshot_of(replace(LLAMA, slot_context_tokens=value)))
    assert reason is not None
    assert "services['m'].slot_context_tokens" in reason
    assert invalid_reason(snapshot_of(LLAMA)) is None
