"""Low load: no percentile may be worse than first come, first served would have it.

Each policy against fcfs over the same requests, in percent, by percentile; the guard is
production's. Estimates are those by duration: the clips are of one language, which orders them
as learned ones would.
"""

from typing import Final, NamedTuple

from benchmarks.twin.material import GUARDS, POLICIES, SPEECH, Row, Table, engine, scene
from estimator.replay.arrivals import Arrivals
from estimator.replay.figures import Change, Figures, change_of, metric

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
    Traffic("Poisson", 0.5, 10_000, Arrivals()),
    Traffic("Poisson", 0.7, 20_000, Arrivals()),
    Traffic("bounded bursts", 0.7, 10_000, Arrivals(kind="bursts")),
)


def measure() -> Row:
    """Give the table, and the worst of it for Poisson arrivals and for bursts."""
    table: Table = {}
    worst: dict[str, list[Change]] = {"Poisson": [], "bounded bursts": []}
    for name in ENGINES:
        profile = engine(name)
        for traffic in TRAFFIC:
            at = scene(profile, SPEECH, traffic.load, traffic.n, traffic.arrivals)
            figures: dict[str, list[Figures]] = {policy: [] for policy in ("fcfs", *POLICIES)}
            for seed in range(N_SEEDS):
                jobs = at.jobs(seed)
                figures["fcfs"].append(at.fcfs(jobs))
                for policy in POLICIES:
                    estimates = at.estimates("duration", GUARDS["on"], seed)
                    figures[policy].append(at.run(jobs, policy, estimates))
            for policy in POLICIES:
                changes = _changes(figures[policy], figures["fcfs"])
                row = {what: _cell(change) for what, change in changes.items()}
                table[f"{name}, {traffic.name} {traffic.load:g}, {policy}"] = row
                worst[traffic.name] += [changes[what] for what in PERCENTILES]
    return {
        "tables": {f"low load, percent against fcfs, {N_SEEDS} seeds": table},
        "worst_percent": _worst(worst["Poisson"]),
        "worst_percent_surely": _surely(worst["Poisson"]),
        "worst_percent_bursts": _worst(worst["bounded bursts"]),
    }


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


def _worst(changes: list[Change]) -> float:
    return max(change.percent or 0.0 for change in changes)


def _surely(changes: list[Change]) -> float:
    """Give the highest lower end of an interval: what is worse beyond the luck of the draw."""
    return max(change.low or 0.0 for change in changes)
