"""Tiers, remaining tokens and partitions as the client hands them to a policy."""

from dataclasses import replace
from types import SimpleNamespace

import pytest

from sched_client.model import DEFAULT_MODEL, Partition, PolicyParameters, Settings
from sched_client.options import ClientOptions
from sched_client.policies.base import Policy, WaitingEntry
from sched_client.vllm.client import EngineClient
from sched_client.vllm.features import FeatureReader
from sched_client.vllm.ordered import entry_of
from sched_client.vllm.queue import KappadQueue
from tests.support.vllm_fakes import FakeLink, Request, StockQueue, text_snapshot

SHORT_AND_LONG = Partition(boundaries_s=(0.5,), queue_ids=("q3", "q8"))


class _Engine:
    def __init__(self, *, trust: bool = False, priorities: bool = False, **settings: str) -> None:
        chosen = Settings(mode="on", reorder_above=0, reorder_until=0, **settings)  # type: ignore[arg-type]  # test values
        self.link = FakeLink(text_snapshot(chosen))
        self.client = EngineClient(
            options=ClientOptions(trust_hints=trust),
            link=self.link,
            reader=FeatureReader(trust_hints=trust),
            new_queue=lambda owner: KappadQueue(StockQueue, owner),
            priorities=priorities,
            clock=lambda: 100.0,
        )
        self.queue = self.client.queue
        self.client.begin_step()

    def arrive(self, name: str, size: int, tier: object = None, **others: int) -> Request:
        arguments = None if tier is None else {"tier": tier}
        sampling = SimpleNamespace(extra_args=arguments)
        request = Request(name, num_prompt_tokens=size, sampling_params=sampling, **others)
        self.client.arrive(request)
        self.queue.add_request(request)
        return request

    def order(self) -> list[str]:
        self.client.begin_step()
        return [self.queue.pop_request().request_id for _ in range(len(self.queue))]

    def entry(self, request: Request) -> WaitingEntry:
        return entry_of(self.client.tracker.records[request.request_id], self.client)


@pytest.mark.parametrize(
    ("trust", "expected"),
    [
        (True, ["paid", "middle", "garbage", "free"]),
        (False, ["free", "middle", "garbage", "paid"]),
    ],
)
@pytest.mark.parametrize("policy", ["sjf", "ewsjf"])
def test_a_tier_goes_before_the_order_only_where_hints_are_trusted(
    policy: str, trust: bool, expected: list[str]
) -> None:
    engine = _Engine(trust=trust, policy=policy, within="score", between="shortest")
    for name, size, tier in (
        ("free", 1, "free"),
        ("paid", 90, "paid"),
        ("garbage", 40, {"a": 1}),
        ("middle", 20, None),
    ):
        engine.arrive(name, size, tier)
    assert engine.order() == expected
    assert not engine.queue.failed


def test_a_report_says_what_a_request_was_ordered_by() -> None:
    engine = _Engine(trust=True)
    request = engine.arrive("a", 5, "-9999")
    request.status = SimpleNamespace(name="FINISHED_STOPPED")
    engine.client.finish(request)
    assert engine.link.reports[0].priority == -4


def test_a_preempted_request_is_ordered_by_what_is_left_of_it() -> None:
    engine = _Engine()
    long, short = engine.arrive("long", 300), engine.arrive("short", 120)
    whole = engine.entry(long)
    engine.queue.remove_requests([long])
    long.num_preemptions, long.num_output_tokens = 1, 290
    engine.queue.prepend_request(long)
    left = engine.entry(long)
    assert 1.0 <= left.tokens < whole.tokens - 150.0
    assert left.service_s < whole.service_s
    assert next(iter(engine.queue._ordered._policy)) == left  # type: ignore[union-attr]  # mode on
    assert engine.entry(short).tokens == pytest.approx(120.0)
    # A new estimate is of the whole and orders by the rest of it again.
    services = {"": replace(engine.link.snapshot.service_of(""), seconds_per_token=0.05)}
    engine.link.publish(services=services)
    for _ in range(3):
        engine.client.begin_step()
    record = engine.client.tracker.records["long"]
    assert record.service_s == pytest.approx(whole.service_s * 5.0, rel=0.2)
    assert next(iter(engine.queue._ordered._policy)).service_s == engine.entry(long).service_s  # type: ignore[union-attr]  # mode on
    # What it is compared with at its end is the whole.
    long.status = SimpleNamespace(name="FINISHED_STOPPED")
    engine.client.finish(long)
    assert engine.link.reports[0].predicted_tokens == whole.tokens


def test_an_exceeded_estimate_leaves_something_to_come() -> None:
    engine = _Engine()
    request = engine.arrive("a", 100, num_preemptions=1, num_output_tokens=400)
    assert engine.entry(request).tokens > 10.0


@pytest.mark.parametrize("mode", ["on", "shadow"])
def test_a_new_partition_reaches_the_policy_without_a_new_estimate_of_anyone(
    mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = _Engine(policy="ewsjf")
    engine.link.set(mode=mode)
    engine.client.begin_step()
    requests = [engine.arrive(f"r{number}", 10 + number) for number in range(40)]
    policy = engine.queue._ordered or engine.queue._shadow  # one of them, by mode
    updates: list[Partition] = []
    inner = policy._policy if mode == "on" else policy.policy  # type: ignore[union-attr]
    update = type(inner).update

    def noted(self: Policy, new: PolicyParameters) -> None:
        updates.append(new.partition)
        update(self, new)

    monkeypatch.setattr(type(inner), "update", noted)
    revised: list[str] = []
    monkeypatch.setattr(type(inner), "revise", lambda _, entry: revised.append(entry.request_id))
    engine.link.publish(partitions={DEFAULT_MODEL: SHORT_AND_LONG})
    for _ in range(3):
        engine.client.begin_step()
    assert updates == [SHORT_AND_LONG]
    assert revised == []
    # The same partition in another snapshot is no news.
    engine.link.publish(partitions={DEFAULT_MODEL: replace(SHORT_AND_LONG)})
    engine.client.begin_step()
    assert updates == [SHORT_AND_LONG]
    late = engine.arrive("late", 300)
    assert engine.client.tracker.records["late"].queue_id == "q8"
    assert not engine.queue.failed
    for request in (*requests, late):
        engine.queue.remove_requests([request])
        request.status = SimpleNamespace(name="FINISHED_STOPPED")
        engine.client.finish(request)
    # Whoever came before it was learned keeps the queue that it was estimated into.
    told = {report.request_id: report.queue_id for report in engine.link.reports}
    assert told["r0"] == "q0"
    assert told["late"] == "q8"
