"""The partition: right counts, stability, new classes, cost, and against simpler cuts.

Known classes are log-normal, so the right count is known; real traces have none, and what cuts
are worth there is told by labels (adjusted Rand index, purity), by the variance of log work that
stays inside queues, and by the mean wait that queues served shortest first give in an M/G/1
(Cobham 1954), beside equal-width, quantile and k-means cuts into as many queues.

Run: ``python -m benchmarks.partition`` (about 3 min).
"""

import json
import time
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from benchmarks.partition_cuts import FAMILIES, comparison, real_work, two_uniforms
from benchmarks.partition_em import compared
from estimator.core.partition import (
    FitJob,
    PartitionConfig,
    PartitionRevision,
    PartitionTable,
    fit,
)
from estimator.core.partition.mixture import Mixture
from estimator.core.partition.refine import gap_cut
from sched_client.model import ServiceTime

Array = NDArray[np.float64]
Draw = Callable[[np.random.Generator, int], Array]

N_SEEDS: Final = 200
N_STREAM: Final = 50_000
# After so many completions the sample is full: changes before that are warm-up.
WARM: Final = 4096
TOKEN_S: Final = 0.01
SERVICE: Final = ServiceTime(overhead_s=0.0, seconds_per_token=TOKEN_S)
# Log of 400 s, or 40,000 tokens: what shapes are drawn in, so that hardly any work is less than
# the one token that every request is taken to have.
UNIT: Final = float(np.log(40_000 * TOKEN_S))
N_SHAPE_SEEDS: Final = 50
NEW_SHARES: Final = (1.0, 0.2, 0.05, 0.02, 0.01, 0.005)


def like_classes(rng: np.random.Generator, k: int, n: int) -> Array:
    """Draw log work of k alike classes, each mean exactly 3 σ above the last."""
    return 0.9 * rng.integers(0, k, n) + 0.3 * rng.standard_normal(n)


def unlike_classes(rng: np.random.Generator, k: int, n: int) -> Array:
    """Draw log work of k classes of unlike σ and shares, 3 to 6 of the larger σ apart."""
    sds = rng.uniform(0.15, 0.5, k)
    means = np.zeros(k)
    for i in range(1, k):
        means[i] = means[i - 1] + rng.uniform(3.0, 6.0) * max(sds[i], sds[i - 1])
    shares = np.maximum(rng.dirichlet([5.0] * k), 0.05)
    which = rng.choice(k, n, p=shares / shares.sum())
    return np.asarray(means[which] + sds[which] * rng.standard_normal(n))


def count_of(x: Array) -> int:
    """Give the number of queues that a first fit makes of log work."""
    return len(fit(_job(x)).best.partition.queue_ids)


def _job(x: Array, config: PartitionConfig | None = None) -> FitJob:
    zeros = np.zeros(len(x))
    return FitJob(
        model="m",
        reason="first",
        points=np.column_stack([np.exp(x) / TOKEN_S, zeros, zeros]),
        service=SERVICE,
        completions=len(x),
        config=config or PartitionConfig(),
        incumbent=None,
        next_number=1,
    )


def known_classes() -> dict[str, Any]:
    """Count how often the right number of classes is found, 1 to 6 in turn."""
    found: dict[str, Any] = {}
    for name, draw, n in (
        ("unlike, 3 to 6 σ apart, 2,000 points", unlike_classes, 2000),
        ("alike, 3 σ apart, 2,000 points", like_classes, 2000),
    ):
        right = [
            count_of(draw(np.random.default_rng(seed), 1 + seed % 6, n)) == 1 + seed % 6
            for seed in range(N_SEEDS)
        ]
        found[name] = {"right_ratio": float(np.mean(right)), "seeds": N_SEEDS}
    return {"tables": {"known classes": found}, "least_right_ratio": min(
        row["right_ratio"] for row in found.values()
    )}  # fmt: skip


def one_class() -> dict[str, Any]:
    """Count splits of one log-normal class by the gap test, beside what α · mean gap sees."""
    rows = {}
    for n in (500, 2_000, 10_000):
        ratios, splits = [], 0
        for seed in range(N_SEEDS):
            x = np.sort(0.8 * np.random.default_rng(seed).standard_normal(n))
            gaps = np.diff(x)
            ratios.append(float(gaps.max() / gaps.mean()))
            mixture = Mixture.sorted(np.ones(1), x.mean()[None], x.std()[None])
            splits += gap_cut(x, mixture, 1e-3) is not None
        rows[f"{n} points"] = {"splits": splits, "largest_over_mean_gap": float(np.median(ratios))}
    return {"tables": {"one class, 200 seeds": rows}, "splits": sum(
        row["splits"] for row in rows.values()
    )}  # fmt: skip


def feed(table: PartitionTable, x: Sequence[float], every: int = 16) -> list[PartitionRevision]:
    """Tell a table of completions; fit at once what is due, asked after some."""
    revisions = []
    for index, tokens in enumerate((np.exp(np.asarray(x)) / TOKEN_S).tolist()):
        table.observe("m", tokens, 0.0)
        if index % every == every - 1:
            job = table.due("m", SERVICE)
            revision = table.install(fit(job)) if job is not None else None
            revisions += [revision] if revision is not None else []
    return revisions


def stationary() -> dict[str, Any]:
    """Count changes of i.i.d. streams of 50,000 after warm-up."""
    rng = np.random.default_rng(7)
    streams = {f"{k} classes": unlike_classes(rng, k, N_STREAM) for k in range(1, 7)}
    streams |= {name: rng.choice(x, N_STREAM) for name, x in real_work().items()}
    streams |= {name: UNIT + draw(rng, N_STREAM) for name, draw in FAMILIES.items()}
    rows = {}
    for name, x in streams.items():
        table = PartitionTable()
        revisions = feed(table, x.tolist())
        before = [r for r in revisions if r.completions <= WARM][-1].partition
        count_changes, moved = 0, 0.0
        for revision in (r for r in revisions if r.completions > WARM):
            after = revision.partition
            if len(after.queue_ids) != len(before.queue_ids):
                count_changes += 1
            else:
                pairs = zip(after.boundaries_s, before.boundaries_s, strict=True)
                moved = max([moved, *(abs(new / old - 1.0) for new, old in pairs)])
            before = after
        rows[name] = {
            "queues": len(before.queue_ids),
            "count_changes": count_changes,
            "largest_move_ratio": moved,
            "fits": table.status("m").fits,
        }
    return {
        "tables": {"i.i.d. streams of 50,000": rows},
        "most_count_changes": max(row["count_changes"] for row in rows.values()),
        "largest_move_ratio": max(row["largest_move_ratio"] for row in rows.values()),
    }


def new_class() -> dict[str, Any]:
    """Count the requests of a new class of long jobs until it has a queue of its own."""
    rows = {f"{share:g} of the requests": _of_new(_three, share, 0.4) for share in NEW_SHARES}
    flat = {
        f"{share:g} of the requests, {name}": _of_new(FAMILIES[name], share, 0.9)
        for name in ("uniform 1 to 30", "exponential", "Pareto, shape 1.5")
        for share in NEW_SHARES[:3]
    }
    return {
        "tables": {
            "a new class beside three others": rows,
            "a new class 3 σ beyond one that is flat": flat,
        },
        "most_requests": max(row["most_requests"] for row in rows.values()),
    }


def _three(rng: np.random.Generator, n: int) -> Array:
    return unlike_classes(rng, 3, n)


def _of_new(draw: Draw, share: float, beyond: float) -> dict[str, float]:
    needed = [_needed(draw, share, beyond, seed) for seed in range(4)]
    return {"most_requests": max(needed), "median_requests": float(np.median(needed))}


def _needed(draw: Draw, share: float, beyond: float, seed: int) -> int:
    rng = np.random.default_rng(seed)
    table = PartitionTable()
    known = UNIT + draw(rng, 2 * WARM)
    feed(table, known.tolist())
    before, mean = set(table.entries()["m"].queue_ids), known.max() + beyond
    seen = 0
    while seen < 1000:
        new = rng.random() < share
        seen += new
        work = mean + 0.3 * rng.standard_normal() if new else rng.choice(known)
        if feed(table, [float(work)], every=1):
            partition = table.entries()["m"]
            if {partition.queue_of(float(np.exp(mean)))} - before:
                break
    return seen


def costs() -> dict[str, Any]:
    """Time a completion and a fit; the least of several blocks, in CPU time."""
    rng = np.random.default_rng(0)
    table = PartitionTable()
    tokens = (np.exp(unlike_classes(rng, 6, 40_960)) / TOKEN_S).tolist()
    feed(table, np.log(np.array(tokens[:8192]) * TOKEN_S).tolist())
    block = 2048

    def observe_all(part: list[float]) -> None:
        for one in part:
            table.observe("m", one, 9.0, 1.0)

    blocks = [tokens[i : i + block] for i in range(8192, len(tokens), block)]
    observe = _least(observe_all, blocks)
    fits = {}
    config = PartitionConfig(capacity=10_000)
    for k in (1, 4, 8):
        job = _job(unlike_classes(rng, k, 10_000), config)
        fits[f"fit_10000_points_{k}_classes_ms"] = 1e3 * _least(fit, [job] * 7)
    return {
        "observe_us": 1e6 * observe / block,
        **fits,
        "worst_fit_ms": max(fits.values()),
        "state_kib": len(json.dumps(table.state())) / 1024,
    }


def _least(call: Callable[[Any], Any], inputs: Sequence[Any]) -> float:
    """Give the least seconds of CPU that a call takes, over several inputs (hence Any)."""
    spent = []
    for one in inputs:
        began = time.thread_time()
        call(one)
        spent.append(time.thread_time() - began)
    return min(spent)


def non_normal() -> dict[str, Any]:
    """Count how often one class of any shape is one queue, and two flat ones are two."""
    sizes = (500, 2_000, 10_000)
    families = {name: (draw, 1) for name, draw in FAMILIES.items()}
    families["two uniforms that do not overlap"] = (two_uniforms, 2)
    rows = {}
    for name, (draw, right) in families.items():
        counts = {
            n: [count_of(UNIT + draw(np.random.default_rng(s), n)) for s in range(N_SHAPE_SEEDS)]
            for n in sizes
        }
        rows[name] = {
            **{
                f"right of {n} points": float(np.mean(np.array(counts[n]) == right)) for n in sizes
            },
            "most queues": max(max(of_size) for of_size in counts.values()),
        }
    return {
        "tables": {f"one class of any shape, {N_SHAPE_SEEDS} seeds": rows},
        "least_right_ratio": {
            str(n): min(float(row[f"right of {n} points"]) for row in rows.values()) for n in sizes
        },
    }


def main() -> None:
    """Print everything as one JSON object."""
    result = {
        "known": known_classes(),
        "one_class": one_class(),
        "non_normal": non_normal(),
        "stationary": stationary(),
        "new_class": new_class(),
        "cost": costs(),
        "em": compared(
            {
                f"{k} classes, {n} points": unlike_classes(np.random.default_rng(k), k, n)
                for k in (2, 4, 6)
                for n in (1_000, 10_000)
            }
        ),
        "comparison": comparison(count_of, _job),
    }
    print(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
