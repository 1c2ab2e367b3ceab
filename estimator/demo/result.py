"""The demo's result, as a table for people and as JSON for programs."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final

from rich.console import Console
from rich.table import Table

from estimator.core.drift_event import DriftEvent
from estimator.demo.figures import (
    P50_GAIN_GOAL,
    THROUGHPUT_RATIO_GOAL,
    RunFigures,
    p50_gain,
    throughput_ratio,
)
from sched_client.model import KappaEntry, Key

NOT_SHOWN: Final = (
    "one engine on one machine, a minute of load: no claim about GPUs, other models, other mixes",
    "latency to the whole answer only; a first token is not streamed here",
    "steady throughput: a run this short ends on kappad's longest clips, the batch half empty",
    "an underloaded engine: with nothing waiting there is nothing to order, and nothing to gain",
    "the tail's bound under estimates that are wrong by 10x (tests/unit/policies shows the guard)",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class KappaRow:
    """What one language's κ was and became."""

    language: str
    before_tokens_per_s: float
    before_source: str
    after_tokens_per_s: float
    after_intercept_tokens: float
    samples: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Overhead:
    """What kappad took from the machine and lost during the run."""

    sidecar_cpu_ratio: float
    sidecar_resident_mib: float
    dropped_reports: int
    client_failures: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoResult:
    """Everything the demo found.

    Attributes
    ----------
    engine : str
        What served the requests, honestly named.
    startup_s : float
        Seconds until vLLM was healthy.
    capacity_rps, rate_rps : float
        Measured capacity, and the rate sent.
    fcfs, on, shift : RunFigures
        The three runs.
    kappas : tuple of KappaRow
        By language.
    drifts : tuple of DriftEvent
        Detected meanwhile.
    overhead : Overhead
        Of the sidecar and the client.
    look_further : tuple of str
        Commands.
    not_shown : tuple of str
        What this run says nothing about.
    """

    engine: str
    startup_s: float
    capacity_rps: float
    rate_rps: float
    fcfs: RunFigures
    on: RunFigures
    shift: RunFigures
    kappas: tuple[KappaRow, ...]
    drifts: tuple[DriftEvent, ...]
    overhead: Overhead
    look_further: tuple[str, ...]
    not_shown: tuple[str, ...] = NOT_SHOWN

    @property
    def failed(self) -> int:
        """Requests of all runs that were not answered."""
        return self.fcfs.failed + self.on.failed + self.shift.failed

    def as_json(self) -> str:
        """Give the result as JSON with units in the names."""
        tree: dict[str, Any] = asdict(self)  # Any: JSON
        tree["p50_gain_ratio"] = p50_gain(self.fcfs, self.on)
        tree["throughput_ratio"] = throughput_ratio(self.fcfs, self.on)
        return json.dumps(tree, indent=1, ensure_ascii=False)

    def show(self, console: Console) -> None:
        """Draw the tables."""
        console.print(_latency_table(self.fcfs, self.on, self.shift))
        gain, ratio = p50_gain(self.fcfs, self.on), throughput_ratio(self.fcfs, self.on)
        console.print(
            f"Median {abs(gain):.0%} {'below' if gain > 0 else 'above'} FCFS "
            f"(goal {P50_GAIN_GOAL:.0%}), throughput {ratio:.3f}x "
            f"(goal {THROUGHPUT_RATIO_GOAL}x), at {self.rate_rps:.2f} requests/s = "
            f"{self.rate_rps / self.capacity_rps:.2f} x the measured capacity."
        )
        if self.on.longest_s > self.fcfs.longest_s:
            console.print(
                f"Long requests pay: the longest took {self.on.longest_s:.1f} s instead of "
                f"{self.fcfs.longest_s:.1f} s. A guard bounds that (docs/guard.md)."
            )
        console.print(f"Engine: {self.engine}, healthy after {self.startup_s:.0f} s.")
        console.print(_kappa_table(self.kappas))
        self._show_drifts(console)
        console.print(
            f"Overhead: sidecar {self.overhead.sidecar_cpu_ratio:.1%} of a core, "
            f"{self.overhead.sidecar_resident_mib:.0f} MiB resident; "
            f"{self.overhead.dropped_reports} reports dropped, "
            f"{self.overhead.client_failures} failures in the client."
        )
        console.print("\n[bold]Look further[/bold]")
        for command in self.look_further:
            console.print(f"  {command}", soft_wrap=True, highlight=False, markup=False)
        console.print("\n[bold]Not shown[/bold]")
        for line in self.not_shown:
            console.print(f"  - {line}", highlight=False, markup=False)

    def _show_drifts(self, console: Console) -> None:
        if not self.drifts:
            console.print("No drift event.")
        for event in self.drifts:
            where = " ".join(x for x in (event.model, event.task, event.language) if x)
            console.print(
                f"Drift: {event.kind} of {where or 'everything'}, "
                + (f"{event.detail} " if event.detail else "")
                + f"{event.before:.3g} → {event.after:.3g}"
                + (
                    f", adapted after {event.completions_to_adapt} completions"
                    if event.completions_to_adapt is not None
                    else ", not adapted yet"
                )
            )


def kappa_rows(
    before: dict[Key, KappaEntry], after: dict[Key, KappaEntry]
) -> tuple[KappaRow, ...]:
    """Give a row for each language of the model, whatever the timestamps."""
    rows = []
    for key, entry in sorted(after.items(), key=lambda item: item[0].language):
        if not key.language or key.timestamps is not None:
            continue
        parent = next((before[k] for k in key.chain() if k in before), entry)
        rows.append(
            KappaRow(
                language=key.language,
                before_tokens_per_s=parent.kappa_tokens_per_s,
                before_source=parent.source,
                after_tokens_per_s=entry.kappa_tokens_per_s,
                after_intercept_tokens=entry.intercept_tokens,
                samples=entry.sample_count,
            )
        )
    return tuple(rows)


def _latency_table(fcfs: RunFigures, on: RunFigures, shift: RunFigures) -> Table:
    table = Table(title="Latency from scheduled arrival to answer")
    table.add_column("")
    for name in ("FCFS (mode off)", "kappad (mode on)", "change", "other languages (on)"):
        table.add_column(name, justify="right")
    rows: Mapping[str, str] = {
        "P50": "p50_s",
        "P90": "p90_s",
        "P99": "p99_s",
        "mean": "mean_s",
        "longest": "longest_s",
    }
    for name, field in rows.items():
        before, after = getattr(fcfs, field), getattr(on, field)
        other = getattr(shift, field)
        change = f"{after / before - 1.0:+.0%}"
        table.add_row(name, f"{before:.2f} s", f"{after:.2f} s", change, f"{other:.2f} s")
    change = f"{throughput_ratio(fcfs, on) - 1.0:+.1%}"
    throughputs = [f"{run.throughput_rps:.2f}/s" for run in (fcfs, on, shift)]
    table.add_row("throughput", *throughputs[:2], change, throughputs[2])
    answered = [f"{run.n - run.failed} of {run.n}" for run in (fcfs, on, shift)]
    table.add_row("answered", *answered[:2], "", answered[2])
    return table


def _kappa_table(rows: tuple[KappaRow, ...]) -> Table:
    table = Table(title="κ, output tokens per second of audio")
    for name in ("language", "before", "after", "+ intercept", "completions"):
        table.add_column(name, justify="left" if name == "language" else "right")
    for row in rows:
        table.add_row(
            row.language,
            f"{row.before_tokens_per_s:.2f} ({row.before_source})",
            f"{row.after_tokens_per_s:.2f}",
            f"{row.after_intercept_tokens:.1f}",
            str(row.samples),
        )
    return table
