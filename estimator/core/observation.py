"""What is learned from: one completed request, and the checks it must pass.

Owns the completion's fields and limits. Pure: imports nothing but the client's model.
"""

import math
import re
from dataclasses import dataclass, fields, make_dataclass
from operator import attrgetter
from typing import Any, Final, Literal

from sched_client.model import DEFAULT_MODEL, TEXT_TASK, Key, RequestKind
from sched_client.text_class import text_class

FinishReason = Literal["stop", "length", "aborted", "error"]

# A name longer than this is a mistake or an attack; it is rejected, never cut.
MAX_NAME_LENGTH: Final = 128
MAX_ID_LENGTH: Final = 128
# A day of audio in one engine request is absurd: vLLM cuts at 30 s, other models at hours.
MAX_AUDIO_S: Final = 86_400.0
MAX_TOKENS: Final = 10_000_000
MAX_SECONDS: Final = 7 * 86_400.0
MAX_UNIX_S: Final = 1e11
MAX_CONCURRENCY: Final = 1e6
MAX_PREEMPTIONS: Final = 1_000_000
MAX_VERSION: Final = 2**62
MAX_PRIORITY: Final = 2**31
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Completion:
    """One finished or aborted request, as the engine reported it.

    Attributes
    ----------
    completion_id : str
        ``<engine boot uuid>-<counter>``; never the caller's request id.
    model, task, language, timestamps
        The request's `Key`.
    kind : {"transcription", "detection", "beam_step", "session", "text"}
        Only ``transcription`` and ``text`` teach κ.
    audio_s : float or None
        Seconds of audio.
    duration_source : str
        Where ``audio_s`` came from.
    prompt_tokens, cached_prompt_tokens, output_tokens : int
        Token counts, ≥ 0.
    max_tokens : int or None
        The request's limit.
    finish_reason : {"stop", "length", "aborted", "error"}
        ``length`` and ``aborted`` are lower bounds of what the request wanted.
    finished_s : float
        Unix time of the end.
    wait_s, service_s : float
        Seconds waited and seconds resident, ≥ 0; a ``service_s`` of 0 means unknown.
    concurrency : float
        Mean number of running requests during the residence, ≥ 1; 0 means unknown.
    preemptions : int
        How often it was preempted.
    predicted_tokens : float
        What the client expected; 0 means it did not say.
    snapshot_version : int
        What the estimate was made with.
    request_hash, group_id, request_type, queue_id, client_id : str
        Opaque; empty where unknown.
    priority : int
        vLLM's priority.
    """

    completion_id: str
    model: str = DEFAULT_MODEL
    task: str = "transcribe"
    language: str = ""
    timestamps: bool | None = None
    kind: RequestKind = "transcription"
    audio_s: float | None = None
    duration_source: str = "unknown"
    prompt_tokens: int = 0
    cached_prompt_tokens: int = 0
    output_tokens: int = 0
    max_tokens: int | None = None
    finish_reason: FinishReason = "stop"
    finished_s: float = 0.0
    wait_s: float = 0.0
    service_s: float = 0.0
    concurrency: float = 0.0
    preemptions: int = 0
    predicted_tokens: float = 0.0
    snapshot_version: int = 0
    request_hash: str = ""
    group_id: str = ""
    request_type: str = ""
    queue_id: str = ""
    client_id: str = ""
    priority: int = 0

    @property
    def key(self) -> Key:
        """The key that this completion teaches."""
        language = self.language
        if self.task == TEXT_TASK:
            language = text_class(self.request_type, self.prompt_tokens)
        # As `Key(…)`, in half the time: asked of each completion.
        return tuple.__new__(Key, (self.model, self.task, language, self.timestamps))


COMPLETION_FIELDS: Final = tuple(field.name for field in fields(Completion))
# Any: a class made from names. The same slots as a completion's, and no guard on them yet.
_Draft: Final[Any] = make_dataclass("_Draft", COMPLETION_FIELDS, slots=True, eq=False)


# Any: values of mixed types.
def completion_of(*values: Any) -> Completion:
    """Build a completion from all of its fields, in the order of `COMPLETION_FIELDS`.

    For rows that come by the thousand: a frozen dataclass sets each field through
    `object.__setattr__`, which takes six times as long (2.9 against 0.45 µs, Python 3.11).

    Parameters
    ----------
    *values
        One for each field.

    Returns
    -------
    Completion
        Equal to one that was built by keyword.

    Raises
    ------
    TypeError
        If there are too few values or too many.
    """
    draft = _Draft(*values)
    # The interpreter allows this between classes whose slots have the same names.
    draft.__class__ = Completion
    completion: Completion = draft
    return completion


@dataclass(frozen=True, slots=True, kw_only=True)
class Violation:
    """Why a completion is refused.

    Attributes
    ----------
    reason : str
        Stable, UPPER_SNAKE.
    field : str
        The field at fault.
    message : str
        Names the value, the limit and the remedy.
    """

    reason: str
    field: str
    message: str


def violation_of(completion: Completion) -> Violation | None:
    """Check a completion against the limits above.

    Parameters
    ----------
    completion : Completion
        As converted, not yet trusted.

    Returns
    -------
    Violation or None
        The first one found, or None for a completion that may be stored and learned.
    """
    return None if _is_plain(completion) else _first_violation(completion)


def _is_plain(completion: Completion) -> bool:
    """Say at once of nearly every row that nothing is wrong with it; False says nothing."""
    audio_s, max_tokens = completion.audio_s, completion.max_tokens
    output_tokens = completion.output_tokens
    # NaN fails each comparison.
    if not (
        (audio_s is None or 0.0 < audio_s <= MAX_AUDIO_S)
        and 0 <= output_tokens <= MAX_TOKENS
        and (max_tokens is None or max(output_tokens, 1) <= max_tokens <= MAX_TOKENS)
        and 0 <= completion.prompt_tokens <= MAX_TOKENS
        and 0 <= completion.cached_prompt_tokens <= MAX_TOKENS
        and 0.0 <= completion.finished_s <= MAX_UNIX_S
        and 0.0 <= completion.wait_s <= MAX_SECONDS
        and 0.0 <= completion.service_s <= MAX_SECONDS
        and 0.0 <= completion.concurrency <= MAX_CONCURRENCY
        and 0 <= completion.preemptions <= MAX_PREEMPTIONS
        and 0.0 <= completion.predicted_tokens <= MAX_TOKENS
        and 0 <= completion.snapshot_version <= MAX_VERSION
        and -MAX_PRIORITY <= completion.priority <= MAX_PRIORITY
        and completion.completion_id
    ):
        return False
    names = _names_of(completion)
    # What is printable holds no control character; not everything else does.
    return max(map(len, names)) <= MAX_NAME_LENGTH and "".join(names).isprintable()


def _first_violation(completion: Completion) -> Violation | None:
    if not completion.completion_id:
        return Violation(
            reason="ID_MISSING",
            field="completion_id",
            message="completion_id is empty; send '<boot uuid>-<counter>'",
        )
    for name in _NAMES:
        value: str = getattr(completion, name)
        if len(value) > MAX_NAME_LENGTH:
            return Violation(
                reason="NAME_TOO_LONG",
                field=name,
                message=f"{name} has {len(value)} characters, the limit is {MAX_NAME_LENGTH}; "
                "shorten it",
            )
        if value and _CONTROL.search(value):
            return Violation(
                reason="NAME_NOT_PRINTABLE",
                field=name,
                message=f"{name} {value[:20]!r} holds control characters; remove them",
            )
    for name, low, high in _RANGES:
        number = getattr(completion, name)
        if number is None:
            continue
        if not (math.isfinite(number) and low <= number <= high):
            return Violation(
                reason="OUT_OF_RANGE",
                field=name,
                message=f"{name} is {number}, the limits are {low:g} to {high:g}; "
                "report what the engine measured, or leave it out",
            )
    return _contradiction(completion)


def _contradiction(completion: Completion) -> Violation | None:
    limit = completion.max_tokens
    if limit is not None and completion.output_tokens > limit:
        return Violation(
            reason="ABOVE_MAX_TOKENS",
            field="output_tokens",
            message=f"output_tokens is {completion.output_tokens}, above the request's own "
            f"max_tokens {limit}; report both from the same request",
        )
    if completion.audio_s == 0.0 and completion.kind == "transcription":
        return Violation(
            reason="OUT_OF_RANGE",
            field="audio_s",
            message="audio_s is 0 for a transcription; leave it out where it could not be read",
        )
    return None


_NAMES: Final = (
    "completion_id", "model", "task", "language", "duration_source", "request_hash", "group_id",
    "request_type", "queue_id", "client_id",
)  # fmt: skip
_names_of: Final = attrgetter(*_NAMES)
_RANGES: Final[tuple[tuple[str, float, float], ...]] = (
    ("audio_s", 0.0, MAX_AUDIO_S),
    ("prompt_tokens", 0, MAX_TOKENS),
    ("cached_prompt_tokens", 0, MAX_TOKENS),
    ("output_tokens", 0, MAX_TOKENS),
    ("max_tokens", 1, MAX_TOKENS),
    ("finished_s", 0.0, MAX_UNIX_S),
    ("wait_s", 0.0, MAX_SECONDS),
    ("service_s", 0.0, MAX_SECONDS),
    ("concurrency", 0.0, MAX_CONCURRENCY),
    ("preemptions", 0, MAX_PREEMPTIONS),
    ("predicted_tokens", 0.0, MAX_TOKENS),
    ("snapshot_version", 0, MAX_VERSION),
    ("priority", -MAX_PRIORITY, MAX_PRIORITY),
)
