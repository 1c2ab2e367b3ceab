"""``kappad serve``: runs the sidecar until it is told to stop."""

from pathlib import Path
from typing import Annotated

import typer

from estimator.cli.terminal import EXIT_USAGE, CommandError, warn
from sched_client.options import DEFAULT_TARGET


def serve(
    listen: Annotated[
        str | None,
        typer.Option(
            metavar="A",
            help=f"unix:///path, or host:port of this machine. Default: {DEFAULT_TARGET}",
            show_default=False,
        ),
    ] = None,
    http: Annotated[
        str | None,
        typer.Option(
            metavar="H:P",
            help="host:port of /healthz and /metrics. Default: none.",
            show_default=False,
        ),
    ] = None,
    state_dir: Annotated[
        str | None,
        typer.Option(
            metavar="DIR",
            help="Folder of the store, or :memory:. Default: /var/lib/kappad.",
            show_default=False,
        ),
    ] = None,
    seed: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="What `kappad export --model` wrote: an empty store starts from it.",
            show_default=False,
        ),
    ] = None,
    config: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="TOML file with all settings.", show_default=False),
    ] = None,
    mode: Annotated[
        str | None,
        typer.Option(
            metavar="M", help="off, shadow or on, until it is switched.", show_default=False
        ),
    ] = None,
    log_format: Annotated[
        str | None, typer.Option(metavar="F", help="auto, json or console.", show_default=False)
    ] = None,
    log_level: Annotated[
        str | None,
        typer.Option(metavar="L", help="debug, info, warning or error.", show_default=False),
    ] = None,
) -> None:
    """Run the sidecar.

    SIGTERM and Ctrl-C drain and end it. Every other setting stands in the config file or in a
    KAPPAD_SERVE_* variable; flags win.
    """
    from estimator.runtime.config import (  # noqa: PLC0415 # light start
        ConfigError,
        load_config,
        unknown_variables,
    )

    flags = {
        "listen": listen,
        "http": http,
        "state_dir": state_dir,
        "seed": seed,
        "mode": mode,
        "log_format": log_format,
        "log_level": log_level,
    }
    try:
        settings = load_config(config_file=config, flags=flags)
    except ConfigError as error:
        raise CommandError("; ".join(str(error).splitlines()), EXIT_USAGE) from error
    # No error: a container platform makes variables of its own from the names of services.
    for name in unknown_variables():
        warn(f"warning: {name} is no setting and is ignored")
    from estimator.service.server import serve as run  # noqa: PLC0415 # light start

    code = run(settings)
    if code != 0:
        raise typer.Exit(code)
