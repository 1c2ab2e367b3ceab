"""What the engine's thread hands to the reporter: plain values, built in a microsecond.

Standard library only; the reporter's thread converts these to messages.
"""

from collections.abc import Iterator
from typing import NamedTuple, Protocol

from sched_client.model import Features, Mode


class CompletionReport(NamedTuple):
    """One finished or aborted request.

    Attributes
    ----------
    counter : int
        Counts the engine's completions; with the boot uuid it makes the completion id.
    features : Features
        What was read of the request.
    output_tokens : int
        Tokens produced, the end token included.
    cached_prompt_tokens : int
        Prompt tokens that the prefix cache held.
    finish_reason : str
        ``stop``, ``length``, ``aborted`` or ``error``.
    finished_s : float
        Unix time of the end.
    wait_s, service_s : float
        Seconds until the first admission, and from there to the end.
    concurrency : float
        Mean number of running requests during the residence; 0 if never admitted.
    preemptions : int
        How often it was preempted.
    predicted_tokens : float
        The estimate it was ordered by; 0 for none.
    snapshot_version : int
        The snapshot that made the estimate.
    request_id : str
        The engine's request id; the reporter hashes it before it leaves the process.
    group_id : str
        Shared by the pieces of one file; hashed before it leaves the process.
    request_type : str
        The caller's own class, untrusted.
    queue_id : str
        Queue of the partition.
    priority : int
        What it was ordered by: vLLM's priority, or the tier that its caller was trusted with.
    """

    counter: int
    features: Features
    output_tokens: int
    finish_reason: str
    finished_s: float
    cached_prompt_tokens: int = 0
    wait_s: float = 0.0
    service_s: float = 0.0
    concurrency: float = 0.0
    preemptions: int = 0
    predicted_tokens: float = 0.0
    snapshot_version: int = 0
    request_id: str = ""
    group_id: str = ""
    request_type: str = ""
    queue_id: str = ""
    priority: int = 0


class RunningReport(NamedTuple):
    """One admitted request that has not finished.

    Attributes
    ----------
    features : Features
        What was read of the request.
    output_tokens : int
        Tokens so far.
    request_id : str
        The engine's request id; the reporter hashes it before it leaves the process.
    started_s : float
        Monotonic seconds of the first admission.
    request_type : str
        The caller's own class, untrusted.
    """

    features: Features
    output_tokens: int
    request_id: str
    started_s: float = 0.0
    request_type: str = ""


class RunningSource(Protocol):
    """Where the reporter's thread finds what the engine runs."""

    def read(self, most: int) -> Iterator[RunningReport]:
        """Yield up to ``most`` running requests as they are now; any thread may."""


class EngineStatus(NamedTuple):
    """What goes with the next report; the engine's thread replaces it as a whole.

    Attributes
    ----------
    effective_mode : {"off", "shadow", "on"}
        The mode in force.
    mode_reason : str
        Why it differs from what the sidecar asked for; empty if it does not.
    policy : str
        Name of the policy in force.
    waiting, running : int
        Requests now.
    admitted, reordered, failures : int
        Since boot.
    """

    effective_mode: Mode = "shadow"
    mode_reason: str = ""
    policy: str = "fcfs"
    waiting: int = 0
    running: int = 0
    admitted: int = 0
    reordered: int = 0
    failures: int = 0
