"""What queues are worth on text: who is short, what the long ones pay, and what the engine does.

Llama-2-13B on four A100 (profile ``a100x4-llama2-13b``: chunked prefill, 8,544 KV blocks, worked
out, not measured), load 1.1, estimates learned from nothing unless a row says otherwise. Compared
with first come, first served over the same requests: TTFT of the short and of the long ones,
tokens a second and the mean batch.

Run: ``python -m benchmarks.twin.text [PART…]`` (all of it about 4 minutes of one core).
"""

import math
import random
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from benchmarks.twin.contenders import (
    FITTED,
    HALVES,
    HRRN,
    PAPER,
    SJF,
    VLLM,
    Contender,
    guarded,
    run,
    two_halves,
)
from benchmarks.twin.material import TRACES, Mix, Row, Scene, Table, engine, limited, scene
from benchmarks.twin.parts import run_parts
from estimator.core.observation import Completion
from estimator.replay.arrivals import Arrivals
from estimator.replay.figures import Figures, metric
from estimator.replay.job import NS_PER_S, Job
from estimator.replay.outcome import Outcome
from estimator.replay.rows import Rows, read_rows
from estimator.replay.runs import EstimateKind, Point, capacity_rps
from estimator.replay.workload import Workload

ENGINE: Final = "a100x4-llama2-13b"
LOAD: Final = 1.1
FIRST_SEED: Final = 100
_AZURE: Final = ("azure-llm-2023-conv", "azure-llm-2023-code")
_AZURE_ROWS: Final = (19_366.0, 8_819.0)
_MOONCAKE: Final = "mooncake-conversation"
_MOONCAKE_SHARE: Final = 0.05
# EWSJF's workload as RESEARCH.md has it: 80 % short and 20 % long, prompts of 32 to 4,096 tokens.
# Assumed: where the border is, log-uniform prompts, and outputs of 128 tokens, the default of
# vLLM's own benchmark on random prompts.
_EWSJF_SHORT: Final = (32, 256)
_EWSJF_LONG: Final = (1_024, 4_096)
_EWSJF_OUTPUT: Final = 128
_EWSJF_ROWS: Final = 4_000
_LONG_QUANTILE: Final = 0.8

# Queues cut at the median of all work, known beforehand, and a guard that suits their share.
CUT: Final = Contender(
    "ewsjf, cut at the median, φ .22", "ewsjf", guarded(0.22, between="shortest"), cuts=(0.5,)
)
# The same without knowing it: a little more than half, so that who is called short here is.
HALVES_TEXT: Final = Contender("ewsjf, halves .55, φ .28", "ewsjf", two_halves(0.28, 0.55))
# Four fifths are short and one in three of the engine's seconds is theirs: more may pass.
EIGHTY: Final = Contender("ewsjf, halves .83, φ .5 b₀ 20", "ewsjf", two_halves(0.5, 0.83, 20))

Mask = NDArray[np.bool_]
JobsChange = Callable[[Job], Job]


class Case(NamedTuple):
    """Text on the engine, and which of it is short and long."""

    title: str
    at: Scene
    seeds: int
    classes: Callable[[Sequence[Job]], tuple[Mask, Mask]]


class Seen(NamedTuple):
    """What a run came to: seconds of TTFT by class, and the engine's work."""

    short_p50: float
    short_p99: float
    long_p50: float
    long_p99: float
    all_p50: float
    all_p99: float
    e2e_p50: float
    e2e_p99: float
    tokens_per_s: float
    mean_batch: float
    longest_wait: float


def by_work(jobs: Sequence[Job]) -> tuple[Mask, Mask]:
    """Call the lower half of the work that it turned out to be short, the top fifth long."""
    profile = engine(ENGINE)
    work = np.array(
        [profile.service_s(job.produced_tokens, job.prompt_tokens, profile.slots) for job in jobs]
    )
    return work <= np.quantile(work, 0.5), work >= np.quantile(work, _LONG_QUANTILE)


def typed(job: Job) -> Job:
    """Tell chat from completion, as a gateway can."""
    return job._replace(request_type=("chat", "completion")[job.segment])


def by_application(jobs: Sequence[Job]) -> tuple[Mask, Mask]:
    """Call completions short, and chats of the top fifth of work long."""
    chat = np.array([job.segment == 0 for job in jobs])
    return ~chat, chat & by_work(jobs)[1]


def by_file(jobs: Sequence[Job]) -> tuple[Mask, Mask]:
    """Call the first file's requests short, the others long."""
    first = np.array([job.segment == 0 for job in jobs])
    return first, ~first


def azure_at_own_times() -> Scene:
    """Give Azure's chats and completions as they came, stretched to the load."""
    files = tuple(read_rows(TRACES / f"{name}.csv.gz", timed=True) for name in _AZURE)
    n = sum(map(len, files))
    workload = Workload(files=files, n=n, weights=(1.0, 1.0), timed=True)
    rate_rps = LOAD * capacity_rps(engine(ENGINE), workload, 1)
    return Scene(engine(ENGINE), workload, Arrivals(kind="trace"), Point(rate_rps, LOAD))


def azure(n: int, mooncake_share: float = 0.0) -> Scene:
    """Give Azure's mix in Poisson arrivals, with a share of long contexts."""
    total = sum(_AZURE_ROWS)
    parts = tuple(zip(_AZURE, _AZURE_ROWS, strict=True))
    if mooncake_share:
        parts += ((_MOONCAKE, total * mooncake_share / (1.0 - mooncake_share)),)
    return scene(engine(ENGINE), Mix("azure", parts), LOAD, n)


def ewsjf_workload(n: int) -> Scene:
    """Give the workload of EWSJF's paper, as far as it is known."""
    files = tuple(
        _lengths(name, prompts, seed)
        for seed, (name, prompts) in enumerate((("short", _EWSJF_SHORT), ("long", _EWSJF_LONG)))
    )
    workload = Workload(files=files, n=n, weights=(0.8, 0.2))
    rate_rps = LOAD * capacity_rps(engine(ENGINE), workload, 1)
    return Scene(engine(ENGINE), workload, Arrivals(), Point(rate_rps, LOAD))


def _lengths(name: str, prompts: tuple[int, int], seed: int) -> Rows:
    rng = random.Random(seed)
    rows = Rows(name, always_drawn=True)
    for _ in range(_EWSJF_ROWS):
        prompt = round(math.exp(rng.uniform(*map(math.log, prompts))))
        rows.append(
            Completion(
                completion_id="synthetic", task="text", kind="text", prompt_tokens=prompt,
                output_tokens=_EWSJF_OUTPUT,
            )
        )  # fmt: skip
    return rows


def seen(
    case: Case, jobs: Sequence[Job], one: Contender | None, kind: EstimateKind, seed: int
) -> Seen:
    """Run a contender, or first come, first served, and sum up."""
    ttft, e2e = np.empty(len(jobs)), np.empty(len(jobs))
    tokens, last_ns = 0, 0

    def see(outcome: Outcome) -> None:
        nonlocal tokens, last_ns
        job, first_ns = outcome.job, outcome.first_token_ns
        if first_ns is None:
            raise RuntimeError("nobody leaves in these traces")
        ttft[job.index] = (first_ns - job.arrival_ns) / NS_PER_S
        e2e[job.index] = (outcome.finished_ns - job.arrival_ns) / NS_PER_S
        tokens += outcome.tokens
        last_ns = max(last_ns, outcome.finished_ns)

    figures: Figures
    if one is None:
        figures = case.at.fcfs(jobs, see=see)
    else:
        figures = run(case.at, jobs, one, kind, seed, see=see)
    short, long = case.classes(jobs)

    def of(values: NDArray[np.float64], percent: float) -> float:
        return float(np.percentile(values, percent))

    return Seen(
        of(ttft[short], 50), of(ttft[short], 99), of(ttft[long], 50), of(ttft[long], 99),
        of(ttft, 50), of(ttft, 99), of(e2e, 50), of(e2e, 99),
        tokens * NS_PER_S / (last_ns - jobs[0].arrival_ns),
        metric(figures, "mean_batch"), metric(figures, "max_wait_s"),
    )  # fmt: skip


class Compared(NamedTuple):
    """Figures of a contender over those of first come, first served; geometric means over seeds.

    Attributes
    ----------
    short_p50_times, short_p99_times : float
        How many times lower the TTFT of the short ones is.
    long_p50_ratio, long_p99_ratio : float
        TTFT of the long ones.
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


def compared(
    case: Case, contenders: Sequence[tuple[Contender, EstimateKind]], change: JobsChange | None
) -> dict[str, Compared]:
    """Run all over the same requests of each seed."""
    logs: dict[str, list[NDArray[np.float64]]] = {}
    for seed in range(FIRST_SEED, FIRST_SEED + case.seeds):
        jobs = [limited(job) for job in case.at.jobs(seed)]
        if change is not None:
            jobs = [change(job) for job in jobs]
        base = seen(case, jobs, None, "true", seed)
        for one, kind in contenders:
            ours = seen(case, jobs, one, kind, seed)
            logs.setdefault(f"{one.name}, {kind}", []).append(np.log(np.divide(ours, base)))
    return {name: _compared(np.exp(np.mean(rows, axis=0))) for name, rows in logs.items()}


def _compared(ratios: NDArray[np.float64]) -> Compared:
    by = Seen(*map(float, ratios))
    percent = {name: 100.0 * (value - 1.0) for name, value in by._asdict().items()}
    return Compared(
        1.0 / by.short_p50, 1.0 / by.short_p99, by.long_p50, by.long_p99,
        percent["all_p50"], percent["all_p99"], percent["e2e_p50"], percent["e2e_p99"],
        percent["longest_wait"], percent["tokens_per_s"], percent["mean_batch"],
    )  # fmt: skip


def _row(one: Compared) -> Row:
    return {
        "short TTFT P50": f"÷ {one.short_p50_times:.1f}",
        "short TTFT P99": f"÷ {one.short_p99_times:.1f}",
        "long TTFT P50": f"× {one.long_p50_ratio:.2f}",
        "long TTFT P99": f"× {one.long_p99_ratio:.2f}",
        "all TTFT P50, P99": f"{one.ttft_p50_percent:+.0f}, {one.ttft_p99_percent:+.0f} %",
        "all E2E P50, P99": f"{one.e2e_p50_percent:+.0f}, {one.e2e_p99_percent:+.0f} %",
        "longest wait": f"{one.longest_wait_percent:+.0f} %",
        "tokens/s": f"{one.tokens_per_s_percent:+.1f} %",
        "mean batch": f"{one.mean_batch_percent:+.1f} %",
    }


def _part(
    case: Case,
    best: Contender,
    contenders: Sequence[tuple[Contender, EstimateKind]],
    change: JobsChange | None = None,
) -> Row:
    kind = next(kind for one, kind in contenders if one is best)
    found = compared(case, contenders, change)
    table: Table = {name: _row(one) for name, one in found.items()}
    seeds = f"{case.at.workload.n:,} requests × {case.seeds}"
    return {
        "tables": {f"{case.title}, load {LOAD:g}, {seeds}, against fcfs": table},
        "setting": best.name,
        **found[f"{best.name}, {kind}"]._asdict(),
    }


def _all(kind: EstimateKind, *contenders: Contender) -> list[tuple[Contender, EstimateKind]]:
    return [(one, kind) for one in contenders]


def own_times() -> Row:
    """Compare on Azure's chats and completions at their own times."""
    case = Case("Azure, merged on arrival", azure_at_own_times(), 1, by_work)
    return _part(case, CUT, _all("true", CUT, HALVES_TEXT, HALVES, SJF, HRRN, FITTED, PAPER, VLLM))


def poisson() -> Row:
    """Compare on Azure's mix in Poisson arrivals."""
    case = Case("Azure, Poisson", azure(6_000), 10, by_work)
    return _part(case, HALVES_TEXT, _all("true", HALVES_TEXT, CUT, HALVES, SJF, HRRN, VLLM))


def mooncake() -> Row:
    """Compare on Azure's mix with 5 % long contexts."""
    case = Case("Azure and 5 % Mooncake, Poisson", azure(3_000, _MOONCAKE_SHARE), 10, by_work)
    return _part(case, HALVES_TEXT, _all("true", HALVES_TEXT, CUT, HALVES, SJF, HRRN, VLLM))


def ewsjf() -> Row:
    """Compare on the workload of EWSJF's paper."""
    case = Case("EWSJF's workload", ewsjf_workload(6_000), 10, by_file)
    result = _part(case, EIGHTY, _all("true", EIGHTY, HALVES, SJF, HRRN, VLLM))
    for table in result["tables"].values():
        table["its paper claims, on real engines"] = {"tokens/s": "+13 to +54 %"}
    return result


def learned() -> Row:
    """Compare with estimates learned from nothing; the gateway tells chat from completion."""
    case = Case("Azure, types told, estimates learned", azure(2_000), 3, by_application)
    contenders = (HALVES, SJF, HRRN, FITTED, PAPER)
    return _part(case, HALVES, _all("learned", *contenders), typed)


def ewsjf_learned() -> Row:
    """Compare on the workload of EWSJF's paper, lengths learned from nothing."""
    case = Case("EWSJF's workload, estimates learned", ewsjf_workload(3_000), 3, by_file)
    return _part(case, EIGHTY, _all("learned", EIGHTY, HALVES, SJF, HRRN, FITTED, PAPER))


PARTS: Final[dict[str, Callable[[], Row]]] = {
    "own_times": own_times,
    "poisson": poisson,
    "mooncake": mooncake,
    "ewsjf": ewsjf,
    "learned": learned,
    "ewsjf_learned": ewsjf_learned,
}


if __name__ == "__main__":
    run_parts(PARTS, __doc__)
