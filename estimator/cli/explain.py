"""``kappad explain``: what became of one request, what it taught, what is known now."""

from typing import TYPE_CHECKING, Annotated

import typer

from estimator.cli.drift import drift_document, drift_sentence
from estimator.cli.kappa import entry_document, key_document, key_name
from estimator.cli.remote import connect
from estimator.cli.terminal import (
    DEFAULT_TIMEOUT_S,
    EXIT_PARTIAL,
    Json,
    Target,
    Timeout,
    at,
    printable,
    say,
    say_json,
    warn,
)
from sched_client.model import KappaEntry, Key
from sched_client.options import DEFAULT_TARGET

if TYPE_CHECKING:  # grpc and numpy only when a command runs
    from estimator.client import Explanation
    from estimator.core.observation import Completion


def explain(
    request_id: Annotated[
        str,
        typer.Argument(
            metavar="ID", help="X-Request-Id, vLLM's request id, or a completion's id."
        ),
    ],
    target: Target = DEFAULT_TARGET,
    timeout_s: Timeout = DEFAULT_TIMEOUT_S,
    as_json: Json = False,
) -> None:
    """Tell what became of a request.

    What was expected of it and what came, what it taught, what would be expected now. The pieces
    of a long file and the detection of its language are requests of their own. Exit code 3 if
    none is retained.
    """
    from estimator.client import ClientError  # noqa: PLC0415 # grpc

    with connect(target, timeout_s) as client:
        try:
            found = client.explain(request_id)
        except ClientError as error:
            if error.reason != "COMPLETION_NOT_FOUND":
                raise
            if as_json:
                say_json({"completions": []})
            warn(error.message)
            raise typer.Exit(EXIT_PARTIAL) from error
    if as_json:
        say_json({"completions": [_document(one) for one in found]})
        return
    for n, one in enumerate(found):
        if n:
            say()
        _show(one)


def interval_of(ratio: float, entry: KappaEntry | None) -> str | None:
    """Say between which of a key's quantiles an actual over its estimate lies.

    Parameters
    ----------
    ratio : float
        Actual over estimated tokens, >= 0.
    entry : KappaEntry or None
        Has the quantiles; None gives None.

    Examples
    --------
    >>> interval_of(1.2, KappaEntry(kappa_tokens_per_s=3.0))
    'p50-p90'
    """
    if entry is None:
        return None
    if ratio <= entry.ratio_p50:
        return "up to p50"
    if ratio <= entry.ratio_p90:
        return "p50-p90"
    return "p90-p99" if ratio <= entry.ratio_p99 else "above p99"


def _answering(one: "Explanation") -> tuple[Key, KappaEntry] | tuple[None, None]:
    return one.kappas[0] if one.kappas else (None, None)


def _ratio(completion: "Completion") -> float | None:
    expected = completion.predicted_tokens
    return completion.output_tokens / expected if expected > 0.0 else None


def _expected(one: "Explanation") -> tuple[float, float]:
    """Give the seconds that such a request would stay now, and the slots that it would fill."""
    estimate = one.estimate
    slots = one.service.slots_held(one.completion.prompt_tokens, estimate.tokens)
    return estimate.service_s / slots, slots


def _document(one: "Explanation") -> dict[str, object]:
    completion, estimate, service = one.completion, one.estimate, one.service
    ratio = _ratio(completion)
    _, entry = _answering(one)
    return {
        "completion_id": completion.completion_id,
        "client_id": completion.client_id,
        **key_document(completion.key),
        "kind": completion.kind,
        "finish_reason": completion.finish_reason,
        "finished_unix_s": completion.finished_s,
        "audio_s": completion.audio_s,
        "duration_source": completion.duration_source,
        "prompt_tokens": completion.prompt_tokens,
        "cached_prompt_tokens": completion.cached_prompt_tokens,
        "max_tokens": completion.max_tokens,
        "output_tokens": completion.output_tokens,
        "predicted_tokens": completion.predicted_tokens or None,
        "snapshot_version": completion.snapshot_version,
        "actual_to_predicted_ratio": ratio,
        "interval": None if ratio is None else interval_of(ratio, entry),
        "wait_s": completion.wait_s,
        "service_s": completion.service_s or None,
        "concurrency": completion.concurrency or None,
        "preemption_count": completion.preemptions,
        "queue_id": completion.queue_id,
        "priority": completion.priority,
        "request_type": completion.request_type,
        "group_id": completion.group_id,
        "lesson": one.lesson,
        "lesson_reason": one.lesson_reason,
        "service_taught": one.service_taught,
        "now": {
            "snapshot_version": estimate.snapshot_version,
            "source": estimate.source,
            "tokens": estimate.tokens,
            "tokens_p50": estimate.tokens_p50,
            "tokens_p90": estimate.tokens_p90,
            "tokens_p99": estimate.tokens_p99,
            "service_s": estimate.service_s,
            "residence_s": _expected(one)[0],
            "reference_concurrency": service.reference_concurrency,
            "queue_id": estimate.queue_id,
            "kappas": [entry_document(key, entry) for key, entry in one.kappas],
        },
        "drift_events": [drift_document(event) for event in one.drift_events],
    }


def _show(one: "Explanation") -> None:
    completion = one.completion
    by = f" · {completion.client_id}" if completion.client_id else ""
    kind = "" if completion.kind == "transcription" else f" · {completion.kind}"
    lines = [
        f"request   {completion.completion_id}{by}",
        f"ended     {at(completion.finished_s)} · {completion.finish_reason}{kind}",
        f"key       {key_name(completion.key)}",
        f"size      {_size(completion)}",
        f"tokens    {_tokens(one)}",
        f"time      {_time(one)}",
        f"taught    {_taught(one)}",
        f"now       {_now(one)}",
        *(f"drift     {drift_sentence(event)}" for event in one.drift_events),
    ]
    for line in lines:
        say(printable(line))


def _size(completion: "Completion") -> str:
    parts = []
    if completion.audio_s is not None:
        parts.append(f"{completion.audio_s:.2f} s of audio ({completion.duration_source})")
    elif completion.kind != "text":
        parts.append("audio of unknown length")
    if completion.prompt_tokens:
        cached = completion.cached_prompt_tokens
        held = f", {cached:,} of them cached" if cached else ""
        parts.append(f"{completion.prompt_tokens:,} prompt tokens{held}")
    if completion.max_tokens is not None:
        parts.append(f"limit {completion.max_tokens:,} tokens")
    return " · ".join(parts) or "unknown"


def _tokens(one: "Explanation") -> str:
    completion = one.completion
    text = f"{completion.output_tokens:,} came"
    ratio = _ratio(completion)
    if ratio is None:
        return f"{text}, nobody said how many were expected"
    expected = f"{completion.predicted_tokens:.1f} expected by snapshot"
    text += f", {expected} {completion.snapshot_version}: × {ratio:.2f}"
    where = interval_of(ratio, _answering(one)[1])
    return text if where is None else f"{text}, {where} of the key"


def _time(one: "Explanation") -> str:
    completion, service = one.completion, one.service
    text = f"waited {completion.wait_s:.3f} s"
    if completion.service_s > 0.0:
        text += f", served in {completion.service_s:.3f} s beside {completion.concurrency:.1f}"
    elif completion.finish_reason == "aborted":
        text += ", never admitted"
    elif completion.wait_s == 0.0:
        text = "nobody said how long it took"
    residence_s, slots = _expected(one)
    text += f" (expected now {residence_s:.3f} s beside {service.reference_concurrency:.1f}"
    text += f", in the place of {slots:.1f})" if slots > 1.0 else ")"
    if completion.preemptions:
        text += f", preempted × {completion.preemptions}"
    if completion.queue_id:
        text += f" · queue {completion.queue_id}"
    if completion.priority:
        text += f" · priority {completion.priority}"
    return text


def _taught(one: "Explanation") -> str:
    seconds = "how long it takes" if one.service_taught else "nothing of seconds"
    if one.lesson == "none":
        return f"nothing of κ ({one.lesson_reason}), {seconds}"
    count = len(tuple(one.completion.key.chain())) - 1
    key = f"κ of {key_name(one.completion.key)} and its {count} parents"
    bound = f" as a lower bound ({one.lesson_reason})" if one.lesson == "lower_bound" else ""
    return f"{key}{bound}, {seconds}"


def _now(one: "Explanation") -> str:
    estimate = one.estimate
    key, entry = _answering(one)
    text = f"{estimate.tokens:.1f} tokens (p50 {estimate.tokens_p50:.1f}, "
    text += f"p90 {estimate.tokens_p90:.1f}, p99 {estimate.tokens_p99:.1f})"
    if key is None or entry is None:
        return text
    return (
        f"{text} by κ {entry.kappa_tokens_per_s:.3f} {entry.intercept_tokens:+.1f} of "
        f"{key_name(key)}, {entry.sample_count:,} samples, snapshot {estimate.snapshot_version}"
    )
