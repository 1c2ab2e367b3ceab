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

    Kinds: kappa (tokens per second of audio), mix (mean audio seconds, or the share of a language
    or request type), service (seconds per token). z says how sure: the difference of the levels
    in standard errors. All events have 4.5 or more; beyond 6 there is no doubt.
    """
    with connect(target, timeout_s) as client:
        events = list(islice(client.drift_events(), limit))
    if as_json:
        say_json({"drift_events": [drift_document(one) for one in events]})
    elif not events:
        say("no drift detected")
    else:
        header = (
            "detected", "kind", "key", "before", "after", "z", "seen after completions",
            "adapted after completions",
        )  # fmt: skip
        say_table(header, [_row(one) for one in events])


def _row(event: "DriftEvent") -> tuple[object, ...]:
    key = key_name(Key(event.model, event.task, event.language, event.timestamps))
    # What an older version stored does not say these two.
    sure = f"{event.z:.1f}" if event.z else ""
    seen = f"{event.completions_to_detect:,}" if event.completions_to_detect else ""
    return (
        at(event.detected_s), _kind(event), key, event.before, event.after, sure, seen,
        _adapted(event),
    )  # fmt: skip


def _kind(event: "DriftEvent") -> str:
    return f"{event.kind} ({event.detail})" if event.detail else event.kind


def _adapted(event: "DriftEvent") -> str:
    if event.ended_s is None:
        return "lasts"
    # A key that fell back to its parent takes its event with it.
    count = event.completions_to_adapt
    return "key forgotten" if count is None else f"{count:,}"


def drift_sentence(event: "DriftEvent") -> str:
    """Tell an event in one line."""
    key = key_name(Key(event.model, event.task, event.language, event.timestamps))
    change = f"{_kind(event)} of {key}: {event.before:.4g} to {event.after:.4g}"
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
        "z": event.z,
        "completions_to_detect": event.completions_to_detect,
        "detail": event.detail,
        "completions_to_adapt": event.completions_to_adapt,
        "ended_unix_s": event.ended_s,
    }
