"""What the background transport costs a busy engine: step times beside a stream of snapshots.

A thread that does some 0.2 ms of Python work a step, and never gives the interpreter's lock away
by itself, stands for the engine. Meanwhile a sidecar in another process sends nothing, or all
5,000 keys five times a second, or changes of 100 keys five times a second, in alternating blocks
of the same run. Wall time counts: that is what a request waits for.

Run: ``python -m benchmarks.transport [--rounds N] [--block-s S] [--slice-us U] [--pause-ms P]``.
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from resource import RUSAGE_THREAD, getrusage
from typing import Any, Final, NamedTuple, Self

import grpc

from protos.kappad.estimator.v1 import estimator_pb2 as pb
from sched_client.options import ClientOptions
from sched_client.transport.link import Identity, Link, Timing

N_KEYS: Final = 5_000
N_CHANGED: Final = 100
INTERVAL_S: Final = 0.2
STEP_S: Final = 0.000_2
# What was sent before a block has been converted by then.
SETTLE_S: Final = 2.0
PHASES: Final = ("idle", "snapshots", "idle", "deltas")
_SERVICE: Final = pb.DESCRIPTOR.services_by_name["EstimatorService"].full_name


class Block(NamedTuple):
    """Step times of one block, those during which the machine let the thread run, and ages."""

    steps_s: list[float]
    undisturbed_s: list[float]
    ages_s: list[float]


class Engine:
    """The busy thread: steps of equal work, timed."""

    def __init__(self) -> None:
        self._loops = 1_000
        self._loops = round(1_000 * STEP_S / statistics.median(self.block(0.2).steps_s))

    def block(self, block_s: float, link: Link | None = None) -> Block:
        """Work for a while, noting the ages of new snapshots."""
        block = Block([], [], [])
        held = link.snapshot if link is not None else None
        preempted = getrusage(RUSAGE_THREAD).ru_nivcsw
        end = time.perf_counter() + block_s
        while (begun := time.perf_counter()) < end:
            total = 0
            for number in range(self._loops):
                total += number
            took_s = time.perf_counter() - begun
            block.steps_s.append(took_s)
            before, preempted = preempted, getrusage(RUSAGE_THREAD).ru_nivcsw
            if preempted == before:
                block.undisturbed_s.append(took_s)
            if link is not None and link.snapshot is not held:
                held = link.snapshot
                block.ages_s.append(time.time() - held.created_s)
        return block


def measure(
    *, rounds: int = 5, block_s: float = 2.0, timing: Timing | None = None
) -> dict[str, Any]:
    """Measure the step times of a busy thread beside idle, full and changed snapshots.

    Parameters
    ----------
    rounds : int
        How often each block is repeated.
    block_s : float
        Length of a block, seconds.
    timing : Timing, optional
        The transport's bounds; production's by default.

    Returns
    -------
    dict of str to Any
        By phase (``none``: no link at all) the median over the blocks of p50 and p99 in µs: of
        all steps, and of those in which the operating system did not preempt the thread, which
        on a shared machine is most of p99. For the loads also the median ratio of a block's
        undisturbed p99 to that of the idle block before it (target: 1.1), snapshots applied per
        second and their age.
    """
    engine = Engine()
    blocks: dict[str, list[Block]] = {"none": [engine.block(block_s) for _ in range(rounds)]}
    ratios: dict[str, list[float]] = {"snapshots": [], "deltas": []}
    with tempfile.TemporaryDirectory(prefix="kappad-bench-") as folder:
        options = ClientOptions(target=f"unix://{folder}/s")
        link = Link(options, Identity("bench", ""), boot_id="bench", timing=timing)
        with Sidecar(options.target) as sidecar:
            try:
                link.start()
                sidecar.say("snapshots")
                await_keys(link)
                for _ in range(rounds):
                    for phase in PHASES:
                        sidecar.say(phase)
                        time.sleep(SETTLE_S)
                        block = engine.block(block_s, link)
                        blocks.setdefault(phase, []).append(block)
                        if phase in ratios:
                            idle = blocks["idle"][-1].undisturbed_s
                            ratios[phase].append(_at(block.undisturbed_s, 0.99) / _at(idle, 0.99))
            finally:
                link.close()
    report: dict[str, Any] = {"rounds": rounds, "block_s": block_s, "n_keys": N_KEYS}
    for phase, measured in blocks.items():
        report[phase] = _describe(measured)
    for phase, values in ratios.items():
        ages = [age for block in blocks[phase] for age in block.ages_s]
        report[phase] |= {
            "p99_ratio_to_idle": round(statistics.median(values), 3),
            "applied_per_s": round(len(ages) / (rounds * block_s), 2),
            "age_p50_s": round(_at(ages, 0.5), 3) if ages else None,
        }
    report["failures"] = link.failures
    return report


def await_keys(link: Link) -> None:
    """Wait until the link holds all keys; TimeoutError after 30 s."""
    end = time.monotonic() + 30.0
    while len(link.snapshot.kappas) <= N_KEYS:
        if time.monotonic() > end:
            raise TimeoutError(
                f"no snapshot of {N_KEYS} keys after 30 s; {link.failures} failures"
            )
        time.sleep(0.05)


def _describe(blocks: list[Block]) -> dict[str, float]:
    # The median of the blocks' quantiles: one block disturbed by the machine decides nothing.
    def middle(column: str, share: float) -> float:
        values = [_at(getattr(block, column), share) for block in blocks]
        return round(statistics.median(values) * 1e6, 1)

    return {
        "n": sum(len(block.steps_s) for block in blocks),
        "p50_us": middle("steps_s", 0.5),
        "p99_us": middle("steps_s", 0.99),
        "undisturbed_n": sum(len(block.undisturbed_s) for block in blocks),
        "undisturbed_p50_us": middle("undisturbed_s", 0.5),
        "undisturbed_p99_us": middle("undisturbed_s", 0.99),
    }


def _at(values: list[float], share: float) -> float:
    return sorted(values)[min(len(values) - 1, int(share * len(values)))]


class Sidecar:
    """A process that sends prepared bytes, so that it takes little of the machine itself."""

    def __init__(self, target: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.transport", "--serve", target],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=Path(__file__).parents[1],
        )

    def __enter__(self) -> Self:
        assert self._process.stdout is not None
        if not self._process.stdout.readline():
            raise RuntimeError("the benchmark's sidecar did not start")
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.communicate()

    @property
    def pid(self) -> int:
        """The process's id."""
        return self._process.pid

    def say(self, phase: str) -> None:
        """Switch what is sent."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{phase}\n")
        self._process.stdin.flush()


class _Served:
    def __init__(self) -> None:
        self.phase = "snapshots"
        # Under "moved" the global key moves too, and with it every request of an unknown key.
        self._bodies = {
            "snapshots": [_snapshot(3.2, kappa) for kappa in (3.0, 3.5)],
            "moved": [_snapshot(kappa, kappa) for kappa in (3.0, 3.5)],
        }

    def watch(self, _request: bytes, context: grpc.ServicerContext) -> Iterator[bytes]:
        version = 0
        due_s = time.monotonic()
        phase = "snapshots"
        while context.is_active():
            version += 1
            head = pb.WatchParametersResponse(instance_id="bench", version=version)
            head.create_time.FromNanoseconds(time.time_ns())
            if phase in self._bodies:
                yield head.SerializeToString() + self._bodies[phase][version % 2]
            else:
                head.delta.base_version = version - 1
                head.delta.kappas.extend(_entry(i, 3.0 + version % 2) for i in range(N_CHANGED))
                yield head.SerializeToString()
            while True:
                due_s = max(due_s + INTERVAL_S, time.monotonic())
                time.sleep(max(0.0, due_s - time.monotonic()))
                phase = self.phase
                if phase != "idle" or not context.is_active():
                    break


def _snapshot(global_kappa: float, kappa: float) -> bytes:
    return pb.WatchParametersResponse(
        snapshot=pb.Parameters(
            kappas=[_entry(-1, global_kappa), *(_entry(i, kappa) for i in range(N_KEYS))],
            settings=pb.Settings(mode=pb.MODE_ON, policy="sjf", overtaking_ratio=0.3),
        )
    ).SerializeToString()


def _entry(number: int, kappa: float) -> pb.KappaEntry:
    entry = pb.KappaEntry(
        kappa_tokens_per_second=kappa, ratio_p50=1.0, ratio_p90=1.5, ratio_p99=2.5, sample_count=9
    )
    if number >= 0:
        entry.model_id, entry.task, entry.language = "whisper", "transcribe", f"l{number}"
        entry.timestamps = False
    return entry


def _serve(target: str) -> None:
    served = _Served()
    server = grpc.server(ThreadPoolExecutor(4))
    handlers: dict[str, grpc.RpcMethodHandler[bytes, bytes]] = {
        "WatchParameters": grpc.unary_stream_rpc_method_handler(served.watch),
        "ReportCompletions": grpc.unary_unary_rpc_method_handler(lambda _request, _context: b""),
    }
    generic = grpc.method_handlers_generic_handler(_SERVICE, handlers)
    server.add_generic_rpc_handlers((generic,))
    server.add_insecure_port(target)
    server.start()
    print("ready", flush=True)
    for line in sys.stdin:
        served.phase = line.strip()
    server.stop(None)


def main() -> None:
    """Run and print the result as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--serve", metavar="TARGET", help=argparse.SUPPRESS)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--block-s", type=float, default=2.0)
    parser.add_argument("--slice-us", type=float, default=Timing().slice_s * 1e6)
    parser.add_argument("--pause-ms", type=float, default=Timing().pause_s * 1e3)
    chosen = parser.parse_args()
    if chosen.serve:
        _serve(chosen.serve)
        return
    timing = Timing(slice_s=chosen.slice_us / 1e6, pause_s=chosen.pause_ms / 1e3)
    print(
        json.dumps(measure(rounds=chosen.rounds, block_s=chosen.block_s, timing=timing), indent=2)
    )


if __name__ == "__main__":
    main()
