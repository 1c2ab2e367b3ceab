"""``kappad replay``: what each policy would do to a workload, in virtual time."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import typer

from estimator.cli import replay_inputs as inputs
from estimator.cli import replay_options as options
from estimator.cli.progress import Progress
from estimator.cli.replay_show import head_of, show_capacity, show_runs, tables_of
from estimator.cli.terminal import EXIT_PARTIAL, CommandError, Json, say_json, warn
from sched_client.model import Settings

if TYPE_CHECKING:  # numpy and the core only when the command runs
    from estimator.replay.runs import Point, Run, Setup

# Where nothing is asked for: busy, and not overloaded for ever.
_DEFAULT_LOAD: Final = 0.9
# Requests between two looks at the clock.
_TICK: Final = 500
# A run of fewer for each slot is little more than its start and its end.
_LEAST_PER_SLOT: Final = 5
# A run that lasts so many times a limit finds the rate to some 2 % (LibriSpeech, e2e_p90<2s:
# 18 times finds 71.3/s, 140 times 69.6/s; 7 times says that the limit always holds).
_LEAST_LIMITS: Final = 20
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
    policy: options.PolicyNames = "fcfs,ewsjf,sjf,hrrn",
    phi: options.Phi = _DEFAULTS.phi,
    burst_requests: options.BurstRequests = _DEFAULTS.burst_requests,
    reorder_above: options.ReorderAbove = _DEFAULTS.reorder_above,
    setting: options.Set = None,
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

    inputs.check_plot(plot, capacity)
    asked = _Asked(
        policies=inputs.policies_of(policy),
        rates_rps=options.numbers(rate, "--rate"),
        loads=options.numbers(load, "--load"),
        seeds=range(seed, seed + seeds),
    )
    how = inputs.arrivals_of(
        arrivals, gamma_cv, diurnal_amplitude, diurnal_period_s, burst_cycle_s
    )
    settings = inputs.settings_of(
        phi,
        burst_requests,
        reorder_above,
        no_guard=no_guard,
        order_by=order_by,
        texts=setting or (),
    )
    requested, all_good = inputs.workload_of(
        inputs.files_of(files, trace, workload),
        mix=mix,
        requests=requests,
        resample=resample,
        language_hidden=language_hidden,
        timed=how.kind == "trace",
        strict=strict,
    )
    inputs.check_seeds(seeds, requested)
    setup = Setup(
        profile=inputs.profile_of(engine),
        workload=requested,
        arrivals=how,
        settings=settings,
        estimates=inputs.estimates_of(estimates, warm=warm, seed_state=seed_state),
        warm=warm,
        state=inputs.state_of(seed_state),
    )
    _run(setup, asked, plot=plot, limit=capacity, as_json=as_json)
    if not all_good:
        raise typer.Exit(EXIT_PARTIAL)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Asked:
    """Which runs of a setup were asked for."""

    policies: tuple[str, ...]
    rates_rps: tuple[float, ...]
    loads: tuple[float, ...]
    seeds: range


def _run(setup: "Setup", asked: _Asked, *, plot: Path | None, limit: str, as_json: bool) -> None:
    with inputs.told(), Progress("replaying", shown=not as_json, unit="requests") as progress:
        if limit:
            document = _carried(setup, asked, progress, limit)
        else:
            document = _replayed(setup, asked, progress, plot)
    show = say_json if as_json else show_capacity if limit else show_runs
    show(document)


def _replayed(
    setup: "Setup", asked: _Asked, progress: Progress, plot: Path | None
) -> dict[str, Any]:  # Any: the document of `--json`
    from estimator.replay import report  # noqa: PLC0415 # light start
    from estimator.replay.runs import capacity_rps  # noqa: PLC0415 # light start

    capacity = capacity_rps(setup.profile, setup.workload, asked.seeds[0])
    points = _points(setup, asked, capacity)
    _warn_of_a_short_run(setup, max(point.rate_rps for point in points))
    total = setup.workload.n * len(asked.policies) * len(points) * len(asked.seeds)
    runs = report.replay(
        setup,
        policies=asked.policies,
        points=points,
        seeds=asked.seeds,
        keep_curves=plot is not None,
        on_request=_ticking(progress, total),
    )
    document = report.document_of(runs, setup, capacity)
    _warn_of_few_requests(setup)
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
    setup: "Setup", asked: _Asked, progress: Progress, text: str
) -> dict[str, Any]:  # Any: as above
    from estimator.replay.capacity import carried, limit_of  # noqa: PLC0415 # light start
    from estimator.replay.report import capacity_document  # noqa: PLC0415 # light start
    from estimator.replay.runs import capacity_rps  # noqa: PLC0415 # light start

    if asked.loads:
        raise typer.BadParameter("a limit is looked for over all loads; leave --load out")
    limit = limit_of(text)
    capacity = capacity_rps(setup.profile, setup.workload, asked.seeds[0])
    _warn_of_a_short_run(setup, capacity)
    _warn_of_a_short_search(setup, capacity, limit.seconds)
    ticking = _ticking(progress, None)
    found = [
        carried(
            setup,
            limit,
            policy=policy,
            seeds=asked.seeds,
            capacity_rps=capacity,
            on_request=ticking,
        )
        for policy in asked.policies
    ]
    return capacity_document(
        found, limit, setup, capacity, rates=asked.rates_rps, seeds=asked.seeds
    )


def _warn_of_a_short_run(setup: "Setup", rate_rps: float) -> None:
    """Say that a run ends before its rate has been through its highs and lows."""
    repeats_s, lasts_s = setup.arrivals.repeats_after_s, setup.workload.n / rate_rps
    if repeats_s is not None and lasts_s < repeats_s:
        kind = setup.arrivals.kind
        option = "--burst-cycle-s" if kind == "bursts" else "--diurnal-period-s"
        warn(
            f"{setup.workload.n:,} requests at {rate_rps:.4g}/s last {lasts_s:.3g} s, less than "
            f"the {repeats_s:g} s of one cycle of {kind}: the mean rate is not reached; give more "
            f"--requests or a lower {option}"
        )


def _warn_of_few_requests(setup: "Setup") -> None:
    """Say that a run ends before its queue is what it would be."""
    n, slots = setup.workload.n, setup.profile.slots
    if n < _LEAST_PER_SLOT * slots:
        warn(
            f"{n:,} requests are fewer than {_LEAST_PER_SLOT} for each of the engine's {slots:,} "
            "slots: hardly anybody waits in so short a run; give more --requests"
        )


def _warn_of_a_short_search(setup: "Setup", capacity_rps: float, limit_s: float) -> None:
    """Say that a limit is looked for in runs that end before a queue can break it."""
    lasts_s = setup.workload.n / capacity_rps
    if lasts_s < _LEAST_LIMITS * limit_s:
        least = math.ceil(_LEAST_LIMITS * limit_s * capacity_rps)
        warn(
            f"{setup.workload.n:,} requests at {capacity_rps:.4g}/s last {lasts_s:.3g} s, less "
            f"than {_LEAST_LIMITS} times the limit: no queue has time to grow, and the rate found "
            f"is too high; give --requests {least} or more"
        )


def _points(setup: "Setup", asked: _Asked, capacity_rps: float) -> "list[Point]":
    from estimator.replay.runs import Point  # noqa: PLC0415 # light start

    rates_rps, loads = asked.rates_rps, asked.loads
    if not rates_rps and not loads:
        if setup.arrivals.kind == "trace":
            rates_rps = (setup.workload.own_rate_rps(asked.seeds[0]),)
        else:
            loads = (_DEFAULT_LOAD,)
    return [
        *(Point(rate, rate / capacity_rps) for rate in rates_rps),
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
