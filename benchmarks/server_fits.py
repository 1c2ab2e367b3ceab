"""What fitting queues costs the sidecar's calls, and its memory.

``python -m benchmarks.server_fits`` prints one JSON object.
"""

import asyncio
import json
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any, Final

import grpc
import grpc.aio

from benchmarks import server
from estimator.core.partition import PartitionConfig
from protos.kappad.estimator.v1 import estimator_pb2 as pb
from protos.kappad.estimator.v1 import estimator_pb2_grpc as rpc

# As many fits as a core has time for, or none: what they cost a call is the difference.
_FITTING: Final = """
import estimator.core.pipeline as pipeline
import estimator.runtime.fits as fits
if {fitting}:
    fits._IDLE_SHARE = fits._BUSY_SHARE = 1.0
    fits._LEAST_S = 0.0
    given = pipeline.PartitionConfig
    pipeline.PartitionConfig = lambda **limits: given(refit_every=256, **limits)
else:
    fits.Fits._begin = lambda self, now_s: None
"""

_NEVER: Final = """
import estimator.runtime.fits as fits
fits.Fits._begin = lambda self, now_s: None
"""
N_MODELS: Final = 40
N_EACH: Final = 2048
LEAST_POINTS: Final = PartitionConfig().least_points


async def measure(rounds: int = 3, seconds: float = 6.0) -> dict[str, Any]:
    """Compare a sidecar that fits queues all the time with one that never does.

    Notes
    -----
    Ten models, 860 completions a second, one prediction every 5 ms. The two take turns, so that
    whatever else the machine does falls on both.
    """
    seen: dict[bool, list[float]] = {True: [], False: []}
    rss: dict[bool, float] = {}
    count = 0
    for turn in range(2 * rounds):
        fitting = turn % 2 == 0
        with (
            tempfile.TemporaryDirectory() as name,
            server.sidecar(Path(name), _FITTING.format(fitting=fitting)) as (process, target),
        ):
            await server.serving(target)
            async with grpc.aio.insecure_channel(target) as channel:
                seen[fitting] += await _predict_under_load(channel, seconds)
                inspection: rpc.InspectionServiceAsyncStub = rpc.InspectionServiceStub(channel)  # type: ignore[assignment]  # one class at run time
                listed = await inspection.ListQueues(pb.ListQueuesRequest())
                count += sum(one.status.fit_count for one in listed.models)
            rss[fitting] = server.rss_mib(process.pid)
    quantiles = {
        f"{'fitting' if fitting else 'idle'}_p{q}_ms": statistics.quantiles(values, n=1000)[
            10 * q - 1
        ]
        * 1e3
        for fitting, values in seen.items()
        for q in (50, 90, 99)
    }
    return {
        "n": len(seen[True]),
        "fit_count": count,
        **quantiles,
        "p99_ratio": quantiles["fitting_p99_ms"] / quantiles["idle_p99_ms"],
        "added_rss_mib": rss[True] - rss[False],
        "fitting_rss_mib": rss[True],
        "idle_rss_mib": rss[False],
    }


async def _predict_under_load(channel: grpc.aio.Channel, seconds: float) -> list[float]:
    batches = list(server.batches_of(20_000 + int(1000 * seconds), 500, seed=2))
    warm = 20_000 // server.BATCH
    await server.report(channel, batches[:warm])
    await server.learned(channel, warm * server.BATCH)
    request = pb.BatchPredictRequest(
        inputs=[pb.PredictionInput(model_id="whisper-0", task="transcribe", audio_seconds=3.0)]
    )
    call = server.estimator(channel).BatchPredict

    async def load() -> None:
        for batch in batches[warm:]:
            await server.report(channel, [batch])
            await asyncio.sleep(0.3)

    reports = asyncio.create_task(load())
    found: list[float] = []
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        start = time.perf_counter()
        await call(request)
        found.append(time.perf_counter() - start)
        await asyncio.sleep(0.005)
    reports.cancel()
    await asyncio.gather(reports, return_exceptions=True)
    return found


async def many_models(rounds: int = 2) -> dict[str, Any]:
    """Time the first queues of many models that become due at once, and what that costs.

    Notes
    -----
    Forty models, 2,048 completions of each in turn, as fast as the sidecar takes them. A model
    is due when it has 200. Sidecars that fit as they are made to and ones that never fit take
    turns; completions a second of CPU do not depend on what else the machine does.
    """
    batches = _of_many(N_MODELS * N_EACH)
    waits: list[float] = []
    rates: dict[bool, list[float]] = {True: [], False: []}
    for turn in range(2 * rounds):
        fitting = turn % 2 == 0
        with (
            tempfile.TemporaryDirectory() as name,
            server.sidecar(Path(name), "" if fitting else _NEVER) as (process, target),
        ):
            await server.serving(target)
            async with grpc.aio.insecure_channel(target) as channel:
                # Asked for in both, since the answers cost CPU.
                watch = asyncio.create_task(_first_fits(channel))
                cpu_s = server.cpu_s(process.pid)
                await server.report(channel, batches)
                await server.learned(channel, N_MODELS * N_EACH)
                rates[fitting].append(N_MODELS * N_EACH / (server.cpu_s(process.pid) - cpu_s))
                if fitting:
                    waits += await asyncio.wait_for(watch, 120.0)
                watch.cancel()
    return {
        "models": N_MODELS,
        "completions_each": N_EACH,
        "first_queues_median_s": statistics.median(waits),
        "first_queues_most_s": max(waits),
        "per_cpu_second_fitting": max(rates[True]),
        "per_cpu_second_idle": max(rates[False]),
        "rate_ratio": max(rates[True]) / max(rates[False]),
    }


def _of_many(n: int) -> list[bytes]:
    batches = []
    index = 0
    for encoded in server.batches_of(n, N_MODELS * 10, seed=4):
        request = pb.ReportCompletionsRequest.FromString(encoded)
        for completion in request.completions:
            completion.model_id = f"model-{index % N_MODELS}"
            index += 1
        batches.append(request.SerializeToString())
    return batches


async def _first_fits(channel: grpc.aio.Channel) -> list[float]:
    """Give each model's seconds from 200 points to its first fit."""
    inspection: rpc.InspectionServiceAsyncStub = rpc.InspectionServiceStub(channel)  # type: ignore[assignment]  # one class at run time
    due: dict[str, float] = {}
    fitted: dict[str, float] = {}
    token = ""
    while len(fitted) < N_MODELS:
        listed = await inspection.ListQueues(pb.ListQueuesRequest(page_token=token))
        now, token = time.perf_counter(), listed.next_page_token
        for status in (one.status for one in listed.models):
            if status.sample_count >= LEAST_POINTS:
                due.setdefault(status.model_id, now)
            if status.fit_count:
                fitted.setdefault(status.model_id, now)
        await asyncio.sleep(0.1)
    return [fitted[model] - due[model] for model in fitted]


def main() -> None:
    """Print what was measured."""

    async def both() -> dict[str, Any]:
        return {**await measure(), "many_models": await many_models()}

    print(json.dumps(asyncio.run(both()), indent=2))


if __name__ == "__main__":
    main()
