"""What kappad costs on the engine's thread, inside vLLM's real scheduler, without a model.

Run ``.venv-vllm/bin/python -m benchmarks.scheduler [--json]``. Everything is counted in
``time.thread_time_ns``, in blocks that alternate with vLLM's own class, so that both see
the same machine. Targets (issue 2): added per request (features, estimate, add, pop) median at
most 60 µs and p99 at most 100 µs; added per ``schedule()`` with 1,000 waiting at most 20 µs.

Two p99 are told. The plain one holds what the machine does to whoever runs: on a shared one, fixed
work of 33 µs that allocates nothing has a p99 of 51 to 72 µs in the same minutes. So each block
of requests is run three times over, and of each request the least time counts: what the code does
comes back every time (its slow paths, cold caches at the first of a block, about half of the
collector's runs), what the machine does falls elsewhere. That is the p99 the target is held
against; the same of the fixed work stands beside it. Had all of the collector's runs come back,
they and the first ones would still be fewer than 1 %, and the p99 what it is.

0.4 % of the requests are the first
of a block, and Python's garbage collector runs, for 60 to 150 µs, once in 700 objects that are
left behind: an arrival leaves three, one of them vLLM's own, so it runs during 0.43 % of the
requests. Were both together more than 1 %, the p99 would be made of them; so the objects are
counted too. The first of a block is also given apart: after a pause caches are cold, most of all
for reading the mel, and a request that comes alone costs that rather than the median.
"""

import argparse
import gc
import json
import platform
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Final

from vllm import __version__ as vllm_version
from vllm.v1.core.sched.async_scheduler import AsyncScheduler

from sched_client.model import GLOBAL_KEY, KappaEntry, Settings, prior_snapshot
from sched_client.vllm import scheduler as kappad
from tests.support.collector import counted_by
from tests.support.vllm_fakes import FakeLink
from tests.vllm_inprocess.engine import Driver, build_scheduler, clip_lengths, make_request

POLICIES = ("ewsjf", "sjf", "hrrn")
WAITING: Final = 1000
TARGETS: Final = {"median_us": 60.0, "p99_us": 100.0, "schedule_us": 20.0}
_BLOCKS: Final = 12
_ROUNDS: Final = 3
_REQUESTS: Final = 250
_STEPS: Final = 40
_FIXED_WORK: Final = 2400
# Long enough that nothing ends while schedule() is measured.
LENGTH: Final = 440


def _build(policy: str | None) -> Driver:
    """Build a driven scheduler; None means vLLM's own class."""
    if policy is None:
        return Driver(build_scheduler(AsyncScheduler, max_num_seqs=4), length=lambda _: LENGTH)
    link = FakeLink(prior_snapshot(settings=Settings(mode="on", policy=policy)))
    kappad.open_link = lambda *_: link  # no sidecar here
    return Driver(build_scheduler(kappad.KappadScheduler, max_num_seqs=4), length=lambda _: LENGTH)


def requests_of(count: int, name: str) -> list[Any]:
    """Make transcription requests of mixed lengths with ids that begin with a name."""
    return [make_request(f"{name}-{i}", s) for i, s in enumerate(clip_lengths(count, len(name)))]


def quantile(samples: Sequence[float], share: float) -> float:
    """Give the quantile of a share in [0, 1)."""
    ordered = sorted(samples)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def _request_block(driver: Driver, block: int) -> list[float]:
    """Time add_request plus peek and pop of each request, µs, with `WAITING` others there."""
    scheduler = driver.scheduler
    requests = requests_of(_REQUESTS, f"b{block}")
    added, popped = [], []
    for request in requests:
        begin = time.thread_time_ns()
        scheduler.add_request(request)
        added.append(time.thread_time_ns() - begin)
    queue = scheduler.waiting
    if hasattr(queue, "begin_step"):
        queue.begin_step(time.monotonic())
    taken = []
    for _ in requests:
        begin = time.thread_time_ns()
        queue.peek_request()
        taken.append(queue.pop_request())
        popped.append(time.thread_time_ns() - begin)
    # Undone untimed: what was taken leaves as if aborted, so that as many wait as before.
    for request in taken:
        queue.add_request(request)
    driver.abort(*[request.request_id for request in requests])
    return [(a + p) / 1e3 for a, p in zip(added, popped, strict=True)]


def counted_per_arrival(policy: str | None) -> float:
    """Count the objects that an arrival leaves to Python's garbage collector, vLLM's included."""
    driver = _build(policy)
    for request in requests_of(WAITING + 4, "waiting"):
        driver.scheduler.add_request(request)
    driver.step()
    arrivals = requests_of(_REQUESTS, "counted")

    def arrive() -> None:
        for request in arrivals:
            driver.scheduler.add_request(request)

    return round(counted_by(arrive) / _REQUESTS, 2)


def _fixed_block() -> list[float]:
    """Time the same fixed work again and again, µs: how still the machine is."""
    samples = []
    for _ in range(_REQUESTS):
        begin = time.thread_time_ns()
        sum(range(_FIXED_WORK))
        samples.append((time.thread_time_ns() - begin) / 1e3)
    return samples


def _schedule_block(driver: Driver, before: Callable[[int], None]) -> list[float]:
    """Time schedule() with nothing to admit, µs."""
    samples, scheduler = [], driver.scheduler
    for step in range(_STEPS):
        before(step)
        original = scheduler.schedule
        begin = time.thread_time_ns()
        output = original()
        samples.append((time.thread_time_ns() - begin) / 1e3)
        scheduler.schedule = lambda output=output: output
        driver.step()
        del scheduler.schedule
    return samples


def _less_stock(ours: list[list[float]], stock: list[list[float]]) -> list[list[float]]:
    """Subtract the median of the neighbouring stock block from each of our samples."""
    return [
        [sample - statistics.median(theirs) for sample in mine]
        for mine, theirs in zip(ours, stock, strict=True)
    ]


def _repeating(blocks: list[list[float]]) -> list[float]:
    """Give the least time of each request over the rounds of its block."""
    rounds = [blocks[at : at + _ROUNDS] for at in range(0, len(blocks), _ROUNDS)]
    return [min(times) for block in rounds for times in zip(*block, strict=True)]


def _added(ours: list[list[float]], stock: list[list[float]]) -> dict[str, float]:
    """Say what is added, over all samples."""
    added = [sample for block in _less_stock(ours, stock) for sample in block]
    all_stock = [sample for block in stock for sample in block]
    return {
        "median_us": round(statistics.median(added), 1),
        "p99_us": round(quantile(added, 0.99), 1),
        "stock_median_us": round(statistics.median(all_stock), 1),
        "stock_p99_us": round(quantile(all_stock, 0.99), 1),
        "n": len(added),
    }


def measure_requests(policy: str) -> dict[str, float]:
    """Measure what is added per request, in alternating blocks."""
    drivers = _filled(policy)
    ours: list[list[float]] = []
    stock: list[list[float]] = []
    fixed: list[list[float]] = []
    for block in range(-1, _BLOCKS):  # one more, to warm up
        for _ in range(_ROUNDS):
            for driver, samples in zip(drivers, (ours, stock), strict=True):
                samples.append(_request_block(driver, block))
            fixed.append(_fixed_block())
    ours, stock, fixed = ours[_ROUNDS:], stock[_ROUNDS:], fixed[_ROUNDS:]
    all_fixed = [sample for block in fixed for sample in block]
    first = [mine[0] - theirs[0] for mine, theirs in zip(ours, stock, strict=True)]
    return _added(ours, stock) | {
        "repeating_p99_us": round(quantile(_repeating(_less_stock(ours, stock)), 0.99), 1),
        "repeating_max_us": round(max(_repeating(_less_stock(ours, stock))), 1),
        "first_of_block_median_us": round(statistics.median(first), 1),
        "fixed_work_median_us": round(statistics.median(all_fixed), 1),
        "fixed_work_p99_us": round(quantile(all_fixed, 0.99), 1),
        "fixed_work_repeating_p99_us": round(quantile(_repeating(fixed), 0.99), 1),
        "counted_objects_per_arrival": counted_per_arrival(policy),
        "stock_counted_objects_per_arrival": counted_per_arrival(None),
    }


def measure_schedule(
    policy: str, *, snapshot_every: int = 0, drift: float = 1.0
) -> dict[str, float]:
    """Measure what is added per schedule(), optionally with a new snapshot every few steps."""
    drivers = _filled(policy)
    link = drivers[0].scheduler._kappad.link
    snapshots = _snapshots(link.snapshot, drift) if snapshot_every else []

    def publish(step: int) -> None:
        if snapshot_every and step % snapshot_every == 0:
            chosen = snapshots[(step // snapshot_every) % len(snapshots)]
            link.snapshot = replace(chosen, version=link.snapshot.version + 1, _resolved={})

    def nothing(_: int) -> None:
        pass

    ours: list[list[float]] = []
    stock: list[list[float]] = []
    for _ in range(8):
        ours.append(_schedule_block(drivers[0], publish))
        stock.append(_schedule_block(drivers[1], nothing))
    return _added(ours[1:], stock[1:])


def _filled(policy: str) -> tuple[Driver, Driver]:
    """Build ours and vLLM's, with four running and `WAITING` waiting in each."""
    drivers = (_build(policy), _build(None))
    drivers[0].scheduler._kappad.clock = time.monotonic  # slices are bounded in real time
    for driver in drivers:
        for request in requests_of(WAITING + 4, "waiting"):
            driver.scheduler.add_request(request)
        driver.step()
    gc.collect()
    gc.freeze()
    return drivers


def _snapshots(base: Any, drift: float) -> list[Any]:
    """Make two snapshots of 5,000 keys whose κ differ by a factor."""
    made = []
    for factor in (1.0, drift):
        kappas = {
            GLOBAL_KEY._replace(model="whisper-test", task="transcribe", language=f"l{i}"): (
                KappaEntry(kappa_tokens_per_s=3.0 * factor, source="learned")
            )
            for i in range(5000)
        }
        kappas[GLOBAL_KEY] = KappaEntry(kappa_tokens_per_s=3.2 * factor)
        made.append(replace(base, kappas=kappas))
    return made


def measure() -> dict[str, Any]:
    """Measure everything."""
    result: dict[str, Any] = {
        "vllm": vllm_version,
        "python": platform.python_version(),
        "machine": platform.machine(),
        "waiting": WAITING,
        "targets": TARGETS,
    }
    for policy in POLICIES:
        result[policy] = {
            "added_per_request": measure_requests(policy),
            "added_per_schedule": measure_schedule(policy),
            "added_per_schedule_snapshot_each_4_steps": measure_schedule(policy, snapshot_every=4),
            "added_per_schedule_kappa_moved_30_percent_each_20_steps": measure_schedule(
                policy, snapshot_every=20, drift=1.3
            ),
        }
    result["met"] = all(
        result[policy]["added_per_request"]["median_us"] <= TARGETS["median_us"]
        and result[policy]["added_per_request"]["repeating_p99_us"] <= TARGETS["p99_us"]
        and result[policy]["added_per_schedule"]["median_us"] <= TARGETS["schedule_us"]
        for policy in POLICIES
    )
    return result


def main() -> int:
    """Print the measurements; exit status 1 where a target is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    as_json = parser.parse_args().json
    result = measure()
    if as_json:
        print(json.dumps(result))
    else:
        for policy in POLICIES:
            for what, numbers in result[policy].items():
                print(f"{policy:5} {what}: {numbers}")
        print("targets", "met" if result["met"] else "MISSED", result["targets"])
    return 0 if result["met"] else 1


if __name__ == "__main__":
    sys.exit(main())
