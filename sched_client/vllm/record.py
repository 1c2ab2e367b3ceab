"""What is kept of one request between its arrival and its end.

Imports neither vLLM nor grpc.
"""

from typing import Any

from sched_client.model import GLOBAL_KEY, Features, RequestKind
from sched_client.vllm.features import Reading
from sched_client.vllm.hints import NO_HINTS


class Record:
    """One request, from its arrival to its end.

    What was read of it is kept as plain values, and `Features` are built when they are asked for:
    each object more that stays with a request lets Python's garbage collector run in 0.15 % more
    of the arrivals, some 60 µs each; and what it visits in each object adds to that, so nothing
    is kept twice. It is read once, and ``kind`` is set last: the reporter's thread sees all of a
    reading or none.
    """

    __slots__ = (
        "admitted_integral",
        "admitted_s",
        "audio_s",
        "checked_version",
        "duration_source",
        "enqueued_s",
        "estimated_version",
        "group",
        "group_id",
        "hints",
        "key",
        "kind",
        "language",
        "max_tokens",
        "ordered_audio_s",
        "prefill",
        "priority",
        "prompt_tokens",
        "queue_id",
        "request",
        "sequence",
        "service_s",
        "tokens",
    )

    # The parts of `Features` that are not in `key`; not there before `take`.
    language: str
    audio_s: float | None
    prompt_tokens: int
    max_tokens: int | None
    duration_source: str
    # With the hints applied; the language that is ordered by is the key's.
    ordered_audio_s: float | None
    # Not there before the request is admitted: the running integral then, and vLLM's
    # PrefillStats (Any), which vLLM fills in later.
    admitted_integral: float
    prefill: Any

    def __init__(self, request: Any, enqueued_s: float, sequence: int) -> None:
        self.request = request
        self.enqueued_s = enqueued_s
        self.sequence = sequence
        self.kind: RequestKind | None = None  # until it was read
        self.hints = NO_HINTS
        # As `sched_client.estimates.Estimated`; 0 seconds until it was estimated.
        self.key = GLOBAL_KEY  # as it is ordered by; `Estimates` makes all of a key share one
        self.service_s = self.tokens = 0.0
        self.queue_id = ""
        self.estimated_version = 0
        self.checked_version = -1
        # What else its policy is told.
        self.group_id = ""
        self.priority = 0
        self.admitted_s: float | None = None
        self.group = ""

    def take(self, reading: Reading) -> None:
        """Keep what was read."""
        features, ordering, self.hints = reading
        self.key = ordering.key
        self.language = features.language
        self.audio_s = features.audio_s
        self.prompt_tokens = features.prompt_tokens
        self.max_tokens = features.max_tokens
        self.duration_source = features.duration_source
        self.ordered_audio_s = ordering.audio_s
        self.kind = features.kind

    @property
    def features(self) -> Features | None:
        """What was measured, to be reported and learned from; None until it was read."""
        kind = self.kind
        if kind is None:
            return None
        model, task, _, timestamps = self.key
        return Features(
            model,
            task,
            self.language,
            timestamps,
            kind,
            self.audio_s,
            self.prompt_tokens,
            self.max_tokens,
            self.duration_source,
        )

    @property
    def ordering(self) -> Features:
        """What the estimate is made of: as measured, with the hints applied.

        Where the duration came from is told as measured; no estimate depends on it.
        """
        if self.kind is None:
            raise RuntimeError(f"{self.request.request_id!r} was not read; call take() first")
        return Features(
            *self.key,
            self.kind,
            self.ordered_audio_s,
            self.prompt_tokens,
            self.max_tokens,
            self.duration_source,
        )

    def again(self, enqueued_s: float, sequence: int) -> "Record":
        """Give the record of a session's next turn, which is to be read anew."""
        record = Record(self.request, enqueued_s, sequence)
        record.group = self.group
        record.admitted_s = self.admitted_s
        if self.admitted_s is not None:
            record.admitted_integral = self.admitted_integral
            record.prefill = self.prefill
        return record
