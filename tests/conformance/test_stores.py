"""One suite that every store must pass; a new one is finished when it is in STORES."""

import tempfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from estimator.core.drift import DriftEvent
from estimator.core.observation import Completion
from estimator.store.base import (
    Checkpoint,
    KappaPoint,
    ModeChange,
    PartitionRecord,
    Store,
    StoreError,
)
from estimator.store.memory import MemoryStore
from estimator.store.sqlite import SqliteStore
from sched_client.model import Partition

NOW_S = 1_000.0
# Any: the keyword arguments, which differ in their types.
Factory = Callable[..., Any]


def completion(number: int, **fields: Any) -> Completion:
    fields = {"completion_id": f"boot-{number}", "finished_s": float(number), **fields}
    return Completion(**fields)


FULL = Completion(
    completion_id="boot-1",
    model="openai/whisper-base",
    task="translate",
    language="de",
    timestamps=True,
    kind="transcription",
    audio_s=12.345678901234567,
    duration_source="mel",
    prompt_tokens=4,
    cached_prompt_tokens=2,
    output_tokens=41,
    max_tokens=444,
    finish_reason="length",
    finished_s=123.456,
    wait_s=0.1,
    service_s=0.7,
    concurrency=3.3,
    preemptions=1,
    predicted_tokens=38.25,
    snapshot_version=17,
    request_hash="ab12",
    group_id="cd34",
    request_type="dictation",
    queue_id="q1",
    client_id="pod-0/0/boot",
    priority=-3,
)
POINT = KappaPoint(
    model="m",
    task="transcribe",
    language="en",
    timestamps=None,
    recorded_s=1.5,
    kappa_tokens_per_s=3.125,
    intercept_tokens=2.5,
    sample_count=10,
    snapshot_version=4,
)
DRIFT = DriftEvent(
    event_id="e1",
    kind="kappa",
    model="m",
    task="transcribe",
    language="en",
    timestamps=False,
    detected_s=9.5,
    before=3.0,
    after=4.5,
    z=6.5,
    completions_to_detect=12,
    detail="share of language fr",
)
PARTITION = PartitionRecord(
    model="m",
    number=3,
    partition=Partition(
        boundaries_s=(0.75,),
        queue_ids=("q0", "q4"),
        lowers_s=(0.1, 0.8),
        uppers_s=(0.7, 12.345678901234567),
        means_s=(0.4, 3.0),
        shares=(0.8125, 0.1875),
    ),
    reason="drift",
    text="q4 is new: long batch jobs",
    completions=1_234,
    points=999,
    fit_s=0.125,
    installed_s=77.5,
    snapshot_version=8,
)
MODE = ModeChange(changed_s=1.0, mode="on", previous_mode="shadow", actor="uid:0", reason="why")


def sqlite_in(directory: Path) -> Factory:
    numbers = iter(range(1_000))
    return lambda **options: SqliteStore(directory / f"{next(numbers)}.db", **options)


@pytest.fixture(params=["memory", "sqlite"])
def make_store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Factory]:
    made: list[Store] = []
    factory: Factory = MemoryStore if request.param == "memory" else sqlite_in(tmp_path)

    def make(**options: Any) -> Store:
        store: Store = factory(**{"now_s": lambda: NOW_S, **options})
        made.append(store)
        return store

    yield make
    for store in made:
        store.close()


@pytest.fixture
def store(make_store: Factory) -> Store:
    made: Store = make_store()
    return made


class TestStore:
    def test_a_new_store_is_empty(self, store: Store) -> None:
        assert (store.count(), store.last_row_id(), store.read()) == (0, 0, [])
        assert store.find("boot-1") is None
        assert store.load_checkpoint() is None
        assert store.list_kappa_points() == []
        assert store.list_drifts() == []
        assert store.list_partitions() == []
        assert store.list_mode_changes() == []

    def test_instance_ids_differ(self, make_store: Factory) -> None:
        assert make_store().instance_id != make_store().instance_id

    def test_names_are_read_from_the_newest_on(self, make_store: Factory) -> None:
        store = make_store(max_completions=8)
        assert store.read_request_names() == []
        store.append([completion(n, request_hash=f"h{n}" * (n % 2)) for n in range(10)])
        names = store.read_request_names(limit=3)
        assert [tuple(name) for name in names] == [
            (10, "boot-9", "h9"), (9, "boot-8", ""), (8, "boot-7", "h7"),
        ]  # fmt: skip
        rest = store.read_request_names(before_row_id=8)
        assert [name.row_id for name in rest] == [7, 6, 5, 4, 3]  # two were trimmed
        assert store.read_request_names(before_row_id=3) == []
        assert len(store.read_request_names(before_row_id=99)) == 8

    def test_every_field_comes_back(self, store: Store) -> None:
        store.append([FULL, Completion(completion_id="x", finished_s=1.0)])
        assert [row.completion for row in store.read()] == [
            FULL,
            Completion(completion_id="x", finished_s=1.0),
        ]
        found = store.find("boot-1")
        assert found is not None
        assert found.row_id == 1
        assert found.completion == FULL
        assert found.completion.timestamps is True

    def test_append_gives_the_rows_that_read_gives(self, store: Store) -> None:
        result = store.append([completion(n) for n in range(1, 8)])
        assert list(result.accepted) == store.read()
        assert [row.row_id for row in result.accepted] == [1, 2, 3, 4, 5, 6, 7]

    def test_an_empty_batch_changes_nothing(self, store: Store) -> None:
        assert store.append([]).accepted == ()
        assert store.count() == 0

    def test_duplicates_within_and_across_batches_are_counted_once(self, store: Store) -> None:
        store.append([completion(1), completion(2)])
        result = store.append([completion(3), completion(2), completion(3), completion(4)])
        assert [row.completion.completion_id for row in result.accepted] == ["boot-3", "boot-4"]
        assert result.duplicate_indices == (1, 2)
        assert result.too_old_indices == ()
        assert [row.row_id for row in store.read()] == [1, 2, 3, 4]

    def test_read_pages_through_the_history(self, store: Store) -> None:
        store.append([completion(n) for n in range(1, 8)])
        seen: list[int] = []
        while page := store.read(after_row_id=seen[-1] if seen else 0, limit=3):
            assert len(page) <= 3
            seen += [row.row_id for row in page]
        assert seen == [1, 2, 3, 4, 5, 6, 7]

    def test_the_oldest_rows_go_and_the_newest_stay(self, make_store: Factory) -> None:
        store = make_store(max_completions=5)
        for start in range(1, 13, 3):
            store.append([completion(n) for n in range(start, start + 3)])
        assert store.count() == 5
        assert [row.row_id for row in store.read()] == [8, 9, 10, 11, 12]
        assert store.last_row_id() == 12
        assert store.find("boot-7") is None

    def test_a_batch_above_the_limit_is_accepted_whole(self, make_store: Factory) -> None:
        store = make_store(max_completions=2)
        assert len(store.append([completion(n) for n in range(1, 6)]).accepted) == 5
        assert [row.row_id for row in store.read()] == [4, 5]

    def test_a_trimmed_completion_is_too_old_not_new(self, make_store: Factory) -> None:
        store = make_store(max_completions=3)
        store.append([completion(n) for n in range(1, 6)])
        result = store.append([completion(1), completion(2), completion(4), completion(6)])
        assert result.too_old_indices == (0, 1)
        assert result.duplicate_indices == (2,)
        assert [row.row_id for row in result.accepted] == [6]

    def test_an_unknown_completion_before_the_horizon_is_too_old(
        self, make_store: Factory
    ) -> None:
        store = make_store(max_completions=2)
        store.append([completion(10), completion(20), completion(30)])
        late = [completion(99, finished_s=at) for at in (9.0, 10.0)]
        assert store.append(late).too_old_indices == (0, 1)
        assert len(store.append([completion(98, finished_s=10.5)]).accepted) == 1

    def test_an_end_in_the_future_does_not_shut_the_store(self, make_store: Factory) -> None:
        # One engine whose clock is years ahead must not make everybody else too old.
        store = make_store(max_completions=1)
        store.append([completion(1, finished_s=1e10)])
        store.append([completion(2, finished_s=NOW_S)])
        assert store.append([completion(3, finished_s=NOW_S + 1)]).too_old_indices == ()
        assert store.append([completion(4, finished_s=NOW_S)]).too_old_indices == (0,)

    def test_a_clock_that_ran_ahead_does_not_shut_the_store(self, make_store: Factory) -> None:
        clock = [NOW_S + 1e7]
        store = make_store(max_completions=2, now_s=lambda: clock[0])
        store.append([completion(n, finished_s=clock[0] - 1.0) for n in range(1, 6)])
        clock[0] = NOW_S
        for n in range(10, 20):
            clock[0] += 1.0
            assert store.append([completion(n, finished_s=clock[0])]).too_old_indices == ()
        assert store.append([completion(99, finished_s=NOW_S + 2)]).too_old_indices == (0,)

    def test_checkpoints_give_back_the_newest(self, store: Store) -> None:
        for version in range(1, 6):
            store.save_checkpoint(
                Checkpoint(
                    row_id=version * 10,
                    state={"schema": 1, "kappa": [1.5, version], "none": None},
                    snapshot_version=version,
                    created_s=2.5,
                )
            )
        loaded = store.load_checkpoint()
        assert loaded is not None
        assert (loaded.row_id, loaded.snapshot_version, loaded.created_s) == (50, 5, 2.5)
        assert loaded.state == {"schema": 1, "kappa": [1.5, 5], "none": None}

    def test_kappa_points_are_listed_newest_first_by_page(self, store: Store) -> None:
        points = [replace(POINT, recorded_s=float(n), timestamps=n % 2 == 0) for n in range(5)]
        store.append_kappa_points(points[:3])
        store.append_kappa_points(points[3:])
        page = store.list_kappa_points(limit=2)
        assert [point for _, point in page] == [points[4], points[3]]
        rest = store.list_kappa_points(before_id=page[-1][0])
        assert [point for _, point in rest] == [points[2], points[1], points[0]]

    def test_kappa_points_are_filtered(self, store: Store) -> None:
        store.append_kappa_points(
            [
                replace(POINT, model=model, language=language)
                for model in ("a", "b")
                for language in ("en", "de", "")
            ]
        )
        assert len(store.list_kappa_points(model="a")) == 3
        assert len(store.list_kappa_points(language="de")) == 2
        assert len(store.list_kappa_points(model="a", language="de")) == 1
        assert store.list_kappa_points(model="never seen") == []

    def test_kappa_points_are_bounded_for_each_key(self, make_store: Factory) -> None:
        store = make_store(max_kappa_points_per_key=3)
        rare = replace(POINT, language="sw")
        store.append_kappa_points([rare])
        for n in range(10):
            store.append_kappa_points([replace(POINT, recorded_s=float(n))] * 2)
        assert [point.recorded_s for _, point in store.list_kappa_points(language="en")] == [
            9.0,
            9.0,
            8.0,
        ]
        assert [point for _, point in store.list_kappa_points(language="sw")] == [rare]

    def test_kappa_points_are_bounded_in_all(self, make_store: Factory) -> None:
        store = make_store(max_kappa_points=4)
        points = [replace(POINT, language=f"l{n}") for n in range(9)]
        store.append_kappa_points(points[:6])
        store.append_kappa_points(points[6:])
        assert [point for _, point in store.list_kappa_points()] == points[:4:-1]

    def test_a_drift_event_is_ended_in_place(self, store: Store) -> None:
        store.save_drift(DRIFT)
        store.save_drift(replace(DRIFT, event_id="e2", kind="mix"))
        first = store.list_drifts()
        ended = replace(DRIFT, completions_to_adapt=12, ended_s=20.0)
        store.save_drift(ended)
        second = store.list_drifts()
        assert [row_id for row_id, _ in second] == [row_id for row_id, _ in first]
        assert [event.event_id for _, event in second] == ["e2", "e1"]
        assert second[1][1] == ended

    def test_drift_events_are_bounded_and_paged(self, make_store: Factory) -> None:
        store = make_store(max_drift_events=3)
        for n in range(6):
            store.save_drift(replace(DRIFT, event_id=f"e{n}"))
        page = store.list_drifts(limit=2)
        assert [event.event_id for _, event in page] == ["e5", "e4"]
        rest = store.list_drifts(before_id=page[-1][0])
        assert [event.event_id for _, event in rest] == ["e3"]

    def test_partitions_come_back_as_they_were(self, store: Store) -> None:
        single = replace(PARTITION, model="other", partition=Partition(), reason="first")
        store.append_partition(PARTITION)
        store.append_partition(single)
        assert [record for _, record in store.list_partitions()] == [single, PARTITION]
        assert [record for _, record in store.list_partitions(model="m")] == [PARTITION]
        assert store.list_partitions(model="none") == []

    def test_partitions_are_bounded_and_paged(self, make_store: Factory) -> None:
        store = make_store(max_partitions=3)
        for number in range(6):
            store.append_partition(replace(PARTITION, number=number))
        page = store.list_partitions(limit=2)
        assert [record.number for _, record in page] == [5, 4]
        rest = store.list_partitions(model="m", before_id=page[-1][0])
        assert [record.number for _, record in rest] == [3]

    def test_mode_changes_are_listed_newest_first_and_bounded(self, make_store: Factory) -> None:
        store = make_store(max_mode_changes=3)
        changes = [replace(MODE, changed_s=float(n)) for n in range(5)]
        for change in changes:
            store.append_mode_change(change)
        assert store.list_mode_changes() == [changes[4], changes[3], changes[2]]
        assert store.list_mode_changes(limit=1) == [changes[4]]

    def test_a_mode_change_is_found_by_its_request(self, store: Store) -> None:
        asked = replace(MODE, request_id="r1")
        store.append_mode_change(MODE)
        store.append_mode_change(asked)
        assert store.find_mode_change("r1") == asked
        assert store.find_mode_change("r2") is None
        assert store.find_mode_change("") is None

    def test_a_closed_store_refuses_every_call(self, store: Store) -> None:
        store.close()
        store.close()
        calls: list[Callable[[], object]] = [
            lambda: store.append([completion(1)]),
            store.read,
            store.count,
            store.last_row_id,
            lambda: store.find("boot-1"),
            lambda: store.save_checkpoint(
                Checkpoint(row_id=0, state={}, snapshot_version=0, created_s=0.0)
            ),
            store.load_checkpoint,
            lambda: store.append_kappa_points([POINT]),
            store.list_kappa_points,
            lambda: store.save_drift(DRIFT),
            store.list_drifts,
            lambda: store.append_partition(PARTITION),
            store.list_partitions,
            lambda: store.append_mode_change(MODE),
            store.list_mode_changes,
            lambda: store.find_mode_change("r1"),
        ]
        for call in calls:
            with pytest.raises(StoreError, match="closed"):
                call()

    @pytest.mark.parametrize(
        "limit",
        [
            "max_completions",
            "max_kappa_points_per_key",
            "max_kappa_points",
            "max_drift_events",
            "max_partitions",
            "max_mode_changes",
        ],
    )
    def test_a_limit_below_one_is_a_mistake(self, make_store: Factory, limit: str) -> None:
        with pytest.raises(ValueError, match=f"{limit} is 0"):
            make_store(**{limit: 0})


reports = st.builds(
    lambda number, ended, language: completion(number, finished_s=float(ended), language=language),
    st.integers(0, 30),
    st.integers(0, 40),
    st.sampled_from(["", "en", "de"]),
)
points = st.builds(
    lambda language, at: replace(POINT, language=language, recorded_s=float(at)),
    st.sampled_from(["", "en", "de"]),
    st.integers(0, 99),
)


@settings(max_examples=60, deadline=None)
@given(
    batches=st.lists(st.lists(reports, max_size=8), max_size=8),
    histories=st.lists(st.lists(points, max_size=6), max_size=4),
    max_completions=st.integers(1, 12),
    per_key=st.integers(1, 4),
    in_all=st.integers(1, 7),
)
def test_memory_and_sqlite_agree_whatever_is_appended(
    batches: list[list[Completion]],
    histories: list[list[KappaPoint]],
    max_completions: int,
    per_key: int,
    in_all: int,
) -> None:
    options: dict[str, Any] = {
        "max_completions": max_completions,
        "max_kappa_points_per_key": per_key,
        "max_kappa_points": in_all,
        "now_s": lambda: 25.0,
    }
    memory = MemoryStore(**options)
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "kappad.db"
        for batch in batches:
            # Opened anew for each batch: nothing that matters may live in the process only.
            sqlite = SqliteStore(path, **options)
            assert sqlite.append(batch) == memory.append(batch)
            sqlite.close()
        sqlite = SqliteStore(path, **options)
        for history in histories:
            sqlite.append_kappa_points(history)
            memory.append_kappa_points(history)
        try:
            assert sqlite.read() == memory.read()
            assert sqlite.count() == memory.count() <= max_completions
            assert sqlite.last_row_id() == memory.last_row_id()
            assert sqlite.list_kappa_points() == memory.list_kappa_points()
        finally:
            sqlite.close()
