"""Messages to the client's model and back.

With `parts` and `channel` the only reader of generated types.

Long conversions go through a `Pacer`, so that the engine's thread is never kept waiting for the
interpreter's lock for longer than a slice.
"""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

from google.protobuf.message import DecodeError

from protos.kappad.estimator.v1 import estimator_pb2 as pb
from sched_client.completion import CompletionReport
from sched_client.model import (
    GLOBAL_KEY,
    KappaEntry,
    Key,
    Mode,
    Snapshot,
)
from sched_client.request_ids import HashKey, caller_part
from sched_client.transport.pacing import Pacer
from sched_client.transport.packed import KeyPool, PackedKappas
from sched_client.transport.parts import read_partition, read_service, read_settings
from sched_client.transport.wire import Field, WireError, cuts, fields
from sched_client.validity import invalid_entry_reason, invalid_frame_reason

if TYPE_CHECKING:
    from google.protobuf.internal.containers import RepeatedCompositeFieldContainer

# A hundred keys: parsed in some 10 µs.
_PIECE_BYTES: Final = 8192
# Keys converted between two looks at the clock: some 40 µs.
_STEP_KEYS: Final = 12
# The sidecar caps its keys far below; beyond this a snapshot is refused.
MAX_KEYS: Final = 50_000
# A caller's own words beyond the API's limit are left out, so that they cannot lose a completion.
_MAX_LABEL_LENGTH: Final = 128
_INT32_MAX: Final = 2**31 - 1

_MODE_MESSAGES: Final[Mapping[Mode, pb.Mode]] = {
    "off": pb.MODE_OFF,
    "shadow": pb.MODE_SHADOW,
    "on": pb.MODE_ON,
}
KIND_MESSAGES: Final = {
    "transcription": pb.REQUEST_KIND_TRANSCRIPTION,
    "detection": pb.REQUEST_KIND_DETECTION,
    "beam_step": pb.REQUEST_KIND_BEAM_STEP,
    "session": pb.REQUEST_KIND_SESSION,
    "text": pb.REQUEST_KIND_TEXT,
}
_FINISHES: Final = {
    "stop": pb.FINISH_REASON_STOP,
    "length": pb.FINISH_REASON_LENGTH,
    "aborted": pb.FINISH_REASON_ABORTED,
    "error": pb.FINISH_REASON_ERROR,
}
_LEARNED: Final = pb.PREDICTION_SOURCE_LEARNED
_SNAPSHOT: Final = pb.WatchParametersResponse.SNAPSHOT_FIELD_NUMBER
_DELTA: Final = pb.WatchParametersResponse.DELTA_FIELD_NUMBER
_Body = TypeVar("_Body", pb.Parameters, pb.ParametersDelta)


class UndecodableError(ValueError):
    """The bytes are no message of the API."""


class InvalidSnapshotError(ValueError):
    """A well-formed snapshot that must not be acted on; the text says why."""


class Envelope(NamedTuple):
    """A watch response whose snapshot or delta is not parsed yet.

    Attributes
    ----------
    head : WatchParametersResponse
        The response without its snapshot or delta.
    data : bytes
        The whole response.
    body : Field or None
        Where in ``data`` the snapshot or delta lies.
    """

    head: pb.WatchParametersResponse
    data: bytes
    body: Field | None

    @property
    def is_snapshot(self) -> bool:
        """Whether it brings the whole state."""
        return self.body is not None and self.body.number == _SNAPSHOT


def open_envelope(data: bytes) -> Envelope:
    """Read what surrounds the snapshot or delta; raise UndecodableError for garbage."""
    try:
        bodies = [f for f in fields(data) if f.number in {_SNAPSHOT, _DELTA} and f.is_bytes]
        if len(bodies) > 1:
            raise UndecodableError("a watch response brings more than one state")
        rest = data[: bodies[0].start] + data[bodies[0].end :] if bodies else data
        head = pb.WatchParametersResponse.FromString(rest)
    except (WireError, DecodeError) as error:
        raise UndecodableError(str(error)) from error
    return Envelope(head, data, bodies[0] if bodies else None)


def read_snapshot(envelope: Envelope, pacer: Pacer, pool: KeyPool) -> Snapshot:
    """Build a snapshot from a whole state, with the pool's keys.

    Raises
    ------
    UndecodableError
        For bytes that are no such message.
    InvalidSnapshotError
        For values that must not be acted on.
    """
    frame = pb.Parameters()
    kappas = PackedKappas()
    for piece in _pieces(pb.Parameters, envelope, pacer):
        _add_kappas(kappas, piece.kappas, pacer, pool)
        piece.ClearField("kappas")
        frame.MergeFrom(piece)
    if GLOBAL_KEY not in kappas:
        raise InvalidSnapshotError("kappas: the global key is missing")
    return _checked(
        Snapshot(
            version=envelope.head.version,
            instance_id=envelope.head.instance_id,
            created_s=_unix_s(envelope.head),
            kappas=kappas,
            services={message.model_id: read_service(message) for message in frame.services},
            partitions={message.model_id: read_partition(message) for message in frame.partitions},
            settings=read_settings(frame.settings),
        )
    )


def read_delta(envelope: Envelope, base: Snapshot, pacer: Pacer, pool: KeyPool) -> Snapshot:
    """Build a snapshot from another one and what changed since; raises as `read_snapshot`.

    Notes
    -----
    Copying the κ table is one call that takes 25 µs for 5,000 keys (Python 3.11) unless the base
    is the prior, which has one key; entries are shared with the base.
    """
    frame = pb.ParametersDelta()
    kappas = PackedKappas(base.kappas)
    for piece in _pieces(pb.ParametersDelta, envelope, pacer):
        for message in piece.removed_kappas:
            kappas.discard(_key(message))
            pacer.step()
        _add_kappas(kappas, piece.kappas, pacer, pool)
        piece.ClearField("kappas")
        piece.ClearField("removed_kappas")
        frame.MergeFrom(piece)
    if GLOBAL_KEY not in kappas:
        raise InvalidSnapshotError("removed_kappas: the global key cannot be removed")
    services = {message.model_id: read_service(message) for message in frame.services}
    partitions = {message.model_id: read_partition(message) for message in frame.partitions}
    return _checked(
        Snapshot(
            version=envelope.head.version,
            instance_id=envelope.head.instance_id,
            created_s=_unix_s(envelope.head),
            kappas=kappas,
            services={**base.services, **services},
            partitions={**base.partitions, **partitions},
            settings=read_settings(frame.settings)
            if frame.HasField("settings")
            else base.settings,
        )
    )


def base_version(envelope: Envelope) -> int:
    """Give the version that a delta builds on; raise UndecodableError for garbage."""
    body = envelope.body
    assert body is not None, "only a delta has a base"  # noqa: S101  the caller's own bug
    number = pb.ParametersDelta.BASE_VERSION_FIELD_NUMBER
    try:
        found = [f for f in fields(envelope.data, body.content, body.end) if f.number == number]
        if not found:
            return 0
        return pb.ParametersDelta.FromString(
            envelope.data[found[-1].start : found[-1].end]
        ).base_version
    except (WireError, DecodeError) as error:
        raise UndecodableError(str(error)) from error


def _pieces(kind: type[_Body], envelope: Envelope, pacer: Pacer) -> Iterator[_Body]:
    body = envelope.body
    assert body is not None, "a bookmark has no pieces"  # noqa: S101  the caller's own bug
    try:
        for start, end in cuts(envelope.data, body.content, body.end, _PIECE_BYTES):
            yield kind.FromString(envelope.data[start:end])
            pacer.step()
    except (WireError, DecodeError) as error:
        raise UndecodableError(str(error)) from error


def _add_kappas(
    kappas: PackedKappas,
    messages: "RepeatedCompositeFieldContainer[pb.KappaEntry]",
    pacer: Pacer,
    pool: KeyPool,
) -> None:
    for start in range(0, len(messages), _STEP_KEYS):
        for message in messages[start : start + _STEP_KEYS]:
            key = _key(message)
            entry = KappaEntry(
                kappa_tokens_per_s=message.kappa_tokens_per_second,
                intercept_tokens=message.intercept_tokens,
                ratio_p50=message.ratio_p50,
                ratio_p90=message.ratio_p90,
                ratio_p99=message.ratio_p99,
                sample_count=message.sample_count,
                source="learned" if message.source == _LEARNED else "prior",
            )
            reason = invalid_entry_reason(key, entry)
            if reason is not None:
                raise InvalidSnapshotError(reason)
            kappas.put(pool.shared(key), entry)
        pacer.step()
    if len(kappas) > MAX_KEYS:
        raise InvalidSnapshotError(f"kappas: more than {MAX_KEYS} keys")


def _key(message: pb.KappaEntry) -> Key:
    return Key(
        message.model_id,
        message.task,
        message.language,
        message.timestamps if message.HasField("timestamps") else None,
    )


def _checked(snapshot: Snapshot) -> Snapshot:
    reason = invalid_frame_reason(snapshot)
    if reason is not None:
        raise InvalidSnapshotError(reason)
    return snapshot


def _unix_s(head: pb.WatchParametersResponse) -> float:
    return head.create_time.seconds + head.create_time.nanos / 1e9


class CompletionWriter:
    """Turns reports into messages; caller's ids leave only as keyed hashes.

    Parameters
    ----------
    boot_id : str
        Engine boot uuid: begins each completion id and keys the hashes.
    """

    def __init__(self, boot_id: str) -> None:
        self._boot_id = boot_id
        self._key = HashKey(boot_id)

    def write(self, report: CompletionReport) -> pb.Completion:
        """Build the message of one report; raise ValueError or TypeError for a bad value."""
        features = report.features
        max_tokens = features.max_tokens
        message = pb.Completion(
            completion_id=f"{self._boot_id}-{report.counter}",
            model_id=label(features.model),
            task=label(features.task),
            language=label(features.language),
            kind=KIND_MESSAGES[features.kind],
            audio_seconds=features.audio_s,
            duration_source=label(features.duration_source),
            prompt_token_count=_count(features.prompt_tokens),
            cached_prompt_token_count=_count(report.cached_prompt_tokens),
            output_token_count=_count(report.output_tokens),
            # The API has no limit below 1: absent, as one that is unknown.
            max_token_count=_count(max_tokens) if max_tokens and max_tokens > 0 else None,
            finish_reason=_FINISHES.get(report.finish_reason, pb.FINISH_REASON_ERROR),
            finish_unix_seconds=report.finished_s,
            wait_seconds=report.wait_s,
            service_seconds=report.service_s,
            mean_concurrency=report.concurrency,
            preemption_count=_count(report.preemptions),
            predicted_token_count=report.predicted_tokens,
            snapshot_version=report.snapshot_version,
            request_hash=self.hash_id(report.request_id),
            # No engine request's id: eight digits at its end are its own.
            group_id=self._key.hash(report.group_id),
            request_type=label(report.request_type),
            queue_id=label(report.queue_id),
            # Callers may send any integer. It teaches nothing, and what it came with does.
            priority=max(-_INT32_MAX - 1, min(report.priority, _INT32_MAX)),
        )
        if features.timestamps is not None:
            message.timestamps = features.timestamps
        return message

    def hash_id(self, text: str) -> str:
        """Give the keyed hash of an engine request's id, the engine's own digits left out."""
        return self._key.hash(caller_part(text))


def mode_message(mode: Mode) -> pb.Mode:
    """Give the message's value for a mode's name."""
    return _MODE_MESSAGES.get(mode, pb.MODE_UNSPECIFIED)


def _count(value: int) -> int:
    """Give a count in 0 to the most of int32: one outside would lose its whole completion."""
    return max(0, min(value, _INT32_MAX))


def label(text: str) -> str:
    """Give a name as the API takes it; empty where it would refuse it."""
    return text if len(text) <= _MAX_LABEL_LENGTH and text.isprintable() else ""
