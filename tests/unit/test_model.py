"""The snapshot, and the one evaluation that everybody calls."""

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sched_client.model import (
    DEFAULT_TEXT_TOKENS,
    GLOBAL_KEY,
    WHISPER_MAX_TOKENS,
    Features,
    KappaEntry,
    Key,
    Partition,
    ServiceTime,
    Settings,
    Snapshot,
    evaluate,
    policy_parameters,
    prior_snapshot,
)
from sched_client.validity import invalid_reason

ENGLISH = Key("whisper", "transcribe", "en", timestamps=False)


def make_snapshot(**changes: object) -> Snapshot:
    base = Snapshot(
        version=7,
        instance_id="i",
        created_s=1.0,
        kappas={
            GLOBAL_KEY: KappaEntry(kappa_tokens_per_s=4.0),
            Key("whisper", "transcribe", "en"): KappaEntry(
                kappa_tokens_per_s=3.0, intercept_tokens=3.0, sample_count=90, source="learned"
            ),
        },
        services={"whisper": ServiceTime(overhead_s=0.5, seconds_per_token=0.02)},
    )
    return replace(base, **changes)  # type: ignore[arg-type]  # any field, by name


def speech(**changes: object) -> Features:
    base = Features(
        model="whisper", task="transcribe", language="en", timestamps=False, audio_s=10.0
    )
    return base._replace(**changes)  # type: ignore[arg-type]  # any field, by name


def test_a_key_falls_back_from_timestamps_to_global() -> None:
    assert list(ENGLISH.chain()) == [
        ENGLISH,
        Key("whisper", "transcribe", "en"),
        Key("whisper", "transcribe"),
        Key("whisper"),
        GLOBAL_KEY,
    ]


def test_a_chain_names_no_key_twice() -> None:
    assert list(Key("whisper").chain()) == [Key("whisper"), GLOBAL_KEY]
    assert list(GLOBAL_KEY.chain()) == [GLOBAL_KEY]


def test_tokens_are_intercept_plus_kappa_times_seconds() -> None:
    estimate = evaluate(make_snapshot(), speech())
    assert estimate.tokens == pytest.approx(33.0)
    assert estimate.service_s == pytest.approx(0.5 + 0.02 * 33.0)
    assert estimate.source == "parent"
    assert estimate.snapshot_version == 7


def test_an_exact_key_is_learned_and_an_unknown_model_is_a_prior() -> None:
    assert evaluate(make_snapshot(), speech(timestamps=None)).source == "learned"
    assert evaluate(make_snapshot(), speech(model="other")).source == "prior"


def test_tokens_never_exceed_what_the_request_may_produce() -> None:
    assert evaluate(make_snapshot(), speech(max_tokens=5)).tokens == 5.0
    assert evaluate(make_snapshot(), speech(audio_s=1e6)).tokens_p99 == WHISPER_MAX_TOKENS


@pytest.mark.parametrize("kind", ["detection", "beam_step"])
def test_one_token_requests_cost_one_token_whatever_the_audio(kind: str) -> None:
    estimate = evaluate(make_snapshot(), speech(kind=kind, audio_s=30.0))
    assert estimate.tokens == estimate.tokens_p99 == 1.0
    assert estimate.service_s == pytest.approx(0.52)


def test_an_unknown_duration_counts_as_the_mean_of_what_was_seen() -> None:
    known = evaluate(make_snapshot(), speech(audio_s=ServiceTime().mean_audio_s))
    assert evaluate(make_snapshot(), speech(audio_s=None)) == known


def test_text_requests_are_sized_by_their_prompt() -> None:
    sized = KappaEntry(kappa_tokens_per_s=0.5, source="learned")
    snapshot = make_snapshot(kappas={**make_snapshot().kappas, Key("whisper", "text"): sized})
    features = Features("whisper", "text", kind="text", prompt_tokens=100, max_tokens=1000)
    assert evaluate(snapshot, features).tokens == 50.0


def test_unknown_text_is_never_counted_by_what_speech_taught() -> None:
    for model in ("whisper", "unheard-of"):
        features = Features(model, "text", kind="text", prompt_tokens=7_000, max_tokens=10_000)
        estimate = evaluate(make_snapshot(), features)
        assert (estimate.tokens, estimate.source) == (DEFAULT_TEXT_TOKENS, "prior")


def test_a_text_key_falls_back_to_its_size_and_ends_at_its_task() -> None:
    assert list(Key("m", "text", "a/b/21").chain()) == [
        Key("m", "text", "a/b/21"),
        Key("m", "text", "/21"),
        Key("m", "text"),
    ]
    assert list(Key("m", "text", "/21").chain()) == [Key("m", "text", "/21"), Key("m", "text")]
    assert list(Key("m", "text").chain()) == [Key("m", "text")]


def test_a_request_is_routed_by_its_seconds() -> None:
    partition = Partition(boundaries_s=(0.6, 2.0), queue_ids=("short", "middle", "long"))
    snapshot = make_snapshot(partitions={"whisper": partition})
    assert evaluate(snapshot, speech(audio_s=0.5)).queue_id == "short"
    assert evaluate(snapshot, speech()).queue_id == "middle"


def test_resolving_many_invented_languages_does_not_grow_without_bound() -> None:
    snapshot = make_snapshot()
    for number in range(20_000):
        snapshot.resolve(Key("whisper", "transcribe", f"x{number}"))
    assert len(snapshot._resolved) <= 8192


def test_burst_is_given_in_the_unit_that_work_is_counted_in() -> None:
    service = ServiceTime(mean_service_s=0.4, mean_tokens=20.0)
    snapshot = make_snapshot(services={"whisper": service}, settings=Settings(burst_requests=10))
    assert policy_parameters(snapshot, "whisper").burst_work == pytest.approx(4.0)
    snapshot = replace(snapshot, settings=Settings(burst_requests=10, order_by="tokens"))
    assert policy_parameters(snapshot, "whisper").burst_work == pytest.approx(200.0)


BAD_SNAPSHOTS: dict[str, dict[str, object]] = {
    "no global key": {"kappas": {}},
    "nan kappa": {"kappas": {GLOBAL_KEY: KappaEntry(kappa_tokens_per_s=math.nan)}},
    "negative kappa": {"kappas": {GLOBAL_KEY: KappaEntry(kappa_tokens_per_s=-1.0)}},
    "crossing quantiles": {
        "kappas": {GLOBAL_KEY: KappaEntry(kappa_tokens_per_s=1.0, ratio_p50=2.0)}
    },
    "infinite intercept": {
        "kappas": {GLOBAL_KEY: KappaEntry(kappa_tokens_per_s=1.0, intercept_tokens=math.inf)}
    },
    "free tokens": {"services": {"": ServiceTime(seconds_per_token=0.0)}},
    "endless tokens": {"services": {"": ServiceTime(seconds_per_token=1e308)}},
    "negative overhead": {"services": {"": ServiceTime(overhead_s=-1.0)}},
    "unsorted": {"partitions": {"m": Partition(boundaries_s=(2.0, 1.0), queue_ids=tuple("abc"))}},
    "too few queues": {"partitions": {"m": Partition(boundaries_s=(2.0,), queue_ids=("a",))}},
    "a queue twice": {"partitions": {"m": Partition(boundaries_s=(2.0,), queue_ids=("a", "a"))}},
    "a queue without a name": {"partitions": {"m": Partition(queue_ids=("",))}},
    "too many queues": {
        "partitions": {
            "m": Partition(
                boundaries_s=tuple(map(float, range(64))), queue_ids=tuple(map(str, range(65)))
            )
        }
    },
    "means of other queues": {"partitions": {"m": Partition(means_s=(1.0, 2.0))}},
    "a mean of nothing": {"partitions": {"m": Partition(means_s=(0.0,))}},
    "a nan share": {"partitions": {"m": Partition(shares=(math.nan,))}},
    "a share above all": {"partitions": {"m": Partition(shares=(1.1,))}},
    "lowers without uppers": {"partitions": {"m": Partition(lowers_s=(1.0,))}},
    "upside down": {"partitions": {"m": Partition(lowers_s=(1.0,), uppers_s=(0.5,))}},
    "endless": {"partitions": {"m": Partition(lowers_s=(1.0,), uppers_s=(math.inf,))}},
    "unknown within": {"settings": Settings(within="x")},  # type: ignore[arg-type]  # on purpose
    "unknown between": {"settings": Settings(between="x")},  # type: ignore[arg-type]  # as above
    "unknown preemption": {"settings": Settings(preemption="x")},  # type: ignore[arg-type]  # dito
    "negative urgency": {"settings": Settings(w_urgency=-1.0)},
    "nan fairness": {"settings": Settings(w_fairness=math.nan)},
    "endless aging": {"settings": Settings(aging_rate=math.inf)},
    "steep aging": {"settings": Settings(aging_power=4.1)},
    "a tier worth less": {"settings": Settings(tier_weight=0.9)},
    "a tier worth too much": {"settings": Settings(tier_weight=1e7)},
    "an infinitely negative tier": {"settings": Settings(tier_weight=-math.inf)},
    "phi of one": {"settings": Settings(phi=1.0)},
    "nan burst": {"settings": Settings(burst_requests=math.nan)},
    "zero guard": {"settings": Settings(guard_s=0.0)},
    "many by arrival": {"settings": Settings(reorder_above=65)},
    "ordered until more wait than it begins with": {"settings": Settings(reorder_until=9)},
    "ordered until fewer than none wait": {"settings": Settings(reorder_until=-1)},
    "fewer than none by arrival": {"settings": Settings(reorder_above=-1)},
    "unknown mode": {"settings": Settings(mode="fast")},  # type: ignore[arg-type]  # on purpose
}


@pytest.mark.parametrize("name", BAD_SNAPSHOTS)
def test_an_invalid_snapshot_is_named_with_field_and_value(name: str) -> None:
    reason = invalid_reason(make_snapshot(**BAD_SNAPSHOTS[name]))
    assert reason is not None
    assert reason.split(":")[0].split("[")[0].split(".")[0] in {
        "kappas",
        "services",
        "partitions",
        "settings",
    }


def test_a_valid_snapshot_has_no_reason() -> None:
    assert invalid_reason(make_snapshot()) is None
    assert invalid_reason(prior_snapshot()) is None


@given(
    kappa=st.floats(0, 1e6),
    intercept=st.floats(-1e6, 1e6),
    audio=st.none() | st.floats(0, 1e6),
    cap=st.none() | st.integers(1, 10**6),
    prompt=st.integers(0, 10**6),
)
def test_every_estimate_is_finite_positive_and_ordered(
    kappa: float, intercept: float, audio: float | None, cap: int | None, prompt: int
) -> None:
    entry = KappaEntry(kappa_tokens_per_s=kappa, intercept_tokens=intercept, ratio_p50=0.5)
    snapshot = make_snapshot(kappas={GLOBAL_KEY: entry})
    estimate = evaluate(snapshot, speech(audio_s=audio, max_tokens=cap, prompt_tokens=prompt))
    assert 1.0 <= estimate.tokens <= (cap or WHISPER_MAX_TOKENS)
    assert 1.0 <= estimate.tokens_p50 <= estimate.tokens_p90 <= estimate.tokens_p99
    assert 0.0 < estimate.service_s < math.inf
