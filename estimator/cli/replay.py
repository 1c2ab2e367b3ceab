"""``kappad replay``: what each policy would do to a workload, in virtual time."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import typer

from estimator.cli import replay_inputs as inputs
from estimator.cli import replay_options as options
from estimator.cli.progress import Progress
from estimator.cli.replay_show import head_of, show_capacity, show_runs, tables_of
from estimator.cli.terminal import EXIT_PARTIAL, CommandError, Json, say_json
from sched_client.model import Settings

if TYPE_CHECKING:  # numpy and the core only when the command runs
    from estimator.replay.runs import Point, Run, Setup

# Where nothing is asked for: busy, and not overloaded for ever.
_DEFAULT_LOAD: Final = 0.9
# Requests between two looks at the clock.
_TICK: Final = 500
_DEFAULTS: Final = Settings()
_DEFAULT_ENGINE: Final = "decode-bound"


def replay(
    files: options.Files = None,
    trace: options.Traces = None,
    workload: options.WorkloadName = "",
    mix: options.Mix = "",
    requests: options.Requests = None,
    resample: options.Resample = False,
    language_hidden: options.LanguageHidden = False,
    strict: options.Strict = False,
    arrivals: options.ArrivalsName = "poisson",
    gamma_cv: options.GammaCv = 3.0,
    diurnal_amplitude: options.DiurnalAmplitude = 0.5,
    diurnal_period_s: options.DiurnalPeriod = 600.0,
    burst_cycle_s: options.BurstCycle = 60.0,
    rate: options.Rate = "",
    load: options.Load = "",
    policy: options.PolicyNames = "fcfs,sjf,hrrn",
    phi: options.Phi = _DEFAULTS.phi,
    burst_requests: options.BurstRequests = _DEFAULTS.burst_requests,
    no_guard: options.NoGuard = False,
    order_by: options.OrderByName = "service",
    estimates: options.EstimatesName = "learned",
    warm: options.Warm = False,
    seed_state: options.SeedState = None,
    engine: options.Engine = _DEFAULT_ENGINE,
    seeds: options.Seeds = 1,
    seed: options.Seed = 0,
    plot: options.Plot = None,
    capacity: options.Capacity = "",
    as_json: Json = False,
) -> None:
    """Replay traces through a twin of an engine, under each policy, without a sidecar.

    Several files follow one another. Every policy sees the same requests at the same times.
    A bad row is named by file and line and skipped; exit code 3 then.
    """
    from estimator.replay.runs import Setup  # noqa: PLC0415 # light start

    rates, loads = options.numbers(rate, "--rate"), options.numbers(load, "--load")
    inputs.check_plot(plot, capacity)
    policies = inputs.policies_of(policy)
    how = inputs.arrivals_of(
        arrivals, gamma_cv, diurnal_amplitude, diurnal_period_s, burst_cycle_s
    )
    settings = inputs.settings_of(phi, burst_requests, no_guard=no_guard, order_by=order_by)
    kind = inputs.estimates_of(estimates, warm=warm, seed_state=seed_state)
    profile = inputs.profile_of(engine)
    requested, all_good = inputs.workload_of(
        inputs.files_of(files, trace, workload),
        mix=mix,
        requests=requests,
        resample=resample,
        language_hidden=language_hidden,
        timed=how.kind == "trace",
        strict=strict,
    )
    setup = Setup(
        profile=profile,
        workload=requested,
        arrivals=how,
        settings=settings,
        estimates=kind,
        warm=warm,
        state=inputs.state_of(seed_state),
    )
    seed_range = range(seed, seed + seeds)
    with inputs.told(), Progress("replaying", shown=not as_json, unit="requests") as progress:
        if capacity:
            document = _carried(setup, capacity, policies, seed_range, (rates, loads), progress)
        else:
            document = _replayed(setup, policies, seed_range, (rates, loads), progress, plot)
    if as_json:
        say_json(document)
    elif capacity:
        show_capacity(document)
    else:
        show_runs(document)
    if not all_good:
        raise typer.Exit(EXIT_PARTIAL)


def _replayed(
    setup: "Setup",
    policies: Sequence[str],
    seeds: Sequence[int],
    rates_and_loads: tuple[Sequence[float], Sequence[float]],
    progress: Progress,
    plot: Path | None,
) -> dict[str, Any]:  # Any: the document of `--json`
    from estimator.replay import report  # noqa: PLC0415 # light start
    from estimator.replay.runs import capacity_rps  # noqa: PLC0415 # light start

    capacity = capacity_rps(setup.profile, setup.workload, seeds[0])
    points = _points(setup, *rates_and_loads, capacity, seeds[0])
    total = setup.workload.n * len(policies) * len(points) * len(seeds)
    runs = report.replay(
        setup,
        policies=policies,
        points=points,
        seeds=seeds,
        keep_curves=plot is not None,
        on_request=_ticking(progress, total),
    )
    document = report.document_of(runs, setup, capacity)
    if plot is not None:
        _draw(plot, runs, document)
    return document


def _draw(plot: Path, runs: "Sequence[Run]", document: dict[str, Any]) -> None:  # Any: as above
    from estimator.replay.plot import html_of, svg_of  # noqa: PLC0415 # light start

    if plot.suffix == ".html":
        text = html_of(runs, heading=head_of(document), tables=tables_of(document))
    else:
        text = svg_of(runs)
    try:
        plot.write_text(text, encoding="utf-8")
    except OSError as error:
        raise CommandError(f"{plot}: cannot be written: {error.strerror}") from error


def _carried(
    setup: "Setup",
    text: str,
    policies: Sequence[str],
    seeds: Sequence[int],
    rates_and_loads: tuple[Sequence[float], Sequence[float]],
    progress: Progress,
) -> dict[str, Any]:  # Any: as above
    from estimator.replay.capacity import carried, limit_of  # noqa: PLC0415 # light start
    from estimator.replay.report import capacity_document  # noqa: PLC0415 # light start
    from estimator.replay.runs import capacity_rps  # noqa: PLC0415 # light start

    rates, loads = rates_and_loads
    if loads:
        raise typer.BadParameter("a limit is looked for over all loads; leave --load out")
    limit = limit_of(text)
    capacity = capacity_rps(setup.profile, setup.workload, seeds[0])
    ticking = _ticking(progress, None)
    found = [
        carried(
            setup,
            limit,
            policy=policy,
            seeds=seeds,
            capacity_rps=capacity,
            on_request=ticking,
        )
        for policy in policies
    ]
    return capacity_document(found, limit, setup, capacity, rates=rates, seeds=seeds)


def _points(
    setup: "Setup",
    rates: Sequence[float],
    loads: Sequence[float],
    capacity_rps: float,
    seed: int,
) -> "list[Point]":
    from estimator.replay.runs import Point  # noqa: PLC0415 # light start

    if not rates and not loads:
        if setup.arrivals.kind == "trace":
            rates = (setup.workload.own_rate_rps(seed),)
        else:
            loads = (_DEFAULT_LOAD,)
    return [
        *(Point(rate, rate / capacity_rps) for rate in rates),
        *(Point(load * capacity_rps, load) for load in loads),
    ]


def _ticking(progress: Progress, total: int | None) -> Callable[[], None]:
    """Count requests, and say every so often how far it is."""
    done = 0

    def on_request() -> None:
        nonlocal done
        done += 1
        if done % _TICK == 0:
            progress.update(done, None if total is None else min(done / total, 1.0))

    return on_request
