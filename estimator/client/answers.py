"""Turns the larger answers of a sidecar into results; nonsense is a `ConversionError`."""

from collections.abc import Iterable

from estimator.client.results import EngineClient, Explanation, StateResult
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
)
from estimator.runtime.seed import MAX_SEED_BYTES
from protos.kappad.estimator.v1 import estimator_pb2 as pb
from sched_client.model import Mode

__all__ = ["engine_client", "explanation", "state_result"]


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
