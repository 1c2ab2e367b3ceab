"""``kappad kappa``: what each key costs now, and how that went."""

from collections.abc import Iterable
from itertools import islice
from typing import TYPE_CHECKING, Annotated

import typer

from estimator.cli.remote import connect
from estimator.cli.terminal import (
    DEFAULT_TIMEOUT_S,
    Json,
    Target,
    Timeout,
    at,
    printable,
    say,
    say_json,
    say_table,
)
from sched_client.model import KappaEntry, Key
from sched_client.options import DEFAULT_TARGET

if TYPE_CHECKING:  # the store's module only when a command runs
    from estimator.core.drift_event import DriftEvent
    from estimator.store.base import KappaPoint

# Charts are for the eyes; `--json` gives all of them.
_MAX_CHARTS = 12
_MAX_MARKS = 5


def kappa(
    history: Annotated[bool, typer.Option("--history", help="Draw how κ went.")] = False,
    model: Annotated[str, typer.Option(metavar="M", help="Only this served model.")] = "",
    language: Annotated[str, typer.Option(metavar="L", help="Only this language.")] = "",
    limit: Annotated[
        int,
        typer.Option(
            metavar="N", min=1, max=1_000_000, help="Most keys, or newest points of history."
        ),
    ] = 10_000,
    target: Target = DEFAULT_TARGET,
    timeout_s: Timeout = DEFAULT_TIMEOUT_S,
    as_json: Json = False,
) -> None:
    """Show κ (output tokens per second) of every key, or how it went and where it changed."""
    events: list[DriftEvent] = []
    with connect(target, timeout_s) as client:
        if history:
            points, kappas = list(islice(client.kappa_history(model, language), limit)), []
            if points and not as_json:
                events = list(client.drift_events())
        else:
            wanted = (
                pair
                for pair in client.kappas(model)
                if not language or pair[0].language == language
            )
            points, kappas = [], list(islice(wanted, limit))
    if not as_json and not (points if history else kappas):
        say(_nothing(history=history, model=model, language=language))
    elif history:
        _show_history(points, events, as_json=as_json)
    elif as_json:
        say_json({"kappas": [entry_document(key, entry) for key, entry in kappas]})
    else:
        _show_table(kappas)


def _nothing(*, history: bool, model: str, language: str) -> str:
    wanted = " and ".join(
        f"{name} {printable(value)!r}"
        for name, value in (("model", model), ("language", language))
        if value
    )
    of = f" for {wanted}" if wanted else ""
    if history:
        return f"no history{of} yet: κ is recorded some seconds after completions were learned"
    return f"no κ{of} yet; `kappad kappa` shows all keys"


def key_name(key: Key) -> str:
    """Name a key as an operator reads it; ``any`` stands for what a parent leaves open.

    Examples
    --------
    >>> key_name(Key("base", "transcribe", "en"))
    'base/transcribe/en'
    """
    parts = [part or "any" for part in (key.model, key.task, key.language)]
    if key.timestamps is not None:
        parts.append("timestamps" if key.timestamps else "no timestamps")
    while len(parts) > 1 and parts[-1] == "any":
        parts.pop()
    return printable("/".join(parts)) if parts != ["any"] else "any model"


def key_document(key: Key) -> dict[str, object]:
    """Give the fields of a key as JSON has them."""
    return {
        "model": key.model,
        "task": key.task,
        "language": key.language,
        "timestamps": key.timestamps,
    }


def entry_document(key: Key, entry: KappaEntry) -> dict[str, object]:
    """Give the fields of a key and its κ as JSON has them."""
    return {
        **key_document(key),
        "kappa_tokens_per_s": entry.kappa_tokens_per_s,
        "intercept_tokens": entry.intercept_tokens,
        "ratio_p50": entry.ratio_p50,
        "ratio_p90": entry.ratio_p90,
        "ratio_p99": entry.ratio_p99,
        "sample_count": entry.sample_count,
        "source": entry.source,
    }


def _show_table(kappas: Iterable[tuple[Key, KappaEntry]]) -> None:
    header = ("key", "κ tokens/s", "+ tokens", "p50 ×", "p90 ×", "p99 ×", "samples", "from")
    say_table(
        header,
        [
            (
                key_name(key),
                one.kappa_tokens_per_s,
                one.intercept_tokens,
                one.ratio_p50,
                one.ratio_p90,
                one.ratio_p99,
                one.sample_count,
                one.source,
            )
            for key, one in kappas
        ],
    )


def _show_history(
    points: "list[KappaPoint]", events: "list[DriftEvent]", *, as_json: bool
) -> None:
    if as_json:
        say_json({"history": [_point_document(one) for one in points]})
        return
    series: dict[Key, list[KappaPoint]] = {}
    for point in reversed(points):  # oldest first
        key = Key(point.model, point.task, point.language, point.timestamps)
        series.setdefault(key, []).append(point)
    from estimator.cli.chart import draw  # noqa: PLC0415 # light start

    ordered = sorted(series.items(), key=lambda pair: -pair[1][-1].sample_count)
    for key, one in ordered[:_MAX_CHARTS]:
        last = one[-1]
        values = [point.kappa_tokens_per_s for point in one]
        say(
            f"{key_name(key)}: κ {last.kappa_tokens_per_s:.3f} tokens/s, "
            f"{last.intercept_tokens:+.1f} tokens, {last.sample_count:,} samples"
        )
        say(draw([point.recorded_s for point in one], values))
        say(f"{'':>9}{at(one[0].recorded_s)} to {at(last.recorded_s)}")
        marks = [event for event in events if _marks(event, key, one)]
        for event in marks[:_MAX_MARKS]:
            say(f"{'':>9}drift {at(event.detected_s)}: {event.before:.3g} to {event.after:.3g}")
        if len(marks) > _MAX_MARKS:
            say(f"{'':>9}{len(marks) - _MAX_MARKS:,} more; see `kappad drift`")
        say()
    if len(ordered) > _MAX_CHARTS:
        say(f"{len(ordered) - _MAX_CHARTS} more keys; narrow with --model and --language")


def _marks(event: "DriftEvent", key: Key, points: "list[KappaPoint]") -> bool:
    """Say whether an event belongs to a chart: of its κ, and within its time."""
    return (
        event.kind == "kappa"
        and Key(event.model, event.task, event.language, event.timestamps) == key
        and points[0].recorded_s <= event.detected_s <= points[-1].recorded_s
    )


def _point_document(point: "KappaPoint") -> dict[str, object]:
    key = Key(point.model, point.task, point.language, point.timestamps)
    return {
        **key_document(key),
        "recorded_unix_s": point.recorded_s,
        "kappa_tokens_per_s": point.kappa_tokens_per_s,
        "intercept_tokens": point.intercept_tokens,
        "sample_count": point.sample_count,
        "snapshot_version": point.snapshot_version,
    }
