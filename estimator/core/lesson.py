"""What a completion tells of κ and of seconds: its size, and words for whoever asks about it.

The tables decide themselves; tests/unit/core/test_lesson.py holds the words to what they do.
"""

from typing import Final, Literal

from estimator.core.observation import Completion
from sched_client.model import TEXT_TASK

__all__ = ["Lesson", "lesson_of", "size_of", "teaches_service"]

Lesson = Literal["none", "exact", "lower_bound"]

_KINDS: Final = {
    "detection": "a language detection is cut after one token",
    "beam_step": "a step of a beam search is one token of another request",
    "session": "a streaming session waits for its caller",
}
_BOUNDS: Final = {
    "length": "it was cut at its limit",
    "aborted": "its caller left before the end",
}


def lesson_of(completion: Completion) -> tuple[Lesson, str]:
    """Say what a completion tells of its key's κ.

    Parameters
    ----------
    completion : Completion
        Validated.

    Returns
    -------
    lesson : {"none", "exact", "lower_bound"}
        As `estimator.core.kappa.KappaTable.learn` takes it.
    reason : str
        Why it is not ``exact``; empty where it is.
    """
    obstacle = _obstacle_of(completion)
    if obstacle:
        return "none", obstacle
    bound = _BOUNDS.get(completion.finish_reason)
    if bound is None:
        return "exact", ""
    if completion.output_tokens == 0:
        return "none", f"{bound}, before anything came"
    return "lower_bound", bound


def _obstacle_of(completion: Completion) -> str:
    kind = completion.kind
    if kind in _KINDS:
        return _KINDS[kind]
    if (kind == "text") != (completion.task == "text"):
        return f"its kind is {kind} and its task {completion.task}: no key counts both"
    if kind == "transcription" and completion.audio_s is None:
        return "the length of its audio is not known"
    if completion.finish_reason == "error":
        return "the engine failed, so that its tokens say nothing"
    return ""


def size_of(completion: Completion) -> float | None:
    """Give what tokens are counted against, or None for what must not teach κ."""
    if completion.finish_reason == "error":
        return None
    # A text request among audio ones, or the reverse, is counted in another unit than its key.
    if completion.kind == "text":
        return float(completion.prompt_tokens) if completion.task == TEXT_TASK else None
    if completion.kind == "transcription" and completion.task != TEXT_TASK:
        return completion.audio_s
    return None


def teaches_service(completion: Completion) -> bool:
    """Say whether a completion tells how long such a request takes.

    As `estimator.core.service_time.ServiceTable.learn` decides: finished, measured, of a kind
    that works from its start to its end, and not preempted.
    """
    return (
        completion.finish_reason in ("stop", "length")
        and completion.kind in ("transcription", "text", "detection")
        and completion.service_s > 0.0
        and completion.concurrency > 0.0
        and completion.preemptions == 0
    )
