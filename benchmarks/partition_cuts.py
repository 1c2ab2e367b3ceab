"""Cuts by others, and what a partition is worth: for `benchmarks.partition`."""

import csv
import gzip
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from sklearn.cluster import KMeans
from sklearn.metrics import adjusted_rand_score

from estimator.core.partition import FitJob, fit

Array = NDArray[np.float64]

TRACES: Final = Path(__file__).parent / "traces"
SPEECH: Final = (
    "librispeech-test-clean", "aishell1-test", "commonvoice-id", "ud-french-parisstories",
    "tedxjp10k-ja-chars",
)  # fmt: skip
# A text engine: 5,000 prompt tokens and 100 output tokens a second. Speech: 0.05 s and as many
# output tokens a second.
PROMPT_S: Final = 2e-4
OUTPUT_S: Final = 0.01
OVERHEAD_S: Final = 0.05
LOAD: Final = 0.9

# Log work of one class each.
FAMILIES: Final[dict[str, Callable[[np.random.Generator, int], Array]]] = {
    "log-normal, σ 0.3": lambda rng, n: 0.3 * rng.standard_normal(n),
    "log-normal, σ 0.8": lambda rng, n: 0.8 * rng.standard_normal(n),
    "log-normal, σ 2": lambda rng, n: 2.0 * rng.standard_normal(n),
    "gamma, shape 2": lambda rng, n: np.log(rng.gamma(2.0, 1.0, n)),
    "exponential": lambda rng, n: np.log(rng.exponential(1.0, n)),
    "Weibull, shape 0.7": lambda rng, n: np.log(rng.weibull(0.7, n)),
    "Weibull, shape 1.5": lambda rng, n: np.log(rng.weibull(1.5, n)),
    "log-normal and an overhead": lambda rng, n: np.log(rng.lognormal(0.0, 0.5, n) + 1.0),
    "Pareto, shape 1.5": lambda rng, n: rng.exponential(1.0 / 1.5, n),
    "uniform 1 to 30": lambda rng, n: np.log(rng.uniform(1.0, 30.0, n)),
    "log-uniform 1 to 55": lambda rng, n: rng.uniform(0.0, 4.0, n),
}


def two_uniforms(rng: np.random.Generator, n: int) -> Array:
    """Draw log work of two flat classes that do not overlap: 1 to 3, and 9 to 30."""
    short = rng.random(n) < 0.5
    return np.asarray(np.log(np.where(short, rng.uniform(1.0, 3.0, n), rng.uniform(9.0, 30.0, n))))


def _rows(name: str) -> list[dict[str, str]]:
    with gzip.open(TRACES / f"{name}.csv.gz", "rt", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def _text_work(rows: list[dict[str, str]]) -> Array:
    table = np.array([[float(r["prompt_tokens"]), float(r["output_tokens"])] for r in rows])
    return np.log(PROMPT_S * table[:, 0] + OUTPUT_S * table[:, 1])


def _merged() -> list[dict[str, str]]:
    both = [
        {**row, "request_type": kind}
        for kind in ("conv", "code")
        for row in _rows(f"azure-llm-2023-{kind}")
    ]
    return sorted(both, key=lambda row: float(row["arrival_s"]))


def real_work() -> dict[str, Array]:
    """Give the log work of real traces, in seconds."""
    found = {
        name: np.log(
            OVERHEAD_S + OUTPUT_S * np.array([float(r["output_tokens"]) for r in _rows(name)])
        )
        for name in SPEECH
    }
    for name in ("apex-three-classes", "azure-llm-2023-conv", "azure-llm-2023-code"):
        found[name] = _text_work(_rows(name))
    found["azure conv + code"] = _text_work(_merged())
    return found


def equal_width(x: Array, k: int) -> Array:
    """Cut log work into k intervals of equal width."""
    return np.asarray(np.linspace(x.min(), x.max(), k + 1)[1:-1])


def quantiles(x: Array, k: int) -> Array:
    """Cut into k queues of equally many requests."""
    return np.asarray(np.quantile(x, np.arange(1, k) / k))


def k_means(x: Array, k: int) -> Array:
    """Cut log work half-way between k means."""
    centres = np.sort(KMeans(k, n_init=4, random_state=0).fit(x[:, None]).cluster_centers_[:, 0])
    return np.asarray((centres[1:] + centres[:-1]) / 2.0)


def k_means_of_work(x: Array, k: int) -> Array:
    """Cut work itself so, as EWSJF's k-means does."""
    return np.asarray(np.log(k_means(np.exp(x), k)))


OTHERS: Final = {
    "equal width (log)": equal_width,
    "quantiles": quantiles,
    "k-means (log)": k_means,
    "k-means (EWSJF)": k_means_of_work,
}


def worth(x: Array, cuts: Array, labels: list[str] | None) -> dict[str, Any]:
    """Say what queues between cuts are worth.

    Returns
    -------
    dict
        ``variance_inside_ratio`` of log work; ``wait_ratio`` and ``slowdown_ratio``, mean wait and
        mean wait over work against first come first served, in an M/G/1 at load 0.9 where the
        queue of shorter work goes first (Cobham 1954); with labels, adjusted Rand index and
        purity.
    """
    queue = np.searchsorted(cuts, x, side="right")
    k = len(cuts) + 1
    work = np.exp(x)
    shares = np.bincount(queue, minlength=k) / len(x)
    loads = LOAD * np.bincount(queue, weights=work, minlength=k) / work.sum()
    above = np.concatenate([[0.0], np.cumsum(loads)])
    waits = (1.0 - LOAD) / ((1.0 - above[:-1]) * (1.0 - above[1:]))
    means = np.bincount(queue, weights=x, minlength=k) / np.maximum(shares * len(x), 1.0)
    found = {
        "queues": int((shares > 0.0).sum()),
        "variance_inside_ratio": float(((x - means[queue]) ** 2).mean() / x.var()),
        "wait_ratio": float(shares @ waits),
        "slowdown_ratio": float((waits[queue] / work).mean() / (1.0 / work).mean()),
    }
    if labels is not None:
        counts = [
            max(labels_of.count(name) for name in set(labels_of))
            for q in range(k)
            if (labels_of := [one for one, at in zip(labels, queue, strict=True) if at == q])
        ]
        found["adjusted_rand"] = float(adjusted_rand_score(labels, queue))
        found["purity"] = sum(counts) / len(labels)
    return found


def comparison(
    count_of: Callable[[Array], int], job_of: Callable[[Array], FitJob]
) -> dict[str, Any]:
    """Compare our cuts with others into as many queues, on two traces."""
    tables = {}
    apex, merged = _rows("apex-three-classes"), _merged()
    for name, rows in (("apex-three-classes", apex), ("azure conv + code", merged)):
        x = _text_work(rows)
        labels = [row["request_type"] for row in rows]
        sample = x if len(x) <= 4096 else np.random.default_rng(0).choice(x, 4096, replace=False)
        k = count_of(sample)
        ours = np.array([cut.at for cut in fit(job_of(sample)).best.cuts])
        tables[f"{name}, {k} queues"] = {
            "kappad": worth(x, ours, labels),
            **{who: worth(x, cut(sample, k), labels) for who, cut in OTHERS.items()},
        }
    return {"tables": tables}
