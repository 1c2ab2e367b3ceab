"""New estimates only where a key has moved."""

from dataclasses import replace

from sched_client.estimates import Estimates
from sched_client.model import (
    GLOBAL_KEY,
    Features,
    KappaEntry,
    Key,
    Partition,
    ServiceTime,
    Snapshot,
    prior_snapshot,
)
from sched_client.vllm.features import Reading
from sched_client.vllm.hints import NO_HINTS
from sched_client.vllm.record import Record
from tests.support.vllm_fakes import Request

EN = Features(model="w", task="transcribe", language="en", timestamps=False, audio_s=10.0)
ES = EN._replace(language="es")


def _still() -> float:
    return 0.0


def _moved(snapshot: Snapshot, language: str, kappa: float) -> Snapshot:
    key = GLOBAL_KEY._replace(model="w", task="transcribe", language=language)
    entry = KappaEntry(kappa_tokens_per_s=kappa, source="learned")
    return replace(
        snapshot,
        version=snapshot.version + 1,
        kappas={**snapshot.kappas, key: entry},
        _resolved={},
    )


def _records(estimates: Estimates) -> list[Record]:
    made = []
    for number, features in enumerate([EN, ES, EN]):
        record = Record(Request(f"r{number}"), 0.0, number)
        record.take(Reading(features, features, NO_HINTS))
        estimates.first(record)
        made.append(record)
    return made


def _round(estimates: Estimates, records: list[Record]) -> list[str]:
    revised: list[str] = []
    while estimates.busy:
        estimates.revise_some(
            _still, lambda: records, lambda record: revised.append(record.request.request_id)
        )
    return sorted(revised)


def test_a_snapshot_that_moves_nothing_revises_nobody() -> None:
    estimates = Estimates(prior_snapshot())
    records = _records(estimates)
    estimates.adopt(_moved(prior_snapshot(), "fr", 99.0))
    assert _round(estimates, records) == []


def test_only_the_requests_of_a_key_that_moved_are_revised() -> None:
    estimates = Estimates(prior_snapshot())
    records = _records(estimates)
    estimates.adopt(_moved(prior_snapshot(), "en", 6.0))
    assert _round(estimates, records) == ["r0", "r2"]


def test_small_steps_add_up() -> None:
    snapshot = prior_snapshot()
    estimates = Estimates(snapshot)
    records = _records(estimates)
    rounds = []
    for step in range(1, 4):
        snapshot = _moved(snapshot, "es", 3.2 * (1 + 0.025 * step))
        estimates.adopt(snapshot)
        rounds.append(_round(estimates, records))
    assert rounds == [[], ["r1"], []]


def test_a_move_of_another_key_does_not_drop_those_that_are_still_to_be_revised() -> None:
    estimates = Estimates(prior_snapshot())
    records = _records(estimates)
    snapshot = _moved(prior_snapshot(), "en", 6.0)
    estimates.adopt(snapshot)
    readings = 0

    def one_a_step() -> float:
        nonlocal readings
        readings += 1
        return readings * 60e-6

    revised: list[str] = []

    def revise(record: Record) -> None:
        name = record.request.request_id
        if name not in revised:
            revised.append(name)

    while not revised:
        estimates.revise_some(one_a_step, lambda: records, revise)
    assert revised == ["r2"]
    estimates.adopt(_moved(snapshot, "es", 6.0))
    while estimates.busy:
        estimates.revise_some(_still, lambda: records, revise)
    # The one that has waited longest for its turn goes first.
    assert revised == ["r2", "r0", "r1"]


def test_a_move_of_texts_longer_than_any_transcript_is_seen() -> None:
    def snapshot(version: int, tokens: float) -> Snapshot:
        entry = KappaEntry(kappa_tokens_per_s=0.0, intercept_tokens=tokens, source="learned")
        kappas = {**prior_snapshot().kappas, Key("w", "text"): entry}
        return replace(prior_snapshot(), version=version, kappas=kappas, _resolved={})

    estimates = Estimates(snapshot(1, 600.0))
    record = Record(Request("r"), 0.0, 0)
    features = Features(
        model="w", task="text", language="/21", kind="text", prompt_tokens=1024, max_tokens=4096
    )
    record.take(Reading(features, features, NO_HINTS))
    estimates.first(record)
    estimates.adopt(snapshot(2, 2000.0))
    assert _round(estimates, [record]) == ["r"]


def test_a_service_time_moves_every_key() -> None:
    estimates = Estimates(prior_snapshot())
    records = _records(estimates)
    services = {"w": ServiceTime(overhead_s=5.0)}
    estimates.adopt(replace(prior_snapshot(), version=1, _resolved={}, services=services))
    assert _round(estimates, records) == ["r0", "r1", "r2"]


def test_a_partition_moves_nobody_who_waits_and_whoever_arrives() -> None:
    estimates = Estimates(prior_snapshot())
    records = _records(estimates)
    partitions = {"w": Partition(boundaries_s=(0.01,), queue_ids=("a", "b"))}
    estimates.adopt(replace(prior_snapshot(), version=1, _resolved={}, partitions=partitions))
    assert _round(estimates, records) == []
    assert {record.queue_id for record in records} == {"q0"}
    estimates.first(records[0])
    assert records[0].queue_id == "b"


def test_invented_keys_do_not_grow_without_bound() -> None:
    estimates = Estimates(prior_snapshot())
    for number in range(3000):
        record = Record(Request("r"), 0.0, number)
        features = EN._replace(language=f"x{number}")
        record.take(Reading(features, features, NO_HINTS))
        estimates.first(record)
    assert len(estimates._probed) <= 1024
    assert len(estimates._keys) <= 1024


def test_those_whose_key_did_not_move_are_passed_over_in_slices_too() -> None:
    estimates = Estimates(prior_snapshot())
    records = _records(estimates) * 1000
    estimates.adopt(_moved(prior_snapshot(), "es", 6.0))
    readings = 0

    def ticking() -> float:
        nonlocal readings
        readings += 1
        return readings * 20e-6

    revised: list[str] = []
    steps = 0
    while estimates.busy:
        before = readings
        estimates.revise_some(
            ticking, lambda: records, lambda record: revised.append(record.request.request_id)
        )
        assert readings - before <= 12  # 200 µs at 20 µs a reading, and a record for each
        steps += 1
    assert revised == ["r1"] * 1000
    assert steps > 3000 / 12


def test_a_key_that_moves_again_during_a_round_is_looked_at_again_by_all() -> None:
    snapshot = prior_snapshot()
    estimates = Estimates(snapshot)
    records = _records(estimates)
    snapshot = _moved(snapshot, "en", 6.0)
    estimates.adopt(snapshot)
    readings = 0

    def one_a_step() -> float:
        nonlocal readings
        readings += 1
        return readings * 60e-6

    revised: list[str] = []

    def revise(record: Record) -> None:
        if estimates.revised(record):
            revised.append(record.request.request_id)

    while not revised:
        estimates.revise_some(one_a_step, lambda: records, revise)
    estimates.adopt(_moved(snapshot, "en", 12.0))
    while estimates.busy:
        estimates.revise_some(_still, lambda: records, revise)
    assert revised == ["r2", "r0", "r2"]
    assert {record.tokens for record in (records[0], records[2])} == {120.0}
