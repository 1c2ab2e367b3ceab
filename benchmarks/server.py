"""The sidecar as a process: ingest, predict, memory, start.

``python -m benchmarks.server [--scale 0.1]`` prints one JSON object; each function gives a part of
it. The server is a child process, nothing is pinned; load comes from this process over a unix
socket. CPU seconds are the server's own (user and system), from /proc.
"""

import argparse
import asyncio
import contextlib
import itertools
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import grpc
import grpc.aio
from grpc_health.v1 import health_pb2
from grpc_health.v1.health_pb2_grpc import HealthStub

from estimator.core.observation import Completion
from estimator.store.sqlite import SqliteStore
from protos.kappad.estimator.v1 import estimator_pb2 as pb
from protos.kappad.estimator.v1 import estimator_pb2_grpc as rpc

BATCH: Final = 256
KEYS: Final = 5000
_IN_FLIGHT: Final = 4
_SERVE: Final = """
import json, sys
from estimator.runtime.config import load_config
from estimator.service.server import serve
sys.exit(serve(load_config(flags=json.loads(sys.argv[1]))))
"""
_ECHO: Final = """
import asyncio, sys
import grpc, grpc.aio
from protos.kappad.estimator.v1 import estimator_pb2 as pb, estimator_pb2_grpc as rpc
class Echo(rpc.EstimatorServiceServicer):
    answer = None
    async def BatchPredict(self, request, context):
        if self.answer is None:
            self.answer = pb.BatchPredictResponse.FromString(bytes.fromhex(sys.argv[2]))
        return self.answer
async def main():
    server = grpc.aio.server()
    rpc.add_EstimatorServiceServicer_to_server(Echo(), server)
    server.add_insecure_port(sys.argv[1])
    await server.start()
    await server.wait_for_termination()
asyncio.run(main())
"""


@contextlib.contextmanager
def _child(code: str, *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen([sys.executable, "-c", code, *arguments], stderr=subprocess.DEVNULL)
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


@contextlib.contextmanager
def sidecar(
    directory: Path, prepare: str = "", **flags: Any
) -> Iterator[tuple[subprocess.Popen[bytes], str]]:
    """Run a sidecar; ``prepare`` is code that goes before it."""
    # Any: each flag has its own type.
    target = f"unix:{directory}/k.sock"
    given = {"listen": target, "state_dir": str(directory / "state"), "log_level": "error"}
    with _child(prepare + _SERVE, json.dumps(given | flags)) as process:
        yield process, target


async def serving(target: str, timeout_s: float = 60.0) -> None:
    """Wait until a sidecar is SERVING."""
    async with asyncio.timeout(timeout_s):
        while True:
            async with grpc.aio.insecure_channel(target) as channel:
                with contextlib.suppress(grpc.aio.AioRpcError):
                    answer = await HealthStub(channel).Check(health_pb2.HealthCheckRequest())
                    if answer.status == health_pb2.HealthCheckResponse.SERVING:
                        return
            await asyncio.sleep(0.01)


def cpu_s(pid: int) -> float:
    """Give the seconds of CPU that a process has used, user and system."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def rss_mib(pid: int) -> float:
    """Give a process's resident memory."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    raise RuntimeError(f"process {pid} has no VmRSS")


def _rows(n: int, keys: int, seed: int) -> Iterator[pb.Completion]:
    """Affine completions with 20 % noise over many languages of a few models."""
    rng = random.Random(seed)
    boot = f"{seed:08d}-0000-4000-8000-000000000000"
    for index in range(n):
        key = rng.randrange(keys)
        audio_s = rng.uniform(1.0, 30.0)
        tokens = max(1, min(448, round((3.0 + 3.1 * audio_s) * rng.lognormvariate(0.0, 0.2))))
        yield pb.Completion(
            completion_id=f"{boot}-{index}",
            model_id=f"whisper-{key % 10}",
            task="transcribe",
            language=f"l{key // 10}",
            timestamps=False,
            kind=pb.REQUEST_KIND_TRANSCRIPTION,
            audio_seconds=audio_s,
            duration_source="mel",
            prompt_token_count=4,
            output_token_count=tokens,
            max_token_count=448,
            finish_reason=pb.FINISH_REASON_STOP,
            finish_unix_seconds=time.time(),
            wait_seconds=0.2,
            service_seconds=0.1 + 0.01 * tokens,
            mean_concurrency=4.0,
            predicted_token_count=round(3.0 + 3.1 * audio_s),
            request_hash="0123456789abcdef",
        )


def batches_of(n: int, keys: int, seed: int) -> Iterator[bytes]:
    """Give reports of 256 completions, encoded."""
    rows = _rows(n, keys, seed)
    client = pb.ClientStatus(client_id="bench-0-boot", model_id="whisper-0")
    while batch := list(itertools.islice(rows, BATCH)):
        yield pb.ReportCompletionsRequest(client=client, completions=batch).SerializeToString()


async def report(channel: grpc.aio.Channel, batches: list[bytes]) -> list[float]:
    """Send batches, four at a time; give what each took in seconds."""
    call: grpc.aio.UnaryUnaryMultiCallable[bytes, pb.ReportCompletionsResponse]
    call = channel.unary_unary(
        "/kappad.estimator.v1.EstimatorService/ReportCompletions",
        request_serializer=None,
        response_deserializer=pb.ReportCompletionsResponse.FromString,
    )
    waiting = iter(batches)
    seconds: list[float] = []

    async def sender() -> None:
        for batch in waiting:
            start = time.perf_counter()
            answer = await call(batch)
            seconds.append(time.perf_counter() - start)
            assert not answer.rejections, answer.rejections[0]

    await asyncio.gather(*(sender() for _ in range(_IN_FLIGHT)))
    return seconds


async def _status(channel: grpc.aio.Channel) -> pb.GetStatusResponse:
    stub: rpc.InspectionServiceAsyncStub = rpc.InspectionServiceStub(channel)  # type: ignore[assignment]  # one class at run time
    return await stub.GetStatus(pb.GetStatusRequest())


async def learned(channel: grpc.aio.Channel, n: int) -> pb.GetStatusResponse:
    """Wait until so many completions are learned."""
    async with asyncio.timeout(60.0):
        while True:
            status = await _status(channel)
            if status.learned_count >= n:
                return status
            await asyncio.sleep(0.02)


def estimator(channel: grpc.aio.Channel) -> "rpc.EstimatorServiceAsyncStub":
    """Give the stub of the data plane."""
    return rpc.EstimatorServiceStub(channel)  # type: ignore[return-value]  # one class at run time


async def ingest(n: int = 200_000, *, keys: int = KEYS) -> dict[str, float]:
    """Store and learn ``n`` completions in batches of 256, as fast as the sidecar takes them."""
    batches = list(batches_of(n, keys, seed=1))
    with tempfile.TemporaryDirectory() as name, sidecar(Path(name)) as (process, target):
        await serving(target)
        async with grpc.aio.insecure_channel(target) as channel:
            cpu, start = cpu_s(process.pid), time.perf_counter()
            seconds = await report(channel, batches)
            stored_s = time.perf_counter() - start
            backlog = (await _status(channel)).backlog_count
            await learned(channel, n)
            learned_s, cpu = time.perf_counter() - start, cpu_s(process.pid) - cpu
        return {
            "n": n,
            "keys": keys,
            "stored_per_s": n / stored_s,
            "stored_and_learned_per_s": n / learned_s,
            "per_cpu_second": n / cpu,
            "cores_used": cpu / learned_s,
            "backlog_after_last_ack": backlog,
            "report_p50_ms": statistics.median(seconds) * 1e3,
            "report_max_ms": max(seconds) * 1e3,
            "rss_mib": rss_mib(process.pid),
        }


async def predict(blocks: int = 10, calls: int = 50) -> dict[str, float]:
    """Compare `BatchPredict` of 256 with a server that answers the same messages at once."""
    request = pb.BatchPredictRequest(
        inputs=[
            pb.PredictionInput(
                model_id="whisper-0",
                task="transcribe",
                language=f"l{i % 50}",
                timestamps=False,
                audio_seconds=1.0 + i % 29,
                prompt_token_count=4,
                max_token_count=448,
            )
            for i in range(BATCH)
        ]
    )
    with tempfile.TemporaryDirectory() as name, sidecar(Path(name)) as (_, target):
        await serving(target)
        async with grpc.aio.insecure_channel(target) as channel:
            await report(channel, list(batches_of(20_000, 500, seed=2)))
            await learned(channel, 20_000)
            ours = estimator(channel).BatchPredict
            answer = (await ours(request)).SerializeToString()
            echo = f"unix:{name}/echo.sock"
            with _child(_ECHO, echo, answer.hex()):
                async with grpc.aio.insecure_channel(echo) as echo_channel:
                    theirs = estimator(echo_channel).BatchPredict
                    await theirs(request, wait_for_ready=True)
                    times: dict[str, list[float]] = {"ours": [], "echo": []}
                    for _ in range(blocks):
                        for who, call in (("echo", theirs), ("ours", ours)):
                            for _ in range(calls):
                                start = time.perf_counter()
                                await call(request)
                                times[who].append(time.perf_counter() - start)
    median = {who: statistics.median(values) for who, values in times.items()}
    return {
        "inputs": BATCH,
        "n": blocks * calls,
        "predict_p50_ms": median["ours"] * 1e3,
        "echo_p50_ms": median["echo"] * 1e3,
        "ratio": median["ours"] / median["echo"],
        # Undisturbed by whatever else runs on the machine.
        "ratio_of_minima": min(times["ours"]) / min(times["echo"]),
    }


async def memory(
    first: int = 200_000, last: int = 1_000_000, *, keys: int = KEYS
) -> dict[str, Any]:
    """Measure resident memory every ``first / 2`` completions, up to ``last``.

    Notes
    -----
    One sample is off by ±3 %, whatever the allocator happens to hold at that moment, so growth
    compares the median of three samples around ``first`` with that of the last three.
    """
    step = first // 2
    with tempfile.TemporaryDirectory() as name, sidecar(Path(name)) as (process, target):
        await serving(target)
        empty = rss_mib(process.pid)
        async with grpc.aio.insecure_channel(target) as channel:
            marks: list[float] = []
            for number in range(last // step):
                await report(channel, list(batches_of(step, keys, 100 + number)))
                await learned(channel, step * (number + 1))
                marks.append(rss_mib(process.pid))
    at_first, at_last = statistics.median(marks[:3]), statistics.median(marks[-3:])
    return {
        "first": first,
        "last": last,
        "rss_empty_mib": empty,
        "rss_mib": marks,
        "rss_first_mib": at_first,
        "rss_last_mib": at_last,
        "growth_ratio": at_last / at_first - 1.0,
    }


async def start(stored: int = 1_000_000, *, keys: int = KEYS) -> dict[str, float]:
    """Measure the time from exec to SERVING, with an empty and with a filled store."""
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        for part in ("empty", "full"):
            (directory / part / "state").mkdir(parents=True)
        empty_s = await _start_once(directory / "empty")
        _fill(directory / "full" / "state" / "kappad.sqlite3", stored, keys)
        # Nothing but rows: no checkpoint, so that everything is replayed behind the first answer.
        cold_s = await _start_once(directory / "full")
        # The stop above has saved a checkpoint as far as the replay came.
        warm_s = await _start_once(directory / "full")
    return {
        "stored": stored,
        "serving_empty_s": empty_s,
        "serving_without_checkpoint_s": cold_s,
        "serving_again_s": warm_s,
    }


async def _start_once(directory: Path) -> float:
    begun = time.perf_counter()
    with sidecar(directory) as (_, target):
        await serving(target)
        return time.perf_counter() - begun


def _fill(path: Path, n: int, keys: int) -> None:
    rng = random.Random(3)
    store = SqliteStore(path, max_completions=max(n, 1))
    try:
        for begin in range(0, n, 4096):
            store.append(
                [
                    Completion(
                        completion_id=f"fill-{i}",
                        model=f"whisper-{i % 10}",
                        language=f"l{rng.randrange(keys) // 10}",
                        timestamps=False,
                        audio_s=rng.uniform(1.0, 30.0),
                        output_tokens=rng.randrange(5, 100),
                        finished_s=time.time(),
                        service_s=1.0,
                        concurrency=4.0,
                    )
                    for i in range(begin, min(begin + 4096, n))
                ]
            )
    finally:
        store.close()


def measure(scale: float = 1.0) -> dict[str, dict[str, float]]:
    """Measure everything, with counts times ``scale``."""

    def scaled(n: int) -> int:
        return max(BATCH, round(n * scale))

    parts: dict[str, Callable[[], Any]] = {  # Any: coroutines of the functions above
        "ingest": lambda: ingest(scaled(200_000)),
        "predict": predict,
        "memory": lambda: memory(scaled(200_000), scaled(1_000_000)),
        "start": lambda: start(scaled(1_000_000)),
    }
    return {name: asyncio.run(part()) for name, part in parts.items()}


def main() -> None:
    """Print what was measured."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scale", type=float, default=1.0, help="share of the full counts")
    parser.add_argument("--only", choices=("ingest", "predict", "memory", "start"))
    options = parser.parse_args()
    if options.only == "ingest":
        result: Any = asyncio.run(ingest(round(200_000 * options.scale)))  # Any: printed as JSON
    elif options.only == "predict":
        result = asyncio.run(predict())
    elif options.only == "memory":
        n = options.scale
        result = asyncio.run(memory(round(200_000 * n), round(1_000_000 * n)))
    elif options.only == "start":
        result = asyncio.run(start(round(1_000_000 * options.scale)))
    else:
        result = measure(options.scale)
    print(json.dumps(result, indent=2))


if __name__ == "__main__":
    main()
