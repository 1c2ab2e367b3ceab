"""The two tables of arXiv 2603.11273, predicted by the twin.

Owns what the paper's runs are in the twin: its two workloads, its rates, its policies without a
guard, ordered by κ · seconds of audio. What an engine costs comes from a profile.

References
----------
Duration-aware scheduling for ASR serving, arXiv 2603.11273v1, Tables 1 and 2.
"""

import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Final, Literal, NamedTuple

import numpy as np

from estimator.core.observation import Completion
from estimator.replay.profile import EngineProfile
from estimator.replay.rows import UNIFORM_AUDIO_S, Rows
from estimator.replay.runs import Point, Setup, run_once
from estimator.replay.workload import Workload
from estimator.traces import TraceReader, TraceRow
from sched_client.model import WHISPER_MAX_TOKENS, Settings

__all__ = [
    "LIBRISPEECH", "SYNTHETIC", "WORKLOADS", "Cell", "Errors", "Numbers", "Speech", "errors_of",
    "logs_of", "predict", "read_speech", "read_tables", "spreads_of", "workload_of",
]  # fmt: skip

LIBRISPEECH: Final = "librispeech-test-clean"
SYNTHETIC: Final = "synthetic-uniform-5-30"
WORKLOADS: Final = (LIBRISPEECH, SYNTHETIC)
REQUESTS: Final = 500
# Real Whisper output, with its casing and punctuation, runs 8 % above the trace's column
# (benchmarks/traces/README.md), and vLLM counts the end token.
SPEECH_FACTOR: Final = 1.08
_END_TOKENS: Final = 1
# As the paper's own scheduler: no guard, and the order of κ · d, whatever κ is.
_SETTINGS: Final = Settings(order_by="tokens", burst_requests=math.inf, reorder_above=0)
# `Point` wants one; nothing here depends on it.
_NO_LOAD: Final = 1.0

# Of the synthetic clips the paper gives the seconds, not the speech. Their tokens are taken to be
# an utterance's of LibriSpeech, times this factor, times a power of the clip's seconds over their
# mean: two numbers, fitted on FCFS together with the profile. That is 2.9 tokens a second.
SYNTHETIC_FACTOR: Final = 1.841
SYNTHETIC_POWER: Final = 0.1789

SyntheticTokens = Literal["speech", "seconds"]


class Cell(NamedTuple):
    """A place in the tables."""

    workload: str
    rate_rps: float
    policy: str


class Numbers(NamedTuple):
    """What a table says there, in seconds; the throughput only where it was simulated."""

    ttft_p50_s: float
    e2e_p50_s: float
    e2e_p90_s: float
    throughput_rps: float | None = None

    @property
    def latencies_s(self) -> tuple[float, float, float]:
        """The three that are compared."""
        return self[:3]


@dataclass(frozen=True, slots=True)
class Speech:
    """Utterances of LibriSpeech test-clean.

    Attributes
    ----------
    audio_s, tokens : tuple
        Of the same utterances; tokens as Whisper would put them out, its end token included.
    """

    audio_s: tuple[float, ...]
    tokens: tuple[int, ...]


def read_tables(path: Path) -> dict[Cell, Numbers]:
    """Read ``asr_paper_tables.json``, whose unit is milliseconds."""
    document = json.loads(path.read_text(encoding="utf-8"))
    return {
        Cell(row["workload"], float(row["rate_rps"]), row["policy"]): Numbers(
            *(row[name] / 1e3 for name in ("ttft_p50", "e2e_p50", "e2e_p90"))
        )
        for row in document["rows"]
    }


def read_speech(path: Path) -> Speech:
    """Read the trace of LibriSpeech test-clean."""
    ones = [row.completion for row in TraceReader(path) if isinstance(row, TraceRow)]
    return Speech(
        tuple(float(one.audio_s or 0.0) for one in ones),
        tuple(round(SPEECH_FACTOR * one.output_tokens) + _END_TOKENS for one in ones),
    )


def workload_of(
    name: str,
    speech: Speech,
    *,
    factor: float = SYNTHETIC_FACTOR,
    power: float = SYNTHETIC_POWER,
    synthetic: SyntheticTokens = "speech",
) -> Workload:
    """Give one of the paper's workloads, to be drawn from with replacement.

    Parameters
    ----------
    name : str
        `LIBRISPEECH` or `SYNTHETIC`.
    speech : Speech
        LibriSpeech.
    factor : float
        Of the synthetic clips, whose transcripts the paper does not describe: what scales their
        tokens, > 0.
    power : float
        Of the clip's seconds over the mean clip's: 0 where tokens do not depend on them, 1 where
        they are in proportion.
    synthetic : {"speech", "seconds"}
        What is scaled: an utterance of LibriSpeech, or the clip's seconds at LibriSpeech's rate;
        ``power`` belongs to the former.
    """
    rows = Rows(name, always_drawn=True)
    if name == LIBRISPEECH:
        _fill(rows, zip(speech.audio_s, speech.tokens, strict=True))
    elif synthetic == "speech":
        mean_s = sum(UNIFORM_AUDIO_S) / len(UNIFORM_AUDIO_S)
        factors = [(audio_s, factor * (audio_s / mean_s) ** power) for audio_s in UNIFORM_AUDIO_S]
        _fill(
            rows,
            (
                (audio_s, _scaled(of_clip, one))
                for one in speech.tokens
                for audio_s, of_clip in factors
            ),
        )
    else:
        kappa = sum(speech.tokens) / sum(speech.audio_s)
        _fill(rows, ((audio_s, _scaled(factor * kappa, audio_s)) for audio_s in UNIFORM_AUDIO_S))
    return Workload(files=(rows,), n=REQUESTS, resample=True)


def _scaled(factor: float, size: float) -> int:
    return min(max(round(factor * size), 1), WHISPER_MAX_TOKENS)


def _fill(rows: Rows, clips: Iterable[tuple[float, int]]) -> None:
    for audio_s, tokens in clips:
        rows.append(
            Completion(
                completion_id="paper",
                language="en",
                audio_s=audio_s,
                duration_source="hint",
                output_tokens=min(tokens, WHISPER_MAX_TOKENS),
            )
        )


def predict(
    cells: Iterable[Cell],
    profile: EngineProfile,
    workloads: Mapping[str, Workload],
    seeds: Sequence[int],
    *,
    on_run: Callable[[], object] = lambda: None,
) -> dict[Cell, Numbers]:
    """Predict cells of the tables.

    Parameters
    ----------
    cells : iterable of Cell
        Which.
    profile : EngineProfile
        The engine.
    workloads : Mapping of str to Workload
        By the tables' names.
    seeds : sequence of int
        One run of 500 requests for each; a number is the median over them. The paper ran one.
    on_run : callable, optional
        Called after each run.
    """
    return {
        cell: Numbers(*(median(column) for column in zip(*runs, strict=True)))
        for cell, runs in _runs(cells, profile, workloads, seeds, on_run)
    }


def spreads_of(
    cells: Iterable[Cell],
    profile: EngineProfile,
    workloads: Mapping[str, Workload],
    seeds: Sequence[int],
) -> list[float]:
    """Give by how much ln of each latency differs between runs of one seed, cell by cell.

    A published number is one such run: at 1 request/s it is known to 1 to 3 %, at the edge of
    saturation to 30 %.
    """
    spreads: list[float] = []
    for _, runs in _runs(cells, profile, workloads, seeds, lambda: None):
        logs = np.log(np.array([one.latencies_s for one in runs]))
        spreads += [float(one) for one in logs.std(axis=0)]
    return spreads


def _runs(
    cells: Iterable[Cell],
    profile: EngineProfile,
    workloads: Mapping[str, Workload],
    seeds: Sequence[int],
    on_run: Callable[[], object],
) -> Iterator[tuple[Cell, list[Numbers]]]:
    for cell in cells:
        setup = Setup(
            profile=profile,
            workload=workloads[cell.workload],
            settings=_SETTINGS,
            estimates="duration",
        )
        runs = []
        for seed in seeds:
            figures = run_once(setup, cell.policy, Point(cell.rate_rps, _NO_LOAD), seed).figures
            latencies = (figures.ttft_s.p50, figures.e2e_s.p50, figures.e2e_s.p90)
            runs.append(Numbers(*latencies, figures.throughput_rps))
            on_run()
        yield cell, runs


class Errors(NamedTuple):
    """|ln(predicted / published)| over some numbers.

    Attributes
    ----------
    n : int
        Numbers, three for each cell.
    median, p90, worst : float
        Of them.
    """

    n: int
    median: float
    p90: float
    worst: float


def errors_of(predicted: Mapping[Cell, Numbers], published: Mapping[Cell, Numbers]) -> Errors:
    """Compare predicted cells with the published ones."""
    logs = np.abs(logs_of(predicted, published))
    return Errors(
        len(logs), float(np.median(logs)), float(np.percentile(logs, 90)), float(logs.max())
    )


def logs_of(predicted: Mapping[Cell, Numbers], published: Mapping[Cell, Numbers]) -> list[float]:
    """Give ln(predicted / published) of each number, cell by cell."""
    return [
        math.log(ours / theirs)
        for cell, numbers in predicted.items()
        for ours, theirs in zip(numbers.latencies_s, published[cell].latencies_s, strict=True)
    ]
