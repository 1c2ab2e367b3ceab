"""``kappad mode``: whether the engines obey, and the switch."""

import uuid
from typing import Annotated

import typer

from estimator.cli.remote import connect
from estimator.cli.terminal import (
    DEFAULT_TIMEOUT_S,
    Json,
    Target,
    Timeout,
    printable,
    say,
    say_json,
)
from sched_client.model import MODES
from sched_client.options import DEFAULT_TARGET

# The API's own limit (estimator.proto, SetModeRequest).
_MAX_REASON = 256

app = typer.Typer(
    help="Read or switch the mode: off, shadow or on.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


@app.command("get")
def mode_get(
    target: Target = DEFAULT_TARGET,
    timeout_s: Timeout = DEFAULT_TIMEOUT_S,
    as_json: Json = False,
) -> None:
    """Show the mode asked for, and the one in force in each engine."""
    with connect(target, timeout_s) as client:
        answer = client.status()
    if as_json:
        engines = [
            {
                "client_id": one.client_id,
                "effective_mode": one.effective_mode,
                "mode_reason": one.mode_reason,
            }
            for one in answer.clients
            if one.effective_mode is not None  # tools have none
        ]
        version = answer.snapshot_version
        say_json({"mode": answer.settings.mode, "snapshot_version": version, "clients": engines})
        return
    say(answer.settings.mode)
    for one in answer.clients:
        if one.effective_mode is None:  # a tool
            continue
        why = f" ({printable(one.mode_reason)})" if one.mode_reason else ""
        say(f"  {printable(one.client_id)}: {one.effective_mode}{why}")


@app.command("set")
def mode_set(
    mode: Annotated[str, typer.Argument(metavar="off|shadow|on", show_default=False)],
    reason: Annotated[
        str, typer.Option(metavar="TEXT", help="Why; recorded with the switch.")
    ] = "",
    target: Target = DEFAULT_TARGET,
    timeout_s: Timeout = DEFAULT_TIMEOUT_S,
    as_json: Json = False,
) -> None:
    """Switch every engine that follows the sidecar."""
    wanted = next((one for one in MODES if one == mode.strip().lower()), None)
    if wanted is None:
        raise typer.BadParameter(
            f"mode is {printable(mode)!r}, must be one of {', '.join(MODES)}."
        )
    if len(reason) > _MAX_REASON:
        raise typer.BadParameter(f"--reason has {len(reason)} characters, at most {_MAX_REASON}.")
    with connect(target, timeout_s) as client:
        result = client.set_mode(wanted, reason, str(uuid.uuid4()))
    if as_json:
        say_json(
            {
                "mode": result.mode,
                "previous_mode": result.previous_mode,
                "snapshot_version": result.snapshot_version,
            }
        )
    else:
        was = f"was {result.previous_mode}, from version {result.snapshot_version}"
        say(f"mode {result.mode} ({was})")
