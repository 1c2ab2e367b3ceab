"""Estimates of waiting requests, and new ones when what was learned has moved.

A new snapshot arrives several times a second and usually moves nothing. So each key that was
seen is probed first; only where it moved by `REVISION_RATIO` are its waiting requests estimated
anew, all within a small share of each step. Whoever is about to go next is looked at in any case.

Standard library only: the client inside vLLM and the twin use it.
"""

from collections.abc import Callable, Iterable
from typing import Any, Final, NamedTuple, Protocol, TypeVar

from sched_client.model import (
    SINGLE_QUEUE,
    TEXT_TASK,
    Estimate,
    Features,
    Key,
    RequestKind,
    Snapshot,
    evaluate,
)
from sched_client.remaining import remaining_service_s, remaining_tokens
from sched_client.text_class import class_bounds

# A waiting request is given a new estimate when it moves by this much; less cannot be worth it.
REVISION_RATIO: Final = 0.05
# Seconds a step that probes and new estimates may take.
REVISION_BUDGET_S: Final = 200e-6
# A short and a long clip: κ and the intercept may move against each other.
_PROBES_S: Final = (2.0, 25.0)
_NO_LIMIT: Final = 1 << 30
# Whisper knows 100 languages, two tasks and two kinds of timestamps; beyond this all is forgotten.
_MAX_KEYS: Final = 1024


class Estimated(Protocol):
    """A request as far as its estimate goes; `Estimates` fills in all but ``ordering``.

    Attributes
    ----------
    key : Key
        That of ``ordering``; `Estimates` lets all requests of it share one object.
    service_s, tokens : float
        The estimate in force, > 0; 0 before the first one.
    queue_id : str
        Queue of the partition.
    estimated_version, checked_version : int
        The snapshot that the estimate was made by, and the last one that it was compared with.
    """

    key: Key
    service_s: float
    tokens: float
    queue_id: str
    estimated_version: int
    checked_version: int

    @property
    def ordering(self) -> Features:
        """What the estimate is made of."""


R = TypeVar("R", bound=Estimated)


class Remains(NamedTuple):
    """What is left of a request that was preempted, as a policy orders by it.

    Attributes
    ----------
    service_s, tokens : float
        Seconds from its next admission on, and tokens to come, > 0.
    queue_id : str
        Queue of the partition for that work.
    """

    service_s: float
    tokens: float
    queue_id: str


class Estimates:
    """The snapshot in force, and what was estimated by which.

    Attributes
    ----------
    snapshot : Snapshot
        What new estimates are made of.
    """

    def __init__(self, snapshot: Snapshot) -> None:
        self.snapshot = snapshot
        self._probed: dict[Key, tuple[Estimate, ...]] = {}
        # Each key seen, by itself: all its records share one object.
        self._keys: dict[Key, Key] = {}
        self._unprobed: list[Key] = []
        # Keys that moved since the last round began; in a round all who waited when it began are
        # looked at, and estimated anew where their key is one of these, by identity: all records
        # of a key share it, and hashing keys took ten times as long.
        self._moved: set[Key] = set()
        self._round: list[Any] = []  # Any: records of the kind that `revise_some` is given
        self._round_keys: set[int] = set()

    def adopt(self, snapshot: Snapshot) -> None:
        """Take a new snapshot; what it moves is found by `revise_some`."""
        self.snapshot = snapshot
        self._unprobed = list(self._probed)

    def first(self, record: Estimated) -> None:
        """Estimate a request that was read for the first time, or anew after its next turn."""
        snapshot, features = self.snapshot, record.ordering
        key = features.key
        if key not in self._probed:
            if len(self._probed) >= _MAX_KEYS:
                self._probed.clear()
                self._keys.clear()
            self._probed[key] = _probe(snapshot, key)
        record.key = self._keys.setdefault(key, key)
        record.checked_version = record.estimated_version = snapshot.version
        estimate = evaluate(snapshot, features)
        record.service_s, record.tokens = estimate.service_s, estimate.tokens
        record.queue_id = estimate.queue_id

    def revised(self, record: Estimated) -> bool:
        """Estimate a request anew if the newest snapshot moves it enough; say whether it did."""
        snapshot = self.snapshot
        if record.checked_version == snapshot.version:
            return False
        record.checked_version = snapshot.version
        if not record.service_s:
            return False
        new = evaluate(snapshot, record.ordering)
        if not _differs(record, new):
            return False
        record.estimated_version = snapshot.version
        record.service_s, record.tokens, record.queue_id = new.service_s, new.tokens, new.queue_id
        return True

    def remains(self, record: Estimated, produced_tokens: int) -> Remains:
        """Estimate what is left of a request that has produced so many tokens.

        The record keeps the estimate of the whole: that is what is compared with its length.
        """
        snapshot, features = self.snapshot, record.ordering
        tokens = remaining_tokens(
            evaluate(snapshot, features), produced_tokens, features.max_tokens
        )
        service_s = remaining_service_s(
            snapshot.service_of(features.model),
            prompt_tokens=features.prompt_tokens,
            produced_tokens=produced_tokens,
            remaining=tokens,
        )
        queue_id = snapshot.partitions.get(features.model, SINGLE_QUEUE).queue_of(service_s)
        return Remains(service_s, tokens, queue_id)

    @property
    def busy(self) -> bool:
        """Whether `revise_some` has anything to do."""
        return bool(self._unprobed or self._moved or self._round)

    def revise_some(
        self,
        clock: Callable[[], float],
        records: Callable[[], Iterable[R]],
        revise: Callable[[R], object],
    ) -> None:
        """Probe keys and revise requests until the step's share of time is used up.

        Parameters
        ----------
        clock : callable
            Monotonic seconds.
        records : callable
            Gives the waiting requests; called when all keys are probed and one has moved.
        revise : callable
            Asks for `revised` and tells the policy, unless the request waits no more.

        Notes
        -----
        A key that moves again during a round begins another one after it, so nobody is passed
        over. Only the copy of the list of who waits is made in one go (60 µs for 10,000).
        """
        until_s = clock() + REVISION_BUDGET_S
        while self._unprobed:
            if clock() >= until_s:
                return
            self._probe_again(self._unprobed.pop())
        if self._moved and not self._round:
            self._round_keys = {id(self._keys[key]) for key in self._moved if key in self._keys}
            self._moved.clear()
            self._round = list(records())
        waiting, keys = self._round, self._round_keys
        while waiting and clock() < until_s:
            record = waiting.pop()
            if id(record.key) in keys:
                revise(record)

    def _probe_again(self, key: Key) -> None:
        before = self._probed.get(key)
        now = _probe(self.snapshot, key)
        if before is None or any(map(_differs, before, now)):
            # Kept until it moves by this much again, so that small steps add up.
            self._probed[key] = now
            self._moved.add(key)


def _probe(snapshot: Snapshot, key: Key) -> tuple[Estimate, ...]:
    kind: RequestKind = "transcription"
    sizes: tuple[float, ...] = _PROBES_S
    max_tokens: int | None = None
    if key.task == TEXT_TASK:
        kind, sizes = "text", class_bounds(key.language)
        # Without a limit of its own a request has Whisper's, which would hide what lies beyond.
        max_tokens = _NO_LIMIT
    return tuple(
        evaluate(
            snapshot,
            Features(
                model=key.model,
                task=key.task,
                language=key.language,
                timestamps=key.timestamps,
                kind=kind,
                audio_s=probe_s,
                prompt_tokens=round(probe_s),
                max_tokens=max_tokens,
            ),
        )
        for probe_s in sizes
    )


def _differs(old: Estimate | Estimated, new: Estimate) -> bool:
    # Not by the queue: who waits keeps it until its work moves, so that a new partition costs
    # nothing for each of them. Policies route by work, with the partition they were told.
    return (
        abs(new.service_s - old.service_s) >= REVISION_RATIO * old.service_s
        or abs(new.tokens - old.tokens) >= REVISION_RATIO * old.tokens
    )
