"""What the engine's thread and the transport's threads share, and the transport's bounds.

Every attribute of `LinkState` has one writer and is replaced as a whole, so that readers need no
lock. Standard library only.
"""

import threading
from dataclasses import dataclass
from typing import Final, NamedTuple

from sched_client.completion import EngineStatus, RunningSource
from sched_client.model import Snapshot

# A reason longer than this is cut: the API's limit of ClientStatus.reject_reason.
MAX_REASON_LENGTH: Final = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """Bounds of the transport; tests shorten them.

    Attributes
    ----------
    slice_s : float
        Longest uninterrupted conversion, seconds; the interpreter's lock is held meanwhile.
    pause_s : float
        Sleep between two slices while the engine is busy, seconds.
    silence_s : float
        Silence on the watch that counts as dead: three intervals of the sidecar's bookmarks (5 s).
    backoff_min_s, backoff_max_s : float
        Range of the delay before a retry, seconds.
    flush_s : float
        Reports wait at most this long for others, seconds.
    running_s : float
        Running requests are told this often, seconds; those of young keys with each batch too.
    sign_of_life_s : float
        An idle client reports this often, seconds.
    deadline_s : float
        Deadline of one report, seconds.
    poll_s : float
        Interval of looking for the kill switch and for silence, seconds.
    close_s : float
        The most that closing takes, seconds.
    batch_size : int
        Reports in one call; the API takes 1024.
    buffer_size : int
        Reports kept while the sidecar is away.
    """

    slice_s: float = 0.000_15
    pause_s: float = 0.03
    silence_s: float = 15.0
    backoff_min_s: float = 0.1
    backoff_max_s: float = 10.0
    flush_s: float = 0.5
    running_s: float = 1.0
    sign_of_life_s: float = 10.0
    deadline_s: float = 5.0
    poll_s: float = 0.5
    close_s: float = 2.0
    batch_size: int = 256
    buffer_size: int = 10_000


class Position(NamedTuple):
    """Where in the sidecar's history the client stands; versions compare within an instance."""

    instance_id: str = ""
    version: int = 0


class Refusal(NamedTuple):
    """The last snapshot that was not acted on, and why."""

    version: int
    reason: str


class LinkState:
    """The shared state; `Link` adds the threads.

    Attributes
    ----------
    snapshot : Snapshot
        Newest valid one. Written by the watcher.
    stale_since_s : float or None
        None while the sidecar is heard, else the monotonic time of the last message. Written by
        the watcher.
    kill_switch : bool
        Whether the operator's ``off`` file exists. Written by the poller.
    status : EngineStatus
        Goes with the next report. Written by the engine.
    running : RunningSource or None
        What the engine runs; None while nothing is to be reported. Written by the engine.
    position : Position
        What the client has applied. Written by the watcher.
    refusal : Refusal or None
        The last refused snapshot. Written by the watcher.
    failures : int
        Exceptions caught in the transport's own code; approximate where two threads fail at once.
    stop : threading.Event
        Set to end the threads.
    """

    def __init__(self, snapshot: Snapshot, now_s: float) -> None:
        self.snapshot = snapshot
        self.stale_since_s: float | None = now_s
        self.kill_switch = False
        self.status = EngineStatus()
        self.running: RunningSource | None = None
        self.position = Position()
        self.refusal: Refusal | None = None
        self.failures = 0
        self.stop = threading.Event()
