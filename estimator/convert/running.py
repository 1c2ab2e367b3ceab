"""Requests that still run."""

from estimator.convert.scalars import KINDS
from estimator.core.running import Running, running_of
from protos.kappad.estimator.v1 import estimator_pb2 as pb
from sched_client.model import DEFAULT_MODEL, Key


def running_from_proto(message: pb.RunningRequest) -> Running | None:
    """Convert one running request; None where it says nothing of κ (`running_of`)."""
    has = message.HasField
    return running_of(
        Key(
            message.model_id or DEFAULT_MODEL,
            message.task,
            message.language,
            message.timestamps if has("timestamps") else None,
        ),
        # As in completions: an unknown kind teaches nothing.
        KINDS.get(message.kind, "session") if message.kind else "transcription",
        audio_s=message.audio_seconds if has("audio_seconds") else None,
        prompt_tokens=message.prompt_token_count,
        tokens=message.output_token_count,
        request_hash=message.request_hash,
        started_s=message.start_unix_seconds,
    )
