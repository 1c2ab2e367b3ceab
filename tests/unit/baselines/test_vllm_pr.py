"""vLLM pull request #33392's score as an order: hand-computed choices."""

import math
import random

from benchmarks.baselines.vllm_pr import ScoredQueues, score, vllm_pr33392
from sched_client.model import PolicyParameters
from sched_client.policies import WaitingEntry
from sched_client.policies.waiting import Waiting


def entry(number: int, enqueued_s: float, tokens: float) -> WaitingEntry:
    return WaitingEntry(f"r{number}", enqueued_s, 1.0, tokens)


def test_a_long_prompt_needs_a_longer_wait() -> None:
    # Scores a second of waiting: 100 tokens 200·(1+.5·ln 101) = 661.5, 1,000 tokens
    # 200/6·(1+.5·ln 1001) = 148.5: the long one leads where it has waited 4.46 times as long.
    for short_s, expected in ((7.7, "r1"), (7.8, "r0")):
        policy = vllm_pr33392(PolicyParameters())
        policy.add(entry(0, 0.0, 1000.0))
        policy.add(entry(1, short_s, 100.0))
        assert policy.peek(10.0).request_id == expected


def test_a_queue_keeps_the_order_of_arrival() -> None:
    policy = vllm_pr33392(PolicyParameters())
    for number, tokens in enumerate((150.0, 10.0, 199.0)):
        policy.add(entry(number, float(number), tokens))
    assert [policy.pop(5.0).request_id for _ in range(3)] == ["r0", "r1", "r2"]


def test_the_first_is_the_best_of_the_ten_heads() -> None:
    rng = random.Random(3)
    order = ScoredQueues()
    waiting: list[Waiting] = []
    for number in range(600):
        item = Waiting(
            entry(number, number / 10, 3000.0 * rng.random()), 1.0, number, returned=False
        )
        waiting.append(item)
        order.push(item)
        if number % 3:
            now_s = number / 10
            heads = {min(int(i.tokens // 200), 9): i for i in reversed(waiting)}.values()
            best = max(heads, key=lambda i: score(now_s - i.enqueued_s, i.tokens))
            assert order.first(now_s) is best
            order.discard(best)
            waiting.remove(best)
        assert len(order) == len(waiting)


def test_the_guard_holds_where_it_is_asked_for() -> None:
    never = PolicyParameters(phi=0.0, burst_work=0.0)
    for guarded, expected in ((False, "r1"), (True, "r0")):
        policy = vllm_pr33392(never, guarded=guarded)
        policy.add(entry(0, 0.0, 1000.0))
        policy.add(entry(1, 1.0, 10.0))
        assert policy.peek(3.0).request_id == expected
    assert math.isinf(vllm_pr33392(never)._parameters.burst_work)
