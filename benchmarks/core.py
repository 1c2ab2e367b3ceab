"""What the learning core costs and how well it predicts, on invented and on real completions.

Cost: microseconds of CPU a completion over 5,000 languages, bytes a key, seconds for a state.
Accuracy: one step ahead on the traces in ``benchmarks/traces``, in their order and shuffled,
against the cumulative Σn/Σd; completions to recover from a prior that is 2× wrong; completions to
follow one language that turns into another while the language is hidden; harm by loops.

Run: ``python -m benchmarks.core`` (about 20 s).
"""

import csv
import gzip
import json
import math
import random
import statistics
import time
import tracemalloc
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from estimator.core.config import CoreConfig
from estimator.core.drift import load_detector
from estimator.core.observation import Completion
from estimator.core.pipeline import Pipeline
from sched_client.model import KappaEntry

TRACES: Final = Path(__file__).parent / "traces"
NAMES: Final = (
    "librispeech-test-clean", "aishell1-test", "ud-french-parisstories", "tedxjp10k-ja-chars",
)  # fmt: skip
N_KEYS: Final = 5_000
N_SEEDS: Final = 20
# Completions before a drift, and the most that are watched after it.
N_BEFORE: Final = 300
N_AFTER: Final = 300
LOOP_TOKENS: Final = 444

Summary = dict[str, float | None]


class Clip(NamedTuple):
    """One utterance."""

    audio_s: float
    tokens: int


def read_trace(name: str) -> list[Clip]:
    """Read one trace of ``benchmarks/traces``."""
    with gzip.open(TRACES / f"{name}.csv.gz", "rt", encoding="utf-8") as file:
        return [
            Clip(float(row["audio_s"]), int(row["output_tokens"])) for row in csv.DictReader(file)
        ]


def completion(index: int, clip: Clip, language: str = "") -> Completion:
    """Make a completion of a clip, one a second."""
    return Completion(
        completion_id=f"bench-{index}",
        language=language,
        timestamps=False,
        audio_s=clip.audio_s,
        output_tokens=clip.tokens,
        prompt_tokens=4,
        finished_s=float(index),
        service_s=0.05 + 0.01 * clip.tokens,
        concurrency=1.0 + index % 7,
    )


def rate_at(entry: KappaEntry, audio_s: float) -> float:
    """Give tokens per second at a length, the intercept included."""
    return entry.kappa_tokens_per_s + entry.intercept_tokens / audio_s


def _invented(n: int, seed: int = 7) -> list[Completion]:
    rng = random.Random(seed)
    return [
        completion(
            i,
            Clip(audio, max(1, round(3 + 3.1 * audio * rng.lognormvariate(0.0, 0.2)))),
            f"l{i % N_KEYS}",
        )
        for i, audio in enumerate(rng.uniform(1.0, 29.0) for _ in range(n))
    ]


def measure_cost(*, n: int = 20_000, blocks: int = 5) -> dict[str, float]:
    """Measure CPU and memory over 5,000 languages."""
    completions = _invented(n)
    load_detector()  # river's modules are no key's memory
    tracemalloc.start()
    pipeline = Pipeline()
    for item in completions:
        pipeline.learn_one(item)
    pipeline.take_changes()
    key_count, held = pipeline.key_count, tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    block = completions[: n // 4]
    learn_us = []
    changes_us = []
    for _ in range(blocks):
        start = time.thread_time()
        for item in block:
            pipeline.learn_one(item)
        learn_us.append(1e6 * (time.thread_time() - start) / len(block))
        pipeline.take_changes()
        for item in block[:100]:
            pipeline.learn_one(item)
        start = time.thread_time()
        pipeline.take_changes()
        changes_us.append(1e6 * (time.thread_time() - start))
    start = time.thread_time()
    text = json.dumps(pipeline.state())
    state_s = time.thread_time() - start
    start = time.thread_time()
    Pipeline(state=json.loads(text))
    return {
        "key_count": key_count,
        "learn_us_median": statistics.median(learn_us),
        "learn_us_max": max(learn_us),
        "take_changes_of_100_us_median": statistics.median(changes_us),
        "memory_mib": held / 2**20,
        "bytes_per_key": held / key_count,
        "state_s": state_s,
        "state_mib": len(text) / 2**20,
        "restore_s": time.thread_time() - start,
    }


def measure_accuracy(clips: Sequence[Clip]) -> dict[str, float]:
    """Predict each clip before it is learned, beside the cumulative Σn/Σd."""
    pipeline = Pipeline()
    error = cumulative_error = tokens = seconds = 0.0
    below_p90 = events = 0
    for i, clip in enumerate(clips):
        item = completion(i, clip)
        entry = pipeline.kappa_of(item.key)
        expected = max(entry.intercept_tokens + entry.kappa_tokens_per_s * clip.audio_s, 1.0)
        error += abs(clip.tokens - expected)
        below_p90 += clip.tokens <= expected * entry.ratio_p90
        kappa = tokens / seconds if seconds else CoreConfig().prior_kappa_tokens_per_s
        cumulative_error += abs(clip.tokens - kappa * clip.audio_s)
        tokens += clip.tokens
        seconds += clip.audio_s
        events += sum(event.ended_s is None for event in pipeline.learn_one(item))
    return {
        "n": len(clips),
        "mae_tokens": error / len(clips),
        "mae_ratio_to_cumulative": error / cumulative_error,
        "p90_coverage": below_p90 / len(clips),
        "drift_events": events,
    }


def completions_to_reach(
    pipeline: Pipeline, clips: Iterable[Clip], target: float, audio_s: float, tolerance: float
) -> tuple[float, float, float]:
    """Count completions until the estimate at a mean clip is right.

    Parameters
    ----------
    pipeline : Pipeline
        Goes on learning, the language hidden.
    clips : iterable of Clip
        What it learns.
    target, audio_s : float
        Tokens per second in hindsight, and the length that the estimate is asked for.
    tolerance : float
        Relative error that counts as right.

    Returns
    -------
    tuple of float
        To be right first, to stay right for 20, to a drift event; infinite if never.
    """
    first = stays = event = math.inf
    run = 0
    for i, clip in enumerate(clips, start=1):
        item = completion(pipeline.learned_count, clip)
        if any(found.ended_s is None for found in pipeline.learn_one(item)):
            event = min(event, i)
        right = abs(rate_at(pipeline.kappa_of(item.key), audio_s) / target - 1.0) <= tolerance
        run = run + 1 if right else 0
        if right:
            first = min(first, i)
        if run == 20:
            stays = min(stays, i - 19)
    return first, stays, event


def _in_hindsight(clips: Sequence[Clip]) -> tuple[float, float]:
    seconds = sum(clip.audio_s for clip in clips)
    return sum(clip.tokens for clip in clips) / seconds, seconds / len(clips)


def _summary(runs: Sequence[tuple[float, float, float]]) -> Summary:
    summary: Summary = {}
    for name, column in zip(("first", "stays_20", "event"), zip(*runs, strict=True), strict=True):
        for label, value in (("median", statistics.median(column)), ("max", max(column))):
            # JSON knows no infinity: null is "not within the completions watched".
            summary[f"{name}_{label}"] = value if math.isfinite(value) else None
    return summary


def measure_cold_start(clips: Sequence[Clip]) -> dict[str, Summary]:
    """Start from half and from twice the true κ, to ±15 %."""
    target, audio_s = _in_hindsight(clips)
    result = {}
    for factor in (0.5, 2.0):
        runs = []
        for seed in range(N_SEEDS):
            config = CoreConfig(prior_kappa_tokens_per_s=factor * target)
            sample = random.Random(seed).sample(list(clips), N_AFTER)
            runs.append(completions_to_reach(Pipeline(config), sample, target, audio_s, 0.15))
        result[f"x{factor:g}"] = _summary(runs)
    return result


def measure_drift(before: Sequence[Clip], after: Sequence[Clip]) -> Summary:
    """Turn one language into another, hidden, to ±10 %."""
    target, audio_s = _in_hindsight(after)
    runs = []
    for seed in range(N_SEEDS):
        rng = random.Random(seed)
        pipeline = Pipeline()
        for i, clip in enumerate(rng.sample(list(before), N_BEFORE)):
            pipeline.learn_one(completion(i, clip))
        sample = rng.sample(list(after), N_AFTER)
        runs.append(completions_to_reach(pipeline, sample, target, audio_s, 0.10))
    return _summary(runs)


def measure_loops(clips: Sequence[Clip], *, share: float = 0.05) -> float:
    """Give the largest relative move of the estimate when a share of clips end in a loop."""
    audio_s = _in_hindsight(clips)[1]
    worst = 0.0
    for seed in range(N_SEEDS):
        rng = random.Random(seed)
        clean, looping = Pipeline(), Pipeline()
        rates = []
        for i, clip in enumerate(rng.sample(list(clips), 2 * N_AFTER)):
            loops = rng.random() < share
            clean.learn_one(completion(i, clip))
            looping.learn_one(completion(i, Clip(clip.audio_s, LOOP_TOKENS) if loops else clip))
            key = completion(i, clip).key
            rates.append(
                rate_at(looping.kappa_of(key), audio_s) / rate_at(clean.kappa_of(key), audio_s)
            )
        worst = max(worst, abs(statistics.fmean(rates[N_AFTER:]) - 1.0))
    return worst


def measure() -> dict[str, object]:
    """Measure everything.

    Returns
    -------
    dict
        Numbers with their unit in the name.
    """
    traces = {name: read_trace(name) for name in NAMES}
    english, mandarin, french, japanese = traces.values()
    shuffled = {name: random.Random(1).sample(clips, len(clips)) for name, clips in traces.items()}
    return {
        "cost": measure_cost(),
        "accuracy_in_order": {name: measure_accuracy(clips) for name, clips in traces.items()},
        "accuracy_shuffled": {name: measure_accuracy(clips) for name, clips in shuffled.items()},
        "cold_start_to_15_percent": {
            name: measure_cold_start(clips) for name, clips in traces.items()
        },
        "drift_to_10_percent": {
            "english_to_french": measure_drift(english, french),
            "french_to_english": measure_drift(french, english),
            "mandarin_to_japanese": measure_drift(mandarin, japanese),
            "english_to_mandarin": measure_drift(english, mandarin),
        },
        "loops_5_percent_move_ratio": measure_loops(english),
    }


if __name__ == "__main__":
    print(json.dumps(measure(), indent=2))
