"""``kappad evaluate``: how well traces are predicted, each completion before it is learned."""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from estimator.cli.kappa import key_name
from estimator.cli.progress import Progress
from estimator.cli.terminal import (
    EXIT_PARTIAL,
    Json,
    printable,
    say,
    say_json,
    say_table,
    warn,
)
from sched_client.model import Key

if TYPE_CHECKING:  # the core only when a command runs
    from estimator.evaluation.report import Order
    from estimator.evaluation.scenarios import Trace

# Bad rows named one by one; a file with more is another kind of file.
_MAX_NAMED: Final = 20
_MAX_RESAMPLES: Final = 1000


def evaluate(
    files: Annotated[list[Path], typer.Argument(metavar="FILE", show_default=False)],
    language_hidden: Annotated[
        bool, typer.Option("--language-hidden", help="Drop the languages: files become a drift.")
    ] = False,
    order: Annotated[
        str,
        typer.Option(
            metavar="trace|completion",
            help="Learn in the files' order, or as 64 concurrent requests finish.",
        ),
    ] = "trace",
    resample: Annotated[
        int,
        typer.Option(
            metavar="SEEDS", min=0, max=_MAX_RESAMPLES, help="Shuffle each file, so many times."
        ),
    ] = 0,
    n: Annotated[
        int | None,
        typer.Option("--n", metavar="N", min=1, help="Only so many rows of each file."),
    ] = None,
    contest: Annotated[
        bool, typer.Option("--contest", help="Run other learners over the same rows.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Measure how well traces are predicted, without a sidecar.

    Each completion is predicted before it is learned. Several files follow one another. The
    errors are held against each file's own κ in hindsight and against a learner that never
    forgets. A bad row is named by file and line and skipped; exit code 3 then.
    """
    from estimator.evaluation.report import ORDERS  # noqa: PLC0415 # light start

    if order not in ORDERS:
        raise typer.BadParameter(
            f"{order!r} is not one of {', '.join(ORDERS)}", param_hint="--order"
        )
    traces, all_good = _read(files)
    document = _evaluate(
        traces,
        order=order,
        language_hidden=language_hidden,
        resamples=resample,
        n=n,
        contest=contest,
    )
    if as_json:
        say_json(document)
    elif document["n"]:
        _show(document)
    elif all_good:
        warn("nothing to judge: no completion stopped by itself and has a known size")
    if not all_good:
        raise typer.Exit(EXIT_PARTIAL)


def _read(files: Sequence[Path]) -> "tuple[list[Trace], bool]":
    from estimator.evaluation.scenarios import read_trace  # noqa: PLC0415 # light start
    from estimator.traces import BadRow, TraceError  # noqa: PLC0415 # light start

    traces: list[Trace] = []
    all_good = True
    for path in files:
        bad: list[BadRow] = []
        try:
            trace = read_trace(path, on_bad_row=bad.append)
        except TraceError as error:
            warn(str(error))
            all_good = False
            continue
        for row in bad[:_MAX_NAMED]:
            warn(f"{path}:{row.line}: {row.reason}; row skipped")
        if len(bad) > _MAX_NAMED:
            warn(f"{path}: {len(bad) - _MAX_NAMED:,} more bad rows")
        all_good = all_good and not bad
        traces.append(trace)
    return traces, all_good


def _evaluate(
    traces: "Sequence[Trace]",
    *,
    order: "Order",
    language_hidden: bool,
    resamples: int,
    n: int | None,
    contest: bool,
) -> dict[str, Any]:  # Any: the document of `--json`
    from estimator.evaluation import report  # noqa: PLC0415 # light start

    candidates = None
    if contest:
        from estimator.evaluation.candidates import CANDIDATES  # noqa: PLC0415 # light start

        candidates = CANDIDATES
    setting = report.Setting(
        order=order, language_hidden=language_hidden, resamples=resamples, n=n
    )
    rows = sum(len(trace) if n is None else min(len(trace), n) for trace in traces)
    total = max(rows * max(resamples, 1) * (2 + len(candidates or ())), 1)
    learned = 0
    with Progress("evaluating") as progress:

        def on_run(count: int) -> None:
            nonlocal learned
            learned += count
            progress.update(learned, min(learned / total, 1.0))

        return report.evaluate(traces, setting, contest=candidates, on_run=on_run)


def _show(document: Mapping[str, Any]) -> None:  # Any: the document of `--json`
    oracle = _times(document["mae_ratio_to_oracle"])
    cumulative = _times(document["mae_ratio_to_cumulative"])
    say(
        f"{document['n']:,} completions: mean error {document['mae_tokens']:.2f} tokens "
        f"({100 * document['mape']:.0f} %), {oracle} that of each file's own rate in hindsight, "
        f"{cumulative} that of a learner that never forgets; "
        f"p90 covered {100 * document['p90_coverage']:.1f} %"
    )
    say()
    header = ("file", "n", "kappa", "learned until within 10 %", "until there for 20")
    say_table(
        header,
        [
            (
                one["file"],
                one["n"],
                one["kappa_hindsight"],
                _count(one["completions_to_cross_10_percent"]),
                _count(one["completions_to_stay_20"]),
            )
            for one in document["segments"]
        ],
    )
    events = document["drift_events"]
    if events:
        say()
        say_table(
            ("drift after", "kind", "key", "before", "after"),
            [
                (
                    one["index"],
                    one["kind"],
                    key_name(Key(**one["key"])),
                    one["before"],
                    one["after"],
                )
                for one in events
            ],
        )
    if "contest" in document:
        say()
        _show_contest(document["contest"])


def _show_contest(table: Sequence[Mapping[str, Any]]) -> None:  # Any: as above
    say_table(
        ("learner", "mean error", "x hindsight", "x cumulative", "within 10 %", "for 20"),
        [
            (
                one["learner"],
                one["mae_tokens"],
                one["mae_ratio_to_oracle"],
                one["mae_ratio_to_cumulative"],
                _count(one["median_completions_to_cross_10_percent"]),
                _count(one["median_completions_to_stay_20"]),
            )
            for one in sorted(table, key=lambda one: one["mae_tokens"])
        ],
    )


def _count(value: int | None) -> str:
    return "never" if value is None else printable(f"{value:,}")


def _times(ratio: float) -> str:
    # One completion, or equal ones, are met exactly by their own rate.
    return f"{ratio:.3f} x" if math.isfinite(ratio) else "- x"
