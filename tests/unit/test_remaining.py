"""What is left of a request: a growing estimate, never nothing, never beyond the limit."""

import csv
import gzip
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sched_client.estimates import Estimates
from sched_client.model import (
    MIN_SERVICE_S,
    Estimate,
    Features,
    Partition,
    ServiceTime,
    Snapshot,
    evaluate,
    prior_snapshot,
)
from sched_client.remaining import (
    expected_total_tokens,
    remaining_service_s,
    remaining_tokens,
)

TRACES = Path(__file__).parents[2] / "benchmarks" / "traces"
_RATIO = st.floats(1.0, 8.0)


def estimate_of(tokens: float, p50: float, p90: float, p99: float) -> Estimate:
    return Estimate(tokens, p50, p90, p99, 1.0, "q0", "learned", 1)


@st.composite
def estimates(draw: st.DrawFn, limit: float = 448.0) -> Estimate:
    tokens = draw(st.floats(1.0, 500.0))
    p50 = tokens * draw(st.floats(0.1, 2.0))
    p90 = p50 * draw(_RATIO)
    p99 = p90 * draw(_RATIO)
    # As `evaluate` caps them, so that pieces of no width happen.
    capped = (min(max(one, 1.0), limit) for one in (tokens, p50, p90, p99))
    return estimate_of(*capped)


@given(estimates(), st.floats(0.0, 600.0))
def test_something_is_always_left_and_never_beyond_the_limit(
    estimate: Estimate, produced: float
) -> None:
    left = remaining_tokens(estimate, produced)
    assert left >= 1.0
    assert left <= max(448.0 - produced, 1.0)


@given(estimates())
def test_nothing_is_taken_off_a_request_that_produced_nothing(estimate: Estimate) -> None:
    assert remaining_tokens(estimate, 0) == estimate.tokens


@given(estimates(), st.floats(0.0, 450.0), st.floats(0.0, 50.0))
def test_the_expected_length_never_falls_with_what_was_produced(
    estimate: Estimate, produced: float, more: float
) -> None:
    before = expected_total_tokens(estimate, produced)
    after = expected_total_tokens(estimate, produced + more)
    assert after >= before * (1.0 - 1e-9)


@given(
    st.floats(1.05, 3.0),
    st.floats(1.05, 3.0),
    st.floats(0.7, 1.3),
    st.floats(1.0, 440.0),
)
def test_it_has_no_jumps_where_no_two_quantiles_meet(
    step: float, tail: float, p50: float, produced: float
) -> None:
    middle = 60.0 * p50
    estimate = estimate_of(60.0, middle, middle * step, middle * step * tail)
    near = remaining_tokens(estimate, produced + 1e-6)
    assert near == pytest.approx(remaining_tokens(estimate, produced), abs=1e-4)


@given(estimates(limit=1e6), st.floats(0.0, 400.0), st.sampled_from([0.25, 2.0, 16.0]))
def test_it_is_proportional_where_all_lengths_are(
    estimate: Estimate, produced: float, factor: float
) -> None:
    scaled = estimate_of(*(factor * one for one in estimate[:4]))
    once = expected_total_tokens(estimate, produced, 1 << 20)
    assert expected_total_tokens(scaled, factor * produced, round((1 << 20) * factor)) == (
        pytest.approx(factor * once, rel=1e-9)
    )


@given(estimates(limit=1e6), st.floats(1.0, 400.0), st.integers(401, 10_000), st.integers(0, 9000))
def test_a_higher_limit_never_leaves_less(
    estimate: Estimate, produced: float, limit: int, more: int
) -> None:
    low = remaining_tokens(estimate, produced, limit)
    assert remaining_tokens(estimate, produced, limit + more) >= low * (1.0 - 1e-9)


def test_an_exceeded_estimate_grows() -> None:
    estimate = estimate_of(100.0, 100.0, 150.0, 250.0)
    left = [remaining_tokens(estimate, produced, 100_000) for produced in (100, 150, 250, 500)]
    assert left == sorted(left)
    assert left[0] > 20.0


def test_a_power_law_is_integrated_exactly() -> None:
    # S = ½ (x / 100)^-2 throughout: the mean residual life of a Pareto law is k / (2 - 1).
    p90 = 100.0 * 5.0**0.5
    estimate = estimate_of(100.0, 100.0, p90, p90 * 10.0**0.5)
    for produced in (100.0, 130.0, p90, 500.0, 3000.0):
        left = remaining_tokens(estimate, produced, 10**9)
        assert left == pytest.approx(produced, rel=1e-5)


def test_a_power_law_of_one_is_its_logarithm() -> None:
    # S = ½ · 100 / x: ∫ from 200 to 800, over S(200), is 200 · ln 4.
    estimate = estimate_of(100.0, 100.0, 500.0, 5000.0)
    assert remaining_tokens(estimate, 200, 800) == pytest.approx(200.0 * np.log(4.0), rel=1e-9)


def test_quantiles_that_meet_count_as_ending_there() -> None:
    # Nine of ten of those beyond p90 = p99 end at it; S goes on from 0.01 at the slope before.
    meeting = remaining_tokens(estimate_of(100.0, 100.0, 200.0, 200.0), 150, 10**6)
    to_there = remaining_tokens(estimate_of(100.0, 100.0, 200.0, 200.0), 150, 200)
    power = np.log(5.0) / np.log(2.0)
    reach = 0.75**power * 0.1 * 200.0 / (power - 1.0)
    assert meeting == pytest.approx(to_there + reach, rel=1e-4)


@pytest.mark.parametrize(
    ("trace", "size", "limit"),
    [("librispeech-test-clean", "audio_s", 448), ("azure-llm-2023-code", "", 4096)],
)
def test_it_is_near_the_mean_of_those_that_got_so_far(trace: str, size: str, limit: int) -> None:
    with gzip.open(TRACES / f"{trace}.csv.gz", "rt") as file:
        rows = list(csv.DictReader(file))
    tokens = np.array([max(float(row["output_tokens"]), 1.0) for row in rows])
    expected = np.full(len(tokens), tokens.mean())
    if size:
        seconds = np.array([float(row[size]) for row in rows])
        slope, intercept = np.polyfit(seconds, tokens, 1)
        expected = np.maximum(intercept + slope * seconds, 1.0)
    ratios = np.quantile(tokens / expected, (0.5, 0.9, 0.99))
    for share, within in ((0.25, 0.15), (0.5, 0.15), (0.75, 0.2), (1.0, 0.25)):
        produced = np.floor(share * expected)
        alive = tokens > produced
        left = [
            remaining_tokens(
                estimate_of(mean, *(min(max(r * mean, 1.0), limit) for r in ratios)), k, limit
            )
            for mean, k in zip(expected[alive], produced[alive], strict=True)
        ]
        actual = float((tokens - produced)[alive].mean())
        assert float(np.mean(left)) == pytest.approx(actual, rel=within)


def test_a_preempted_request_computes_its_prompt_and_its_tokens_again() -> None:
    service = ServiceTime(overhead_s=0.05, seconds_per_token=0.01, seconds_per_prompt_token=0.002)
    seconds = remaining_service_s(service, prompt_tokens=100, produced_tokens=30, remaining=20.0)
    assert seconds == pytest.approx(0.05 + 0.002 * 130 + 0.01 * 20)
    free = ServiceTime(overhead_s=0.0, seconds_per_token=1e-9)
    assert (
        remaining_service_s(free, prompt_tokens=0, produced_tokens=0, remaining=1.0)
        == MIN_SERVICE_S
    )


class _Whole:
    """A record of a request as `Estimates` fills it in."""

    def __init__(self, features: Features) -> None:
        self.ordering = features
        self.key = features.key
        self.service_s = self.tokens = 0.0
        self.queue_id = ""
        self.estimated_version = 0
        self.checked_version = -1


def _snapshot() -> Snapshot:
    prior = prior_snapshot()
    queues = Partition(boundaries_s=(0.3,), queue_ids=("short", "long"))
    return Snapshot(
        version=1,
        instance_id="a",
        created_s=0.0,
        kappas=prior.kappas,
        services={"": ServiceTime(seconds_per_token=0.01, seconds_per_prompt_token=0.001)},
        partitions={"w": queues},
    )


def test_what_remains_is_estimated_from_the_newest_snapshot_and_the_whole_is_kept() -> None:
    estimates_ = Estimates(_snapshot())
    features = Features(model="w", task="transcribe", audio_s=20.0, prompt_tokens=4)
    record = _Whole(features)
    estimates_.first(record)
    assert (record.tokens, record.queue_id) == (64.0, "long")
    left = estimates_.remains(record, 50)
    assert left.tokens == remaining_tokens(evaluate(_snapshot(), features), 50)
    assert left.service_s == pytest.approx(0.05 + 0.001 * 54 + 0.01 * left.tokens)
    assert left.queue_id == _snapshot().partitions["w"].queue_of(left.service_s)
    assert (record.tokens, record.queue_id) == (64.0, "long")
    untouched = estimates_.remains(record, 0)
    assert (untouched.service_s, untouched.tokens) == (record.service_s, record.tokens)
