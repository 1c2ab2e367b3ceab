"""``kappad partition``: the queues that work falls into, and how they came to be."""

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
from sched_client.model import Partition
from sched_client.options import DEFAULT_TARGET

if TYPE_CHECKING:  # grpc and the store's module only when a command runs
    from estimator.client import ModelQueues, Queue
    from estimator.store.base import PartitionRecord


def partition(
    history: Annotated[bool, typer.Option("--history", help="List how the queues went.")] = False,
    model: Annotated[str, typer.Option(metavar="M", help="Only this served model.")] = "",
    limit: Annotated[
        int,
        typer.Option(metavar="N", min=1, max=1_000_000, help="Most models, or newest changes."),
    ] = 1000,
    target: Target = DEFAULT_TARGET,
    timeout_s: Timeout = DEFAULT_TIMEOUT_S,
    as_json: Json = False,
) -> None:
    """Show the queues of each model over the work that they were found in, or their history.

    Work is what a request is expected to take, in seconds at the reference concurrency.
    """
    with connect(target, timeout_s) as client:
        if history:
            records = list(islice(client.partitions(model), limit))
            _show_history(records, model, as_json=as_json)
        else:
            _show(list(islice(client.queues(model), limit)), model, as_json=as_json)


def _nothing(what: str, model: str, why: str) -> str:
    of = f" for model {printable(model)!r}" if model else ""
    return f"no {what}{of} yet: {why}"


def _show(found: "list[ModelQueues]", model: str, *, as_json: bool) -> None:
    if as_json:
        say_json({"models": [_document(one) for one in found]})
    elif not found:
        say(_nothing("queues", model, "they are looked for once completions were learned"))
    for one in found if not as_json else ():
        _show_model(one)
        say()


def _show_model(one: "ModelQueues") -> None:
    from estimator.cli.histogram import draw  # noqa: PLC0415 # light start

    status = one.status
    count = f"{status.queues} queue{'s' if status.queues > 1 else ''}"
    seen = f"{status.completions:,} completions, {status.points:,} in the sample"
    fits = f"{status.revisions:,} of {status.fits:,} fits changed them"
    say(f"{printable(status.model)}: {count} · {seen} · {fits}")
    if status.text:
        say(printable(status.text))
    if sum(one.counts):
        bounds = [queue.upper_s for queue in one.queues if queue.upper_s is not None]
        names = [queue.queue_id for queue in one.queues]
        say(draw(one.edges_s, one.counts, boundaries=bounds, names=names))
    header = (
        "queue",
        "from s",
        "to s",
        "seen from s",
        "seen to s",
        "mean s",
        "share %",
        "samples",
    )
    say_table(header, [_row(queue) for queue in one.queues])


def _row(queue: "Queue") -> tuple[object, ...]:
    share = None if queue.share is None else 100.0 * queue.share
    return (
        queue.queue_id, queue.lower_s, queue.upper_s, queue.least_s, queue.most_s, queue.mean_s,
        share, queue.points,
    )  # fmt: skip


def _document(one: "ModelQueues") -> dict[str, object]:
    status = one.status
    return {
        "model": status.model,
        "queue_count": status.queues,
        "detail": status.text,
        "completion_count": status.completions,
        "sample_count": status.points,
        "fit_count": status.fits,
        "revision_count": status.revisions,
        "queues": [
            {
                "queue_id": queue.queue_id,
                "lower_bound_s": queue.lower_s,
                "upper_bound_s": queue.upper_s,
                "least_s": queue.least_s,
                "most_s": queue.most_s,
                "mean_s": queue.mean_s,
                "share_ratio": queue.share,
                "sample_count": queue.points,
            }
            for queue in one.queues
        ],
        "histogram": {"edges_s": list(one.edges_s), "counts": list(one.counts)},
    }


def _show_history(records: "list[PartitionRecord]", model: str, *, as_json: bool) -> None:
    if as_json:
        say_json({"partitions": [_record_document(one) for one in records]})
    elif not records:
        # A seed brings queues without their history.
        say(_nothing("history of queues", model, "this sidecar has changed none"))
    else:
        header = ("installed", "model", "no.", "reason", "queues (to s)", "completions", "fit ms")
        say_table(header, [_record_row(one) for one in records])
        say()
        for one in records:
            if one.text:
                say(f"{at(one.installed_s)} {printable(one.model)}: {printable(one.text)}")


def _record_row(one: "PartitionRecord") -> tuple[object, ...]:
    return (
        at(one.installed_s), one.model, one.number, one.reason or "?", _queues(one.partition),
        one.completions, 1000.0 * one.fit_s,
    )  # fmt: skip


def _queues(partition: Partition) -> str:
    ends = [f" <{bound:.3g}" for bound in partition.boundaries_s]
    return ", ".join(
        f"{name}{end}" for name, end in zip(partition.queue_ids, [*ends, ""], strict=True)
    )


def _record_document(one: "PartitionRecord") -> dict[str, object]:
    partition = one.partition
    return {
        "model": one.model,
        "revision_number": one.number,
        "installed_unix_s": one.installed_s,
        "reason": one.reason,
        "detail": one.text,
        "completion_count": one.completions,
        "sample_count": one.points,
        "fit_s": one.fit_s,
        "snapshot_version": one.snapshot_version,
        "boundaries_s": list(partition.boundaries_s),
        "queue_ids": list(partition.queue_ids),
        "lowers_s": list(partition.lowers_s),
        "uppers_s": list(partition.uppers_s),
        "means_s": list(partition.means_s),
        "share_ratios": list(partition.shares),
    }
