"""``kappad status``: what the sidecar and its engines are doing."""

import time
from typing import TYPE_CHECKING

from estimator.cli.remote import connect
from estimator.cli.settings_text import document_of, order_words, tier_words
from estimator.cli.terminal import (
    DEFAULT_TIMEOUT_S,
    Json,
    Target,
    Timeout,
    say,
    say_json,
    say_table,
    span,
)
from estimator.cli.terminal import printable as p
from sched_client.options import DEFAULT_TARGET

if TYPE_CHECKING:  # grpc only when a command runs
    from estimator.client import EngineClient, Status

_MAX_PARTITIONS = 8


def status(
    target: Target = DEFAULT_TARGET,
    timeout_s: Timeout = DEFAULT_TIMEOUT_S,
    as_json: Json = False,
) -> None:
    """Show the sidecar and each engine it has heard from."""
    with connect(target, timeout_s) as client:
        answer = client.status()
    if as_json:
        say_json(_document(answer))
    else:
        _show(answer, now_s=time.time())


def _lag(answer: "Status", client: "EngineClient") -> int | None:
    """Count the versions that a client is behind; None where they do not compare."""
    if client.applied_instance_id != answer.instance_id:
        return None
    return answer.snapshot_version - client.applied_version


def _document(answer: "Status") -> dict[str, object]:
    settings = answer.settings
    return {
        "instance_id": answer.instance_id,
        "server_version": answer.server_version,
        "snapshot_version": answer.snapshot_version,
        "started_unix_s": answer.started_s,
        "mode": settings.mode,
        "settings": {
            "phi_ratio": settings.phi,
            **document_of(settings, without=("phi",)),
        },
        "learned_count": answer.learned,
        "stored_count": answer.stored,
        "backlog_count": answer.backlog,
        "backlog_limit": answer.backlog_limit,
        "rejected_count": answer.rejected,
        "key_count": answer.keys,
        "key_limit": answer.key_limit,
        "open_drift_count": answer.open_drifts,
        "p90_coverage_ratio": answer.p90_coverage,
        "store_error": answer.store_error,
        "partitions": [
            {
                "model": one.model,
                "queue_count": one.queues,
                "detail": one.text,
                "completion_count": one.completions,
                "sample_count": one.points,
            }
            for one in answer.partitions
        ],
        "clients": [_client_document(answer, one) for one in answer.clients],
        "services": [
            {
                "model": name,
                "overhead_s": one.overhead_s,
                "seconds_per_token": one.seconds_per_token,
                "seconds_per_prompt_token": one.seconds_per_prompt_token,
                "reference_concurrency": one.reference_concurrency,
                "mean_service_s": one.mean_service_s,
                "mean_tokens": one.mean_tokens,
                "mean_audio_s": one.mean_audio_s,
                "sample_count": one.sample_count,
                "slot_context_tokens": one.slot_context_tokens or None,
            }
            for name, one in answer.services
        ],
    }


def _client_document(answer: "Status", client: "EngineClient") -> dict[str, object]:
    return {
        "client_id": client.client_id,
        "model": client.model,
        "client_version": client.client_version,
        "engine_version": client.engine_version,
        "effective_mode": client.effective_mode,
        "mode_reason": client.mode_reason,
        "policy": client.policy,
        "applied_version": client.applied_version,
        "applied_instance_id": client.applied_instance_id,
        "lag_versions": _lag(answer, client),
        "rejected_version": client.rejected_version,
        "reject_reason": client.reject_reason,
        "dropped_report_count": client.dropped_reports,
        "failure_count": client.failures,
        "waiting_count": client.waiting,
        "running_count": client.running,
        "admitted_count": client.admitted,
        "reordered_count": client.reordered,
        "reported_unix_s": client.reported_s,
        "watching": client.watching,
    }


def _show(answer: "Status", *, now_s: float) -> None:
    settings = answer.settings
    longest = "no limit" if settings.guard_s is None else f"{settings.guard_s:g} s"
    order = f"{settings.policy} by {settings.order_by}"
    limits = (
        f"guard φ {settings.phi:g}, burst {settings.burst_requests:g} requests, wait {longest}"
    )
    say(f"mode      {settings.mode} · {p(order)} · {limits}")
    above, until = settings.reorder_above, settings.reorder_until
    say(f"          by arrival until more than {above} wait, and again when at most {until} do")
    if settings.policy == "ewsjf":
        say(f"          {order_words(settings)}")
    say(f"          {tier_words(settings)}")
    up = span(now_s - answer.started_s)
    say(f"sidecar   {p(answer.server_version)}, up {up}, instance {p(answer.instance_id)}")
    say(f"snapshot  version {answer.snapshot_version}")
    waiting = f"{answer.backlog:,} of {answer.backlog_limit:,} waiting"
    say(
        f"learned   {answer.learned:,} · {answer.stored:,} stored · {waiting} · "
        f"{answer.rejected:,} refused"
    )
    say(f"keys      {answer.keys:,} of {answer.key_limit:,}")
    if answer.p90_coverage is not None:
        say(f"intervals p90 held {100 * answer.p90_coverage:.1f} % of the latest")
    drifts = (
        f"{answer.open_drifts} open; see `kappad drift`" if answer.open_drifts else "none open"
    )
    say(f"drifts    {drifts}")
    _show_queues(answer)
    say(f"store     {p(answer.store_error) or 'works'}")
    if answer.services:
        say()
        _show_services(answer)
    say()
    # Tools that teach report, too, but order no queue and so have no mode.
    engines = [one for one in answer.clients if one.effective_mode is not None]
    for one in engines:
        _show_engine(one, _lag(answer, one), now_s=now_s)
    if not engines:
        say("no engine has reported yet; start one with")
        say("  vllm serve … --scheduler-cls sched_client.vllm.KappadScheduler")
    for one in answer.clients:
        if one.effective_mode is None:
            say(f"tool {p(one.client_id)} · heard {span(now_s - one.reported_s)} ago")


def _show_queues(answer: "Status") -> None:
    for one in answer.partitions[:_MAX_PARTITIONS]:
        count = f"{one.queues} queue{'s' if one.queues > 1 else ''}"
        say(f"queues    {p(one.model)}: {p(one.text) or count}")
    if len(answer.partitions) > _MAX_PARTITIONS:
        say(f"          {len(answer.partitions) - _MAX_PARTITIONS} more; see `kappad partition`")


def _show_services(answer: "Status") -> None:
    header = (
        "model", "overhead s", "s/token", "at concurrency", "KV tokens/slot", "mean work s",
        "samples",
    )  # fmt: skip
    say_table(
        header,
        [
            (
                name or "(any)",
                one.overhead_s,
                one.seconds_per_token,
                one.reference_concurrency,
                one.slot_context_tokens or "?",
                one.mean_service_s,
                one.sample_count,
            )
            for name, one in answer.services
        ],
    )


def _show_engine(one: "EngineClient", lag: int | None, *, now_s: float) -> None:
    heard = f"heard {span(now_s - one.reported_s)} ago{'' if one.watching else ', not watching'}"
    version = f"vLLM {p(one.engine_version) or '?'}"
    say(f"engine {p(one.client_id)} · {p(one.model) or 'no model'} · {version} · {heard}")
    behind = "its own prior" if lag is None else f"{lag} behind"
    why = f" ({p(one.mode_reason)})" if one.mode_reason else ""
    say(
        f"  mode {one.effective_mode}{why} · {p(one.policy)} · "
        f"version {one.applied_version} ({behind})"
    )
    say(
        f"  {one.waiting:,} waiting · {one.running:,} running · {one.admitted:,} admitted, "
        f"{one.reordered:,} in another order than FCFS"
    )
    if one.failures or one.dropped_reports:
        say(f"  {one.failures:,} failures of ours · {one.dropped_reports:,} reports dropped")
    if one.rejected_version is not None:
        say(f"  refused version {one.rejected_version}: {p(one.reject_reason)}")
