"""What ``kappad replay`` was asked for, read and checked: traces, arrivals, guard, engine."""

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast, get_args

import typer

from estimator.cli import replay_options as options
from estimator.cli.settings_text import with_texts
from estimator.cli.terminal import EXIT_PARTIAL, EXIT_USAGE, CommandError, warn
from sched_client.model import MAX_REORDER_ABOVE, OrderBy, Settings

if TYPE_CHECKING:  # numpy and the core only when the command runs
    from estimator.replay.arrivals import ArrivalKind, Arrivals
    from estimator.replay.profile import EngineProfile
    from estimator.replay.rows import Rows
    from estimator.replay.runs import EstimateKind
    from estimator.replay.workload import Workload

_DEFAULTS: Final = Settings()
# Bad rows named one by one; a file with more is another kind of file.
_MAX_NAMED: Final = 20
# A synthetic mix has no length of its own; ten batches of an A100's 256 slots.
_SYNTHETIC_REQUESTS: Final = 2560


@contextmanager
def told() -> Iterator[None]:
    """Turn what is wrong with an input into one line and an exit code.

    Raises
    ------
    CommandError
        3 for a trace, 2 for a profile or for values that contradict one another.
    """
    from estimator.replay.profile import ProfileError  # noqa: PLC0415 # light start
    from estimator.traces import TraceError  # noqa: PLC0415 # light start

    try:
        yield
    except TraceError as error:
        raise CommandError(str(error), EXIT_PARTIAL) from error
    except (ProfileError, ValueError) as error:
        raise CommandError(str(error), EXIT_USAGE) from error


def files_of(files: list[Path] | None, trace: list[Path] | None, workload: str) -> list[Path]:
    """Give the files, none for a synthetic workload; one of the two must be asked for."""
    from estimator.replay.rows import UNIFORM_5_30  # noqa: PLC0415 # light start

    names = [*(trace or []), *(files or [])]
    if workload:
        options.one_of(workload, (UNIFORM_5_30,), "--workload")
        if names:
            raise typer.BadParameter("give files or --workload, not both")
    elif not names:
        raise typer.BadParameter(f"give a trace, or --workload {UNIFORM_5_30}")
    return names


def arrivals_of(
    kind: str, cv: float, amplitude: float, period_s: float, cycle_s: float
) -> "Arrivals":
    """Check how requests shall arrive."""
    from estimator.replay.arrivals import ARRIVAL_KINDS, Arrivals  # noqa: PLC0415 # light start

    options.one_of(kind, ARRIVAL_KINDS, "--arrivals")
    with told():
        return Arrivals(
            kind=cast("ArrivalKind", kind),  # checked just above
            cv=cv,
            amplitude=amplitude,
            period_s=period_s,
            cycle_s=cycle_s,
        )


def settings_of(
    phi: float,
    burst_requests: float,
    reorder_above: int,
    *,
    no_guard: bool,
    order_by: str,
    texts: Sequence[str] = (),
) -> Settings:
    """Check the guard, the unit of work, and what ``--set`` says; that wins, but for no guard."""
    options.one_of(order_by, get_args(OrderBy), "--order-by")
    if not 0.0 <= phi < 1.0:
        raise typer.BadParameter(f"{phi:g} is not in [0, 1)", param_hint="--phi")
    if not 0.0 <= burst_requests < math.inf:
        text = f"{burst_requests:g} is no number of at least 0; --no-guard switches the guard off"
        raise typer.BadParameter(text, param_hint="--burst-requests")
    if not 0 <= reorder_above <= MAX_REORDER_ABOVE:
        text = f"{reorder_above} is not in [0, {MAX_REORDER_ABOVE}]; 0 always asks the policy"
        raise typer.BadParameter(text, param_hint="--reorder-above")
    settings = Settings(
        order_by=cast("OrderBy", order_by),  # checked just above
        phi=phi,
        burst_requests=burst_requests,
        reorder_above=reorder_above,
        reorder_until=min(_DEFAULTS.reorder_until, reorder_above),
    )
    try:
        settings = with_texts(settings, texts, fixed=("mode", "policy"))
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--set") from error
    if no_guard:
        return replace(settings, burst_requests=math.inf, reorder_above=0, reorder_until=0)
    return settings


def check_plot(plot: Path | None, capacity: str) -> None:
    """Refuse a chart that cannot be drawn, before anything is run."""
    if plot is None:
        return
    if plot.suffix not in (".svg", ".html"):
        ending = f"ends in {plot.suffix}" if plot.suffix else "has no ending"
        text = f"{plot} {ending}; name a file that ends in .svg or .html"
        raise typer.BadParameter(text, param_hint="--plot")
    if capacity:
        raise typer.BadParameter("a search for capacity draws nothing; leave --plot out")
    if not plot.parent.is_dir():
        raise CommandError(f"{plot}: cannot be written: {plot.parent} is no folder; make it first")


def check_seeds(seeds: int, workload: "Workload") -> None:
    """Refuse runs that would all be the same: their interval would be a false certainty."""
    if seeds > 1 and workload.is_fixed:
        text = (
            f"{seeds} runs at the trace's own times would all be the same; leave --seeds out, or "
            "take other arrivals than the trace's"
        )
        raise typer.BadParameter(text, param_hint="--seeds")


def estimates_of(name: str, *, warm: bool, seed_state: Path | None) -> "EstimateKind":
    """Check what the policies order by, and that it can have learned before."""
    from estimator.replay.runs import ESTIMATE_KINDS  # noqa: PLC0415 # light start

    options.one_of(name, ESTIMATE_KINDS, "--estimates")
    if name != "learned" and (warm or seed_state):
        text = f"{name} estimates learn nothing; leave --warm and --seed-state out"
        raise typer.BadParameter(text)
    return cast("EstimateKind", name)  # checked just above


def state_of(path: Path | None) -> Mapping[str, Any] | None:  # Any: JSON, the core's own
    """Read what a sidecar had learned, and let the core look at it."""
    if path is None:
        return None
    from estimator.core.pipeline import CoreConfig, Pipeline  # noqa: PLC0415 # light start
    from estimator.runtime.seed import SeedError, read_seed  # noqa: PLC0415 # light start

    try:
        state = read_seed(path).state
        Pipeline(CoreConfig(), state=state)
    except SeedError as error:
        raise CommandError(str(error), EXIT_USAGE) from error
    except ValueError as error:
        text = f"seed {str(path)!r}: {error}; export it again from a sidecar of this version"
        raise CommandError(text, EXIT_USAGE) from error
    return state


def policies_of(names: str) -> tuple[str, ...]:
    """Give the policies, fcfs first."""
    from estimator.replay.report import with_baseline  # noqa: PLC0415 # light start
    from sched_client.policies import POLICY_NAMES  # noqa: PLC0415 # light start

    return with_baseline(options.several_of(names, POLICY_NAMES, "--policy"))


def profile_of(name: str) -> "EngineProfile":
    """Read the engine's profile."""
    from estimator.replay.profile import load_profile  # noqa: PLC0415 # light start

    try:
        with told():
            return load_profile(name)
    except OSError as error:  # a name that no file can have
        raise CommandError(f"{name}: cannot be read: {error.strerror}", EXIT_USAGE) from error


def workload_of(
    names: Sequence[Path],
    *,
    mix: str,
    requests: int | None,
    resample: bool,
    language_hidden: bool,
    timed: bool,
    strict: bool,
) -> "tuple[Workload, bool]":
    """Read the traces, or make the synthetic mix; tell whether every row was good."""
    from estimator.replay.rows import uniform_rows  # noqa: PLC0415 # light start
    from estimator.replay.workload import Workload  # noqa: PLC0415 # light start

    weights = options.numbers(mix, "--mix", unique=False)
    all_good = True
    with told():
        if names:
            files = []
            for path in names:
                rows, good = _read(
                    path, language_hidden=language_hidden, timed=timed, strict=strict
                )
                files.append(rows)
                all_good = all_good and good
        else:
            files = [uniform_rows(language_hidden=language_hidden)]
            requests = requests or _SYNTHETIC_REQUESTS
        workload = Workload(
            files=tuple(files),
            n=requests or sum(map(len, files)),
            weights=weights,
            resample=resample,
            timed=timed,
        )
    return workload, all_good


def _read(path: Path, *, language_hidden: bool, timed: bool, strict: bool) -> "tuple[Rows, bool]":
    from estimator.replay.rows import read_rows  # noqa: PLC0415 # light start
    from estimator.traces import BadRow  # noqa: PLC0415 # light start

    bad_rows = 0

    def on_bad_row(row: BadRow) -> None:
        nonlocal bad_rows
        bad_rows += 1
        if strict:
            text = f"{path}:{row.line}: {row.reason}; mend the row, or leave --strict out"
            raise CommandError(text, EXIT_PARTIAL)
        if bad_rows <= _MAX_NAMED:
            warn(f"{path}:{row.line}: {row.reason}; row skipped")

    rows = read_rows(path, language_hidden=language_hidden, timed=timed, on_bad_row=on_bad_row)
    if bad_rows > _MAX_NAMED:
        warn(f"{path}: {bad_rows - _MAX_NAMED:,} more bad rows")
    if rows.n_left_out:
        warn(
            f"{path}: {rows.n_left_out:,} failed or aborted requests left out: the trace does not "
            "tell when their callers left"
        )
    return rows, bad_rows == 0
