"""What the live link to a sidecar costs ``schedule()``, inside vLLM's real scheduler.

Run ``.venv-vllm/bin/python -m benchmarks.link [--rounds N]``. 1,000 requests wait in mode on (sjf)
and four run; the model is a sleep of 5 ms a step, which gives the interpreter's lock away as a
real model does, so that the link's threads run at their shortest pause. The sidecar is
`benchmarks.transport`'s, a process of its own on a unix socket. Phases alternate in one run:

- ``idle``: connected, nothing is sent.
- ``frozen``: the sidecar is stopped (SIGSTOP).
- ``snapshots``: all 5,000 keys five times a second; none moves those that wait.
- ``deltas``: 100 changed keys five times a second.
- ``moved``: as ``snapshots``, and every time the estimates of all that wait move by 16 %. No
  promise: new estimates take up to 200 µs of a step by design.

Target (issue 2): p99 of ``schedule()`` while frozen, and under snapshots, within 1.1 of idle.
"""

import argparse
import gc
import json
import os
import signal
import statistics
import tempfile
import time
from typing import Any, Final, NamedTuple

from benchmarks.scheduler import LENGTH, WAITING, quantile, requests_of
from benchmarks.transport import N_KEYS, Sidecar, await_keys
from sched_client.vllm.scheduler import KappadScheduler
from tests.vllm_inprocess.engine import Driver, build_scheduler

PHASES: Final = ("idle", "frozen", "snapshots", "idle", "deltas", "moved")
TARGET_RATIO: Final = 1.1
_STEP_S: Final = 0.005
_STEPS: Final = 350
# Untimed steps before each block, at least.
_SETTLE_STEPS: Final = 100


class Sample(NamedTuple):
    """One step, µs: CPU and wall time of ``schedule()``, and from the model's end to its end."""

    cpu: float
    wall: float
    turn: float


class Engine:
    """A scheduler in mode on with a link of its own, and a model that sleeps."""

    def __init__(self, target: str) -> None:
        os.environ["KAPPAD_TARGET"] = target
        self.driver = Driver(
            build_scheduler(KappadScheduler, max_num_seqs=4), length=lambda _: LENGTH
        )
        client = self.driver.scheduler._kappad
        client.clock = time.monotonic
        self.link = client.link
        self._fills = 0

    def fill(self) -> None:
        """Bring the waiting up to `WAITING`."""
        self._fills += 1
        scheduler = self.driver.scheduler
        for request in requests_of(WAITING - len(scheduler.waiting), f"fill{self._fills}"):
            scheduler.add_request(request)

    def settle(self, new_snapshots: int) -> None:
        """Step until what an earlier phase sent is applied, and so many snapshots of this one."""
        estimates, version = self.driver.scheduler._kappad.estimates, self.link.snapshot.version
        self.block(_SETTLE_STEPS)
        for _ in range(_SETTLE_STEPS):
            if self.link.snapshot.version >= version + new_snapshots and not estimates.busy:
                return
            self.block(_SETTLE_STEPS // 10)
        raise RuntimeError("the snapshots did not come, or their estimates do not end")

    def block(self, steps: int = _STEPS) -> list[Sample]:
        """Time the steps that admit nobody."""
        samples, scheduler = [], self.driver.scheduler
        due = time.perf_counter_ns()
        for _ in range(steps):
            wall, cpu = time.perf_counter_ns(), time.thread_time_ns()
            output = scheduler.schedule()
            cpu_end, wall_end = time.thread_time_ns(), time.perf_counter_ns()
            if not output.scheduled_new_reqs:
                times = (cpu_end - cpu, wall_end - wall, wall_end - due)
                samples.append(Sample(*(value / 1e3 for value in times)))
            due = time.perf_counter_ns() + round(_STEP_S * 1e9)
            time.sleep(_STEP_S)
            scheduler.schedule = lambda output=output: output
            self.driver.step()
            del scheduler.schedule
        return samples


def measure(rounds: int = 6) -> dict[str, Any]:
    """Measure ``schedule()`` in each phase.

    Parameters
    ----------
    rounds : int
        How often each block is repeated.

    Returns
    -------
    dict of str to Any
        By phase p50 and p99 of all steps in µs: ``cpu`` (``time.thread_time_ns``), ``wall``, and
        ``turn``, wall time from the moment at which the model's answer was due to the end of
        ``schedule()``: what the link's threads delay the engine by is in there. For each load the
        median over the rounds of its p99 over that of the round's idle blocks; for ``idle`` that
        of its second block over its first, which is the noise of the others.
    """
    blocks: dict[str, list[list[Sample]]] = {phase: [] for phase in PHASES}
    with tempfile.TemporaryDirectory(prefix="kappad-bench-") as folder:
        target = f"unix://{folder}/s"
        with Sidecar(target) as sidecar:
            engine = Engine(target)
            try:
                sidecar.say("snapshots")
                await_keys(engine.link)
                _warm_up(engine)
                versions = dict.fromkeys(PHASES, 0)
                for _ in range(rounds):
                    for phase in PHASES:
                        before = engine.link.snapshot.version
                        blocks[phase].append(_phase(engine, sidecar, phase))
                        versions[phase] += engine.link.snapshot.version - before
                failures = engine.link.failures + engine.driver.scheduler._kappad.failures
            finally:
                engine.link.close()
    if failures:
        raise RuntimeError(f"{failures} failures: nothing was measured")
    report: dict[str, Any] = {
        "waiting": WAITING,
        "n_keys": N_KEYS,
        "step_s": _STEP_S,
        "rounds": rounds,
        "target_ratio": TARGET_RATIO,
    }
    for phase, measured in blocks.items():
        report[phase] = _describe([sample for block in measured for sample in block])
        report[phase]["snapshots_applied"] = versions[phase]
    idle = blocks.pop("idle")
    report["idle"] |= _ratios(idle[1::2], idle[::2])
    for phase, measured in blocks.items():
        both = [first + second for first, second in zip(idle[::2], idle[1::2], strict=True)]
        report[phase] |= _ratios(measured, both)
    return report


def _warm_up(engine: Engine) -> None:
    engine.driver.step()  # the first step follows the snapshot into mode on
    engine.fill()
    engine.block()
    mode = engine.driver.scheduler.waiting.mode
    if mode != "on":
        raise RuntimeError(f"the queue is in mode {mode}, and must be in mode on")
    gc.collect()
    gc.freeze()  # as vLLM's engine does when it has started


def _phase(engine: Engine, sidecar: Sidecar, phase: str) -> list[Sample]:
    engine.fill()
    sidecar.say("idle" if phase == "frozen" else phase)
    if phase == "frozen":
        os.kill(sidecar.pid, signal.SIGSTOP)
    try:
        if phase != "moved":  # which keeps the estimates moving for ever
            engine.settle(new_snapshots=0 if phase in {"idle", "frozen"} else 2)
        return engine.block()
    finally:
        os.kill(sidecar.pid, signal.SIGCONT)


def _describe(samples: list[Sample]) -> dict[str, Any]:
    described: dict[str, Any] = {"n": len(samples)}
    for name in Sample._fields:
        values = [getattr(sample, name) for sample in samples]
        described[f"{name}_p50_us"] = round(quantile(values, 0.5), 1)
        described[f"{name}_p99_us"] = round(quantile(values, 0.99), 1)
    return described


def _ratios(blocks: list[list[Sample]], idle: list[list[Sample]]) -> dict[str, float]:
    """Compare each block with what was idle in its round."""
    ratios = {}
    for name in Sample._fields:
        values = [_p99(a, name) / _p99(b, name) for a, b in zip(blocks, idle, strict=True)]
        ratios[f"{name}_p99_ratio_to_idle"] = round(statistics.median(values), 3)
    return ratios


def _p99(samples: list[Sample], name: str) -> float:
    return quantile([getattr(sample, name) for sample in samples], 0.99)


def main() -> None:
    """Print the measurements as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="for benchmarks.run: always JSON")
    parser.add_argument("--rounds", type=int, default=6)
    print(json.dumps(measure(parser.parse_args().rounds)))


if __name__ == "__main__":
    main()
