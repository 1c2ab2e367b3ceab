"""What the client keeps, reports and falls back to; its queue on a plain list."""

import re
from dataclasses import replace
from types import SimpleNamespace

import pytest

from sched_client.model import Settings
from sched_client.options import ClientOptions
from sched_client.policies.ledger import OvertakingLedger
from sched_client.vllm.client import EngineClient
from sched_client.vllm.features import FeatureReader
from sched_client.vllm.queue import KappadQueue
from tests.support.vllm_fakes import FakeLink, Request, StockQueue, text_snapshot


class _Engine:
    """A client with a clock that stands still at 100 s."""

    def __init__(self, *, priorities: bool = False, **settings: object) -> None:
        # Few wait here, and their order is what is looked at.
        chosen = Settings(**{"policy": "sjf", "reorder_above": 0, **settings})  # type: ignore[arg-type]  # test values
        self.link = FakeLink(text_snapshot(chosen))
        self.link.publish()
        self.client = EngineClient(
            options=ClientOptions(stale_fcfs_after_s=5.0),
            link=self.link,
            reader=FeatureReader(),
            new_queue=lambda owner: KappadQueue(StockQueue, owner),
            priorities=priorities,
            clock=lambda: 100.0,
        )
        self.queue = self.client.queue
        self.client.begin_step()

    def arrive(self, name: str, size: int = 4, **others: object) -> Request:
        request = Request(name, num_prompt_tokens=size, **others)
        self.client.arrive(request)
        self.queue.add_request(request)
        return request

    def finish(self, request: Request, status: str = "FINISHED_STOPPED") -> None:
        request.status = SimpleNamespace(name=status)
        self.client.finish(request)

    def admit(self) -> str:
        self.client.begin_step()
        return str(self.queue.pop_request().request_id)


@pytest.mark.parametrize(
    ("policy", "silent"), [("sjf", True), ("fcfs", False), ("from-the-future", False)]
)
def test_what_arrives_while_vllm_decides_alone_is_reported_too(policy: str, silent: bool) -> None:
    engine = _Engine(mode="on", policy=policy)
    engine.link.stale_since_s = 90.0 if silent else None
    engine.client.begin_step()
    assert engine.client.decision.policy == "fcfs"
    request = engine.arrive("a", 7)
    assert engine.admit() == "a"
    engine.finish(request)
    (report,) = engine.link.reports
    assert (report.features.prompt_tokens, report.predicted_tokens > 0.0) == (7, True)


def test_a_failure_lets_go_of_every_request() -> None:
    engine = _Engine(mode="on")
    requests = [engine.arrive(f"r{number}") for number in range(5)]
    engine.client.fail(RuntimeError("injected"))
    assert list(engine.queue) == requests
    assert not engine.client.tracker.records
    for request in requests:
        engine.finish(request)
    assert engine.link.reports == []


def test_what_is_told_of_a_failure_is_where_it_was_and_names_no_request() -> None:
    engine = _Engine(mode="on")
    engine.queue.add_request(engine.arrive("patient-name"))
    assert engine.client.failures == 1
    engine.client.end_step(SimpleNamespace(scheduled_new_reqs=[]), 0)
    told = engine.link.status.mode_reason
    assert re.fullmatch(r"failure: ValueError at guarded\.py:\d+", told)


def test_a_choice_made_before_a_failure_is_void_in_the_next_step() -> None:
    engine = _Engine(mode="on")
    engine.arrive("long", 90)
    engine.arrive("short", 1)
    assert engine.queue.peek_request().request_id == "short"
    engine.client.fail(RuntimeError("injected"))
    assert engine.queue.peek_request().request_id == "short"  # vLLM may have allocated for it
    assert engine.admit() == "long"


@pytest.mark.parametrize("mode", ["shadow", "on"])
def test_a_request_that_is_skipped_at_every_step_is_reordered_once_at_most(mode: str) -> None:
    engine = _Engine(mode=mode)
    engine.arrive("first", 50 if mode == "on" else 9)
    engine.arrive("second", 1)
    for _ in range(10):
        engine.client.begin_step()
        engine.queue.prepend_requests([engine.queue.pop_request()])
    assert engine.queue.reordered == 0
    engine.admit()
    # Given back, it goes first in the shadow's order too.
    assert engine.queue.reordered == (1 if mode == "on" else 0)


@pytest.mark.parametrize("mode", ["shadow", "on"])
def test_many_skipped_requests_return_to_a_policy_without_making_room_for_each(
    mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = _Engine(mode=mode)
    moments = iter(range(100, 10_000))
    engine.client.clock = lambda: float(next(moments))
    requests = [engine.arrive(f"r{number}", 1 + number * 7 % 97) for number in range(500)]
    engine.client.begin_step()
    skipped = [engine.queue.pop_request() for _ in requests]
    spread = []
    monkeypatch.setattr(OvertakingLedger, "_insert_spreading", lambda *_: spread.append(1))
    engine.queue.prepend_requests(reversed(skipped))
    assert not spread
    assert sorted(r.request_id for r in engine.queue) == sorted(r.request_id for r in requests)
    assert not engine.queue.failed


def test_ids_of_any_length_keep_memory_bounded() -> None:
    engine = _Engine(mode="on")
    for number in range(3):
        request = engine.arrive("x" * 100_000 + f"{number}-0-0123abcd")
        engine.queue.remove_requests([request])
        engine.finish(request, "FINISHED_ABORTED")
    assert len(engine.client.tracker._groups) == 0
    assert all(len(r.request_id) + len(r.group_id) < 1000 for r in engine.link.reports)
    assert len({r.request_id for r in engine.link.reports}) == 3


@pytest.mark.parametrize(("priorities", "expected"), [(False, "short"), (True, "pushy")])
def test_a_priority_counts_only_where_vllm_counts_it(priorities: bool, expected: str) -> None:
    engine = _Engine(mode="on", priorities=priorities)
    engine.arrive("short", 1)
    engine.arrive("pushy", 90, priority=-100)
    assert engine.admit() == expected


def test_what_runs_is_given_with_its_tokens_so_far_and_no_longer_than_it_runs() -> None:
    engine = _Engine(mode="shadow")
    source = engine.link.running
    assert source is not None
    requests = [engine.arrive(name, 7) for name in ("a", "b", "c")]
    assert list(source.read(256)) == []
    for _ in requests:
        name = engine.admit()
        output = SimpleNamespace(scheduled_new_reqs=[SimpleNamespace(req_id=name)])
        engine.client.end_step(output, 1)
    requests[0].num_output_tokens = 5
    found = {one.request_id: one for one in source.read(256)}
    assert {name: one.output_tokens for name, one in found.items()} == {"a": 5, "b": 0, "c": 0}
    assert all(one.features.prompt_tokens == 7 for one in found.values())
    assert [one.request_id for one in source.read(2)] == ["a", "c"]
    engine.finish(requests[0])
    assert {one.request_id for one in source.read(256)} == {"b", "c"}


def test_nothing_is_given_while_off_or_failed() -> None:
    engine = _Engine(mode="shadow")
    given = []
    for mode in ("off", "shadow"):
        engine.link.set(mode=mode)
        engine.client.begin_step()
        given.append(engine.link.running is not None)
    engine.client.fail(RuntimeError("ours"))
    given.append(engine.link.running is not None)
    assert given == [False, True, False]


def test_requests_are_estimated_anew_where_each_step_meets_another_snapshot() -> None:
    engine = _Engine(mode="on", policy="sjf")
    for number in range(20):
        engine.arrive(f"r{number}", 4 + number)
    records = engine.client.tracker.records
    before = [record.tokens for record in records.values()]
    adopted = []
    for _ in range(9):
        kappas = engine.link.snapshot.kappas
        raised = {
            key: replace(entry, kappa_tokens_per_s=entry.kappa_tokens_per_s * 1.5)
            for key, entry in kappas.items()
        }
        engine.link.publish(kappas=raised)
        engine.client.begin_step()
        adopted.append(engine.client.estimates.snapshot is engine.link.snapshot)
    # In the first step of all there was nobody to be estimated anew.
    assert adopted == [True, False, True, True, False, True, True, False, True]
    after = [record.tokens for record in records.values()]
    assert all(new > old for old, new in zip(before, after, strict=True))
    engine.link.set(mode="off")
    engine.client.begin_step()
    assert engine.client.decision.mode == "off"


def test_an_engine_that_is_switched_on_in_an_overload_knows_that_it_is_in_one() -> None:
    engine = _Engine(mode="off", policy="sjf", reorder_above=8)
    for number in range(60):
        engine.arrive(f"past{number}", 5)
        if number >= 12:
            engine.admit()
    while len(engine.queue):
        engine.admit()
    engine.link.set(mode="on")
    engine.client.begin_step()
    engine.arrive("long", 90)
    engine.arrive("short", 1)
    assert engine.admit() == "short"
