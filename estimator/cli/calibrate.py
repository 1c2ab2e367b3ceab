"""``kappad calibrate``: an engine profile for the twin, fitted to exported completions."""

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from estimator.cli.terminal import (
    EXIT_FAILED,
    EXIT_PARTIAL,
    CommandError,
    Json,
    printable,
    say,
    say_json,
    say_table,
    warn,
)

if TYPE_CHECKING:  # numpy and the core only when the command runs
    from estimator.core.observation import Completion
    from estimator.replay.calibrate import Calibration
    from estimator.traces import BadRow

# Bad rows named one by one; a file with more is another kind of file.
_MAX_NAMED: Final = 20
_MAX_SLOTS: Final = 65_536
_MS: Final = 1e3


def calibrate(
    files: Annotated[list[Path], typer.Argument(metavar="EXPORT", show_default=False)],
    slots: Annotated[
        int | None,
        typer.Option(
            metavar="N", min=1, max=_MAX_SLOTS, help="The engine's max_num_seqs; else as seen."
        ),
    ] = None,
    name: Annotated[str, typer.Option(metavar="NAME", help="The profile's name.")] = "calibrated",
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", metavar="FILE", help="Write the profile there, as JSON."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Fit an engine profile to what `kappad export` wrote, and say how well it fits.

    Each file is one engine's, whole, from a time in which nothing about it changed; several files
    are several times. Use the result as `kappad replay --engine FILE`. A bad row is named by file
    and line and skipped; exit code 3 then. Data that cannot tell the costs apart is refused, with
    what is missing; exit code 1.
    """
    from estimator.replay.calibrate import ThinDataError  # noqa: PLC0415 # light start
    from estimator.replay.calibrate import calibrate as fit  # noqa: PLC0415 # light start

    exports, all_good = _read(files)
    source = f"kappad calibrate {' '.join(path.name for path in files)}"
    try:
        found = fit(exports, name=name, slots=slots, source=source)
    except ThinDataError as error:
        for reason in error.reasons:
            warn(reason)
        raise CommandError("no profile: the exports do not tell enough", EXIT_FAILED) from error
    if output is not None:
        try:
            output.write_text(found.profile.to_json(), encoding="utf-8")
        except OSError as error:
            raise CommandError(f"{output}: cannot be written: {error.strerror}") from error
    if as_json:
        say_json(_document(found))
    else:
        _show(found)
        if output is None:
            say()
            print(found.profile.to_json(), end="")
    if not all_good:
        raise typer.Exit(EXIT_PARTIAL)


def _read(files: Sequence[Path]) -> "tuple[list[list[tuple[float, Completion]]], bool]":
    from estimator.replay.calibrate_export import read_export  # noqa: PLC0415 # light start
    from estimator.traces import TraceError  # noqa: PLC0415 # light start

    exports: list[list[tuple[float, Completion]]] = []
    n_bad = 0
    for path in files:
        bad: list[BadRow] = []
        try:
            exports.append(read_export(path, on_bad_row=bad.append))
        except TraceError as error:
            # What remains would be another engine's time: a profile of it would mislead.
            raise CommandError(str(error), EXIT_PARTIAL) from error
        for row in bad[:_MAX_NAMED]:
            warn(f"{path}:{row.line}: {row.reason}; row skipped")
        if len(bad) > _MAX_NAMED:
            warn(f"{path}: {len(bad) - _MAX_NAMED:,} more bad rows")
        n_bad += len(bad)
    return exports, n_bad == 0


def _document(found: "Calibration") -> dict[str, Any]:  # Any: the document of `--json`
    goodness = asdict(found.goodness)
    return {
        "profile": asdict(found.profile),
        "n": goodness.pop("n"),
        "left_out_count": found.n_left_out,
        "overtaken_ratio": found.overtaken_ratio,
        "errors": {
            "alone_ratio": found.alone_error,
            "full_ratio": found.full_error,
            "admission_s": found.admission_error_s,
        },
        "fit": goodness,
    }


def _show(found: "Calibration") -> None:
    profile, fit = found.profile, found.goodness
    left_out = f", {found.n_left_out:,} left out" if found.n_left_out else ""
    say(f"{printable(profile.name)}: {profile.slots} slots, from {fit.n:,} requests{left_out}")
    alone_s = profile.step_s + profile.per_sequence_s
    full_s = profile.step_s + profile.slots * profile.per_sequence_s
    limit = profile.max_admissions_per_step
    most = "no limit seen" if limit is None else f"at most {limit} a step"
    say(
        f"an admission takes {_MS * profile.admission_s:.2f} ms "
        f"(± {_MS * found.admission_error_s:.2f}; {most}), "
        f"a step {_MS * alone_s:.3f} ms with one running and {_MS * full_s:.3f} with "
        f"{profile.slots}; so a request of median length is known to ± {found.alone_error:.1%} "
        f"and ± {found.full_error:.1%}"
    )
    say(
        f"seconds in the engine, request by request: off by {fit.median_abs_ln:.1%} in the median "
        f"and {fit.p90_abs_ln:.1%} at P90 (|ln|), R² {fit.r_squared:.3f}"
    )
    say()
    say_table(
        ("quantile", "measured s", "fitted s"),
        [(f"{row.q:.0%}", row.measured_s, row.fitted_s) for row in fit.quantiles],
    )
    say()
    say_table(
        ("running", "requests", "measured over fitted"),
        [
            (f"{band.low:g} to {band.high:g}", band.n, f"{band.median_ln:+.1%}")
            for band in fit.by_concurrency
        ],
    )
