"""Tokens computed again after preemptions: vLLM's own choice of whom, and the least lost.

Run ``.venv-vllm/bin/python -m benchmarks.preemption [--json] [--requests N] [--seeds N]``. vLLM's
real scheduler in virtual time, with too little KV memory: prompts of 20 to 2,000 tokens in chunks,
synchronous and asynchronous scheduling (which computes a token in vain for each that ends by its
end token; counted for both). Deterministic.
"""

import argparse
import json
import random
import statistics
import sys
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final, NamedTuple

from vllm import __version__ as vllm_version

from estimator.replay.job import NS_PER_S, Job
from estimator.replay.profile import EngineProfile
from sched_client.model import (
    TEXT_TASK,
    KappaEntry,
    Key,
    Preemption,
    Settings,
    prior_snapshot,
)
from sched_client.options import ClientOptions
from sched_client.vllm import scheduler as kappad
from tests.support.vllm_fakes import FakeLink
from tests.vllm_inprocess.virtual_time import AsyncVirtualEngine, VirtualEngine, text_scheduler

REQUESTS: Final = 200
SEEDS: Final = 2
MODEL: Final = "text-test"
PROMPTS: Final = (20, 90, 100, 400, 1000, 2000)


class Memory(NamedTuple):
    """An engine that is short of memory: blocks, tokens a step, and mean output tokens."""

    blocks: int
    tokens_a_step: int
    mean_output: int


MEMORIES: Final = (Memory(300, 256, 40), Memory(300, 2048, 160), Memory(1000, 2048, 240))
POLICIES: Final = ("fcfs", "sjf", "ewsjf")
CHOICES: Final[tuple[Preemption, ...]] = ("last", "least_lost")


def draw_jobs(seed: int, count: int, mean_output: int) -> list[Job]:
    """Draw what comes: a request each 30 ms in the mean."""
    rng = random.Random(seed)
    at_s, jobs = 0.0, []
    for index in range(count):
        at_s += rng.expovariate(1.0 / 0.03)
        tokens = 1 + round(rng.expovariate(1.0 / mean_output))
        prompt = rng.choice(PROMPTS)
        job = Job(index, round(at_s * NS_PER_S), tokens, None, prompt, MODEL, TEXT_TASK)
        jobs.append(job._replace(kind="text", max_tokens=4000))
    return jobs


def run(
    memory: Memory,
    policy: str,
    choice: Preemption,
    jobs: Sequence[Job],
    engine_class: type[VirtualEngine],
) -> dict[str, float]:
    """Run jobs to their end; count what was computed and who was preempted."""
    profile = EngineProfile(
        name="short of memory",
        slots=64,
        step_s=0.008,
        per_sequence_s=0.00004,
        per_prompt_token_s=0.00001,
        max_tokens_per_step=memory.tokens_a_step,
        kv_blocks=memory.blocks,
    )
    prior = prior_snapshot(settings=Settings(mode="on", policy=policy, preemption=choice))
    by_prompt = KappaEntry(kappa_tokens_per_s=0.1, sample_count=9, source="learned")
    link = FakeLink(replace(prior, kappas={**prior.kappas, Key(MODEL, TEXT_TASK): by_prompt}))
    # Any: the module's own functions, replaced by the test's.
    module: Any = kappad
    module.open_link, module.read_options = lambda *_: link, lambda *_: ClientOptions()
    scheduler = text_scheduler(profile, kappad.KappadScheduler)
    computed = preempted = 0
    schedule = scheduler.schedule

    def counting(*args: Any, **kwargs: Any) -> Any:
        nonlocal computed, preempted
        output = schedule(*args, **kwargs)
        computed += sum(output.num_scheduled_tokens.values())
        preempted += len(output.preempted_req_ids or ())
        return output

    scheduler.schedule = counting
    engine = engine_class(scheduler, profile)
    engine.run(jobs)
    if scheduler._kappad.failures or len(engine.ended) != len(jobs):
        raise RuntimeError(f"{len(engine.ended)} of {len(jobs)} ended")
    needed = sum(job.prompt_tokens + job.output_tokens - 1 for job in jobs)
    seconds = [(engine.ended[job.index].at_ns - job.arrival_ns) / NS_PER_S for job in jobs]
    return {
        "recomputed_tokens": computed - needed,
        "needed_tokens": needed,
        "preemptions": preempted,
        "mean_latency_s": statistics.fmean(seconds),
    }


def measure(requests: int, seeds: int) -> dict[str, Any]:
    """Measure every memory and policy; means over seeds and both ways of scheduling."""
    result: dict[str, Any] = {"vllm": vllm_version, "requests": requests, "seeds": seeds}
    ratios: list[float] = []
    for memory in MEMORIES:
        for policy in POLICIES:
            runs: dict[str, list[dict[str, float]]] = {choice: [] for choice in CHOICES}
            for seed in range(seeds):
                jobs = draw_jobs(seed, requests, memory.mean_output)
                for engine_class in (VirtualEngine, AsyncVirtualEngine):
                    for choice in CHOICES:
                        runs[choice].append(run(memory, policy, choice, jobs, engine_class))
            row = {
                choice: {name: statistics.fmean(one[name] for one in of) for name in of[0]}
                for choice, of in runs.items()
            }
            last, least = (row[choice] for choice in CHOICES)
            # Few requests may all fit, and lose nothing either way.
            ratio = max(least["recomputed_tokens"], 1.0) / max(last["recomputed_tokens"], 1.0)
            latency = least["mean_latency_s"] / last["mean_latency_s"]
            ratios.append(ratio)
            result["/".join(map(str, (*memory, policy)))] = {
                **row,
                "recomputed_ratio": ratio,
                "latency_ratio": latency,
            }
    result["median_recomputed_ratio"] = statistics.median(ratios)
    result["largest_recomputed_ratio"] = max(ratios)
    return result


def main() -> int:
    """Print the measurements."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--requests", type=int, default=REQUESTS)
    parser.add_argument("--seeds", type=int, default=SEEDS)
    arguments = parser.parse_args()
    result = measure(arguments.requests, arguments.seeds)
    if arguments.json:
        print(json.dumps(result))
    else:
        for name, row in result.items():
            print(f"{name}: {row}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
