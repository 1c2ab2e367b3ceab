"""What the drift detectors report: false events, delays after true changes, and their price.

Curve: `ShiftTest` on logarithms of what came over a line, resampled from each trace: false events
in 200,000 completions and completions to see ×1.5 and ÷1.5, for several thresholds.
Stationary: the whole pipeline on resampled traces, all kinds of events together.
Changes: κ ×1.5 and ÷1.5, one language that turns into another while it is hidden, lengths that
become uniform over 5 to 30 s, a machine that becomes 1.5 times slower, loads 0.3 and 1.2.
File order: what speakers that follow one another look like.

Run: ``python -m benchmarks.drift`` (about 60 s alone on a core); ``--traces DIR`` for other files.
"""

import argparse
import json
import math
import random
import statistics
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from river.drift import PageHinkley

from estimator.core.config import CoreConfig
from estimator.core.cusum import Row
from estimator.core.drift import Sample, kappa_watch, service_watch
from estimator.core.drift_event import DriftEvent, DriftKind
from estimator.core.mix import MixTable
from estimator.core.observation import Completion
from estimator.core.pipeline import Pipeline
from estimator.core.shift import BATCH, ShiftTest
from estimator.evaluation.engine_model import GPU, Job, serve
from estimator.evaluation.scenarios import Trace, read_trace

TRACES: Final = Path(__file__).parent / "traces"
FACTOR: Final = 1.5
THRESHOLDS: Final = (7.0, 9.0, 10.5, 12.0)
# Completions of each trace and threshold for the curve, and of each trace for the pipeline.
N_CURVE: Final = 200_000
N_STATIONARY: Final = 60_000
# Completions between starts, on the curve: each stream begins anew and learns its scale again.
N_STREAM: Final = 4_000
N_BEFORE: Final = 300
N_AFTER: Final = 120
N_RUNS: Final = 50
N_SERVICE_SEEDS: Final = 8
LOADS: Final = (0.3, 0.7, 1.2)
# The boundary of issue 3 between traces that are seen within 40 completions and within 80.
NARROW_SPREAD: Final = 0.3

Result = dict[str, Any]  # Any: a tree of JSON


class Clip(NamedTuple):
    """One utterance."""

    audio_s: float
    tokens: float


def clips_of(trace: Trace) -> list[Clip]:
    """Give the utterances of a trace, none if it is one of text."""
    return [
        Clip(one.audio_s, float(one.output_tokens))
        for one in trace.completions
        if one.audio_s is not None
    ]


def line_of(clips: Sequence[Clip]) -> tuple[float, float]:
    """Fit intercept and slope by least squares, each clip weighted by 1 / seconds."""
    w = sum(1.0 / clip.audio_s for clip in clips)
    n, s = float(len(clips)), sum(clip.audio_s for clip in clips)
    y, sy = sum(c.tokens / c.audio_s for c in clips), sum(c.tokens for c in clips)
    slope = (w * sy - n * y) / (w * s - n * n)
    return (y - slope * n) / w, slope


def rows_of(clips: Sequence[Clip], factor: float = 1.0) -> list[Row]:
    """Give what a κ watch would test, were its reference the best line of the whole trace."""
    intercept, slope = line_of(clips)
    rows = []
    for clip in clips:
        expected = max(intercept + slope * clip.audio_s, 1.0)
        tokens = round(factor * clip.tokens)
        value = math.log((tokens + 0.5) / (expected + 0.5))
        rows.append((value, float(tokens), expected, clip.audio_s))
    return rows


def spread_of(clips: Sequence[Clip]) -> float:
    """Give the robust standard deviation of tokens over the line's."""
    return 1.4826 * statistics.median(abs(math.expm1(row[0])) for row in rows_of(clips))


def new_test(threshold: float) -> ShiftTest:
    """Make the test of a κ watch with another threshold."""
    return kappa_watch(CoreConfig(drift_threshold=threshold)).test


def measure_curve(clips: Sequence[Clip], threshold: float, seed: int = 0) -> Result:
    """Resample one trace without and with a change."""
    rng = random.Random(seed)
    before = rows_of(clips)
    false = 0
    for _ in range(N_CURVE // N_STREAM):
        test = new_test(threshold)
        rows = rng.choices(before, k=N_STREAM)
        false += sum(
            test.update(rows[i : i + BATCH]) is not None for i in range(0, N_STREAM, BATCH)
        )
    result: Result = {"false_per_200k": 200_000 * false / N_CURVE}
    for name, factor in (("up", FACTOR), ("down", 1.0 / FACTOR)):
        after = rows_of(clips, factor)
        delays = []
        for _ in range(4 * N_RUNS):
            test = new_test(threshold)
            # A change falls anywhere within a sum.
            start = N_BEFORE + rng.randrange(BATCH)
            rows = rng.choices(before, k=start) + rng.choices(after, k=N_AFTER)
            delays.append(_first(test, rows, start))
        result[name] = summary(delays)
    return result


def _first(test: ShiftTest, rows: Sequence[Row], start: int) -> float:
    for i in range(0, len(rows), BATCH):
        if test.update(rows[i : i + BATCH]) is not None:
            return min(i + BATCH, len(rows)) - start
    return math.inf


def summary(delays: Sequence[float]) -> Result:
    """Describe completions to detection; infinite where there was none, ≤ 0 where it was false."""
    seen = [delay for delay in delays if delay > 0.0]
    median = statistics.median(seen) if seen else math.inf
    return {
        "median": None if median == math.inf else median,
        "within_40": sum(delay <= 40 for delay in seen) / len(delays),
        "within_60": sum(delay <= 60 for delay in seen) / len(delays),
        "within_80": sum(delay <= 80 for delay in seen) / len(delays),
        "early": len(delays) - len(seen),
        "n": len(delays),
    }


def completion(index: int, clip: Clip, rng: random.Random) -> Completion:
    """Make a completion of a clip, served alone, one a second."""
    seconds = (0.03 + 0.008 * clip.tokens) * math.exp(0.1 * rng.gauss(0.0, 1.0))
    return Completion(
        completion_id=f"drift-{index}",
        audio_s=clip.audio_s,
        output_tokens=round(clip.tokens),
        prompt_tokens=4,
        finished_s=float(index),
        service_s=seconds,
        concurrency=1.0,
    )


def begun(completions: Iterable[Completion]) -> Iterator[tuple[int, DriftEvent]]:
    """Learn, and yield each event that begins with the index of its completion."""
    pipeline = Pipeline()
    for index, one in enumerate(completions):
        for event in pipeline.learn_one(one):
            if event.ended_s is None:
                yield index, event


def measure_stationary(clips: Sequence[Clip], seed: int = 0) -> Result:
    """Count events where nothing changes."""
    rng = random.Random(seed)
    drawn = enumerate(rng.choices(clips, k=N_STATIONARY))
    events = [event.kind for _, event in begun(completion(i, clip, rng) for i, clip in drawn)]
    return {"completions": N_STATIONARY, "events": dict(Counter(events))}


def measure_change(
    before: Sequence[Clip], after: Sequence[Clip], kind: DriftKind, *, runs: int = N_RUNS
) -> Result:
    """Count completions from a change to its event, and events of that kind for each change."""
    delays, events = [], 0
    for seed in range(runs):
        rng = random.Random(seed)
        start = N_BEFORE + seed % 8
        drawn = rng.choices(before, k=start) + rng.choices(after, k=N_AFTER)
        stream = (completion(i, clip, rng) for i, clip in enumerate(drawn))
        found = [index - start + 1 for index, event in begun(stream) if event.kind == kind]
        delays.append(found[0] if found else math.inf)
        events += len(found)
    return {**summary(delays), "events_per_change": events / runs}


def scaled(clips: Sequence[Clip], factor: float) -> list[Clip]:
    """Give the clips with so many times the tokens."""
    return [Clip(clip.audio_s, max(round(factor * clip.tokens), 1)) for clip in clips]


def uniform_lengths(clips: Sequence[Clip]) -> list[Clip]:
    """Give clips of 5, 10 to 30 s as they come from the nearest length in the trace."""
    result = []
    for audio_s in (5.0, 10.0, 15.0, 20.0, 25.0, 30.0):
        nearest = sorted(clips, key=lambda clip: abs(clip.audio_s - audio_s))[:40]
        result += [Clip(audio_s, round(c.tokens * audio_s / c.audio_s)) for c in nearest]
    return result


def _serve(clips: Sequence[Clip], loads: Sequence[float], seed: int) -> list[Completion]:
    rng = random.Random(seed)
    done: list[Completion] = []
    for load in loads:
        jobs = [
            Job(tokens=round(c.tokens), prompt_tokens=4, audio_s=c.audio_s)
            for c in rng.sample(clips, k=min(len(clips), 2_000))
        ]
        for one in serve(GPU, jobs, load=load, rng=rng):
            done.append(one.completion(len(done)))
    return done


def measure_loads(clips: Sequence[Clip]) -> Result:
    """Serve one trace at loads 0.3 and 1.2, alone and after one another."""
    counts: Counter[str] = Counter()
    n = 0
    for seed in range(N_SERVICE_SEEDS // 2):
        for loads in ((0.3,), (1.2,), (0.3, 1.2), (1.2, 0.3)):
            done = _serve(clips, loads, seed)
            n += len(done)
            counts.update(event.kind for _, event in begun(done))
    return {"completions": n, "events": dict(counts)}


def measure_slower(clips: Sequence[Clip], load: float) -> Result:
    """Make the machine slower after 1,000 admissions of an engine model at one load."""
    delays = []
    for seed in range(N_SERVICE_SEEDS):
        rng = random.Random(seed)
        jobs = [
            Job(tokens=round(c.tokens), prompt_tokens=4, audio_s=c.audio_s)
            for c in rng.sample(clips, k=1_300)
        ]
        done = serve(GPU, jobs, load=load, rng=rng, change_at=1_000, change=FACTOR)
        changed_s = sorted(one.admitted_s for one in done)[1_000]
        # Completions after the change; those admitted before it were slowed for a part only.
        start = sum(one.finished_s < changed_s for one in done)
        stream = [one.completion(i) for i, one in enumerate(done)]
        found = [index - start + 1 for index, event in begun(stream) if event.kind == "service"]
        delays.append(found[0] if found else math.inf)
    return summary(delays)


def measure_file_order(clips: Sequence[Clip]) -> Result:
    """Learn a trace as it lies."""
    rng = random.Random(0)
    events = [event for _, event in begun(completion(i, c, rng) for i, c in enumerate(clips))]
    moves = [abs(math.log(event.after / event.before)) for event in events]
    return {
        "completions": len(clips),
        "events": dict(Counter(event.kind for event in events)),
        "median_move": math.expm1(statistics.median(moves)) if moves else None,
    }


def measure_cost(clips: Sequence[Clip], n: int = 20_000) -> Result:
    """Measure what watching costs a completion, beside one update of river's Page-Hinkley."""
    rng = random.Random(0)
    drawn = rng.choices(clips, k=n)
    samples = [Sample(c.tokens, 3.3 * c.audio_s, 3.3 * c.audio_s, 1.0, 0.0, c.audio_s, (3.3, 0.0))
               for c in drawn]  # fmt: skip
    completions = [completion(i, clip, rng) for i, clip in enumerate(drawn)]
    config = CoreConfig()
    detector = PageHinkley(threshold=1e9)
    values = [rng.gauss(0.0, 1.0) for _ in range(n)]
    return {
        "kappa_us": _cost(kappa_watch(config).update, samples),
        "service_us": _cost(service_watch(config).update, samples),
        "mix_us": _cost(MixTable(config).update, completions),
        "page_hinkley_us": _cost(detector.update, values),
    }


def _cost(update: Callable[[Any], object], items: Sequence[object]) -> float:
    # Any: each detector takes its own kind of item. The best of five: others use the machine too.
    best = math.inf
    for _ in range(5):
        start = time.thread_time()
        for item in items:
            update(item)
        best = min(best, time.thread_time() - start)
    return 1e6 * best / len(items)


def measure(folder: Path = TRACES) -> Result:
    """Measure everything."""
    paths = sorted(folder.glob("*.csv.gz"))
    traces = {path.name.removesuffix(".csv.gz"): clips_of(read_trace(path)) for path in paths}
    traces = {name: clips for name, clips in traces.items() if clips}
    stationary = {name: measure_stationary(clips) for name, clips in traces.items()}
    n = sum(one["completions"] for one in stationary.values())
    false = sum(sum(one["events"].values()) for one in stationary.values())
    changes = {
        name: {
            "spread": spread_of(clips),
            "up": measure_change(clips, scaled(clips, FACTOR), "kappa"),
            "down": measure_change(clips, scaled(clips, 1.0 / FACTOR), "kappa"),
        }
        for name, clips in traces.items()
    }
    english = traces["librispeech-test-clean"]
    return {
        "curve": [
            {"threshold": at, **{name: measure_curve(c, at) for name, c in traces.items()}}
            for at in THRESHOLDS
        ],
        "stationary": stationary,
        "stationary_completions": n,
        "false_per_200k": 200_000 * false / n,
        "changes": changes,
        "narrow_within_40": _share(changes, "within_40", narrow=True),
        "wide_within_80": _share(changes, "within_80", narrow=False),
        "hidden_languages": {
            f"{a} to {b}": measure_change(traces[a], traces[b], "kappa", runs=N_RUNS // 2)
            for a, b in (
                ("librispeech-test-clean", "ud-french-parisstories"),
                ("ud-french-parisstories", "librispeech-test-clean"),
                ("aishell1-test", "tedxjp10k-ja-chars"),
                ("librispeech-test-clean", "aishell1-test"),
            )
        },
        "lengths": measure_change(english, uniform_lengths(english), "mix"),
        "slower": {f"{load:g}": measure_slower(english, load) for load in LOADS},
        "loads": measure_loads(english),
        "file_order": {name: measure_file_order(clips) for name, clips in traces.items()},
        "cost": measure_cost(english),
    }


def _share(changes: Result, which: str, *, narrow: bool) -> float | None:
    """Give the smallest share among the traces of one class of spreads."""
    found = [
        one[way][which]
        for one in changes.values()
        for way in ("up", "down")
        if (one["spread"] <= NARROW_SPREAD) == narrow
    ]
    return min(found, default=None)


def main() -> None:
    """Print one JSON object."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--traces", type=Path, default=TRACES)
    print(json.dumps(measure(parser.parse_args().traces), indent=2))


if __name__ == "__main__":
    main()
