"""A request is found by every name it has, and what is said of it is what is known."""

from typing import Any

import pytest

from estimator.core.drift_event import DriftEvent
from estimator.core.observation import Completion
from estimator.runtime.errors import NotFoundError
from estimator.runtime.store_worker import StoreWorker
from estimator.service import explain
from estimator.service.errors import status_of
from estimator.service.explain import Explainer
from estimator.service.limits import MAX_ASKED_LENGTH
from estimator.store.memory import MemoryStore
from estimator.telemetry.metrics import Metrics
from protos.kappad.estimator.v1 import estimator_pb2 as pb
from sched_client.model import GLOBAL_KEY, KappaEntry, Key, ServiceTime, Snapshot
from sched_client.request_ids import HashKey, caller_part

NOW_S = 10_000.0
EN = Key("m", "transcribe", "en", timestamps=False)
SNAPSHOT = Snapshot(
    version=7,
    instance_id="one",
    created_s=NOW_S,
    kappas={
        GLOBAL_KEY: KappaEntry(kappa_tokens_per_s=3.2),
        Key("m"): KappaEntry(kappa_tokens_per_s=3.3, sample_count=90, source="learned"),
        Key("m", "transcribe", "fr"): KappaEntry(kappa_tokens_per_s=6.0, source="learned"),
        EN: KappaEntry(kappa_tokens_per_s=3.0, sample_count=50, source="learned"),
    },
    services={"m": ServiceTime(overhead_s=0.5, seconds_per_token=0.01)},
)


def completion(boot: str, n: int, engine_id: str, **fields: Any) -> Completion:
    # Any: the fields of a completion.
    values = {
        "model": "m", "language": "en", "timestamps": False, "audio_s": 10.0,
        "output_tokens": 30, "finished_s": NOW_S - 100.0 + n, **fields,
    }  # fmt: skip
    hashed = HashKey(boot).hash(caller_part(engine_id))
    return Completion(completion_id=f"{boot}-{n}", request_hash=hashed, **values)


class Setup:
    def __init__(self) -> None:
        self.store = MemoryStore(now_s=lambda: NOW_S)
        self.worker = StoreWorker(self.store, Metrics())
        self.explainer = Explainer(self.worker, retention_completions=1000)

    async def ask(self, asked: str) -> list[pb.Explanation]:
        return await self.explainer.explain(asked, SNAPSHOT)

    async def ids(self, asked: str) -> list[str]:
        return [one.completion.completion_id for one in await self.ask(asked)]


@pytest.fixture
async def setup() -> Any:  # Any: an async fixture's type is its generator's
    made = Setup()
    yield made
    await made.worker.close()


async def test_a_request_is_found_by_each_of_its_names(setup: Setup) -> None:
    setup.store.append(
        [
            completion("boot-a", 1, "transcribe-abc-00000001"),
            completion("boot-a", 2, "transcribe-abd-00000002"),
        ]
    )
    for name in ("abc", "transcribe-abc", "transcribe-abc-00000001", "boot-a-1"):
        assert await setup.ids(name) == ["boot-a-1"], name


async def test_all_pieces_and_all_uses_of_an_id_are_told_newest_first(setup: Setup) -> None:
    setup.store.append(
        [
            completion("boot-a", 1, "transcribe-abc-lang_detect-00000001", kind="detection"),
            completion("boot-a", 2, "transcribe-abc-0-00000002"),
            completion("boot-a", 3, "transcribe-abc-1-00000003"),
            completion("boot-b", 1, "transcribe-abc-00000004"),
            completion("boot-b", 2, "transcribe-abcd-00000005"),
            completion("learn-f00", 1, ""),
        ]
    )
    assert await setup.ids("abc") == ["boot-b-1", "boot-a-3", "boot-a-2", "boot-a-1"]


async def test_the_whole_history_is_searched_in_slices(
    setup: Setup, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(explain, "_SLICE_ROWS", 7)
    monkeypatch.setattr(explain, "_MAX_BOOTS", 2)
    setup.store.append(
        [completion(f"boot-{n % 5}", n, f"transcribe-{n}-00000000") for n in range(50)]
    )
    for n in (0, 6, 7, 20, 49):
        assert await setup.ids(str(n)) == [f"boot-{n % 5}-{n}"], n


async def test_uses_of_an_id_long_before_the_newest_are_not_looked_for(
    setup: Setup, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(explain, "_SLICE_ROWS", 4)
    names = ["x"] * 2 + ["other"] * 10 + ["x"] * 6 + ["other"]
    setup.store.append(
        [completion("boot", n, f"cmpl-{name}-00000000") for n, name in enumerate(names)]
    )
    assert await setup.ids("x") == [f"boot-{n}" for n in range(17, 11, -1)]


async def test_no_more_than_a_hundred_are_told(setup: Setup) -> None:
    setup.store.append([completion("boot", n, "cmpl-same-00000000") for n in range(150)])
    ids = await setup.ids("same")
    assert ids == [f"boot-{n}" for n in range(149, 49, -1)]


async def test_nothing_found_names_what_is_kept(setup: Setup) -> None:
    with pytest.raises(
        NotFoundError, match="no completion of 'x' is retained; 0 of at most 1,000"
    ):
        await setup.ask("x")
    setup.store.append([completion("boot", 1, "transcribe-abc-00000001")])
    with pytest.raises(NotFoundError, match="1 of at most 1,000 are, since 1970-01-01 02:45:01"):
        await setup.ask("x")


@pytest.mark.parametrize("character", ["a", "\U0001f600", "\U000e0001"])
async def test_no_id_makes_an_error_too_long_for_its_headers(setup: Setup, character: str) -> None:
    with pytest.raises(NotFoundError) as caught:
        await setup.ask(character * MAX_ASKED_LENGTH)
    _, message, metadata = status_of(caught.value)
    # A message has three bytes for each byte beyond ASCII, binary data four for three.
    assert 3 * len(message.encode()) + sum(4 * len(value) // 3 for _, value in metadata) < 8192


async def test_what_is_known_now_stands_beside_it(setup: Setup) -> None:
    setup.store.append(
        [
            completion(
                "boot",
                1,
                "transcribe-abc-00000001",
                client_id="pod-0",
                service_s=1.0,
                concurrency=2.0,
            )
        ]
    )
    (one,) = await setup.ask("abc")
    assert one.client_id == "pod-0"
    assert (one.lesson, one.lesson_reason) == (pb.LESSON_EXACT, "")
    assert one.service_taught
    # Its own chain, the most particular first; another language has no say.
    kappas = [entry.kappa_tokens_per_second for entry in one.kappas]
    assert kappas == [3.0, 3.3, 3.2]
    assert one.prediction.token_count == 30.0
    assert one.prediction.source == pb.PREDICTION_SOURCE_LEARNED
    assert one.prediction.service_seconds == pytest.approx(0.8)
    assert one.snapshot_version == 7
    assert one.service.overhead_seconds == 0.5


async def test_a_lower_bound_and_what_teaches_nothing_say_why(setup: Setup) -> None:
    setup.store.append(
        [
            completion("boot", 1, "transcribe-a-00000001", finish_reason="aborted"),
            completion("boot", 2, "transcribe-b-00000002", audio_s=None),
        ]
    )
    (left,), (unknown,) = await setup.ask("a"), await setup.ask("b")
    assert left.lesson == pb.LESSON_LOWER_BOUND
    assert "left" in left.lesson_reason
    assert (unknown.lesson, unknown.service_taught) == (pb.LESSON_NONE, False)
    assert "length of its audio" in unknown.lesson_reason


def event(name: str, key: Key, detected_s: float, ended_s: float | None = None) -> DriftEvent:
    return DriftEvent(
        event_id=name, kind="kappa", model=key.model, task=key.task, language=key.language,
        timestamps=key.timestamps, detected_s=detected_s, before=3.0, after=4.0, ended_s=ended_s,
    )  # fmt: skip


async def test_changes_of_its_keys_around_its_end_are_told(setup: Setup) -> None:
    setup.store.append([completion("boot", 1, "transcribe-abc-00000001", finished_s=9_000.0)])
    for one in (
        event("long over", EN, 1_000.0, 2_000.0),
        event("just over", EN, 1_000.0, 6_000.0),
        event("lasts", Key("m"), 1_000.0),
        event("another key", Key("m", "transcribe", "fr"), 9_000.0),
        event("soon after", EN, 12_000.0),
        event("long after", EN, 13_000.0),
    ):
        setup.store.save_drift(one)
    (found,) = await setup.ask("abc")
    assert [one.event_id for one in found.drift_events] == ["soon after", "lasts", "just over"]
