"""``kappad drift``: what changed, and how long it took to adapt."""

from itertools import islice
from typing import TYPE_CHECKING, Annotated

import typer

from estimator.cli.kappa import key_document, key_name
from estimator.cli.remote import connect
from estimator.cli.terminal import (
    DEFAULT_TIMEOUT_S,
    Json,
    Target,
    Timeout,
    at,
    say,
    say_json,
    say_table,
)
from sched_client.model import Key
from sched_client.options import DEFAULT_TARGET

if TYPE_CHECKING:  # numpy only when a command runs
    from estimator.core.drift_event import DriftEvent


def drift(
    limit: Annotated[
        int, typer.Option(metavar="N", min=1, max=1_000_000, help="Most events.")
    ] = 1000,
    target: Target = DEFAULT_TARGET,
    timeout_s: Timeout = DEFAULT_TIMEOUT_S,
    as_json: Json = False,
) -> None:
    """List detected changes, newest first.

    Kinds: kappa (tokens per second), mix (of lengths and languages), service (speed).
    """
    with connect(target, timeout_s) as client:
        events = list(islice(client.drift_events(), limit))
    if as_json:
        say_json({"drift_events": [drift_document(one) for one in events]})
    elif not events:
        say("no drift detected")
    else:
        header = ("detected", "kind", "key", "before", "after", "adapted after completions")
        say_table(header, [_row(one) for one in events])


def _row(event: "DriftEvent") -> tuple[object, ...]:
    key = Key(event.model, event.task, event.language, event.timestamps)
    return (
        at(event.detected_s), event.kind, key_name(key), event.before, event.after, _adapted(event)
    )  # fmt: skip


def _adapted(event: "DriftEvent") -> str:
    if event.ended_s is None:
        return "lasts"
    # A key that fell back to its parent takes its event with it.
    count = event.completions_to_adapt
    return "key forgotten" if count is None else f"{count:,}"


def drift_sentence(event: "DriftEvent") -> str:
    """Tell an event in one line."""
    key = key_name(Key(event.model, event.task, event.language, event.timestamps))
    change = f"{event.kind} of {key}: {event.before:.4g} to {event.after:.4g}"
    return f"{at(event.detected_s)} {change}; adapted after completions: {_adapted(event)}"


def drift_document(event: "DriftEvent") -> dict[str, object]:
    """Give the fields of an event as JSON has them."""
    return {
        "event_id": event.event_id,
        "kind": event.kind,
        **key_document(Key(event.model, event.task, event.language, event.timestamps)),
        "detected_unix_s": event.detected_s,
        "before": event.before,
        "after": event.after,
        "completions_to_adapt": event.completions_to_adapt,
        "ended_unix_s": event.ended_s,
    }
