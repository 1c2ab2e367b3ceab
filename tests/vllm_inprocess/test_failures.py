"""An exception in any part of ours: every request finishes, first come first served from there."""

import logging
from collections.abc import Callable
from typing import Any

import pytest

from sched_client import estimates as estimates_module
from sched_client.model import Partition
from sched_client.vllm import client as client_module
from sched_client.vllm.scheduler import KappadScheduler
from tests.support.vllm_fakes import FakeLink
from tests.vllm_inprocess.engine import (
    Driver,
    build_scheduler,
    clip_lengths,
    kappad_scheduler,
    make_request,
)

# Where to raise: an object reached from the client, and its method.
PLACES = {
    "begin_step": ("client", "begin_step"),
    "end_step": ("client", "end_step"),
    "arrive": ("client", "arrive"),
    "finish": ("client", "finish"),
    "record_of": ("client", "record_of"),
    "note_waiting": ("client", "note_waiting"),
    "revised": ("client", "revised"),
    "remains": ("client", "remains"),
    "estimates.remains": ("estimates", "remains"),
    "victims.arrange": ("victims", "arrange"),
    "victims.restore": ("victims", "restore"),
    "queue.begin_step": ("queue", "begin_step"),
    "queue.switch": ("queue", "switch"),
    "queue.settle": ("queue", "settle"),
    "features": ("reader", "_unknown_failure"),
    "tracker.admit": ("tracker", "admit"),
    "tracker.finish": ("tracker", "finish"),
    "tracker.advance": ("tracker", "advance"),
    "link.report": ("link", "report"),
    "policy.add": ("policy", "add"),
    "policy.peek": ("policy", "peek"),
    "policy.pop": ("policy", "pop"),
    "policy.remove": ("policy", "remove"),
    "policy.give_back": ("policy", "give_back"),
    "policy.update": ("policy", "update"),
    "ordered.decide": ("ordered", "decide"),
    "ordered.take": ("ordered", "take"),
    "evaluate": ("estimates_module", "evaluate"),
    "estimates.adopt": ("estimates", "adopt"),
    "estimates.revise_some": ("estimates", "revise_some"),
    "estimates.first": ("estimates", "first"),
    "decide": ("module", "decide"),
    "create_policy": ("module", "create_policy"),
}


class InjectedError(Exception):
    """What the tests raise."""


def _raise(*_: Any, **__: Any) -> Any:
    raise InjectedError("injected")


def _inject(monkeypatch: pytest.MonkeyPatch, client: Any, place: str) -> None:
    """Make a part of ours raise from now on."""
    owner, method = PLACES[place]
    if owner == "policy":
        # Its class has slots: every policy is of one class.
        monkeypatch.setattr(type(client.queue._ordered._policy), method, _raise)
        return
    if owner == "reader":
        monkeypatch.setattr(client.reader, "read", _raise)
        return
    targets = {
        "client": client,
        "queue": client.queue,
        "tracker": client.tracker,
        "victims": client.victims,
        "link": client.link,
        "ordered": type(client.queue._ordered),
        "estimates": client.estimates,
        "module": client_module,
        "estimates_module": estimates_module,
    }
    monkeypatch.setattr(targets[owner], method, _raise)


@pytest.mark.parametrize("place", PLACES)
def test_an_exception_anywhere_leaves_first_come_first_served(
    start: Callable[..., Any],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    place: str,
) -> None:
    # Few blocks, so that preemption calls prepend_request too.
    driver, link = start(
        "on",
        "ewsjf",
        max_num_seqs=4,
        blocks=94 * 4 + 20,
        length=lambda _: 80,
        preemption="least_lost",
        partition=Partition(boundaries_s=(0.2, 0.5), queue_ids=("q1", "q2", "q3")),
    )
    scheduler, lengths = driver.scheduler, clip_lengths(120)
    for index in range(60):
        scheduler.add_request(make_request(f"r{index}", lengths[index]))
    for _ in range(50):
        driver.step()
    assert scheduler._kappad.failures == 0
    with caplog.at_level(logging.ERROR, logger="kappad"):
        _inject(monkeypatch, scheduler._kappad, place)
        link.set(policy="ewsjf", phi=0.2)
        # Every kind of call happens while it raises: arrivals, aborts, steps, ends, a new policy.
        for index in range(60, 90):
            scheduler.add_request(make_request(f"r{index}", lengths[index]))
        waiting = {r.request_id for r in scheduler.waiting}
        driver.abort(*sorted(waiting)[:3])
        driver.step()
        link.set(policy="hrrn")
        for index in range(90, 120):
            scheduler.add_request(make_request(f"r{index}", lengths[index]))
        _run_until_failure_or_preemption(driver)
        driver.run()
    monkeypatch.undo()
    aborted = set(sorted(waiting)[:3])
    assert set(driver.finished) == {f"r{i}" for i in range(120)} - aborted
    assert len(driver.finished) == len(set(driver.finished))
    assert scheduler._kappad.failures == 1
    assert scheduler.waiting.mode == "off"
    assert len([r for r in caplog.records if r.name == "kappad"]) == 1
    assert link.status.failures in {0, 1}


def _run_until_failure_or_preemption(driver: Driver) -> None:
    """Step on, with new snapshots, until the injected failure was met."""
    link = driver.scheduler._kappad.link
    for round_ in range(400):
        if driver.scheduler._kappad.failures or not driver.scheduler.has_requests():
            return
        if round_ % 10 == 0:
            services = {"": link.snapshot.service_of("").__class__(overhead_s=1.0 + round_)}
            bounds = (0.3 + 0.01 * round_,)
            queues = {"whisper-test": Partition(boundaries_s=bounds, queue_ids=("q1", "q2"))}
            link.publish(services=services, partitions=queues)
        driver.step()


def test_after_a_failure_the_rest_goes_in_arrival_order(start: Callable[..., Any]) -> None:
    driver, _ = start("on", "sjf", max_num_seqs=2, length=lambda _: 3)
    scheduler = driver.scheduler
    for index, seconds in enumerate(clip_lengths(40)):
        scheduler.add_request(make_request(f"r{index}", seconds))
    for _ in range(6):
        driver.step()
    done = len(driver.admitted)
    assert driver.admitted != [f"r{i}" for i in range(done)]
    scheduler._kappad.fail(InjectedError("injected"))
    driver.run()
    rest = driver.admitted[done:]
    assert rest == [f"r{i}" for i in range(40) if f"r{i}" not in driver.admitted[:done]]


def test_a_failure_between_peek_and_pop_still_pops_what_was_peeked(
    start: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    driver, _ = start("on", "sjf")
    queue = driver.scheduler.waiting
    requests = [make_request(f"r{i}", seconds) for i, seconds in enumerate([29.0, 1.0, 5.0])]
    for request in requests:
        driver.scheduler.add_request(request)
    driver.scheduler._kappad.begin_step()
    assert queue.peek_request() is requests[1]
    monkeypatch.setattr(queue._ordered, "take", _raise)
    assert queue.pop_request() is requests[1]
    assert queue.failed
    assert list(queue) == [requests[0], requests[2]]


@pytest.mark.parametrize(
    "part", ["open_link", "served_vocabulary", "read_options", "EngineClient"]
)
def test_a_failure_at_construction_leaves_stock_vllm_with_one_warning(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, part: str
) -> None:
    from sched_client.vllm import scheduler as module  # noqa: PLC0415 - patched here

    link = FakeLink(kappad_scheduler(monkeypatch)[1].snapshot)
    monkeypatch.setattr(module, "open_link", lambda *_: link)
    monkeypatch.setattr(module, part, _raise)
    with caplog.at_level(logging.WARNING, logger="kappad"):
        scheduler = build_scheduler(KappadScheduler, max_num_seqs=2)
    assert len([r for r in caplog.records if r.name == "kappad"]) == 1
    assert type(scheduler.waiting).__module__.startswith("vllm.")
    assert link.closed == (part == "EngineClient")
    driver = Driver(scheduler)
    for index, seconds in enumerate(clip_lengths(20)):
        scheduler.add_request(make_request(f"r{index}", seconds))
    driver.run()
    assert driver.admitted == [f"r{i}" for i in range(20)]
    scheduler.shutdown()


def test_shutdown_closes_the_link_even_if_that_fails(
    start: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    driver, link = start("on")
    driver.scheduler.shutdown()
    assert link.closed == 1
    monkeypatch.setattr(link, "close", _raise)
    driver.scheduler.shutdown()
