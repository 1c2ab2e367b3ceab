"""The contract of an order for waiting requests.

Standard library only. A policy reads no clock: time comes in as ``now_s`` (monotonic seconds).
Entries never compare themselves; keys that move with time are compared at one ``now_s``.
"""

from collections.abc import Callable, Iterator
from typing import NamedTuple, Protocol

from sched_client.model import PolicyParameters
from sched_client.policies.load import RecentLoad


class WaitingEntry(NamedTuple):
    """One waiting request, as a policy sees it.

    Attributes
    ----------
    request_id : str
        Unique among the waiting.
    enqueued_s : float
        Monotonic seconds at which the scheduler first saw it; kept when it is given back.
    service_s : float
        Estimated residence, > 0 and finite.
    tokens : float
        Estimated output tokens, > 0 and finite.
    queue_id : str
        Queue of the partition.
    group_id : str
        Shared by the pieces of one file, empty for a request on its own.
    priority : int
        vLLM's priority: a smaller one goes first.

    Notes
    -----
    A named tuple is built in a third of the time of a frozen dataclass: policies keep the values
    and build an entry whenever they show one (`sched_client.policies.waiting.Waiting`).
    """

    request_id: str
    enqueued_s: float
    service_s: float
    tokens: float
    queue_id: str = "q0"
    group_id: str = ""
    priority: int = 0


class Policy(Protocol):
    """An order of waiting requests, with a guard that bounds what anyone is overtaken by.

    ``peek`` decides and ``pop`` obeys: after a peek, ``pop`` returns that very entry whatever was
    added in between, unless it was removed. Every operation is O(log n) or better.
    """

    name: str
    # What arrivals find waiting: the owner tells it of each one, and may share one with the next
    # policy.
    load: RecentLoad

    def add(self, entry: WaitingEntry) -> None:
        """Add an entry as the youngest; raise ValueError for a bad value or a known id."""

    def peek(self, now_s: float) -> WaitingEntry:
        """Give the entry that goes next and fix that choice; raise IndexError when empty."""

    def pop(self, now_s: float) -> WaitingEntry:
        """Remove and give the entry of the last peek, or of a peek made now."""

    def remove(self, request_id: str) -> None:
        """Forget an entry; an absent id is no error and changes nothing."""

    def give_back(self, entry: WaitingEntry) -> None:
        """Take back a popped entry: it keeps its enqueue time and goes first among equals."""

    def update(
        self,
        parameters: PolicyParameters,
        re_estimate: Callable[[WaitingEntry], WaitingEntry] | None = None,
    ) -> None:
        """Apply new parameters, and new estimates where ``re_estimate`` gives them."""

    def revise(self, entry: WaitingEntry) -> None:
        """Give one waiting entry a new estimate; an absent id changes nothing, O(log n)."""

    def __len__(self) -> int:
        """Count the waiting entries."""

    def __iter__(self) -> Iterator[WaitingEntry]:
        """Iterate over the waiting entries in arrival order."""
