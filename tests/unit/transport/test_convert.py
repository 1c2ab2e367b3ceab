"""Messages to the model and reports to messages."""

import hashlib
import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from estimator.convert import partition_to_proto, settings_to_proto
from protos.kappad.estimator.v1 import estimator_pb2 as pb
from sched_client.model import Features, KappaEntry, Key, Partition, Settings, Snapshot
from sched_client.transport import convert
from sched_client.transport.pacing import Pacer
from sched_client.transport.packed import KeyPool
from sched_client.validity import invalid_reason
from tests.support.scripted_sidecar import delta, kappa, make_report, service, snapshot

UNPACED = Pacer(60.0, 0.0)
POOL = KeyPool(convert.MAX_KEYS)


def _read(message: pb.WatchParametersResponse) -> Snapshot:
    UNPACED.begin()
    return convert.read_snapshot(convert.open_envelope(message.SerializeToString()), UNPACED, POOL)


def test_what_is_read_is_valid_and_complete() -> None:
    message = snapshot(3, kappa("en", 2.5, timestamps=True, intercept_tokens=4.0))
    message.create_time.FromMilliseconds(1_500)
    read = _read(message)
    assert invalid_reason(read) is None
    assert (read.version, read.instance_id, read.created_s) == (3, "one", 1.5)
    assert read.kappas[Key("whisper", "transcribe", "en", timestamps=True)] == KappaEntry(
        kappa_tokens_per_s=2.5,
        intercept_tokens=4.0,
        ratio_p50=1.0,
        ratio_p90=1.5,
        ratio_p99=2.5,
        sample_count=7,
        source="learned",
    )
    assert read.settings.phi == 0.2


def test_a_sidecar_that_knows_no_short_queue_has_every_queue_ordered() -> None:
    message = snapshot(1)
    assert not message.snapshot.settings.reorder_above_count
    assert _read(message).settings.reorder_above == 0
    message.snapshot.settings.reorder_above_count = 64
    assert _read(message).settings.reorder_above == 64


@pytest.mark.parametrize("told", [65, -1])
def test_a_short_queue_outside_its_limits_is_refused(told: int) -> None:
    message = snapshot(1)
    message.snapshot.settings.reorder_above_count = told
    with pytest.raises(convert.InvalidSnapshotError, match=f"reorder_above: {told} is not in"):
        _read(message)


# The fields 8, 9 and 15 as varints: values that this version does not know.
@pytest.mark.parametrize("unknown", [b"", b"\x40\x63\x48\x63\x78\x63"])
def test_settings_that_are_unknown_or_not_said_have_their_defaults(unknown: bytes) -> None:
    message = snapshot(1)
    message.snapshot.settings.reorder_above_count = 5
    message.snapshot.settings.MergeFromString(unknown)
    read, told = _read(message).settings, message.snapshot.settings
    assert read == Settings(
        mode="on",
        policy="hrrn",
        phi=told.overtaking_ratio,
        burst_requests=told.burst_request_count,
        guard_s=told.guard_seconds,
        reorder_above=5,
        reorder_until=5,
    )


def test_settings_and_queues_are_read_as_the_sidecar_wrote_them() -> None:
    settings = Settings(
        mode="on",
        policy="ewsjf",
        reorder_above=6,
        reorder_until=0,
        within="score",
        between="halves",
        w_urgency=0.0,
        w_fairness=2.0,
        aging_rate=0.5,
        aging_power=1.0,
        short_share=0.25,
        tier_weight=3.0,
        preemption="least_lost",
    )
    partition = Partition(
        boundaries_s=(1.0,),
        queue_ids=("q0", "q4"),
        lowers_s=(0.2, 1.5),
        uppers_s=(0.8, 9.0),
        means_s=(0.5, 4.0),
        shares=(0.75, 0.25),
    )
    message = snapshot(
        1,
        settings=settings_to_proto(settings),
        partitions=[partition_to_proto("whisper", partition)],
    )
    read = _read(message)
    assert read.settings == settings
    assert read.partitions == {"whisper": partition}
    wider = replace(settings, tier_weight=math.inf)
    change = delta(2, 1, settings=settings_to_proto(wider))
    change.delta.partitions.append(partition_to_proto("whisper", Partition()))
    envelope = convert.open_envelope(change.SerializeToString())
    UNPACED.begin()
    changed = convert.read_delta(envelope, read, UNPACED, POOL)
    assert (changed.settings, changed.partitions) == (wider, {"whisper": Partition()})


@given(st.lists(st.integers(0, 400), max_size=300, unique=True))
def test_a_change_gives_what_a_whole_state_would(numbers: list[int]) -> None:
    before, changed = numbers[: len(numbers) // 2], numbers[len(numbers) // 3 :]
    base = _read(snapshot(1, *(kappa(f"l{number}") for number in before)))
    change = delta(
        2, 1, *(kappa(f"l{number}", 1.0 + number) for number in changed), services=[service()]
    )
    envelope = convert.open_envelope(change.SerializeToString())
    assert convert.base_version(envelope) == 1
    UNPACED.begin()
    read = convert.read_delta(envelope, base, UNPACED, POOL)
    expected = {Key("whisper", "transcribe", f"l{number}"): 3.0 for number in before}
    expected |= {Key("whisper", "transcribe", f"l{number}"): 1.0 + number for number in changed}
    expected[Key()] = 3.0
    assert {key: entry.kappa_tokens_per_s for key, entry in read.kappas.items()} == expected
    assert len(base.kappas) == len(before) + 1


def test_an_unknown_future_order_or_source_is_read_as_its_default() -> None:
    message = snapshot(1, kappa("en", source=77))
    message.snapshot.settings.MergeFromString(b"\x18\x63")  # field 3, order_by: 99
    read = _read(message)
    assert read.settings.order_by == "service"
    assert read.kappas[Key("whisper", "transcribe", "en")].source == "prior"


def test_too_many_keys_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(convert, "MAX_KEYS", 50)
    with pytest.raises(convert.InvalidSnapshotError, match="more than 50 keys"):
        _read(snapshot(1, *(kappa(f"l{number}") for number in range(60))))


def test_a_long_snapshot_is_read_in_slices() -> None:
    pauses: list[float] = []
    now_s = [0.0]

    def clock() -> float:
        now_s[0] += 0.0001  # every look at the clock finds 0.1 ms gone
        return now_s[0]

    pacer = Pacer(0.00015, 0.001, clock=clock, sleep=pauses.append)
    message = snapshot(1, *(kappa(f"l{number}") for number in range(1000)))
    pacer.begin()
    convert.read_snapshot(convert.open_envelope(message.SerializeToString()), pacer, POOL)
    assert len(pauses) > 1000 / 12 / 3


@given(st.binary(max_size=200))
def test_any_bytes_are_read_or_refused_with_a_named_error(data: bytes) -> None:
    UNPACED.begin()
    try:
        envelope = convert.open_envelope(data)
        if envelope.is_snapshot:
            convert.read_snapshot(envelope, UNPACED, POOL)
        elif envelope.body is not None:
            convert.base_version(envelope)
    except (convert.UndecodableError, convert.InvalidSnapshotError):
        pass


def test_a_report_becomes_a_completion_field_by_field() -> None:
    features = Features(
        model="whisper",
        task="translate",
        language="de",
        timestamps=False,
        kind="beam_step",
        audio_s=3.5,
        prompt_tokens=4,
        max_tokens=1,
        duration_source="mel",
    )
    report = make_report(
        12,
        features=features,
        output_tokens=1,
        finish_reason="length",
        finished_s=9.5,
        cached_prompt_tokens=2,
        wait_s=0.5,
        service_s=0.25,
        concurrency=3.0,
        preemptions=1,
        predicted_tokens=1.5,
        snapshot_version=8,
        request_type="batch",
        queue_id="q1",
        priority=-2,
    )
    assert convert.CompletionWriter("boot").write(report) == pb.Completion(
        completion_id="boot-12",
        model_id="whisper",
        task="translate",
        language="de",
        timestamps=False,
        kind=pb.REQUEST_KIND_BEAM_STEP,
        audio_seconds=3.5,
        duration_source="mel",
        prompt_token_count=4,
        cached_prompt_token_count=2,
        output_token_count=1,
        max_token_count=1,
        finish_reason=pb.FINISH_REASON_LENGTH,
        finish_unix_seconds=9.5,
        wait_seconds=0.5,
        service_seconds=0.25,
        mean_concurrency=3.0,
        preemption_count=1,
        predicted_token_count=1.5,
        snapshot_version=8,
        request_type="batch",
        queue_id="q1",
        priority=-2,
    )


@pytest.mark.parametrize(
    ("told", "priority", "count"),
    [
        (-(2**31) - 1, -(2**31), 0),
        (-(2**31), -(2**31), 0),
        (-1, -1, 0),
        (2**31 - 1, 2**31 - 1, 2**31 - 1),
        (2**31, 2**31 - 1, 2**31 - 1),
        (10**30, 2**31 - 1, 2**31 - 1),
    ],
)
def test_an_integer_beyond_the_apis_loses_no_completion(
    told: int, priority: int, count: int
) -> None:
    report = make_report(
        1,
        features=Features(prompt_tokens=told, max_tokens=told),
        output_tokens=told,
        cached_prompt_tokens=told,
        preemptions=told,
        priority=told,
    )
    message = convert.CompletionWriter("boot").write(report)
    assert message.priority == priority
    assert {
        message.prompt_token_count,
        message.cached_prompt_token_count,
        message.output_token_count,
        message.max_token_count,
        message.preemption_count,
    } == {count}
    assert message.HasField("max_token_count") == (count > 0)


def test_what_is_unknown_stays_absent() -> None:
    message = convert.CompletionWriter("boot").write(make_report(1, features=Features()))
    absent = [
        name
        for name in ("timestamps", "audio_seconds", "max_token_count")
        if not message.HasField(name)
    ]
    assert len(absent) == 3
    assert (message.request_hash, message.group_id) == ("", "")


def test_hashes_are_keyed_by_the_boot_and_stable_within_it() -> None:
    report = make_report(1, request_id="cmpl-1", group_id="cmpl")
    first, again = (convert.CompletionWriter("boot").write(report) for _ in range(2))
    other = convert.CompletionWriter("another").write(report)
    assert first.request_hash == again.request_hash
    assert first.request_hash != other.request_hash
    assert first.request_hash != hashlib.blake2b(b"cmpl-1", digest_size=16).hexdigest()


def test_groups_whose_names_end_in_digits_stay_apart() -> None:
    writer = convert.CompletionWriter("boot")
    names = ("hint:order-00000001", "hint:order-00000002")
    groups = {writer.write(make_report(1, group_id=name)).group_id for name in names}
    assert len(groups) == 2


@pytest.mark.parametrize("label", ["x" * 129, "a\nb", "a\x00", "\ud800"])
def test_a_callers_label_beyond_the_limits_is_left_out(label: str) -> None:
    report = make_report(1, request_type=label)
    assert convert.CompletionWriter("boot").write(report).request_type == ""
