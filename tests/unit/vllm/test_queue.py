"""The queue against a plain list: none lost, none doubled, whatever fails and whenever."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sched_client.model import Mode, PolicyParameters, Settings
from sched_client.options import ClientOptions
from sched_client.policies import create_policy
from sched_client.vllm.client import EngineClient
from sched_client.vllm.features import FeatureReader
from sched_client.vllm.queue import KappadQueue
from tests.support.vllm_fakes import FakeLink, Request, StockQueue, text_snapshot

PARAMETERS = PolicyParameters()


def _client() -> EngineClient:
    return EngineClient(
        options=ClientOptions(),
        link=FakeLink(text_snapshot(Settings(mode="on"))),
        reader=FeatureReader(),
        new_queue=lambda owner: KappadQueue(StockQueue, owner),
        clock=lambda: 5.0,
    )


def _queue(mode: Mode = "on", policy: str = "sjf") -> KappadQueue:
    queue = _client().queue
    _switch(queue, mode, policy)
    return queue


def _switch(queue: KappadQueue, mode: Mode, policy: str = "sjf") -> None:
    made = None if mode == "off" else create_policy(policy, PARAMETERS)
    queue.switch(mode, made, PARAMETERS)


def _text(name: str, size: int, **others: Any) -> Request:
    return Request(name, num_prompt_tokens=size, **others)


def _drain(queue: KappadQueue) -> list[str]:
    return [queue.pop_request().request_id for _ in range(len(queue))]


def test_mode_on_pops_the_shortest_and_off_the_oldest() -> None:
    orders: dict[Mode, list[str]] = {"on": ["b", "c", "a"], "off": ["a", "b", "c"]}
    for mode, expected in orders.items():
        queue = _queue(mode)
        for name, size in (("a", 90), ("b", 1), ("c", 20)):
            queue.add_request(_text(name, size))
        assert _drain(queue) == expected


@pytest.mark.parametrize("mode", ["off", "shadow", "on"])
def test_an_empty_queue_says_so(mode: Mode) -> None:
    queue = _queue(mode)
    assert not queue
    assert list(queue) == []
    with pytest.raises(IndexError):
        queue.peek_request()
    with pytest.raises(IndexError):
        queue.pop_request()
    queue.remove_requests([_text("absent", 3)])
    assert not queue.failed


def test_pop_gives_what_peek_gave_whatever_arrived_between() -> None:
    queue = _queue()
    queue.add_request(_text("long", 90))
    peeked = queue.peek_request()
    queue.add_request(_text("short", 1))
    queue.prepend_request(_text("preempted", 50, num_preemptions=1))
    assert queue.pop_request() is peeked
    assert _drain(queue) == ["preempted", "short"]


def test_a_choice_that_is_not_popped_is_void_in_the_next_step() -> None:
    queue = _queue()
    queue.add_request(_text("long", 90))
    assert queue.peek_request().request_id == "long"
    queue.begin_step(6.0)
    queue.add_request(_text("short", 1))
    assert queue.peek_request().request_id == "short"


def test_a_removed_choice_is_chosen_anew() -> None:
    queue = _queue()
    first, second = _text("a", 1), _text("b", 9)
    queue.add_request(first)
    queue.add_request(second)
    assert queue.peek_request() is first
    queue.remove_requests([first, _text("absent", 2)])
    assert queue.peek_request() is second
    assert queue.pop_request() is second


def test_skipped_requests_keep_their_place_before_their_equals() -> None:
    queue = _queue("off")
    reference = StockQueue()
    requests = [_text(name, 5) for name in "abcd"]
    for taker in (queue, reference):
        for request in requests:
            taker.add_request(request)
        skipped = [taker.pop_request(), taker.pop_request()]
        taker.prepend_requests(reversed(skipped))
    assert list(queue) == list(reference) == requests
    _switch(queue, "on")
    skipped = [queue.pop_request(), queue.pop_request()]
    queue.prepend_requests(reversed(skipped))
    assert _drain(queue) == list("abcd")


def test_switching_keeps_arrival_order_with_preempted_first() -> None:
    queue = _queue()
    for name, size in (("a", 90), ("b", 1), ("c", 20)):
        queue.add_request(_text(name, size))
    queue.prepend_request(_text("p", 99, num_preemptions=1))
    for mode in ("off", "shadow", "on", "on", "off"):
        _switch(queue, mode)
        assert [request.request_id for request in queue] == ["p", "a", "b", "c"]
    assert _drain(queue) == ["p", "a", "b", "c"]


def test_shadow_counts_where_it_would_have_chosen_another() -> None:
    queue = _queue("shadow")
    for name, size in (("a", 90), ("b", 1), ("c", 20)):
        queue.add_request(_text(name, size))
    # The policy would take b before a; then b, and then c, as the stock queue does.
    assert _drain(queue) == ["a", "b", "c"]
    assert queue.reordered == 1


def test_on_counts_who_overtook_the_oldest() -> None:
    queue = _queue("on")
    for name, size in (("a", 90), ("b", 1), ("c", 20)):
        queue.add_request(_text(name, size))
    _drain(queue)
    assert queue.reordered == 2


def test_has_request_takes_a_request_or_an_id() -> None:
    for mode in ("off", "shadow", "on"):
        queue = _queue(mode)
        request = _text("a", 1)
        queue.add_request(request)
        assert queue.has_request(request)
        assert queue.has_request("a")
        assert not queue.has_request("b")


class _Failing:
    """A policy whose n-th call raises, and the later ones too."""

    def __init__(self, policy: Any, calls: int) -> None:
        self._policy = policy
        self.calls = calls

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._policy, name)
        if not callable(found):
            return found

        def call(*arguments: Any) -> Any:
            self.calls -= 1
            if self.calls < 0:
                raise KeyError(f"injected into {name}")
            return found(*arguments)

        return call


_OPERATION = st.sampled_from(
    ["add", "add", "add", "step", "peek", "pop", "admit", "preempt", "skip", "remove", "switch"]
)


@settings(max_examples=300, deadline=None)
@given(
    operations=st.lists(st.tuples(_OPERATION, st.integers(0, 99)), max_size=60),
    mode=st.sampled_from(["on", "shadow"]),
    policy=st.sampled_from(["fcfs", "sjf", "hrrn"]),
    calls=st.one_of(st.just(10**6), st.integers(0, 40)),
)
def test_none_is_lost_or_doubled_whatever_fails(
    operations: list[tuple[str, int]], mode: Mode, policy: str, calls: int
) -> None:
    queue = _client().queue
    failing = _Failing(create_policy(policy, PARAMETERS), calls)
    queue.switch(mode, failing, PARAMETERS)
    play = _Play(queue)
    for operation, number in operations:
        getattr(play, operation)(number)
        play.check()
    assert queue.failed is (failing.calls < 0)
    if queue.failed:
        assert queue.mode == "off"
    assert sorted(r.request_id for r in play.drain()) == sorted(play.waiting)


class _Play:
    """Operations on a queue, and the set of requests that must be waiting."""

    def __init__(self, queue: KappadQueue) -> None:
        self.queue = queue
        self.waiting: dict[str, Request] = {}
        self.running: list[Request] = []
        self.count = 0

    def check(self) -> None:
        ids = [request.request_id for request in self.queue]
        assert sorted(ids) == sorted(self.waiting)
        assert len(self.queue) == len(ids)
        assert bool(self.queue) is bool(ids)

    def drain(self) -> list[Request]:
        return [self.queue.pop_request() for _ in range(len(self.queue))]

    def add(self, number: int) -> None:
        self.count += 1
        request = _text(f"r{self.count}", 1 + number)
        self.waiting[request.request_id] = request
        self.queue.add_request(request)

    def step(self, number: int) -> None:
        self.queue.begin_step(5.0 + number)

    def peek(self, _: int) -> None:
        if self.waiting:
            assert self.queue.peek_request() in self.waiting.values()

    def pop(self, _: int) -> None:
        if self.waiting:
            popped = self.queue.pop_request()
            assert self.waiting.pop(popped.request_id) is popped
            self.running.append(popped)

    def admit(self, number: int) -> None:
        if self.waiting:
            peeked = self.queue.peek_request()
            if number % 2:
                self.add(number)
            popped = self.queue.pop_request()
            assert popped is peeked
            del self.waiting[popped.request_id]
            self.running.append(popped)

    def preempt(self, _: int) -> None:
        if self.running:
            request = self.running.pop()
            request.num_preemptions += 1
            self.waiting[request.request_id] = request
            self.queue.prepend_request(request)

    def skip(self, number: int) -> None:
        count = min(len(self.waiting), 1 + number % 3)
        skipped = [self.queue.pop_request() for _ in range(count)]
        self.queue.prepend_requests(reversed(skipped))

    def remove(self, number: int) -> None:
        gone = [r for r in self.waiting.values() if int(r.request_id[1:]) % 3 == number % 3]
        for request in gone:
            del self.waiting[request.request_id]
        self.queue.remove_requests([*gone, *self.running])

    def switch(self, number: int) -> None:
        modes: list[Mode] = ["off", "shadow", "on"]
        self.queue.begin_step(5.0)
        _switch(self.queue, modes[number % 3])
