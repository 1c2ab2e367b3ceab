"""Checks that every request passes before anything is done with it."""

from collections.abc import Sequence
from typing import Final, Literal

from estimator.core.observation import MAX_AUDIO_S, MAX_NAME_LENGTH
from estimator.runtime.errors import FieldViolation, InvalidRequestError
from protos.kappad.estimator.v1 import estimator_pb2 as pb
from sched_client.model import Features

__all__ = [
    "check_batch",
    "check_client",
    "check_explain_request",
    "check_export_request",
    "check_features",
    "check_mode_request",
    "check_watch",
    "page_size_of",
]

_Count = Literal["kv_token_count", "slot_count"]
MAX_TEXT_LENGTH: Final = 256
MAX_WATCHED_MODELS: Final = 64
MAX_ASKED_LENGTH: Final = 512
DEFAULT_PAGE: Final = 100
MAX_PAGE: Final = 1000
_NAMES: Final = ("client_id", "model_id", "policy", "applied_instance_id")
_TEXTS: Final = ("client_version", "engine_version", "reject_reason", "mode_reason")
# Optional: what an engine can hold.
_COUNTS: Final[tuple[tuple[_Count, int], ...]] = (
    ("kv_token_count", 10**12),
    ("slot_count", 1_000_000),
)
# Enough to see what is wrong without an answer as long as the question.
_MAX_VIOLATIONS: Final = 10


def _too_long(field: str, value: str, limit: int) -> FieldViolation | None:
    if len(value) <= limit:
        return None
    return field, f"has {len(value)} characters, the limit is {limit}; shorten it"


def _raise_if(violations: list[FieldViolation]) -> None:
    if violations:
        raise InvalidRequestError(violations[:_MAX_VIOLATIONS])


def check_batch(field: str, count: int, *, least: int, most: int) -> None:
    """Refuse a batch that is too short or too long."""
    if not least <= count <= most:
        raise InvalidRequestError(
            [(field, f"has {count} items, the limits are {least} to {most}; split the batch")],
            reason="BATCH_SIZE",
        )


def check_client(status: pb.ClientStatus) -> None:
    """Refuse a client that does not say who it is, or says too much."""
    violations: list[FieldViolation] = []
    if not status.client_id:
        violations.append(("client.client_id", "is empty; send pod, rank and boot uuid"))
    for names, limit in ((_NAMES, MAX_NAME_LENGTH), (_TEXTS, MAX_TEXT_LENGTH)):
        for name in names:
            found = _too_long(f"client.{name}", getattr(status, name), limit)
            if found is not None:
                violations.append(found)
    for name, most in _COUNTS:
        value = getattr(status, name)
        if not 1 <= value <= most and status.HasField(name):
            text = f"is {value}, the limits are 1 to {most}; leave it out if unknown"
            violations.append((f"client.{name}", text))
    _raise_if(violations)


def check_watch(request: pb.WatchParametersRequest) -> None:
    """Refuse a watch without a name, or of too much."""
    violations: list[FieldViolation] = []
    if not request.client_id:
        violations.append(("client_id", "is empty; send pod, rank and boot uuid"))
    if len(request.model_ids) > MAX_WATCHED_MODELS:
        found_count, limit = len(request.model_ids), MAX_WATCHED_MODELS
        text = f"has {found_count} items, the limit is {limit}; name none for all models"
        violations.append(("model_ids", text))
    named = [("client_id", request.client_id), ("instance_id", request.instance_id)]
    named += [(f"model_ids[{i}]", name) for i, name in enumerate(request.model_ids)]
    for field, value in named:
        found = _too_long(field, value, MAX_NAME_LENGTH)
        if found is not None:
            violations.append(found)
    _raise_if(violations)


def check_mode_request(request: pb.SetModeRequest) -> None:
    """Refuse texts that are too long to record."""
    found = [
        _too_long("reason", request.reason, MAX_TEXT_LENGTH),
        _too_long("request_id", request.request_id, MAX_NAME_LENGTH),
    ]
    _raise_if([item for item in found if item is not None])


def check_explain_request(request: pb.ExplainRequestRequest) -> None:
    """Refuse no name at all, and one that is longer than any that could be meant."""
    if not request.id:
        _raise_if([("id", "is empty; send X-Request-Id or a completion id")])
    found = _too_long("id", request.id, MAX_ASKED_LENGTH)
    _raise_if([] if found is None else [found])


def check_export_request(request: pb.ExportStateRequest) -> None:
    """Refuse a model's name that no model can have."""
    found = _too_long("model_id", request.model_id, MAX_NAME_LENGTH)
    _raise_if([] if found is None else [found])


def check_features(rows: Sequence[Features]) -> None:
    """Refuse inputs without meaning.

    One pass over converted rows, since it is paid for every row of a batch: reading a message's
    fields a second time would cost as much as the conversion.
    """
    violations: list[FieldViolation] = []
    for index, features in enumerate(rows):
        model, task, language, _, _, audio_s, prompt_tokens, max_tokens, _ = features
        if (
            (audio_s is None or 0.0 < audio_s <= MAX_AUDIO_S)
            and prompt_tokens >= 0
            and (max_tokens is None or max_tokens > 0)
            and len(model) <= MAX_NAME_LENGTH
            and len(task) <= MAX_NAME_LENGTH
            and len(language) <= MAX_NAME_LENGTH
        ):
            continue
        violations.append(_violation(f"inputs[{index}]", features))
        if len(violations) >= _MAX_VIOLATIONS:
            break
    _raise_if(violations)


def _violation(where: str, features: Features) -> FieldViolation:
    names = (("model_id", features.model), ("task", features.task))
    for name, value in (*names, ("language", features.language)):
        found = _too_long(f"{where}.{name}", value, MAX_NAME_LENGTH)
        if found is not None:
            return found
    audio_s = features.audio_s
    if audio_s is not None and not 0.0 < audio_s <= MAX_AUDIO_S:
        return (
            f"{where}.audio_seconds",
            f"is {audio_s}, the limits are above 0 to {MAX_AUDIO_S:g}; leave it out if unknown",
        )
    if features.prompt_tokens < 0:
        return f"{where}.prompt_token_count", f"is {features.prompt_tokens}; it must be >= 0"
    return (
        f"{where}.max_token_count",
        f"is {features.max_tokens}; it must be >= 1, leave it out for the model's own limit",
    )


def page_size_of(requested: int) -> int:
    """Give the page size: 0 is the default, above the maximum is clipped, negative refused."""
    if requested < 0:
        raise InvalidRequestError(
            [("page_size", f"is {requested}; it must be 0 (for {DEFAULT_PAGE}) to {MAX_PAGE}")]
        )
    return min(requested or DEFAULT_PAGE, MAX_PAGE)
