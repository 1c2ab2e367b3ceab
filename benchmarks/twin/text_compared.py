"""What an order does to mixed text, over first come, first served on the same requests."""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from benchmarks.twin.contenders import Contender, run
from benchmarks.twin.material import Row, Scene
from benchmarks.twin.text_classes import Definition
from estimator.replay.figures import metric
from estimator.replay.job import NS_PER_S, Job
from estimator.replay.outcome import Outcome
from estimator.replay.runs import EstimateKind

FIRST_SEED: Final = 100
# Whoever has all its tokens so soon after the first grows by nothing.
_LEAST_GROWTH_S: Final = 1e-3

Floats = NDArray[np.float64]
JobsChange = Callable[[Job], Job]


class Case(NamedTuple):
    """Text on the engine, and which of it is short and long; the first definition is promised."""

    title: str
    at: Scene
    seeds: int
    definitions: Mapping[str, Definition]
    change: JobsChange | None = None


class Run(NamedTuple):
    """A run: seconds by request, and the engine's work.

    Attributes
    ----------
    arrival, admitted, first, end : ndarray, shape (n,)
        Seconds.
    tokens_per_s, mean_batch, longest_wait : float
        Of the whole run, the drain after the last arrival included.
    """

    arrival: Floats
    admitted: Floats
    first: Floats
    end: Floats
    prompt: Floats
    tokens: Floats
    tokens_per_s: float
    mean_batch: float
    longest_wait: float


class Seen(NamedTuple):
    """What a run came to: seconds of TTFT by class, and the engine's work.

    Attributes
    ----------
    busy_batch : float
        Running requests while somebody waits and others still come.
    busy_kv_tokens : float
        Tokens of KV held meanwhile.
    """

    short_p50: float
    short_p99: float
    long_p50: float
    long_p99: float
    all_p50: float
    all_p99: float
    e2e_p50: float
    e2e_p99: float
    longest_wait: float
    tokens_per_s: float
    mean_batch: float
    busy_batch: float
    busy_kv_tokens: float


class Compared(NamedTuple):
    """Figures of a contender over those of first come, first served; geometric means over seeds.

    Attributes
    ----------
    short_p50_times, short_p99_times : float
        How many times lower the TTFT of the short ones is.
    long_p50_ratio, long_p99_ratio : float
        TTFT of the long ones.
    *_error : float
        Standard error over seeds, NaN of one.
    """

    short_p50_times: float
    short_p99_times: float
    long_p50_ratio: float
    long_p99_ratio: float
    ttft_p50_percent: float
    ttft_p99_percent: float
    e2e_p50_percent: float
    e2e_p99_percent: float
    longest_wait_percent: float
    tokens_per_s_percent: float
    mean_batch_percent: float
    busy_batch_percent: float
    busy_kv_percent: float
    tokens_per_s_error: float
    mean_batch_error: float
    busy_batch_error: float
    busy_kv_error: float


def run_of(
    case: Case, jobs: Sequence[Job], one: Contender | None, kind: EstimateKind, seed: int
) -> Run:
    """Run a contender, or first come, first served."""
    n = len(jobs)
    admitted, first, end = np.empty(n), np.empty(n), np.empty(n)

    def see(outcome: Outcome) -> None:
        if outcome.admitted_ns is None or outcome.first_token_ns is None:
            raise RuntimeError("nobody leaves in these traces")
        index = outcome.job.index
        admitted[index] = outcome.admitted_ns / NS_PER_S
        first[index] = outcome.first_token_ns / NS_PER_S
        end[index] = outcome.finished_ns / NS_PER_S

    if one is None:
        figures = case.at.fcfs(jobs, see=see)
    else:
        figures = run(case.at, jobs, one, kind, seed, see=see)
    arrival = np.array([job.arrival_ns for job in jobs]) / NS_PER_S
    tokens = np.array([float(job.produced_tokens) for job in jobs])
    return Run(
        arrival, admitted, first, end,
        np.array([float(job.prompt_tokens) for job in jobs]), tokens,
        float(tokens.sum()) / (float(end.max()) - float(arrival[0])),
        metric(figures, "mean_batch"), metric(figures, "max_wait_s"),
    )  # fmt: skip


def occupancy(one: Run) -> tuple[float, float]:
    """Give the mean running requests and KV tokens while somebody waits and others still come.

    Notes
    -----
    Exact sums over the times at which anything changes. A request holds its prompt from its first
    admission on, and grows evenly from its first token to its end. What a preemption gives back
    meanwhile is not seen: here one request in some hundred is preempted, for seconds.
    """
    spans_s = one.end - one.first
    grows = spans_s > _LEAST_GROWTH_S
    produced = np.where(grows, one.tokens, 0.0)
    slope = produced / np.where(grows, spans_s, 1.0)
    nothing, each = np.zeros_like(slope), np.ones_like(slope)
    # What arrival, admission, first token and end change: waiting, running, KV held, its growth.
    changes = np.concatenate([
        np.stack([each, nothing, nothing, nothing], axis=1),
        np.stack([-each, each, one.prompt, nothing], axis=1),
        np.stack([nothing, nothing, nothing, slope], axis=1),
        np.stack([nothing, -each, -one.prompt - produced, -slope], axis=1),
    ])  # fmt: skip
    times = np.concatenate([one.arrival, one.admitted, one.first, one.end])
    order = np.argsort(times, kind="stable")
    waiting, running, jumps, growth = np.cumsum(changes[order], axis=0)[:-1].T
    lasting = np.diff(times[order])
    grown = np.concatenate([[0.0], np.cumsum(growth * lasting)])
    held = jumps + (grown[:-1] + grown[1:]) / 2.0
    counted = (waiting > 0.5) & (times[order][:-1] < one.arrival.max())
    weights = lasting * counted
    return float(weights @ running) / weights.sum(), float(weights @ held) / weights.sum()


def seen(one: Run, jobs: Sequence[Job], definition: Definition) -> Seen:
    """Sum a run up under a definition of short and long."""
    short, long = definition(jobs)
    ttft, e2e = one.first - one.arrival, one.end - one.arrival

    def of(values: Floats, percent: float) -> float:
        return float(np.percentile(values, percent))

    batch, kv_tokens = occupancy(one)
    return Seen(
        of(ttft[short], 50), of(ttft[short], 99), of(ttft[long], 50), of(ttft[long], 99),
        of(ttft, 50), of(ttft, 99), of(e2e, 50), of(e2e, 99),
        one.longest_wait, one.tokens_per_s, one.mean_batch, batch, kv_tokens,
    )  # fmt: skip


def compared(
    case: Case, contenders: Sequence[tuple[Contender, EstimateKind]]
) -> tuple[dict[str, dict[str, Compared]], dict[str, Seen]]:
    """Run all over the same requests of each seed.

    Returns
    -------
    found : dict
        Figures by definition and contender.
    base : dict
        What first come, first served came to, by definition; means over seeds.
    """
    logs: dict[str, dict[str, list[Floats]]] = {name: {} for name in case.definitions}
    bases: dict[str, list[Seen]] = {name: [] for name in case.definitions}
    for seed in range(FIRST_SEED, FIRST_SEED + case.seeds):
        jobs = case.at.jobs(seed)
        if case.change is not None:
            jobs = [case.change(job) for job in jobs]
        base = run_of(case, jobs, None, "true", seed)
        for name, definition in case.definitions.items():
            bases[name].append(seen(base, jobs, definition))
        for one, kind in contenders:
            ours = run_of(case, jobs, one, kind, seed)
            for name, definition in case.definitions.items():
                ratios = np.divide(seen(ours, jobs, definition), bases[name][-1])
                logs[name].setdefault(f"{one.name}, {kind}", []).append(np.log(ratios))
    found = {
        name: {one: _compared(np.array(rows)) for one, rows in by_contender.items()}
        for name, by_contender in logs.items()
    }
    return found, {name: Seen(*map(float, np.mean(b, axis=0))) for name, b in bases.items()}


def _compared(logs: Floats) -> Compared:
    by = Seen(*map(float, np.exp(logs.mean(axis=0))))
    percent = {name: 100.0 * (value - 1.0) for name, value in by._asdict().items()}
    n = len(logs)
    errors = logs.std(axis=0, ddof=1) / math.sqrt(n) if n > 1 else np.full(len(by), math.nan)
    error = Seen(*map(float, 100.0 * errors))
    return Compared(
        1.0 / by.short_p50, 1.0 / by.short_p99, by.long_p50, by.long_p99,
        percent["all_p50"], percent["all_p99"], percent["e2e_p50"], percent["e2e_p99"],
        percent["longest_wait"], percent["tokens_per_s"], percent["mean_batch"],
        percent["busy_batch"], percent["busy_kv_tokens"],
        error.tokens_per_s, error.mean_batch, error.busy_batch, error.busy_kv_tokens,
    )  # fmt: skip


def row_of(one: Compared) -> Row:
    """Write a contender's figures as a row of a table."""
    return {
        "short TTFT P50": f"÷ {one.short_p50_times:.1f}",
        "short TTFT P99": f"÷ {one.short_p99_times:.1f}",
        "long TTFT P50": f"× {one.long_p50_ratio:.2f}",
        "long TTFT P99": f"× {one.long_p99_ratio:.2f}",
        "all TTFT P50, P99": f"{one.ttft_p50_percent:+.0f}, {one.ttft_p99_percent:+.0f} %",
        "all E2E P50, P99": f"{one.e2e_p50_percent:+.0f}, {one.e2e_p99_percent:+.0f} %",
        "longest wait": f"{one.longest_wait_percent:+.0f} %",
        "tokens/s": _with_error(one.tokens_per_s_percent, one.tokens_per_s_error),
        "mean batch": _with_error(one.mean_batch_percent, one.mean_batch_error),
        "mean batch while some wait": _with_error(one.busy_batch_percent, one.busy_batch_error),
        "KV held while some wait": _with_error(one.busy_kv_percent, one.busy_kv_error),
    }


def base_row_of(base: Seen, kv_tokens: float) -> Row:
    """Write what first come, first served came to as a row beside `row_of`'s."""
    return {
        "short TTFT P50": f"{base.short_p50:.2f} s",
        "short TTFT P99": f"{base.short_p99:.1f} s",
        "long TTFT P50": f"{base.long_p50:.1f} s",
        "long TTFT P99": f"{base.long_p99:.1f} s",
        "all TTFT P50, P99": f"{base.all_p50:.1f}, {base.all_p99:.1f} s",
        "all E2E P50, P99": f"{base.e2e_p50:.1f}, {base.e2e_p99:.1f} s",
        "longest wait": f"{base.longest_wait:.1f} s",
        "tokens/s": f"{base.tokens_per_s:.0f}",
        "mean batch": f"{base.mean_batch:.1f}",
        "mean batch while some wait": f"{base.busy_batch:.1f}",
        "KV held while some wait": f"{100.0 * base.busy_kv_tokens / kv_tokens:.1f} % of all",
    }


def _with_error(percent: float, error: float) -> str:
    return f"{percent:+.1f}{'' if math.isnan(error) else f' ± {error:.1f}'} %"
