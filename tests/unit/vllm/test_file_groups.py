"""Which requests are taken for pieces of one file, and what a policy is told of it when."""

import random
from types import SimpleNamespace

import pytest

from sched_client.model import Settings
from sched_client.options import ClientOptions
from sched_client.policies import WaitingEntry
from sched_client.vllm.client import EngineClient
from sched_client.vllm.features import FeatureReader
from sched_client.vllm.file_groups import MAX_GROUPS, FileGroups, piece_of
from sched_client.vllm.queue import KappadQueue
from tests.support.vllm_fakes import FakeLink, Request, StockQueue, text_snapshot


def hexed(name: str, number: int = 0) -> str:
    return f"transcribe-{name}-{number:08x}"


def grouped(arrivals: list[tuple[str, float]]) -> dict[str, str]:
    """Give what each request is a piece of once all have arrived."""
    groups = FileGroups()
    names = {request_id: groups.of(request_id, at) for request_id, at in arrivals}
    return {request_id: name if groups.counts(name) else "" for request_id, name in names.items()}


@pytest.mark.parametrize(
    ("request_id", "expected"),
    [
        ("transcribe-abc-0-0123abcd", ("transcribe-abc", 0)),
        ("transcribe-job-17-12-0123abcd", ("transcribe-job-17", 12)),
        ("transcribe-abc-00-0123abcd", None),
        ("transcribe-abc-٣-0123abcd", None),
        ("transcribe-abc-4096-0123abcd", None),
        ("transcribe-abc-99999999999999999999-0123abcd", None),
        ("transcribe-abc--0123abcd", None),
        ("transcribe-abc-0123abcd", None),
        ("transcribe-abc-lang_detect-0123abcd", None),
        ("0-0123abcd", None),
        ("x" * 300 + "-0-0123abcd", None),
        ("", None),
    ],
)
def test_a_piece_is_what_vllm_would_have_named_so(
    request_id: str, expected: tuple[str, int] | None
) -> None:
    assert piece_of(request_id) == expected


def test_a_file_is_a_group_from_its_second_piece_on() -> None:
    groups = FileGroups()
    first = groups.of("f-0-0123abcd", 5.0)
    assert not groups.counts(first)
    assert groups.take_completed() == []
    assert groups.of("f-1-1123abcd", 5.0) == first == "f@5.0"
    assert groups.counts(first)
    assert groups.take_completed() == ["f-0-0123abcd"]
    groups.of("f-2-2123abcd", 5.0)
    assert groups.take_completed() == []


def test_a_callers_own_number_is_no_piece() -> None:
    # Two callers of jobs 17 and 18, by chance at one instant: no file lacks its first piece.
    found = grouped([(hexed("job-17"), 5.0), (hexed("job-18"), 5.0)])
    assert set(found.values()) == {""}


def test_a_file_whose_caller_named_it_with_a_number_is_a_group_of_its_own() -> None:
    pieces = [(hexed(f"job-17-{piece}", piece), 5.0) for piece in range(3)]
    found = grouped([(hexed("job-0"), 5.0), *pieces])
    assert [found[request_id] for request_id, _ in pieces] == ["transcribe-job-17@5.0"] * 3
    assert found[hexed("job-0")] == ""


def test_equal_names_at_other_times_are_other_files() -> None:
    ids = [hexed(f"same-{piece}", 10 * caller + piece) for caller in range(2) for piece in (0, 1)]
    found = grouped(list(zip(ids, [5.0, 5.0, 5.000001, 5.000001], strict=True)))
    assert [found[one] for one in ids] == [
        "transcribe-same@5.0", "transcribe-same@5.0",
        "transcribe-same@5.000001", "transcribe-same@5.000001",
    ]  # fmt: skip


def test_strangers_with_one_name_at_one_instant_never_merge() -> None:
    # Interleaved in every way that keeps each caller's own order.
    for seed in range(50):
        rng = random.Random(seed)
        queues = [[hexed(f"x-{piece}", 10 * caller + piece) for piece in range(4)]
                  for caller in range(2)]  # fmt: skip
        arrivals, owner = [], {}
        while any(queues):
            caller = rng.choice([one for one in range(2) if queues[one]])
            request_id = queues[caller].pop(0)
            owner[request_id] = caller
            arrivals.append((request_id, 5.0))
        members = [one for one, name in grouped(arrivals).items() if name]
        assert len({owner[one] for one in members}) <= 1


def test_a_piece_that_comes_before_the_first_is_on_its_own() -> None:
    found = grouped([(hexed("f-1", 1), 5.0), (hexed("f-0", 0), 5.0), (hexed("f-2", 2), 5.0)])
    assert [bool(found[hexed(f"f-{piece}", piece)]) for piece in range(3)] == [True, False, True]


def test_files_without_end_keep_memory_bounded() -> None:
    groups = FileGroups()
    for number in range(MAX_GROUPS + 50):
        groups.of(f"f{number}-0-0123abcd", 5.0)
    assert len(groups) == MAX_GROUPS
    # The oldest was forgotten: its second piece is on its own, and nothing fails.
    assert groups.of("f0-1-0123abcd", 5.0) == ""


class _Engine:
    """A client in a mode whose clock stands still."""

    def __init__(self, *, trust_hints: bool = False, **settings: object) -> None:
        chosen = Settings(**{"reorder_above": 0, "reorder_until": 0, "mode": "on", **settings})  # type: ignore[arg-type]  # test values
        self.link = FakeLink(text_snapshot(chosen))
        self.link.publish()
        self.client = EngineClient(
            options=ClientOptions(trust_hints=trust_hints),
            link=self.link,
            reader=FeatureReader(trust_hints=trust_hints),
            new_queue=lambda owner: KappadQueue(StockQueue, owner),
            clock=lambda: 100.0,
        )
        self.queue = self.client.queue
        self.client.begin_step()

    def arrive(self, name: str, size: int = 4, group: str = "", **others: object) -> Request:
        request = Request(name, num_prompt_tokens=size, **others)
        if group:
            request.sampling_params = SimpleNamespace(extra_args={"group": group})
        self.client.arrive(request)
        self.queue.add_request(request)
        return request

    def entries(self) -> dict[str, WaitingEntry]:
        ordered, shadow = self.queue._ordered, self.queue._shadow
        policy = shadow.policy if ordered is None and shadow else ordered._policy  # type: ignore[union-attr]  # one of them
        return {entry.request_id: entry for entry in policy}

    def admit(self) -> str:
        self.client.begin_step()
        return str(self.queue.pop_request().request_id)

    def finish(self, request: Request) -> str:
        request.status = SimpleNamespace(name="FINISHED_STOPPED")
        self.client.finish(request)
        return str(self.link.reports[-1].group_id)


@pytest.mark.parametrize("mode", ["on", "shadow"])
def test_a_first_piece_that_waits_joins_when_the_second_comes(mode: str) -> None:
    engine = _Engine(mode=mode)
    engine.arrive("f-0-0123abcd")
    assert engine.entries()["f-0-0123abcd"].group_id == ""
    engine.arrive("f-1-1123abcd")
    groups = {entry.group_id for entry in engine.entries().values()}
    assert groups == {"f@1000000000.0"}
    assert not engine.queue.failed


def test_a_long_file_waits_for_a_shorter_clip_and_then_comes_out_whole() -> None:
    engine = _Engine(policy="sjf", burst_requests=float("inf"))
    for piece in range(3):
        engine.arrive(f"f-{piece}-0123abcd", 30)
    engine.arrive("clip", 80)  # longer than a piece, shorter than the file
    engine.arrive("longer", 150)
    order = [engine.admit() for _ in range(5)]
    assert order == ["clip", *(f"f-{piece}-0123abcd" for piece in range(3)), "longer"]


def test_pieces_that_are_streamed_one_after_another_are_one_file() -> None:
    engine = _Engine()
    first = engine.arrive("f-0-0123abcd")
    assert engine.admit() == "f-0-0123abcd"
    groups = [engine.finish(first)]
    for piece in (1, 2):
        request = engine.arrive(f"f-{piece}-0123abcd")
        assert engine.entries()[request.request_id].group_id == "f@1000000000.0"
        engine.admit()
        groups.append(engine.finish(request))
    # The first had ended before anybody could know that there would be more.
    assert groups == ["", "f@1000000000.0", "f@1000000000.0"]


def test_a_first_piece_that_runs_is_in_the_group_at_its_end() -> None:
    engine = _Engine()
    first = engine.arrive("f-0-0123abcd")
    engine.admit()
    engine.arrive("f-1-1123abcd")
    assert engine.finish(first) == "f@1000000000.0"


@pytest.mark.parametrize(("trusted", "expected"), [(True, {"hint:g"}), (False, {""})])
def test_a_callers_group_counts_where_hints_are_trusted(trusted: bool, expected: set[str]) -> None:
    engine = _Engine(trust_hints=trusted)
    for name in ("a", "b"):
        engine.arrive(name, group="g")
    assert {entry.group_id for entry in engine.entries().values()} == expected


def test_a_file_whose_caller_leaves_leaves_nothing_behind() -> None:
    engine = _Engine()
    requests = [engine.arrive(f"f-{piece}-0123abcd") for piece in range(4)]
    engine.queue.remove_requests(requests[:3])
    assert engine.admit() == "f-3-0123abcd"
    assert len(engine.queue) == 0
    assert not engine.queue.failed


def test_a_group_survives_a_change_of_mode_and_of_policy() -> None:
    engine = _Engine(mode="shadow")
    for piece in range(2):
        engine.arrive(f"f-{piece}-0123abcd", 50)
    engine.arrive("clip", 80)
    for change in ({"mode": "on"}, {"policy": "hrrn"}):
        engine.link.set(**change)
        engine.client.begin_step()
        found = {name: entry.group_id for name, entry in engine.entries().items()}
        assert found["f-0-0123abcd"] == found["f-1-0123abcd"] == "f@1000000000.0"
    assert engine.queue.mode == "on"


@pytest.mark.parametrize("mode", ["on", "shadow"])
def test_a_policy_that_fails_when_told_of_a_group_loses_nobody(
    mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = _Engine(trust_hints=True, mode=mode)
    engine.arrive("a", group="g")

    def broken(*_: object) -> None:
        raise RuntimeError("injected")

    monkeypatch.setattr("sched_client.policies.guarded.GuardedPolicy.revise", broken)
    engine.arrive("b", group="g")
    assert engine.queue.failed
    assert [request.request_id for request in engine.queue] == ["a", "b"]
