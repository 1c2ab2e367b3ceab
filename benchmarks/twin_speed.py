"""How fast the twin is: requests a second, what a long queue costs, memory over a million.

Run ``python -m benchmarks.twin_speed``; prints JSON. The CPU time of the thread is taken and the
best of some rounds counts, as the machine is shared; a bare ``heapq`` beside it says how fast the
machine was. LibriSpeech test-clean on the profile ``decode-bound`` (64 slots).
"""

import argparse
import contextlib
import heapq
import json
import random
import time
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

from estimator.core.cusum import load_detector
from estimator.replay.arrivals import Arrivals
from estimator.replay.estimates import Estimating
from estimator.replay.job import NS_PER_S, Job
from estimator.replay.outcome import Outcome
from estimator.replay.profile import load_profile
from estimator.replay.rows import Rows, read_rows
from estimator.replay.runs import EstimateKind, Point, Setup, capacity_rps, estimates_of, run_once
from estimator.replay.simulation import simulate
from estimator.replay.workload import Workload
from sched_client.policies import POLICY_NAMES, create_policy

TRACE: Final = Path(__file__).parent / "traces" / "librispeech-test-clean.csv.gz"
PROFILE: Final = load_profile("decode-bound")
LOAD: Final = 1.2
N: Final = 20_000
ROUNDS: Final = 3
SEED: Final = 1
WAITING: Final = (2_000, 200_000)
# Completions of one block, and blocks of each standing queue.
BLOCK: Final = 500
BLOCKS: Final = 12
TURNS: Final = 2
MILLION: Final = 1_000_000
EARLY: Final = 100_000
# Of the run over a million: the queue stays short, so that memory can show what else grows.
CALM_LOAD: Final = 0.9


class _Enough(Exception):  # noqa: N818 - no error: it ends a run that has shown what it should
    pass


def _setup(rows: Rows, n: int, kind: EstimateKind) -> Setup:
    workload = Workload(files=(rows,), n=n, resample=True)
    return Setup(profile=PROFILE, workload=workload, arrivals=Arrivals(), estimates=kind)


def _timed(call: Callable[[], object]) -> float:
    began = time.thread_time()
    call()
    return time.thread_time() - began


def _simulate(jobs: list[Job], policy: str, estimates: Estimating) -> None:
    simulate(
        jobs,
        PROFILE,
        create_policy(policy, estimates.parameters),
        estimates,
        on_outcome=lambda _: None,
    )


def speed(rows: Rows, point: Point) -> dict[str, Any]:  # Any: JSON
    """Measure requests a second under each policy, with each kind of estimates.

    Parameters
    ----------
    rows : Rows
        The trace.
    point : Point
        How hard.

    Returns
    -------
    dict
        ``<policy>_<estimates>``: the simulation alone; ``replay``: all that ``kappad replay``
        does for a run under sjf, drawing the requests and the figures included.
    """
    load_detector()  # once a process, a second and a half
    jobs = list(_setup(rows, N, "true").workload.jobs(Arrivals(), rate_rps=point.rate_rps, seed=1))
    kinds: tuple[EstimateKind, ...] = ("true", "duration", "learned")
    cases = [(policy, kind) for policy in POLICY_NAMES for kind in kinds]
    cases = [case for case in cases if case not in {("fcfs", "duration"), ("fcfs", "learned")}]
    best: dict[str, float] = {}
    for _ in range(ROUNDS):
        for policy, kind in cases:
            estimates = estimates_of(_setup(rows, N, kind), point, SEED)
            took_s = _timed(lambda p=policy, e=estimates: _simulate(jobs, p, e))  # type: ignore[misc]  # bound now
            name = f"{policy}_{kind}"
            best[name] = max(best.get(name, 0.0), N / took_s)
        whole = _setup(rows, N, "duration")
        took_s = _timed(lambda s=whole: run_once(s, "sjf", point, SEED))  # type: ignore[misc]  # bound now
        best["replay_sjf_duration"] = max(best.get("replay_sjf_duration", 0.0), N / took_s)
    return {name: round(value) for name, value in best.items()}


def _standing(rows: Rows, waiting: int, rate_rps: float) -> Iterator[Job]:
    """Yield so many jobs at once, and then as many as leave."""
    rng = random.Random(SEED)
    now_ns = 0
    for index in range(waiting + 2 * BLOCK * (BLOCKS + 2)):
        if index >= waiting:
            now_ns += round(rng.expovariate(rate_rps) * NS_PER_S)
        yield rows.job(rng.randrange(len(rows)), index, now_ns, 0)


def _standing_us(rows: Rows, policy: str, waiting: int, point: Point) -> float:
    """Give the µs of a request while so many wait, at load 1; the best of the blocks."""
    marks: list[float] = []
    ended = 0

    def count(_: Outcome) -> None:
        nonlocal ended
        ended += 1
        if ended % BLOCK == 0:
            marks.append(time.thread_time())
            if len(marks) > BLOCKS:
                raise _Enough

    estimates = estimates_of(_setup(rows, N, "duration"), point, SEED)
    with contextlib.suppress(_Enough):
        simulate(
            _standing(rows, waiting, point.rate_rps / point.load),
            PROFILE,
            create_policy(policy, estimates.parameters),
            estimates,
            on_outcome=count,
        )
    return min(b - a for a, b in pairwise(marks)) / BLOCK * 1e6


def growth(rows: Rows, point: Point) -> dict[str, Any]:  # Any: JSON
    """Measure what a request costs while few and while many wait, in turns.

    Returns
    -------
    dict
        By policy: µs a request at each number waiting, and their ratio.
    """
    results: dict[str, Any] = {}
    for policy in POLICY_NAMES:
        costs = dict.fromkeys(WAITING, float("inf"))
        for _ in range(TURNS):
            for waiting in WAITING:
                costs[waiting] = min(costs[waiting], _standing_us(rows, policy, waiting, point))
        few, many = (costs[waiting] for waiting in WAITING)
        results[policy] = {
            **{f"us_at_{waiting}": round(cost, 2) for waiting, cost in costs.items()},
            "ratio": round(many / few, 3),
        }
    return results


def _resident_mib() -> float:
    for line in Path("/proc/self/status").read_text(encoding="utf-8").splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024.0
    raise RuntimeError("/proc/self/status tells no VmRSS")


def memory(rows: Rows, point: Point) -> dict[str, Any]:  # Any: JSON
    """Measure resident memory along a run of a million requests, figures not kept."""
    resident: dict[int, float] = {}
    ended = 0

    def count(_: Outcome) -> None:
        nonlocal ended
        ended += 1
        if ended in {EARLY, MILLION}:
            resident[ended] = _resident_mib()

    setup = _setup(rows, MILLION, "true")
    estimates = estimates_of(setup, point, SEED)
    rate_rps = point.rate_rps / point.load * CALM_LOAD
    began = time.thread_time()
    totals = simulate(
        setup.workload.jobs(Arrivals(), rate_rps=rate_rps, seed=SEED),
        PROFILE,
        create_policy("sjf", estimates.parameters),
        estimates,
        on_outcome=count,
    )
    return {
        "requests": totals.finished,
        "requests_per_s": round(totals.finished / (time.thread_time() - began)),
        "most_waiting": totals.most_waiting,
        "rss_early_mib": round(resident[EARLY], 1),
        "rss_last_mib": round(resident[MILLION], 1),
        "growth_mib": round(resident[MILLION] - resident[EARLY], 1),
    }


def _heap_us() -> float:
    rng = random.Random(SEED)
    heap = [(rng.random(), number) for number in range(1000)]
    heapq.heapify(heap)
    pairs = [(rng.random(), number) for number in range(100_000)]

    def turn() -> None:
        for pair in pairs:
            heapq.heappush(heap, pair)
            heapq.heappop(heap)

    return min(_timed(turn) for _ in range(5)) / len(pairs) * 1e6


def main() -> None:
    """Measure and print."""
    argparse.ArgumentParser(description=__doc__).parse_args()
    rows = read_rows(TRACE)
    capacity = capacity_rps(PROFILE, _setup(rows, N, "true").workload, SEED)
    point = Point(LOAD * capacity, LOAD)
    result = {
        # First, while the process holds nothing else.
        "memory": memory(rows, point),
        "capacity_rps": round(capacity, 2),
        "requests_per_s": speed(rows, point),
        "waiting": growth(rows, point),
        "heapq_at_1000_us": round(_heap_us(), 3),
    }
    print(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
