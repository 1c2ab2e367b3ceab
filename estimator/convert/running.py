"""Requests that still run."""

from estimator.convert.scalars import KINDS
from estimator.core.running import Running, running_of
from protos.kappad.estimator.v1 import estimator_pb2 as pb
from sched_client.model import DEFAULT_MODEL, TEXT_TASK, Key
from sched_client.text_class import text_class


def running_from_proto(message: pb.RunningRequest) -> Running | None:
    """Convert one running request; None where it says nothing of κ (`running_of`).

    A text request's language is its request type, and becomes its `text_class`.
    """
    has = message.HasField
    language = message.language
    if message.task == TEXT_TASK:
        language = text_class(language, message.prompt_token_count)
    return running_of(
        Key(
            message.model_id or DEFAULT_MODEL,
            message.task,
            language,
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
