"""What an operation of each policy costs at a standing number waiting, the guard on.

Run as ``python -m benchmarks.policies [WAITING…]``; all of it takes about three minutes. Two
things are called an operation, and both are told:

- a *turn*: ``add``, ``peek`` and ``pop``, all that one request costs from its arrival to its
  admission, timed in blocks of 400 turns;
- a *call* of one of them, or of ``remove`` of one that waits anywhere, each timed by itself (what
  reading the clock takes is subtracted).

Beside the steady load, hrrn where each arrival is shorter than all before: all that wait may be
next, and any order that keeps only those at hand has to look at all again for nearly each turn.

CPU time of the thread, in blocks that alternate with the baseline, a bare ``heapq`` on (work,
number), so that both see the same machine. The worst call is the least of three runs of the same
calls, with Python's garbage collector off: what the machine does does not come back in all three.
"""

import argparse
import gc
import heapq
import json
import random
import statistics
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, Final

from benchmarks.baselines.orders import ScannedRatio, SortedRatio
from estimator.demo.environment import default_python
from sched_client.model import Partition, PolicyParameters, Settings
from sched_client.policies import POLICY_NAMES, Policy, WaitingEntry, create_policy
from sched_client.policies.orders import Order
from sched_client.policies.waiting import Waiting

WAITING: Final = (100, 1_000, 10_000, 100_000)
# Steady overload: one leaves for each that arrives, at this many a second, and works are
# log-normal around 0.3 s as LibriSpeech's durations are, so that no two are equal.
RATE_PER_S: Final = 10.0
SEED: Final = 7
_BLOCKS: Final = 21
_TURNS: Final = 400
_SINGLE: Final = 2_000
# After so many turns at the most, the figures stand still.
_SETTLED: Final = 100_000
_WORST_OF: Final = 3
_WORST_TURNS: Final = 10_000
# A look at all, or a sort of all, takes too long for more turns of as many.
_SLOW_LIMIT: Final = 10_000
# Works that fall to a tenth over as many arrivals as wait.
EVER_SHORTER: Final = (20_000, 100_000)
_FALL: Final = 0.1
_DEFAULT: Final = Settings()
# Eight queues at the eighths of the works above.
_EIGHTHS: Final = (0.1194, 0.1749, 0.2325, 0.3, 0.3871, 0.5145, 0.7537)
# b₀ = 20 mean requests: at these loads the guard binds.
PARAMETERS: Final = PolicyParameters(
    phi=0.3,
    burst_work=6.0,
    partition=Partition(
        boundaries_s=_EIGHTHS,
        queue_ids=tuple(f"q{number}" for number in range(8)),
        means_s=(0.08, 0.15, 0.2, 0.27, 0.34, 0.45, 0.62, 1.2),
        shares=(0.125,) * 8,
    ),
)

# The policies as they are, ewsjf by score; and ewsjf as it is by default.
ORDERS: Final[dict[str, tuple[str, PolicyParameters]]] = {
    **{name: (name, PARAMETERS) for name in POLICY_NAMES},
    "ewsjf, halves": (
        "ewsjf",
        replace(
            PARAMETERS,
            between=_DEFAULT.between,
            short_share=_DEFAULT.short_share,
            short_share_most=_DEFAULT.short_share_most,
        ),
    ),
}

Turn = Callable[[WaitingEntry], None]


def works(count: int, rng: random.Random) -> list[float]:
    """Draw works in seconds."""
    return [0.3 * rng.lognormvariate(0.0, 0.8) for _ in range(count)]


def _entries(rng: random.Random) -> Iterator[WaitingEntry]:
    number = 0
    while True:
        work = works(1, rng)[0]
        yield WaitingEntry(f"r{number}", number / RATE_PER_S, work, 80.0 * work)
        number += 1


def _ever_shorter(waiting: int) -> Iterator[WaitingEntry]:
    number = 0
    while True:
        work = _FALL ** (number / waiting)
        yield WaitingEntry(f"r{number}", number / RATE_PER_S, work, 80.0 * work)
        number += 1


class Contestant:
    """Something that requests wait in, and the requests that come to it.

    Parameters
    ----------
    turn : callable
        Takes in an entry and lets one go.
    add : callable
        Takes in an entry.
    waiting : int
        How many wait all the time.
    settle : int
        Turns before anything is measured: what waits then is what the order leaves.
    source : iterator of WaitingEntry, optional
        The requests; by default those of a steady overload.
    """

    def __init__(
        self,
        turn: Turn,
        add: Turn,
        waiting: int,
        settle: int,
        source: Iterator[WaitingEntry] | None = None,
    ) -> None:
        self._turn = turn
        self.source = source or _entries(random.Random(SEED))
        for _ in range(waiting):
            add(next(self.source))
        for _ in range(settle):
            turn(next(self.source))

    def block(self, turns: int = _TURNS) -> float:
        """Give the µs of a turn over a block."""
        entries = [next(self.source) for _ in range(turns)]
        turn = self._turn
        begin = time.thread_time_ns()
        for entry in entries:
            turn(entry)
        return (time.thread_time_ns() - begin) / turns / 1e3


def _of_policy(
    policy: Policy,
    waiting: int,
    source: Iterator[WaitingEntry] | None = None,
    settle: int | None = None,
) -> Contestant:
    add, peek, pop = policy.add, policy.peek, policy.pop

    def turn(entry: WaitingEntry) -> None:
        add(entry)
        peek(entry.enqueued_s)
        pop(entry.enqueued_s)

    turns = min(2 * waiting, _SETTLED) if settle is None else settle
    return Contestant(turn, add, waiting, turns, source)


def _of_order(order: Order, waiting: int) -> Contestant:
    sequence = iter(range(1 << 60))

    def add(entry: WaitingEntry) -> None:
        order.push(Waiting(entry, entry.service_s, next(sequence), returned=False))

    def turn(entry: WaitingEntry) -> None:
        add(entry)
        order.discard(order.first(entry.enqueued_s))

    return Contestant(turn, add, waiting, 0)


def _of_heap(waiting: int) -> Contestant:
    heap: list[tuple[float, str]] = []

    def add(entry: WaitingEntry) -> None:
        heapq.heappush(heap, (entry.service_s, entry.request_id))

    def turn(entry: WaitingEntry) -> None:
        heapq.heappush(heap, (entry.service_s, entry.request_id))
        heapq.heappop(heap)

    return Contestant(turn, add, waiting, 0)


def _timed(act: Callable[[], object]) -> float:
    begin = time.thread_time_ns()
    act()
    return (time.thread_time_ns() - begin) / 1e3


def _single_calls(policy: Policy, source: Iterator[WaitingEntry]) -> dict[str, float]:
    """Give the median µs of each call."""
    times: dict[str, list[float]] = {"add": [], "peek": [], "pop": [], "remove": []}
    rng = random.Random(SEED)
    victims = [entry.request_id for entry in policy]
    rng.shuffle(victims)
    present = set(victims)
    while len(times["add"]) < _SINGLE:
        entry = next(source)
        now_s = entry.enqueued_s
        times["add"].append(_timed(lambda: policy.add(entry)))  # noqa: B023 -- called at once
        times["peek"].append(_timed(lambda: policy.peek(now_s)))  # noqa: B023 -- as above
        popped: list[WaitingEntry] = []
        times["pop"].append(_timed(lambda: popped.append(policy.pop(now_s))))  # noqa: B023 -- so
        present.discard(popped[0].request_id)
        victim = victims.pop() if victims else ""
        if victim in present and len(times["remove"]) < _SINGLE // 4:
            times["remove"].append(_timed(lambda: policy.remove(victim)))  # noqa: B023 -- as above
            present.discard(victim)
            policy.add(next(source))
    nothing = statistics.median(_timed(lambda: None) for _ in range(_SINGLE))
    return {name: statistics.median(values) - nothing for name, values in times.items()}


def _worst_calls(name: str, waiting: int) -> dict[str, float]:
    """Give the µs of the worst call while a queue fills, and then stands."""
    runs: list[list[list[float]]] = []
    for _ in range(_WORST_OF):
        gc.collect()
        gc.disable()
        policy = create_policy(*ORDERS[name])
        source = _entries(random.Random(SEED))
        adds = [_timed(lambda: policy.add(next(source))) for _ in range(waiting)]  # noqa: B023 -- so
        peeks, pops = [], []
        for _ in range(_WORST_TURNS):
            entry = next(source)
            now_s = entry.enqueued_s
            adds.append(_timed(lambda: policy.add(entry)))  # noqa: B023 -- called at once
            peeks.append(_timed(lambda: policy.peek(now_s)))  # noqa: B023 -- as above
            pops.append(_timed(lambda: policy.pop(now_s)))  # noqa: B023 -- as above
        runs.append([adds, peeks, pops])
        gc.enable()
    return {
        call: max(map(min, *(run[index] for run in runs)))
        for index, call in enumerate(("add", "peek", "pop"))
    }


def _vllm_queue(waiting: tuple[int, ...]) -> dict[str, Any]:  # Any: JSON of figures, or a reason
    python = default_python()
    if not python.exists():
        return {"not_run": f"{python} is absent; `make test-vllm` builds it"}
    command = [str(python), "-m", "benchmarks.baselines.vllm_queue", *map(str, waiting)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        return {"not_run": f"{' '.join(command)} exited {done.returncode}: {done.stderr[-300:]}"}
    figures: dict[str, Any] = json.loads(done.stdout[done.stdout.index("{") :])
    return figures


def _contest(waiting: int) -> tuple[dict[str, list[float]], dict[str, dict[str, float]]]:
    """Time blocks of turns, each policy in turn beside the heap, and single calls after them.

    One after another, because five queues of 100,000 at once push each other out of the caches.
    """
    blocks: dict[str, list[float]] = {}
    calls: dict[str, dict[str, float]] = {}
    heap = _of_heap(waiting)
    beside: list[float] = []
    for name, (policy_name, parameters) in ORDERS.items():
        policy = create_policy(policy_name, parameters)
        contestant = _of_policy(policy, waiting)
        blocks[name] = []
        for _ in range(_BLOCKS):
            blocks[name].append(contestant.block())
            beside.append(heap.block())
        calls[name] = _single_calls(policy, contestant.source)
    blocks["heapq"] = beside
    if waiting <= _SLOW_LIMIT:
        for name, order in (("hrrn by a scan", ScannedRatio()), ("hrrn by a sort", SortedRatio())):
            slow = _of_order(order, waiting)
            blocks[name] = [slow.block(max(2, 4_000 // waiting)) for _ in range(5)]
    return blocks, calls


def _where_ever_shorter(waiting: int) -> float:
    """Give the mean µs of a turn of hrrn, all that it does once in a while included."""
    # From the first turn on: such a load comes to nothing that stands.
    policy = create_policy("hrrn", PARAMETERS)
    contestant = _of_policy(policy, waiting, _ever_shorter(waiting), settle=0)
    return statistics.fmean(contestant.block() for _ in range(_BLOCKS))


def measure(numbers: tuple[int, ...] = WAITING) -> dict[str, Any]:  # Any: JSON
    """Measure every policy with its guard on.

    Returns
    -------
    dict
        µs by policy and number waiting: ``turn``, ``slowest_call`` (the median of the slowest of
        the four calls), ``worst_call``; by number waiting ``ever_shorter``, the mean of a turn
        of hrrn where each arrival is shorter than all before; and the tables of RESULTS.md.
    """
    turns: dict[str, dict[int, float]] = {}
    least: dict[str, dict[int, float]] = {}
    ratios: dict[str, dict[int, float]] = {}
    slowest: dict[str, dict[int, float]] = {}
    calls: dict[str, dict[str, float]] = {}
    worst: dict[str, dict[str, float]] = {}
    for waiting in numbers:
        blocks, single = _contest(waiting)
        base = statistics.median(blocks["heapq"])
        for name, values in blocks.items():
            turns.setdefault(name, {})[waiting] = statistics.median(values)
            least.setdefault(name, {})[waiting] = min(values)
            ratios.setdefault(name, {})[waiting] = statistics.median(values) / base
        for name, by_call in single.items():
            slowest.setdefault(name, {})[waiting] = max(by_call.values())
            for call, value in by_call.items():
                calls.setdefault(f"{name} {call}", {})[str(waiting)] = value
        if waiting >= _SLOW_LIMIT:
            for name in ORDERS:
                for call, value in _worst_calls(name, waiting).items():
                    worst.setdefault(f"{name} {call}", {})[str(waiting)] = value
    shorter = {waiting: _where_ever_shorter(waiting) for waiting in EVER_SHORTER}
    vllm = _vllm_queue(numbers)
    if "not_run" not in vllm:
        turns["vLLM's PriorityRequestQueue"] = {n: vllm[str(n)]["operation"] for n in numbers}
        calls["vLLM's PriorityRequestQueue remove"] = {
            str(n): vllm[str(n)]["remove"] for n in numbers
        }
    return {
        "turn": turns,
        "slowest_call": slowest,
        "worst_call": worst,
        "ever_shorter": shorter,
        **({"vllm_queue": vllm["not_run"]} if "not_run" in vllm else {}),
        "tables": {
            "add + peek + pop, median µs, by number waiting": _by_text(turns),
            "the same, least of the blocks": _by_text(least),
            "the same, median over heapq's": _by_text(ratios),
            "one call, median µs, by number waiting": calls,
            "the worst call, µs, by number waiting": worst,
            "add + peek + pop where each is shorter than all before, mean µs": {
                "hrrn": {str(n): value for n, value in shorter.items()}
            },
        },
    }


def _by_text(rows: dict[str, dict[int, float]]) -> dict[str, dict[str, float]]:
    return {name: {str(n): value for n, value in row.items()} for name, row in rows.items()}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("waiting", nargs="*", type=int, default=list(WAITING))
    print(json.dumps(measure(tuple(parser.parse_args().waiting)), indent=1))
