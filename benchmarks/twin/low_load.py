"""Low load: no percentile may be worse than first come, first served would have it.

Each policy against fcfs over the same requests, in percent, by percentile; the guard is
production's. Estimates are those by duration: the clips are of one language, which orders them
as learned ones would.
"""

from typing import Final, NamedTuple

from benchmarks.twin.material import POLICIES, SPEECH, Row, Scene, Table, engine, scene
from estimator.replay.arrivals import Arrivals
from estimator.replay.figures import Change, Figures, change_of, metric
from sched_client.model import Settings

ENGINES: Final = ("decode-bound", "cpu-whisper-base", "a100-whisper-large-v3", "encoder-bound")
N_SEEDS: Final = 5
PERCENTILES: Final = tuple(
    f"{what}_{percentile}" for what in ("ttft_s", "e2e_s") for percentile in ("p50", "p90", "p99")
)
LIMIT_PERCENT: Final = 1.0


class Traffic(NamedTuple):
    """How requests come, and how many are needed to tell one percent."""

    name: str
    load: float
    n: int
    arrivals: Arrivals


TRAFFIC: Final = (
    Traffic("Poisson", 0.3, 5_000, Arrivals()),
    Traffic("Poisson", 0.5, 8_000, Arrivals()),
    Traffic("Poisson", 0.7, 20_000, Arrivals()),
    Traffic("bounded bursts", 0.7, 10_000, Arrivals(kind="bursts")),
)


# Production's, and what it would be if the policy were always asked.
SETTINGS: Final = {
    f"reorder_above {settings.reorder_above}": settings
    for settings in (Settings(), Settings(reorder_above=0))
}


def measure() -> Row:
    """Give the table, and the worst of it by arrivals and settings."""
    table: Table = {}
    worst: dict[str, list[Change]] = {}
    for name in ENGINES:
        for traffic in TRAFFIC:
            at = scene(engine(name), SPEECH, traffic.load, traffic.n, traffic.arrivals)
            for (policy, how), changes in _compared(at).items():
                row = f"{name}, {traffic.name} {traffic.load:g}, {policy}, {how}"
                table[row] = {what: _cell(change) for what, change in changes.items()}
                of_traffic = worst.setdefault(f"{traffic.name}, {how}", [])
                of_traffic += [changes[what] for what in PERCENTILES]
    return {
        "tables": {f"low load, percent against fcfs, {N_SEEDS} seeds": table},
        # The highest of all, and the highest that is not the luck of the draw.
        "worst_percent": {
            which: max(c.percent or 0.0 for c in all_) for which, all_ in worst.items()
        },
        "worst_percent_low": {
            which: max(c.low or 0.0 for c in all_) for which, all_ in worst.items()
        },
    }


def _compared(at: Scene) -> dict[tuple[str, str], dict[str, Change]]:
    """Run everything over the same requests of each seed, and compare it with fcfs."""
    base: list[Figures] = []
    found: dict[tuple[str, str], list[Figures]] = {}
    for seed in range(N_SEEDS):
        jobs = at.jobs(seed)
        base.append(at.fcfs(jobs))
        for policy in POLICIES:
            for how, settings in SETTINGS.items():
                figures = at.run(jobs, policy, at.estimates("duration", settings, seed))
                found.setdefault((policy, how), []).append(figures)
    return {which: _changes(figures, base) for which, figures in found.items()}


def _changes(ours: list[Figures], theirs: list[Figures]) -> dict[str, Change]:
    return {
        name: change_of([metric(one, name) for one in ours], [metric(one, name) for one in theirs])
        for name in (*PERCENTILES, "e2e_s_mean", "max_wait_s")
    }


def _cell(change: Change) -> str:
    if change.percent is None or change.low is None or change.high is None:
        return "-"
    mark = "**" if change.percent > LIMIT_PERCENT else ""
    return f"{mark}{change.percent:+.1f}{mark} ± {(change.high - change.low) / 2:.1f}"
