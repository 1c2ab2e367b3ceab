"""Who is moved to where vLLM preempts, on a scheduler of plain values."""

from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sched_client.model import Settings
from sched_client.options import ClientOptions
from sched_client.vllm.client import EngineClient
from sched_client.vllm.features import FeatureReader
from sched_client.vllm.preemption import LeastLost
from sched_client.vllm.queue import KappadQueue
from tests.support.vllm_fakes import FakeLink, StockQueue, text_snapshot

SIZE = 16


def _request(name: str, computed: int, *, new: int = 1, shared: int = 0) -> Any:
    counts = [2] * shared + [1] * (-(-computed // SIZE) - shared)
    return SimpleNamespace(
        request_id=name,
        num_computed_tokens=computed,
        num_tokens_with_spec=computed + new,
        num_output_placeholders=0,
        blocks=[SimpleNamespace(ref_cnt=count) for count in counts],
    )


def _scheduler(running: list[Any], free: int, **others: Any) -> Any:
    by_name = {request.request_id: request for request in running}
    return SimpleNamespace(
        running=running,
        block_size=SIZE,
        max_num_scheduled_tokens=others.pop("budget", 64),
        num_lookahead_tokens=0,
        kv_cache_config=SimpleNamespace(kv_cache_groups=[SimpleNamespace(kv_cache_spec=None)]),
        kv_cache_manager=SimpleNamespace(
            block_pool=SimpleNamespace(get_num_free_blocks=lambda: free),
            get_blocks=lambda name: SimpleNamespace(blocks=(by_name[name].blocks,)),
        ),
        **others,
    )


def _order(scheduler: Any) -> str:
    return "".join(request.request_id for request in scheduler.running)


@pytest.mark.parametrize(
    ("free", "expected"),
    [(9, "abcd"), (4, "abcd"), (3, "acdb"), (1, "acdb"), (0, "acdb")],
)
def test_the_least_lost_comes_last_only_where_blocks_are_short(free: int, expected: str) -> None:
    # Four blocks are asked for; `b` gives back the five of its own.
    requests = [
        _request(name, size) for name, size in zip("abcd", (320, 80, 960, 480), strict=True)
    ]
    scheduler = _scheduler(requests, free)
    victims = LeastLost(scheduler)
    victims.arrange()
    assert _order(scheduler) == expected
    victims.restore()
    assert _order(scheduler) == "abcd"


def test_as_many_as_are_needed_are_moved_the_least_lost_last() -> None:
    sizes = (16, 320, 16, 32, 960)
    requests = [_request(name, size) for name, size in zip("abcde", sizes, strict=True)]
    scheduler = _scheduler(requests, 0)
    LeastLost(scheduler).arrange()
    # Five blocks. Two are good for two each, their own and what they would ask for; of the two
    # the later one goes first, as with vLLM. The fifth comes from the next.
    assert _order(scheduler) == "bedac"


def test_what_others_share_is_not_lost() -> None:
    requests = [
        _request("a", 480, shared=29),
        _request("b", 80),
        _request("c", 960, shared=30),
    ]
    scheduler = _scheduler(requests, 2)
    LeastLost(scheduler).arrange()
    assert _order(scheduler) == "bca"


def test_whose_blocks_may_still_be_written_is_no_victim() -> None:
    requests = [_request(name, size) for name, size in zip("abc", (16, 80, 960), strict=True)]
    scheduler = _scheduler(requests, 2, _request_blocks_can_be_freed=lambda r: r.request_id != "a")
    LeastLost(scheduler).arrange()
    assert _order(scheduler) == "acb"


def test_a_prefill_asks_for_no_more_than_the_budget() -> None:
    requests = [_request("a", 32), _request("b", 160, new=4000), _request("c", 32)]
    scheduler = _scheduler(requests, 5, budget=64)
    victims = LeastLost(scheduler)
    victims.arrange()
    # One for `a`, four for the 63 tokens that are left to `b`, none for `c`.
    assert (_order(scheduler), victims.arranged) == ("abc", 0)


@pytest.mark.parametrize("fails", [False, True])
def test_the_order_is_vllms_own_after_a_step_in_which_we_failed_too(fails: bool) -> None:
    sizes = (320, 80, 960, 480)
    requests = [_request(name, size) for name, size in zip("abcd", sizes, strict=True)]
    scheduler = _scheduler(requests, 0)
    victims = LeastLost(scheduler)
    link = FakeLink(text_snapshot(Settings(mode="on", policy="sjf", preemption="least_lost")))
    client = EngineClient(
        options=ClientOptions(),
        link=link,
        reader=FeatureReader(),
        new_queue=lambda owner: KappadQueue(StockQueue, owner),
        victims=victims,
        clock=lambda: 100.0,
    )
    orders = []
    for _ in range(2):
        client.begin_step()
        orders.append(_order(scheduler))
        if fails:
            client.fail(RuntimeError("injected"))
        client.end_step(SimpleNamespace(scheduled_new_reqs=[]), 4)
        orders.append(_order(scheduler))
    assert orders == ["acdb", "abcd", "abcd" if fails else "acdb", "abcd"]
    assert link.status.failures == fails


def test_a_scheduler_without_what_it_needs_is_refused() -> None:
    scheduler = _scheduler([], 3)
    del scheduler.kv_cache_manager.block_pool
    with pytest.raises(AttributeError):
        LeastLost(scheduler)


@settings(deadline=None)
@given(
    st.lists(st.tuples(st.integers(1, 600), st.integers(0, 40)), max_size=14),
    st.integers(0, 60),
    st.data(),
)
def test_nobody_is_lost_and_the_others_keep_their_order(
    sizes: list[tuple[int, int]], free: int, data: st.DataObject
) -> None:
    requests = [_request(str(at), size, new=new) for at, (size, new) in enumerate(sizes)]
    scheduler = _scheduler(list(requests), free)
    victims = LeastLost(scheduler)
    victims.arrange()
    assert sorted(scheduler.running, key=requests.index) == requests
    # What a step does: some of the last are preempted, and then nobody is admitted.
    count = data.draw(st.integers(0, len(requests)))
    gone = [scheduler.running.pop() for _ in range(count)]
    late = [] if gone else [_request("late", 5)]
    scheduler.running.extend(late)
    victims.restore()
    assert scheduler.running == [one for one in requests if one not in gone] + late
    assert scheduler.running is not requests
