"""What a few queues are worth on speech: against fcfs, the paper's orders, and sjf under a guard.

The lines of issue 5 with their targets beside them; runs of 500 to 100,000 requests; bounded
bursts; and where queues do not help. Clips are of one language, so estimates by duration order
them as learned ones would. Settings were found on seeds below 10, the default's guard on seeds
from 200 on; figures are of others.

Run: ``python -m benchmarks.twin.queues [PART…]`` (all of it about 5 minutes of one core).
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Final, NamedTuple

from benchmarks.twin.contenders import (
    FITTED,
    FITTED_SCORE,
    HALVES,
    HRRN,
    HRRN_UNGUARDED,
    PAPER,
    SJF,
    SJF_UNGUARDED,
    VLLM,
    Contender,
    aging,
    run,
    two_halves,
)
from benchmarks.twin.material import (
    ENCODER_BOUND,
    LIBRISPEECH,
    SPEECH,
    Row,
    Scene,
    Table,
    engine,
    measured_capacity,
    rows_of,
    scene,
)
from benchmarks.twin.parts import run_parts
from estimator.core.observation import Completion
from estimator.replay.arrivals import BURST_MEAN_LOAD, Arrivals
from estimator.replay.figures import Figures, change_of, metric
from estimator.replay.rows import Rows
from estimator.replay.runs import EstimateKind, Point, capacity_rps
from estimator.replay.workload import Workload

FIRST_SEED: Final = 100
METRICS: Final = (
    "e2e_s_p50", "e2e_s_p90", "e2e_s_p99", "max_wait_s", "e2e_s_mean",
    "ttft_s_p50", "ttft_s_p90", "ttft_s_p99",
)  # fmt: skip
PERCENTILES: Final = ("e2e_s_p50", "e2e_s_p90", "e2e_s_p99")
TTFT: Final = ("ttft_s_p50", "ttft_s_p90", "ttft_s_p99")
_PAPER_ENGINE: Final = "a100-whisper-large-v3"
_PAPER_RATE_RPS: Final = 25.0
_DECODE: Final = "decode-bound"
_BURSTS: Final = Arrivals(kind="bursts")

# Found by a random search over cuts, power and guard for what beats hrrn in all percentiles.
AGED: Final = Contender(
    "ewsjf, queues cut at .46 and .94, aging power 1.72, φ .18 b₀ 124", "ewsjf",
    aging(1.72, 0.178, 124.0), cuts=(0.46, 0.94),
)  # fmt: skip
AGED_MILD: Final = Contender(
    "ewsjf, queues cut at .45 and .85, aging power 2.2, φ .23 b₀ 17", "ewsjf",
    aging(2.222, 0.232, 17.4), cuts=(0.45, 0.85),
)  # fmt: skip
AGED_HALVES: Final = Contender(
    "ewsjf, queues cut at .487, aging power 2.65, φ .2 b₀ 95", "ewsjf", aging(2.65, 0.2, 95.0),
    cuts=(0.487,),
)  # fmt: skip
HALVES_BOLD: Final = Contender(
    "ewsjf, halves .50, φ .28 b₀ 20", "ewsjf", two_halves(0.28, 0.5, 20)
)
HALVES_CAREFUL: Final = Contender(
    "ewsjf, halves .46, φ .25 b₀ 12", "ewsjf", two_halves(0.25, 0.46)
)
HALVES_LONG: Final = Contender("ewsjf, halves .46, φ .27 b₀ 12", "ewsjf", two_halves(0.27, 0.46))

_ALL: Final = (
    SJF_UNGUARDED, HRRN_UNGUARDED, SJF, HRRN, HALVES, HALVES_BOLD, HALVES_CAREFUL, HALVES_LONG,
    AGED, AGED_MILD, AGED_HALVES, FITTED, FITTED_SCORE, PAPER, VLLM,
)  # fmt: skip
_FEW: Final = (SJF_UNGUARDED, HRRN_UNGUARDED, SJF, HALVES, HALVES_LONG)
_FEWER: Final = (SJF, HALVES, HALVES_LONG)


class Case(NamedTuple):
    """Requests on an engine, and who competes."""

    name: str
    at: Scene
    seeds: int
    contenders: tuple[Contender, ...]
    kind: EstimateKind = "duration"


Changes = dict[str, dict[str, float | None]]


def paper_scene(n: int) -> Scene:
    """Give the regime of arXiv 2603.11273: 25 requests/s of LibriSpeech."""
    profile = engine(_PAPER_ENGINE)
    load = _PAPER_RATE_RPS / measured_capacity(profile, SPEECH)
    return Scene(profile, SPEECH.workload(n), Arrivals(), Point(_PAPER_RATE_RPS, load))


def decode_scene(n: int, load: float = 1.2, arrivals: Arrivals | None = None) -> Scene:
    """Give LibriSpeech on the decode-bound engine."""
    return scene(engine(_DECODE), SPEECH, load, n, arrivals)


def one_class_scene(n: int) -> Scene:
    """Give clips that are all alike on the decode-bound engine."""
    profile = engine(_DECODE)
    rows = Rows("clips of 10 s", always_drawn=True)
    rows.append(
        Completion(completion_id="all", audio_s=10.0, duration_source="hint", output_tokens=32)
    )
    workload = Workload(files=(rows,), n=n)
    rate_rps = 1.2 * capacity_rps(profile, workload, 1)
    return Scene(profile, workload, Arrivals(), Point(rate_rps, 1.2))


def compared(case: Case) -> tuple[Table, Changes]:
    """Run all over the same requests; give cells with intervals, and the percentages alone."""
    base: list[Figures] = []
    found: dict[str, list[Figures]] = {one.name: [] for one in case.contenders}
    for seed in range(FIRST_SEED, FIRST_SEED + case.seeds):
        jobs = case.at.jobs(seed)
        base.append(case.at.fcfs(jobs))
        for one in case.contenders:
            found[one.name].append(run(case.at, jobs, one, case.kind, seed))
    table: Table = {}
    changes: Changes = {}
    for name, figures in found.items():
        cells = {what: _change(figures, base, what) for what in METRICS}
        table[name] = {what: cell for what, (cell, _) in cells.items()}
        changes[name] = {what: percent for what, (_, percent) in cells.items()}
    return table, changes


def _change(
    ours: Sequence[Figures], theirs: Sequence[Figures], what: str
) -> tuple[str, float | None]:
    change = change_of([metric(one, what) for one in ours], [metric(one, what) for one in theirs])
    if change.percent is None or change.low is None or change.high is None:
        return "-", change.percent
    return f"{change.percent:+.0f} ± {(change.high - change.low) / 2:.0f}", change.percent


def paper() -> Row:
    """Compare in the paper's regime, 500 requests."""
    case = Case("paper", paper_scene(500), 20, _ALL)
    table, changes = compared(case)
    hrrn = changes[HRRN_UNGUARDED.name]
    title = f"paper's regime, {_PAPER_RATE_RPS:g}/s, 500 requests × {case.seeds}, % against fcfs"
    return {
        "tables": {title: table},
        "beats_hrrn": {
            "setting": AGED.name,
            "e2e_worst_points_above_hrrn": _worst(changes[AGED.name], hrrn, PERCENTILES),
            "ttft_worst_points_above_hrrn": _worst(changes[AGED.name], hrrn, TTFT),
        },
        "p50_60": _line(changes, HALVES_BOLD),
        "p50_40": _line(changes, HALVES_CAREFUL),
        "default": _line(changes, HALVES),
    }


def _worst(
    ours: dict[str, float | None], theirs: dict[str, float | None], names: Sequence[str]
) -> float | None:
    """Give by how many points ours is above theirs where it is most so, None if not known."""
    above: dict[str, float | None] = {}
    for name in names:
        one, other = ours[name], theirs[name]
        above[name] = None if one is None or other is None else one - other
    return _most(above, names)


def _most(found: dict[str, float | None], names: Iterable[str]) -> float | None:
    """Give the largest, None if one is not known: what is not known keeps no promise."""
    values = [found[name] for name in names]
    known = [value for value in values if value is not None]
    return max(known) if len(known) == len(values) else None


def _line(changes: Changes, one: Contender) -> Row:
    found = changes[one.name]
    return {
        "setting": one.name,
        "p50_percent": found["e2e_s_p50"],
        "tail_percent": _most(found, ("e2e_s_p90", "e2e_s_p99")),
        "tail_and_longest_wait_percent": _most(found, ("e2e_s_p90", "e2e_s_p99", "max_wait_s")),
    }


def overload() -> Row:
    """Compare on the decode-bound engine at load 1.2, from 500 to 100,000 requests."""
    result: Row = {"tables": {}}
    for n, contenders in (
        (500, _FEW),
        (2_620, _ALL),
        (10_000, _FEW),
        (20_000, _FEW),
        (100_000, _FEWER),
    ):
        table, changes = compared(Case(f"{n}", decode_scene(n), 10, contenders))
        result["tables"][f"decode-bound, load 1.2, {n:,} requests × 10, % against fcfs"] = table
        result[f"{n}"] = _line(changes, HALVES)
        result[f"{n}_long_runs"] = _line(changes, HALVES_LONG)
    own = decode_scene(2_620)
    own = own._replace(workload=Workload(files=(rows_of(LIBRISPEECH),), n=2_620))
    of_rows = (SJF, HRRN_UNGUARDED, HALVES, AGED_HALVES)
    table, changes = compared(Case("own", own, 10, of_rows))
    result["tables"]["the same, the trace's 2,620 rows, each once × 10"] = table
    result["2620_rows"] = _line(changes, AGED_HALVES)
    result["2620_rows_default"] = _line(changes, HALVES)
    learned, changes = compared(
        Case("learned", decode_scene(2_620), 10, (SJF, HALVES, FITTED), "learned")
    )
    result["tables"]["the same, 2,620 requests × 10, estimates learned from nothing"] = learned
    result["2620_learned"] = _line(changes, HALVES)
    return result


def bursts() -> Row:
    """Compare in bounded bursts: mean load .9, peaks of 1.3."""
    result: Row = {"tables": {}}
    for name in (_DECODE, _PAPER_ENGINE):
        at = scene(engine(name), SPEECH, BURST_MEAN_LOAD, 10_000, _BURSTS)
        table, changes = compared(Case(name, at, 10, _FEW))
        result["tables"][f"bounded bursts, {name}, 10,000 requests × 10, % against fcfs"] = table
        result[name] = _line(changes, HALVES)
    return result


def no_help() -> Row:
    """Look where queues do not help: light load, one class, an engine that only encodes."""
    table: Table = {}
    worst: dict[str, float | None] = {}
    for name in (_DECODE, _PAPER_ENGINE, "cpu-whisper-base", ENCODER_BOUND.name):
        for load, n in ((0.3, 3_000), (0.5, 5_000), (0.7, 20_000)):
            at = scene(engine(name), SPEECH, load, n)
            cells, changes = compared(Case(name, at, 5, (HALVES,)))
            table[f"light load: {name}, load {load:g}"] = cells[HALVES.name]
            found = changes[HALVES.name]
            worst[f"{name}, load {load:g}"] = _most(found, (*PERCENTILES, *TTFT))
    one_class = one_class_scene(10_000)
    encoding = scene(ENCODER_BOUND, SPEECH, 1.2, 10_000)
    for title, at in (("one class: clips of 10 s, load 1.2", one_class),
                      ("encoder-bound, load 1.2", encoding)):  # fmt: skip
        cells, _ = compared(Case(title, at, 5, (SJF, HALVES)))
        table |= {f"{title}, {name}": row for name, row in cells.items()}
    title = "where queues do not help, % against fcfs, 5 seeds"
    return {"tables": {title: table}, "worst_percent_at_light_load": _most(worst, worst)}


PARTS: Final[dict[str, Callable[[], Row]]] = {
    "paper": paper,
    "overload": overload,
    "bursts": bursts,
    "no_help": no_help,
}


if __name__ == "__main__":
    run_parts(PARTS, __doc__)
