import json
import math
import random
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from estimator.core.config import CoreConfig
from estimator.core.observation import Completion
from estimator.core.residence import ServiceFit
from estimator.core.service_time import ServiceTable
from sched_client.model import GLOBAL_KEY, KappaEntry, Snapshot
from sched_client.validity import invalid_reason
from tests.support.completions import completion_of

OVERHEAD_S = 0.3
PER_TOKEN_S = 0.02
PER_LOAD = 0.15


def served(
    n: int,
    *,
    low: float = 1.0,
    high: float = 8.0,
    seed: int = 0,
    slower: float = 1.0,
    **fields: Any,
) -> Iterator[Completion]:
    """Yield completions whose seconds grow with tokens and load (Any: other fields)."""
    rng = random.Random(seed)
    for i in range(n):
        audio_s, k = rng.uniform(1.0, 29.0), rng.uniform(low, high)
        tokens = round(3 + 3.1 * audio_s)
        seconds = slower * (OVERHEAD_S + PER_TOKEN_S * tokens) * (1.0 + PER_LOAD * (k - 1.0))
        seconds *= rng.lognormvariate(0.0, 0.05)
        values = {"service_s": seconds, "concurrency": k, "prompt_tokens": 4, **fields}
        yield completion_of(i, audio_s, tokens, **values)


def table_of(completions: Iterator[Completion]) -> ServiceTable:
    table = ServiceTable(CoreConfig())
    for completion in completions:
        table.learn(completion)
    return table


def test_the_fit_holds_at_the_reference_concurrency() -> None:
    entry = table_of(served(3_000)).entries()["default"]
    factor = 1.0 + PER_LOAD * (entry.reference_concurrency - 1.0)
    assert entry.reference_concurrency == pytest.approx(4.5, rel=0.1)
    assert entry.seconds_per_token == pytest.approx(PER_TOKEN_S * factor, rel=0.05)
    assert entry.overhead_s == pytest.approx(OVERHEAD_S * factor, rel=0.15)


def test_load_does_not_look_like_slower_hardware() -> None:
    table = ServiceTable(CoreConfig())
    for completion in served(2_000, low=1.0, high=8.0):
        table.learn(completion)
    before = table.entries()["default"]
    for completion in served(300, low=6.0, high=8.0, seed=1):
        table.learn(completion)
    after = table.entries()["default"]
    ratio = (before.reference_concurrency - 1.0) * PER_LOAD + 1.0
    at_old_reference = (after.reference_concurrency - 1.0) * PER_LOAD + 1.0
    assert after.seconds_per_token / at_old_reference == pytest.approx(
        before.seconds_per_token / ratio, rel=0.05
    )


def test_slower_hardware_is_followed() -> None:
    table = table_of(served(2_000))
    for completion in served(1_000, slower=2.0, seed=1):
        table.learn(completion)
    entry = table.entries()["default"]
    factor = 2.0 * (1.0 + PER_LOAD * (entry.reference_concurrency - 1.0))
    assert entry.seconds_per_token == pytest.approx(PER_TOKEN_S * factor, rel=0.1)


def test_hardware_a_hundred_times_slower_than_the_prior_is_learned_within_forty() -> None:
    entry = table_of(served(40, slower=100.0, high=1.5)).entries()["default"]
    assert entry.seconds_per_token == pytest.approx(100.0 * PER_TOKEN_S, rel=0.2)


def test_means_follow_what_requests_are_like() -> None:
    entry = table_of(served(2_000)).entries()["default"]
    assert entry.mean_audio_s == pytest.approx(15.0, rel=0.1)
    assert entry.mean_tokens == pytest.approx(49.5, rel=0.1)
    expected = entry.overhead_s + entry.seconds_per_token * entry.mean_tokens
    assert entry.mean_service_s == pytest.approx(expected, rel=0.01)


def test_frozen_engines_do_not_move_the_fit() -> None:
    clean, frozen = ServiceTable(CoreConfig()), ServiceTable(CoreConfig())
    for i, completion in enumerate(served(2_000)):
        clean.learn(completion)
        stuck = completion_of(
            i, completion.audio_s, completion.output_tokens, service_s=60.0, concurrency=3.0,
            prompt_tokens=4,
        )  # fmt: skip
        frozen.learn(stuck if i % 25 == 24 else completion)
    expected = clean.entries()["default"].mean_service_s
    assert frozen.entries()["default"].mean_service_s == pytest.approx(expected, rel=0.03)


@pytest.mark.parametrize(
    "fields",
    [
        {"service_s": 0.0},
        {"concurrency": 0.0},
        {"preemptions": 1},
        {"finish_reason": "aborted"},
        {"finish_reason": "error"},
        {"kind": "beam_step"},
        {"kind": "session"},
    ],
)
def test_what_says_nothing_clean_of_seconds_is_not_fitted(fields: dict[str, Any]) -> None:
    table = table_of(served(50, **fields))
    assert all(entry.sample_count == 0 for entry in table.entries().values())


def test_a_detection_teaches_seconds_but_not_what_requests_are_like() -> None:
    table = ServiceTable(CoreConfig())
    for i in range(40):
        table.learn(
            completion_of(
                i, 5.0, 1, kind="detection", service_s=0.5, concurrency=1.0, prompt_tokens=1,
                finish_reason="length",
            )
        )  # fmt: skip
    entry = table.entries()["default"]
    assert entry.overhead_s + entry.seconds_per_token == pytest.approx(0.5, rel=0.05)
    assert entry.mean_tokens == 25.0


def test_a_new_model_starts_from_the_fallback() -> None:
    table = table_of(served(1_000, model="old"))
    for completion in served(1, model="new"):
        table.learn(completion)
    entries = table.entries()
    assert entries["new"].seconds_per_token == pytest.approx(
        entries[""].seconds_per_token, rel=0.2
    )


def test_models_are_bounded_and_the_least_recently_used_goes() -> None:
    table = ServiceTable(CoreConfig(max_models=3))
    for name in ("a", "b", "c", "a", "d"):
        for completion in served(1, model=name):
            table.learn(completion)
    assert set(table.entries()) == {"", "a", "c", "d"}


def test_the_reference_stays_where_the_first_completions_were() -> None:
    table = table_of(served(200, low=2.0, high=4.0))
    reference = table.entries()["default"].reference_concurrency
    assert reference == pytest.approx(3.0, rel=0.05)
    for completion in served(2_000, low=12.0, high=16.0, seed=1):
        table.learn(completion)
    assert table.entries()["default"].reference_concurrency == reference


def test_a_busy_spell_is_not_forgotten_at_night_nor_the_night_by_day() -> None:
    table = table_of(served(600, low=1.0, high=1.3))
    night = table.entries()["default"]
    for completion in served(20_000, low=14.0, high=16.0, seed=1):
        table.learn(completion)
    day = table.entries()["default"]
    for name in ("overhead_s", "seconds_per_token"):
        assert getattr(day, name) == pytest.approx(getattr(night, name), rel=0.01)


def fit_of(ends: list[float]) -> ServiceFit:
    fit = ServiceFit(None, CoreConfig())
    for finished_s in ends:
        fit.admitted(20.0, 16.0, finished_s, 1.0)
    return fit


def test_ends_are_counted_where_all_slots_are_taken_and_turnovers_elsewhere() -> None:
    fit = fit_of([0.1 * i for i in range(100)])
    # Ten others ended in the last second; the one that ended just then is the eleventh.
    assert fit.admitted(20.0, 16.0, 9.95, 1.0) == 10.0
    mean = fit.mean_tokens_
    assert fit.admitted(20.0, 4.0, 10.0, 1.0) == pytest.approx(20.0 * 4.0 / mean, rel=0.25)


def test_ends_are_bounded_and_a_clock_that_goes_back_is_forgotten() -> None:
    fit = fit_of([float(i) for i in range(1_000)])
    assert fit.admitted(200.0, 16.0, 1_000.0, 1e6) == 256.0
    assert fit.admitted(200.0, 16.0, 5.0, 1.0) == 0.0
    assert fit.admitted(200.0, 16.0, 5.5, 1.0) == 1.0


def test_only_what_moved_is_a_change() -> None:
    table = table_of(served(2_000))
    assert set(table.take_changes()) == {"", "default"}
    assert table.take_changes() == {}
    for completion in served(500, slower=2.0, seed=2):
        table.learn(completion)
    assert "default" in table.take_changes()


def test_state_round_trip_continues_alike() -> None:
    live = table_of(served(333))
    restored = ServiceTable(CoreConfig())
    restored.restore(json.loads(json.dumps(live.state())))
    for completion in served(200, seed=5):
        live.learn(completion)
        restored.learn(completion)
    assert restored.state() == live.state()


def test_a_damaged_state_is_refused() -> None:
    table = table_of(served(50))
    state = table.state()
    state["default"][0][0] = math.nan
    with pytest.raises(ValueError, match="finite"):
        ServiceTable(CoreConfig()).restore(state)


@settings(max_examples=50)
@given(
    st.lists(
        st.tuples(
            st.integers(0, 10_000_000), st.integers(0, 10_000_000),
            st.floats(0.0, 604_800.0), st.floats(0.0, 1e6), st.floats(0.0, 1e11),
        ),
        min_size=1,
        max_size=40,
    )
)  # fmt: skip
def test_any_valid_completions_give_a_valid_snapshot(
    rows: list[tuple[int, int, float, float, float]],
) -> None:
    table = ServiceTable(CoreConfig())
    for i, (tokens, prompt, seconds, concurrency, finished_s) in enumerate(rows):
        table.learn(
            completion_of(
                i,
                1.0,
                tokens,
                prompt_tokens=prompt,
                service_s=seconds,
                concurrency=concurrency,
                finished_s=finished_s,
            )
        )
    snapshot = Snapshot(
        version=1,
        instance_id="i",
        created_s=0.0,
        kappas={GLOBAL_KEY: KappaEntry(kappa_tokens_per_s=3.0)},
        services=table.entries(),
    )
    assert invalid_reason(snapshot) is None


def test_a_first_clip_of_no_length_leaves_a_mean_that_is_valid() -> None:
    table = ServiceTable(CoreConfig())
    table.learn(completion_of(0, 1e-20, 5, service_s=0.3, concurrency=1.0))
    assert table.entries()["default"].mean_audio_s > 0.0


def test_a_line_that_runs_out_of_what_was_seen_publishes_no_more_than_a_week() -> None:
    """Of these four it would be 1.3e10 s: more than clients take."""
    table = ServiceTable(CoreConfig())
    rows = [
        (10_000_000, 10_000_000, 604_800.0, 1.0), (10_000_000, 1, 604_800.0, 1.0),
        (0, 10_000_000, 0.001, 1e6), (0, 1, 604_800.0, 1.0),
    ]  # fmt: skip
    for i, (tokens, prompt, seconds, concurrency) in enumerate(rows):
        table.learn(
            completion_of(
                i, 1.0, tokens, prompt_tokens=prompt, service_s=seconds, concurrency=concurrency
            )
        )
    assert table.entries()["default"].mean_service_s <= 604_800.0
