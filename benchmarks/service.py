"""What kappad learns of seconds, and of text requests.

Load: the same clips on a model of continuous batching at loads 0.3, 1.2 and 0.3, and the reverse;
how far the estimates of typical clips move, and the drift events. Slower: the same machine 1.5
times slower. The last requests of each load are left out: nobody arrives any more.
Alone: logs of ``T = a + b·n`` with 1 % noise. Text: error one step ahead on production traces.
Cost: CPU a completion.

Run: ``python -m benchmarks.service`` (about 30 s).
"""

import csv
import gzip
import json
import math
import random
import statistics
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from estimator.core.config import CoreConfig
from estimator.core.observation import MAX_TOKENS, Completion
from estimator.core.pipeline import Pipeline
from estimator.core.service_time import ServiceTable
from estimator.evaluation.engine_model import CPU, GPU, EngineModel, Job, serve
from sched_client.model import (
    DEFAULT_TEXT_TOKENS,
    GLOBAL_KEY,
    Features,
    Snapshot,
    evaluate,
)
from sched_client.text_class import text_class

TRACES: Final = Path(__file__).parent / "traces"
ENGINES: Final = {"gpu": GPU, "cpu": CPU}
N_SEEDS: Final = 3
# Tokens of clips at p10, p50 and p90 of LibriSpeech.
TYPICAL_TOKENS: Final = (8, 20, 46)
# What MLPerf's logs gave on two hosts (traces/README.md).
ALONE: Final = ((0.030, 0.0069), (0.030, 0.0090))
TOLERANCE: Final = 0.02
# What llm-d's router takes a request to produce.
ROUTER_RATIO: Final = 1.5
# Completions of each type that its median is taken over, and within which a change is due.
MEDIAN_OF: Final = 400
WITHIN: Final = 60

Result = dict[str, Any]  # Any: JSON


class Request(NamedTuple):
    """One row of a trace of text requests."""

    arrival_s: float
    prompt_tokens: int
    output_tokens: int
    request_type: str


def rows_of(name: str) -> Iterable[dict[str, str]]:
    """Read the rows of a trace."""
    with gzip.open(TRACES / f"{name}.csv.gz", "rt", encoding="utf-8") as file:
        yield from csv.DictReader(file)


def jobs_of(name: str, rng: random.Random) -> list[Job]:
    """Read a trace of clips, shuffled: κ and the mix are stationary then."""
    jobs = [
        Job(int(row["output_tokens"]), 4, float(row["audio_s"]))
        for row in rows_of(name)
        if int(row["output_tokens"]) > 0
    ]
    rng.shuffle(jobs)
    return jobs


def typical_s(pipeline: Pipeline) -> list[float]:
    """Give the published seconds of typical clips."""
    service = pipeline.services()["default"]
    return [service.overhead_s + service.seconds_per_token * n for n in TYPICAL_TOKENS]


def measure_load(engine: EngineModel, loads: Sequence[float], seed: int) -> Result:
    """Serve the same trace at one load after another."""
    rng = random.Random(seed)
    pipeline = Pipeline()
    moves = []
    events = count = 0
    start_s = 0.0
    before: list[float] = []
    for load in loads:
        jobs = jobs_of("librispeech-test-clean", rng)
        for residence in serve(engine, jobs, load=load, rng=rng)[: -engine.slots]:
            found = pipeline.learn_one(residence.completion(count, start_s))
            events += sum(event.kind == "service" and event.ended_s is None for event in found)
            count += 1
        start_s += residence.finished_s
        now = typical_s(pipeline)
        moves += [abs(a / b - 1.0) for a, b in zip(now, before, strict=False)]
        before = before or now
    return {"largest_move": max(moves), "events": events, "completions": count}


def measure_slower(engine: EngineModel, load: float, seed: int) -> Result:
    """Make the machine 1.5 times slower after 1,200 of 2,000 requests."""
    rng = random.Random(seed)
    jobs = jobs_of("librispeech-test-clean", rng)[:2000]
    done = serve(engine, jobs, load=load, rng=rng, change_at=1200, change=1.5)
    changed_s = sorted(one.admitted_s for one in done)[1200]
    pipeline = Pipeline()
    after = false = 0
    reported = None
    for i, residence in enumerate(done[: -engine.slots]):
        after += residence.finished_s >= changed_s
        for event in pipeline.learn_one(residence.completion(i)):
            if event.kind == "service" and event.ended_s is None:
                false += after == 0
                if after and reported is None:
                    reported = after
    return {"reported_after": reported, "false_events": false, "seconds": typical_s(pipeline)}


def measure_alone(overhead_s: float, per_token_s: float, seed: int) -> Result:
    """Learn a log of one request at a time, until both are right and stay so."""
    rng = random.Random(seed)
    table = ServiceTable(CoreConfig())
    right_since = None
    jobs = jobs_of("librispeech-test-clean", rng)
    for i, job in enumerate(jobs):
        seconds = (overhead_s + per_token_s * job.tokens) * (1.0 + 0.01 * rng.gauss(0.0, 1.0))
        table.learn(
            Completion(
                completion_id=f"alone-{i}",
                audio_s=job.audio_s,
                prompt_tokens=job.prompt_tokens,
                output_tokens=job.tokens,
                service_s=seconds,
                concurrency=1.0,
            )
        )
        entry = table.entries()["default"]
        errors = (entry.overhead_s / overhead_s - 1.0, entry.seconds_per_token / per_token_s - 1.0)
        if max(map(abs, errors)) > TOLERANCE:
            right_since = None
        elif right_since is None:
            right_since = i + 1
    return {"right_from": right_since, "overhead_error": errors[0], "slope_error": errors[1]}


def text_requests(*names: str) -> list[Request]:
    """Read traces of text requests in the order of their arrival, typed by their file."""
    return sorted(
        Request(
            float(row["arrival_s"]), int(row["prompt_tokens"]), int(row["output_tokens"]), name
        )
        for name in names
        for row in rows_of(name)
    )


def measure_text(requests: Sequence[Request]) -> Result:
    """Predict each request before it is learned, as a client with the newest snapshot."""
    pipeline = Pipeline()
    seen: dict[str, list[int]] = {}
    errors = {"tokens": 0.0, "p50": 0.0, "median_by_type": 0.0, "router_1.5_prompt": 0.0}
    covered = 0
    for i, request in enumerate(requests):
        _, prompt_tokens, tokens, kind = request
        completion = Completion(
            completion_id=f"text-{i}",
            task="text",
            kind="text",
            prompt_tokens=prompt_tokens,
            output_tokens=tokens,
            request_type=kind,
        )
        key = completion.key
        entry = pipeline.kappa_of(key)
        estimate = evaluate(
            Snapshot(
                version=0, instance_id="", created_s=0.0, kappas={GLOBAL_KEY: entry, key: entry}
            ),
            Features(
                task="text",
                language=text_class(kind, prompt_tokens),
                kind="text",
                prompt_tokens=prompt_tokens,
                max_tokens=MAX_TOKENS,
            ),
        )
        latest = seen.setdefault(kind, [])
        median = statistics.median(latest[-MEDIAN_OF:]) if latest else DEFAULT_TEXT_TOKENS
        errors["tokens"] += abs(tokens - estimate.tokens)
        errors["p50"] += abs(tokens - estimate.tokens_p50)
        errors["median_by_type"] += abs(tokens - median)
        errors["router_1.5_prompt"] += abs(tokens - ROUTER_RATIO * prompt_tokens)
        covered += tokens <= estimate.tokens_p90
        latest.append(tokens)
        pipeline.learn_one(completion)
    n = len(requests)
    return {
        "n": n,
        "keys": pipeline.key_count,
        "p90_coverage": covered / n,
        **{f"mae_{name}": error / n for name, error in errors.items()},
        "mae_p50_over_median": errors["p50"] / errors["median_by_type"],
    }


def measure_cost(*, blocks: int = 7) -> Result:
    """Measure CPU of learning seconds alone, with 1 to 16 running."""
    rng = random.Random(0)
    done = serve(GPU, jobs_of("librispeech-test-clean", rng), load=0.7, rng=rng)
    completions = [residence.completion(i) for i, residence in enumerate(done)]
    table = ServiceTable(CoreConfig())
    spent = []
    for _ in range(blocks):
        start = time.thread_time()
        for completion in completions:
            table.learn(completion)
        spent.append(1e6 * (time.thread_time() - start) / len(completions))
    return {"learn_us_median": statistics.median(spent), "learn_us_min": min(spent)}


def measure() -> Result:
    """Measure everything.

    Returns
    -------
    dict
        Numbers with their unit in the name.
    """
    load: Result = {}
    for name, engine in ENGINES.items():
        for loads in ((0.3, 1.2, 0.3), (1.2, 0.3, 1.2)):
            runs = [measure_load(engine, loads, seed) for seed in range(N_SEEDS)]
            load[f"{name}, {', '.join(map(str, loads))}"] = {
                "largest_move": max(run["largest_move"] for run in runs),
                "events": sum(run["events"] for run in runs),
                "completions": sum(run["completions"] for run in runs),
            }
    slower: Result = {
        f"{name}, load {at:g}": [measure_slower(engine, at, seed) for seed in range(N_SEEDS)]
        for name, engine in ENGINES.items()
        for at in (0.05, 0.3, 0.6, 0.9, 1.2)
    }
    alone = [measure_alone(*line, seed) for line in ALONE for seed in range(N_SEEDS)]
    right_from = [run["right_from"] for run in alone]
    conv, code = "azure-llm-2023-conv", "azure-llm-2023-code"
    return {
        "load": load,
        "load_largest_move": max(run["largest_move"] for run in load.values()),
        "load_events": sum(run["events"] for run in load.values()),
        "slower": slower,
        "slower_within_60_ratio": sum(
            (run["reported_after"] or math.inf) <= WITHIN
            for runs in slower.values()
            for run in runs
        )
        / sum(map(len, slower.values())),
        "alone": alone,
        "alone_right_from_worst": None if None in right_from else max(right_from),
        "text": {
            "conv": measure_text(text_requests(conv)),
            "code": measure_text(text_requests(code)),
            "both, by arrival": measure_text(text_requests(conv, code)),
        },
        "cost": measure_cost(),
    }


if __name__ == "__main__":
    print(json.dumps(measure(), indent=2))
