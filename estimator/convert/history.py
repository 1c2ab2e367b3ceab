"""What operators look back on: κ history, drift events and partitions."""

from estimator.convert.parameters import (
    key_from_proto,
    partition_from_proto,
    partition_to_proto,
)
from estimator.convert.scalars import (
    DRIFTS,
    DRIFTS_OUT,
    REFITS,
    REFITS_OUT,
    ConversionError,
    int32,
    seconds_of,
    timestamp_of,
)
from estimator.core.drift_event import DriftEvent
from estimator.store.base import KappaPoint, PartitionRecord
from protos.kappad.estimator.v1 import estimator_pb2 as pb


def kappa_point_to_proto(point: KappaPoint) -> pb.KappaPoint:
    """Convert one point of κ's history."""
    entry = pb.KappaEntry(
        model_id=point.model,
        task=point.task,
        language=point.language,
        timestamps=point.timestamps,  # type: ignore[arg-type]  # the stub forgets None
        kappa_tokens_per_second=point.kappa_tokens_per_s,
        intercept_tokens=point.intercept_tokens,
        sample_count=point.sample_count,
    )
    return pb.KappaPoint(
        entry=entry,
        record_time=timestamp_of(point.recorded_s),
        snapshot_version=point.snapshot_version,
    )


def kappa_point_from_proto(message: pb.KappaPoint) -> KappaPoint:
    """Convert one point of κ's history."""
    key = key_from_proto(message.entry)
    return KappaPoint(
        model=key.model,
        task=key.task,
        language=key.language,
        timestamps=key.timestamps,
        recorded_s=seconds_of(message.record_time),
        kappa_tokens_per_s=message.entry.kappa_tokens_per_second,
        intercept_tokens=message.entry.intercept_tokens,
        sample_count=message.entry.sample_count,
        snapshot_version=message.snapshot_version,
    )


def drift_to_proto(event: DriftEvent) -> pb.DriftEvent:
    """Convert one drift event."""
    adapted = event.completions_to_adapt
    return pb.DriftEvent(
        event_id=event.event_id,
        kind=DRIFTS_OUT[event.kind],
        model_id=event.model,
        task=event.task,
        language=event.language,
        timestamps=event.timestamps,  # type: ignore[arg-type]  # the stub forgets None
        detect_time=timestamp_of(event.detected_s),
        before=event.before,
        after=event.after,
        adapt_completion_count=None if adapted is None else int32(adapted),
        end_time=None if event.ended_s is None else timestamp_of(event.ended_s),
        z_score=event.z,
        detect_completion_count=int32(event.completions_to_detect),
        detail=event.detail,
    )


def drift_from_proto(message: pb.DriftEvent) -> DriftEvent:
    """Convert one drift event; an unknown kind raises `ConversionError`."""
    kind = DRIFTS.get(message.kind)
    if kind is None:
        raise ConversionError(
            reason="DRIFT_KIND_UNKNOWN",
            field="kind",
            message=f"kind is {int(message.kind)}, which this version does not know; upgrade it",
        )
    has = message.HasField
    return DriftEvent(
        event_id=message.event_id,
        kind=kind,
        model=message.model_id,
        task=message.task,
        language=message.language,
        timestamps=message.timestamps if has("timestamps") else None,
        detected_s=seconds_of(message.detect_time),
        before=message.before,
        after=message.after,
        completions_to_adapt=(
            message.adapt_completion_count if has("adapt_completion_count") else None
        ),
        ended_s=seconds_of(message.end_time) if has("end_time") else None,
        z=message.z_score,
        completions_to_detect=message.detect_completion_count,
        detail=message.detail,
    )


def partition_record_to_proto(record: PartitionRecord) -> pb.PartitionRevision:
    """Convert one partition that came into force."""
    return pb.PartitionRevision(
        revision_number=record.number,
        partition=partition_to_proto(record.model, record.partition),
        reason=REFITS_OUT[record.reason],
        detail=record.text,
        completion_count=record.completions,
        sample_count=int32(record.points),
        fit_seconds=record.fit_s,
        install_time=timestamp_of(record.installed_s),
        snapshot_version=record.snapshot_version,
    )


def partition_record_from_proto(message: pb.PartitionRevision) -> PartitionRecord:
    """Convert one partition that came into force; an unknown reason is an empty one."""
    model, partition = partition_from_proto(message.partition)
    return PartitionRecord(
        model=model,
        number=message.revision_number,
        partition=partition,
        reason=REFITS.get(message.reason, ""),
        text=message.detail,
        completions=message.completion_count,
        points=message.sample_count,
        fit_s=message.fit_seconds,
        installed_s=seconds_of(message.install_time),
        snapshot_version=message.snapshot_version,
    )
