"""Turns the larger answers of a sidecar into results; nonsense is a `ConversionError`."""

from collections.abc import Iterable

from estimator.client.results import (
    EngineClient,
    Explanation,
    ModelQueues,
    PartitionStatus,
    Queue,
    StateResult,
    Status,
)
from estimator.convert import (
    ConversionError,
    completion_from_proto,
    drift_from_proto,
    estimate_from_proto,
    kappa_from_proto,
    lesson_from_proto,
    mode_from_proto,
    seconds_of,
    service_from_proto,
    settings_from_proto,
)
from estimator.runtime.seed import MAX_SEED_BYTES
from protos.kappad.estimator.v1 import estimator_pb2 as pb
from sched_client.model import Mode

__all__ = ["engine_client", "explanation", "model_queues", "state_result", "status_of"]


def engine_client(info: pb.ClientInfo) -> EngineClient:
    """Convert one client; a mode that is unknown here is None."""
    status = info.status
    try:
        mode: Mode | None = mode_from_proto(status.effective_mode)
    except ConversionError:
        mode = None
    return EngineClient(
        client_id=status.client_id,
        model=status.model_id,
        client_version=status.client_version,
        engine_version=status.engine_version,
        applied_version=status.applied_version,
        applied_instance_id=status.applied_instance_id,
        rejected_version=status.rejected_version if status.HasField("rejected_version") else None,
        reject_reason=status.reject_reason,
        effective_mode=mode,
        mode_reason=status.mode_reason,
        policy=status.policy,
        dropped_reports=status.dropped_report_count,
        failures=status.failure_count,
        waiting=status.waiting_count,
        running=status.running_count,
        admitted=status.admitted_count,
        reordered=status.reordered_count,
        reported_s=seconds_of(info.report_time),
        watching=info.watching,
    )


def status_of(answer: pb.GetStatusResponse) -> Status:
    """Convert what the sidecar is doing."""
    return Status(
        instance_id=answer.instance_id,
        server_version=answer.server_version,
        snapshot_version=answer.snapshot_version,
        started_s=seconds_of(answer.start_time),
        settings=settings_from_proto(answer.settings),
        learned=answer.learned_count,
        stored=answer.stored_count,
        backlog=answer.backlog_count,
        backlog_limit=answer.backlog_limit,
        rejected=answer.rejected_count,
        keys=answer.key_count,
        key_limit=answer.key_limit,
        open_drifts=answer.open_drift_count,
        p90_coverage=(
            answer.p90_coverage_ratio if answer.HasField("p90_coverage_ratio") else None
        ),
        store_error=answer.store_error,
        clients=tuple(map(engine_client, answer.clients)),
        services=tuple(map(service_from_proto, answer.services)),
        partitions=tuple(map(_partition_status, answer.partitions)),
    )


def explanation(message: pb.Explanation) -> Explanation:
    """Convert what became of one request."""
    return Explanation(
        completion=completion_from_proto(message.completion, client_id=message.client_id),
        lesson=lesson_from_proto(message.lesson),
        lesson_reason=message.lesson_reason,
        service_taught=message.service_taught,
        kappas=tuple(map(kappa_from_proto, message.kappas)),
        estimate=estimate_from_proto(
            message.prediction, snapshot_version=message.snapshot_version
        ),
        service=service_from_proto(message.service)[1],
        drift_events=tuple(map(drift_from_proto, message.drift_events)),
    )


def _partition_status(message: pb.PartitionStatus) -> PartitionStatus:
    """Convert how one model's partition stands."""
    return PartitionStatus(
        model=message.model_id,
        queues=message.queue_count,
        text=message.detail,
        completions=message.completion_count,
        points=message.sample_count,
        fits=message.fit_count,
        revisions=message.revision_count,
    )


def model_queues(message: pb.ModelQueues) -> ModelQueues:
    """Convert the queues of one model; a histogram that does not add up is a `ConversionError`."""
    edges, counts = tuple(message.histogram_edge_seconds), tuple(message.histogram_counts)
    if len(edges) != (len(counts) + 1 if counts else 0):
        raise ConversionError(
            reason="HISTOGRAM_INVALID",
            field="histogram_counts",
            message=f"{len(counts)} counts between {len(edges)} edges",
        )
    return ModelQueues(
        status=_partition_status(message.status),
        queues=tuple(map(_queue, message.queues)),
        edges_s=edges,
        counts=counts,
    )


def _queue(message: pb.Queue) -> Queue:
    has = message.HasField
    return Queue(
        queue_id=message.queue_id,
        lower_s=message.lower_bound_seconds if has("lower_bound_seconds") else None,
        upper_s=message.upper_bound_seconds if has("upper_bound_seconds") else None,
        least_s=message.least_seconds if has("least_seconds") else None,
        most_s=message.most_seconds if has("most_seconds") else None,
        mean_s=message.mean_seconds if has("mean_seconds") else None,
        share=message.share_ratio if has("share_ratio") else None,
        points=message.sample_count,
    )


def state_result(messages: Iterable[pb.ExportStateResponse]) -> StateResult:
    """Put the parts of an exported state together; at most `MAX_SEED_BYTES` are held."""
    header, parts = pb.StateHeader(), bytearray()
    for message in messages:
        if message.HasField("header"):
            header = message.header
        parts += message.chunk
        if len(parts) > min(header.size_bytes, MAX_SEED_BYTES):
            break
    if len(parts) != header.size_bytes or not parts:
        raise ConversionError(
            reason="STATE_INCOMPLETE",
            field="chunk",
            message=f"{len(parts)} bytes of a state that has {header.size_bytes}",
        )
    try:
        text = parts.decode("ascii")  # what json.dumps writes, unless told otherwise
    except UnicodeDecodeError as error:
        raise ConversionError(
            reason="STATE_NO_TEXT", field="chunk", message=f"a state that is no ASCII: {error}"
        ) from error
    return StateResult(
        schema=header.schema_version,
        learned=header.learned_count,
        keys=header.key_count,
        server_version=header.server_version,
        created_s=seconds_of(header.create_time),
        text=text,
    )
