"""Round trips between messages and domain types, and what unknown enum values become."""

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from estimator import convert
from estimator.core.drift import DriftEvent
from estimator.core.observation import Completion
from estimator.runtime.delta import SnapshotDelta
from estimator.store.base import KappaPoint, PartitionRecord
from protos.kappad.estimator.v1 import estimator_pb2 as pb
from sched_client.model import (
    Estimate,
    Features,
    KappaEntry,
    Key,
    Partition,
    ServiceTime,
    Settings,
    Snapshot,
)

_NAME = st.text(st.characters(codec="utf-8"), max_size=20)
_MODEL = st.text(st.characters(codec="utf-8"), min_size=1, max_size=20)
_REAL = st.floats(allow_nan=False, allow_infinity=False)
_COUNT = st.integers(0, 2**31 - 1)
_FLAG = st.none() | st.booleans()
_TIME = st.floats(0.0, 4e9)

_KEYS = st.builds(Key, _NAME, _NAME, _NAME, _FLAG)
_ENTRIES = st.builds(
    KappaEntry,
    kappa_tokens_per_s=_REAL,
    intercept_tokens=_REAL,
    ratio_p50=_REAL,
    ratio_p90=_REAL,
    ratio_p99=_REAL,
    sample_count=st.integers(0, 2**62),
    source=st.sampled_from(("prior", "learned")),
)
_SERVICES = st.builds(
    ServiceTime,
    overhead_s=_REAL,
    seconds_per_token=_REAL,
    seconds_per_prompt_token=_REAL,
    reference_concurrency=_REAL,
    mean_service_s=_REAL,
    mean_tokens=_REAL,
    mean_audio_s=_REAL,
    sample_count=_COUNT,
    slot_context_tokens=_REAL,
)
_PARTITIONS = st.builds(
    Partition,
    boundaries_s=st.lists(_REAL, max_size=3).map(tuple),
    queue_ids=st.lists(_NAME, max_size=4).map(tuple),
    lowers_s=st.lists(_REAL, max_size=4).map(tuple),
    uppers_s=st.lists(_REAL, max_size=4).map(tuple),
    means_s=st.lists(_REAL, max_size=4).map(tuple),
    shares=st.lists(_REAL, max_size=4).map(tuple),
)
_SETTINGS = st.builds(
    Settings,
    mode=st.sampled_from(("off", "shadow", "on")),
    policy=_NAME,
    order_by=st.sampled_from(("service", "tokens")),
    phi=_REAL,
    burst_requests=_REAL,
    guard_s=st.none() | _REAL,
    reorder_above=_COUNT,
    reorder_until=_COUNT,
    within=st.sampled_from(("fcfs", "score")),
    between=st.sampled_from(("score", "ratio", "shortest", "halves")),
    w_urgency=_REAL,
    w_fairness=_REAL,
    aging_rate=_REAL,
    aging_power=_REAL,
    short_share=_REAL,
    tier_weight=_REAL | st.just(math.inf),
    preemption=st.sampled_from(("last", "least_lost")),
)
_KINDS = st.sampled_from(("transcription", "detection", "beam_step", "session", "text"))
_COMPLETIONS = st.builds(
    Completion,
    completion_id=_NAME,
    model=_MODEL,
    task=_NAME,
    language=_NAME,
    timestamps=_FLAG,
    kind=_KINDS,
    audio_s=st.none() | _REAL,
    duration_source=_NAME,
    prompt_tokens=_COUNT,
    cached_prompt_tokens=_COUNT,
    output_tokens=_COUNT,
    max_tokens=st.none() | _COUNT,
    finish_reason=st.sampled_from(("stop", "length", "aborted", "error")),
    finished_s=_TIME,
    wait_s=_REAL,
    service_s=_REAL,
    concurrency=_REAL,
    preemptions=_COUNT,
    predicted_tokens=_REAL,
    snapshot_version=st.integers(0, 2**62),
    request_hash=_NAME,
    group_id=_NAME,
    request_type=_NAME,
    queue_id=_NAME,
    client_id=_NAME,
    priority=st.integers(-(2**31), 2**31 - 1),
)


@given(_COMPLETIONS)
def test_a_completion_survives_the_wire(completion: Completion) -> None:
    wire = convert.completion_to_proto(completion).SerializeToString()
    back = convert.completion_from_proto(
        pb.Completion.FromString(wire), client_id=completion.client_id
    )
    assert back == completion


@given(st.builds(Features, _MODEL, _NAME, _NAME, _FLAG, _KINDS, st.none() | _REAL, _COUNT, _COUNT))
def test_features_survive_the_wire(features: Features) -> None:
    wire = convert.features_to_proto(features).SerializeToString()
    back = convert.features_from_proto(pb.PredictionInput.FromString(wire))
    assert back == features._replace(duration_source="unknown")


@given(
    st.builds(
        Estimate,
        _REAL,
        _REAL,
        _REAL,
        _REAL,
        _REAL,
        _NAME,
        st.sampled_from(("prior", "parent", "learned")),
        st.just(7),
    )
)
def test_an_estimate_survives_the_wire(estimate: Estimate) -> None:
    wire = convert.estimate_to_proto(estimate).SerializeToString()
    message = pb.Prediction.FromString(wire)
    assert convert.estimate_from_proto(message, snapshot_version=7) == estimate


@given(
    st.dictionaries(_KEYS, _ENTRIES, max_size=4),
    st.dictionaries(_NAME, _SERVICES, max_size=2),
    st.dictionaries(_NAME, _PARTITIONS, max_size=2),
    _SETTINGS,
)
def test_a_snapshot_survives_the_wire(
    kappas: dict[Key, KappaEntry],
    services: dict[str, ServiceTime],
    partitions: dict[str, Partition],
    settings: Settings,
) -> None:
    snapshot = Snapshot(
        version=5,
        instance_id="i",
        created_s=1.0,
        kappas=kappas,
        services=services,
        partitions=partitions,
        settings=settings,
    )
    wire = convert.parameters_to_proto(snapshot).SerializeToString()
    back = convert.parameters_from_proto(
        pb.Parameters.FromString(wire), version=5, instance_id="i", created_s=1.0
    )
    assert back == snapshot


@given(
    st.dictionaries(_KEYS, _ENTRIES, max_size=4),
    st.frozensets(_KEYS, max_size=4),
    st.dictionaries(_NAME, _SERVICES, max_size=2),
    st.dictionaries(_NAME, _PARTITIONS, max_size=2),
    st.none() | _SETTINGS,
)
def test_a_delta_survives_the_wire(
    kappas: dict[Key, KappaEntry],
    removed: frozenset[Key],
    services: dict[str, ServiceTime],
    partitions: dict[str, Partition],
    settings: Settings | None,
) -> None:
    delta = SnapshotDelta(
        base_version=3,
        version=9,
        kappas=kappas,
        removed=removed,
        services=services,
        partitions=partitions,
        settings=settings,
    )
    wire = convert.delta_to_proto(delta).SerializeToString()
    assert convert.delta_from_proto(pb.ParametersDelta.FromString(wire), version=9) == delta


@given(
    st.builds(
        KappaPoint,
        model=_NAME,
        task=_NAME,
        language=_NAME,
        timestamps=_FLAG,
        recorded_s=_TIME,
        kappa_tokens_per_s=_REAL,
        intercept_tokens=_REAL,
        sample_count=_COUNT,
        snapshot_version=_COUNT,
    )
)
def test_a_kappa_point_survives_the_wire(point: KappaPoint) -> None:
    wire = convert.kappa_point_to_proto(point).SerializeToString()
    back = convert.kappa_point_from_proto(pb.KappaPoint.FromString(wire))
    assert back.recorded_s == pytest.approx(point.recorded_s, abs=1e-6)
    assert replace(back, recorded_s=point.recorded_s) == point


@given(
    st.builds(
        DriftEvent,
        event_id=_NAME,
        kind=st.sampled_from(("kappa", "mix", "service")),
        model=_NAME,
        task=_NAME,
        language=_NAME,
        timestamps=_FLAG,
        detected_s=_TIME,
        before=_REAL,
        after=_REAL,
        z=_REAL,
        completions_to_detect=_COUNT,
        detail=_NAME,
        completions_to_adapt=st.none() | _COUNT,
        ended_s=st.none() | _TIME,
    )
)
def test_a_drift_event_survives_the_wire(event: DriftEvent) -> None:
    wire = convert.drift_to_proto(event).SerializeToString()
    back = convert.drift_from_proto(pb.DriftEvent.FromString(wire))
    assert back.detected_s == pytest.approx(event.detected_s, abs=1e-6)
    assert (back.ended_s is None) == (event.ended_s is None)
    assert replace(back, detected_s=event.detected_s, ended_s=event.ended_s) == event


@given(
    st.builds(
        PartitionRecord,
        model=_NAME,
        number=_COUNT,
        partition=_PARTITIONS,
        reason=st.sampled_from(("first", "count", "likelihood", "drift", "rates")),
        text=_NAME,
        completions=_COUNT,
        points=_COUNT,
        fit_s=_REAL,
        installed_s=_TIME,
        snapshot_version=_COUNT,
    )
)
def test_a_partition_that_came_into_force_survives_the_wire(record: PartitionRecord) -> None:
    wire = convert.partition_record_to_proto(record).SerializeToString()
    back = convert.partition_record_from_proto(pb.PartitionRevision.FromString(wire))
    assert back.installed_s == pytest.approx(record.installed_s, abs=1e-6)
    assert replace(back, installed_s=record.installed_s) == record


@given(st.floats(-1e9, 1e11))
def test_a_timestamp_is_valid_and_close(unix_s: float) -> None:
    stamp = convert.timestamp_of(unix_s)
    assert 0 <= stamp.nanos < 1_000_000_000
    assert convert.seconds_of(stamp) == pytest.approx(unix_s, abs=1e-5)


def test_a_model_filter_keeps_its_keys_and_the_global_one() -> None:
    entry = KappaEntry(kappa_tokens_per_s=1.0)
    snapshot = Snapshot(
        version=1,
        instance_id="i",
        created_s=0.0,
        kappas={Key(): entry, Key("a"): entry, Key("b", "transcribe"): entry},
        services={"": ServiceTime(), "a": ServiceTime(), "b": ServiceTime()},
        partitions={"a": Partition(), "b": Partition()},
    )
    message = convert.parameters_to_proto(snapshot, {"a"})
    assert [k.model_id for k in message.kappas] == ["", "a"]
    assert [s.model_id for s in message.services] == ["", "a"]
    assert [p.model_id for p in message.partitions] == ["a"]


def test_an_unspecified_finish_reason_is_an_error_of_its_row() -> None:
    with pytest.raises(convert.ConversionError) as caught:
        convert.completion_from_proto(pb.Completion(completion_id="x"))
    assert caught.value.field == "finish_reason"


def test_an_unknown_finish_or_kind_is_kept_but_teaches_nothing() -> None:
    row = pb.Completion(completion_id="x", finish_reason=pb.FINISH_REASON_STOP)
    # Field 13 and 6 as varints: values that this version does not know.
    row.MergeFromString(bytes([13 << 3, 99]))
    assert convert.completion_from_proto(row).finish_reason == "error"
    row = pb.Completion(completion_id="x", finish_reason=pb.FINISH_REASON_STOP)
    row.MergeFromString(bytes([6 << 3, 99]))
    assert convert.completion_from_proto(row).kind == "session"


def test_an_absent_end_is_the_arrival_and_a_future_end_is_cut_to_it() -> None:
    row = pb.Completion(finish_reason=pb.FINISH_REASON_STOP)
    assert convert.completion_from_proto(row, received_s=50.0).finished_s == 50.0
    row.finish_unix_seconds = 60.0
    assert convert.completion_from_proto(row, received_s=50.0).finished_s == 50.0
    row.finish_unix_seconds = math.nan
    assert math.isnan(convert.completion_from_proto(row, received_s=50.0).finished_s)


def test_an_unknown_mode_in_settings_is_off_and_in_requests_an_error() -> None:
    settings = pb.Settings(policy="sjf")
    assert convert.settings_from_proto(settings).mode == "off"
    with pytest.raises(convert.ConversionError, match="MODE_SHADOW"):
        convert.mode_from_proto(pb.MODE_UNSPECIFIED)


# The fields 8, 9 and 15 as varints: values that this version does not know.
@pytest.mark.parametrize("unknown", [b"", b"\x40\x63\x48\x63\x78\x63"])
def test_settings_that_a_sidecar_does_not_know_or_say_have_their_defaults(unknown: bytes) -> None:
    message = pb.Settings(
        policy="sjf", mode=pb.MODE_ON, overtaking_ratio=0.3, reorder_above_count=5
    )
    message.MergeFromString(unknown)
    expected = Settings(
        mode="on",
        policy="sjf",
        phi=0.3,
        burst_requests=0.0,
        guard_s=None,
        reorder_above=5,
        reorder_until=5,
    )
    assert convert.settings_from_proto(message) == expected


def test_an_infinite_tier_weight_is_absent_on_the_wire() -> None:
    message = convert.settings_to_proto(Settings(tier_weight=math.inf, w_urgency=0.0))
    assert not message.HasField("tier_weight")
    assert message.HasField("urgency_weight")


def test_a_count_beyond_int32_is_clipped() -> None:
    completion = Completion(completion_id="x", priority=2**31, output_tokens=2**40)
    message = convert.completion_to_proto(completion)
    assert (message.priority, message.output_token_count) == (2**31 - 1, 2**31 - 1)


@pytest.mark.parametrize(
    ("task", "language", "request_type"),
    [("transcribe", "en", ""), ("text", "", ""), ("text", "", "chat")],
)
def test_a_running_request_has_its_completions_key(
    task: str, language: str, request_type: str
) -> None:
    kind = pb.REQUEST_KIND_TEXT if task == "text" else pb.REQUEST_KIND_TRANSCRIPTION
    completion = pb.Completion(
        model_id="m",
        task=task,
        language=language,
        kind=kind,
        audio_seconds=2.0,
        prompt_token_count=1024,
        request_type=request_type,
        finish_reason=pb.FINISH_REASON_STOP,
    )
    message = pb.RunningRequest(
        model_id="m",
        task=task,
        language=language or request_type,
        kind=kind,
        audio_seconds=2.0,
        prompt_token_count=1024,
    )
    running = convert.running_from_proto(message)
    assert running is not None
    assert running.key == convert.completion_from_proto(completion).key
