"""How far spoilt completions move κ, held against the same run without them."""

import random
import statistics
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from estimator.core.observation import Completion
from estimator.core.pipeline import Pipeline
from estimator.evaluation.contamination import (
    invented_languages,
    with_empty_transcripts,
    with_loops,
    with_lying_hints,
    with_wrong_languages,
)
from estimator.evaluation.prequential import hindsight_of, kappa_at, run
from estimator.evaluation.scenarios import Trace, in_trace_order, resampled
from estimator.evaluation.subjects import PipelineSubject

N: Final = 600
N_SEEDS: Final = 4
# κ is looked up in the second half, at every so many-th completion.
N_SETTLE: Final = 300
_EVERY: Final = 5
N_LANGUAGES: Final = 100_000
MIX: Final = ("librispeech-test-clean", "aishell1-test", "ud-french-parisstories")

Spoil = Callable[[Trace, int], Trace]
KINDS: Final[dict[str, Spoil]] = {
    "loops of 444 tokens for 2 s, 5 %, cut": lambda trace, seed: with_loops(trace, 0.05, seed),
    "loops of 444 tokens for 2 s, 5 %, stopped": lambda trace, seed: with_loops(
        trace, 0.05, seed, finish_reason="stop"
    ),
    "loops on any clip, 5 %, cut": lambda trace, seed: with_loops(trace, 0.05, seed, audio_s=None),
    "loops on any clip, 5 %, stopped": lambda trace, seed: with_loops(
        trace, 0.05, seed, audio_s=None, finish_reason="stop"
    ),
    "empty transcripts, 5 %": lambda trace, seed: with_empty_transcripts(trace, 0.05, seed),
    "hints 8 x too long, 5 %": lambda trace, seed: with_lying_hints(trace, 0.05, seed),
    "hints 4 x too short, 5 %": lambda trace, seed: with_lying_hints(
        trace, 0.05, seed, factor=0.25
    ),
}


def _trajectory(trace: Trace, probes: Sequence[tuple[Completion, float]]) -> list[list[float]]:
    subject = PipelineSubject()
    rates: list[list[float]] = [[] for _ in probes]

    def look(n: int, _completion: Completion) -> None:
        if n > N_SETTLE and n % _EVERY == 0:
            for row, (probe, size) in zip(rates, probes, strict=True):
                row.append(kappa_at(subject, probe, size))

    run(subject, in_trace_order([trace]), on_learned=look)
    return rates


def _moves(clean: Trace, spoilt: Trace, probes: Sequence[tuple[Completion, float]]) -> list[float]:
    """Give for each probe the mean of spoilt over clean κ, less 1."""
    return [
        statistics.fmean(b / a for a, b in zip(before, after, strict=True)) - 1.0
        for before, after in zip(
            _trajectory(clean, probes), _trajectory(spoilt, probes), strict=True
        )
    ]


def _probe_of(trace: Trace) -> tuple[Completion, float]:
    return trace.completions[0], hindsight_of(trace).mean_size


def _mixed(traces: Sequence[Trace], seed: int) -> Trace:
    parts = [one for trace in traces for one in resampled(trace, seed, N).completions]
    random.Random(seed).shuffle(parts)
    return Trace("mix", tuple(parts))


def measure(traces: Sequence[Trace]) -> dict[str, dict[str, float]]:
    """Give for each kind of spoiling the mean and the worst relative move of κ."""
    moves: dict[str, list[float]] = {}
    for trace in traces:
        for seed in range(N_SEEDS):
            clean = resampled(trace, seed, N)
            # An honest duration is measured; only a hint can lie.
            clean = Trace(
                clean.name, tuple(replace(one, duration_source="mel") for one in clean.completions)
            )
            for kind, spoil in KINDS.items():
                moves.setdefault(kind, []).extend(
                    _moves(clean, spoil(clean, seed), [_probe_of(clean)])
                )
    mix = [trace for trace in traces if trace.name in MIX]
    languages = [trace.completions[0].language for trace in mix]
    for seed in range(N_SEEDS):
        clean = _mixed(mix, seed)
        spoilt = with_wrong_languages(clean, 0.01, seed, languages)
        moves.setdefault("wrong languages, 1 %", []).extend(
            _moves(clean, spoilt, [_probe_of(trace) for trace in mix])
        )
    return {
        kind: {
            "mean_move": statistics.fmean(row),
            "median_absolute_move": statistics.median(map(abs, row)),
            "worst_absolute_move": max(map(abs, row)),
        }
        for kind, row in moves.items()
    }


def _resident_mib() -> float:
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * 4096 / 2**20


def measure_flood(trace: Trace) -> dict[str, float]:
    """Let one client send 100,000 languages to a sidecar that knows one."""
    subject = PipelineSubject()
    run(subject, in_trace_order([resampled(trace, 1, N)]))
    probe, size = _probe_of(trace)
    before = kappa_at(subject, probe, size)
    pipeline: Pipeline = subject.pipeline
    memory_mib: list[float] = []
    for n, completion in enumerate(invented_languages(N_LANGUAGES), start=1):
        pipeline.learn_one(completion)
        if n in (N_LANGUAGES // 2, N_LANGUAGES):
            memory_mib.append(_resident_mib())
    return {
        "languages": N_LANGUAGES,
        "key_count": pipeline.key_count,
        "known_key_move": abs(kappa_at(subject, probe, size) / before - 1.0),
        "memory_growth_in_second_half_mib": memory_mib[1] - memory_mib[0],
    }
