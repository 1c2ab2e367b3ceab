"""What an operation of each policy costs: add, peek and pop at a standing number waiting.

Run as ``python -m benchmarks.policies``. The CPU time of the thread is taken, in rounds that
alternate with the baseline, a bare ``heapq`` on (work, number), so that both see the same machine.
"""

import heapq
import json
import random
import statistics
import time
from collections.abc import Callable

from sched_client.model import PolicyParameters
from sched_client.policies import POLICY_NAMES, WaitingEntry, create_policy

WAITING = (100, 1_000, 10_000)
ROUNDS = 31
OPERATIONS = 400
# Steady overload: one leaves for each that arrives, at this many per second, and works are
# log-normal around 0.3 s as LibriSpeech's durations are, so that no two are equal.
RATE_PER_S = 10.0
SEED = 7


def _works(count: int, rng: random.Random) -> list[float]:
    return [0.3 * rng.lognormvariate(0.0, 0.8) for _ in range(count)]


def _entry(number: int, work: float) -> WaitingEntry:
    return WaitingEntry(f"r{number}", number / RATE_PER_S, work, 80.0 * work)


def _policy_round(name: str, waiting: int) -> Callable[[], float]:
    rng = random.Random(SEED)
    # b₀ = 20 mean requests, the default of Settings: at these loads the guard binds.
    policy = create_policy(name, PolicyParameters(phi=0.3, burst_work=6.0))
    for number, work in enumerate(_works(waiting, rng)):
        policy.add(_entry(number, work))
    state = {"number": waiting}

    def run(operations: int = OPERATIONS) -> float:
        first = state["number"]
        entries = [_entry(first + i, work) for i, work in enumerate(_works(operations, rng))]
        state["number"] += operations
        add, peek, pop = policy.add, policy.peek, policy.pop
        begin = time.thread_time_ns()
        for entry in entries:
            add(entry)
            now_s = entry.enqueued_s
            peek(now_s)
            pop(now_s)
        return (time.thread_time_ns() - begin) / operations / 1e3

    # Until as many left as waited: what waits then is what the order leaves, not the first fill.
    run(2 * waiting)
    return run


def _heap_round(waiting: int) -> Callable[[], float]:
    rng = random.Random(SEED)
    heap = [(work, number) for number, work in enumerate(_works(waiting, rng))]
    heapq.heapify(heap)
    state = {"number": waiting}

    def run() -> float:
        first = state["number"]
        pairs = [(work, first + i) for i, work in enumerate(_works(OPERATIONS, rng))]
        state["number"] += OPERATIONS
        begin = time.thread_time_ns()
        for pair in pairs:
            heapq.heappush(heap, pair)
            heapq.heappop(heap)
        return (time.thread_time_ns() - begin) / OPERATIONS / 1e3

    return run


def measure() -> dict[str, float]:
    """Measure every policy with its guard on.

    Returns
    -------
    dict of str to float
        Median µs of one add + peek + pop, by ``"<policy>@<waiting>"``, and ``heapq`` likewise;
        ``"<policy>@<waiting>/p90"`` is the ninth decile of the rounds.
    """
    results: dict[str, float] = {}
    for waiting in WAITING:
        rounds = {name: _policy_round(name, waiting) for name in POLICY_NAMES}
        rounds["heapq"] = _heap_round(waiting)
        times: dict[str, list[float]] = {name: [] for name in rounds}
        for _ in range(ROUNDS):
            for name, run in rounds.items():
                times[name].append(run())
        for name, values in times.items():
            results[f"{name}@{waiting}"] = statistics.median(values)
            results[f"{name}@{waiting}/p90"] = statistics.quantiles(values, n=10)[-1]
    return results


if __name__ == "__main__":
    print(json.dumps({name: round(value, 2) for name, value in measure().items()}, indent=1))
