"""The score of vLLM's pull request #33392, from its formula (not its code).

Ten queues by prompt length, a queue keeps the order of arrival, and the head goes next that has
the highest

    wait · (1 + 0.5 · ln(length + 1)) · step / (⌊length / step⌋ + 1)

with a step of 200 tokens. There is no clustering and no bound.
"""

import math
from collections import OrderedDict
from collections.abc import Callable
from typing import Final

from sched_client.model import PolicyParameters
from sched_client.policies.guarded import FixedOrders, GuardedPolicy
from sched_client.policies.waiting import Waiting

STEP_TOKENS: Final = 200
QUEUES: Final = 10
NAME: Final = "vllm-pr33392"

LengthOf = Callable[[Waiting], float]


def score(wait_s: float, length: float) -> float:
    """Give the score of a head.

    Parameters
    ----------
    wait_s : float
        Seconds that it has waited.
    length : float
        Its prompt in tokens, >= 0.

    Examples
    --------
    >>> score(2.0, 0.0)
    400.0
    >>> round(score(2.0, 399.0), 1)
    799.1
    """
    steps = math.floor(length / STEP_TOKENS) + 1
    return wait_s * (1.0 + 0.5 * math.log(length + 1.0)) * STEP_TOKENS / steps


def _tokens(item: Waiting) -> float:
    return item.tokens


class ScoredQueues:
    """An order of ten queues whose best head goes next; the older head among equals.

    Parameters
    ----------
    length_of : callable
        Gives the length that the score counts in; by default the tokens of the entry.
    """

    def __init__(self, length_of: LengthOf = _tokens) -> None:
        self._length_of = length_of
        self._queues: list[OrderedDict[int, Waiting]] = [OrderedDict() for _ in range(QUEUES)]

    def __len__(self) -> int:
        """Count the items."""
        return sum(map(len, self._queues))

    def _queue_of(self, item: Waiting) -> OrderedDict[int, Waiting]:
        return self._queues[min(int(self._length_of(item) // STEP_TOKENS), QUEUES - 1)]

    def push(self, item: Waiting) -> None:
        """Take in a waiting item as the last of its queue."""
        self._queue_of(item)[item.sequence] = item

    def discard(self, item: Waiting) -> None:
        """Forget an item that is in it."""
        del self._queue_of(item)[item.sequence]

    def first(self, now_s: float) -> Waiting:
        """Give the item that goes next; there must be one."""
        heads = [next(iter(queue.values())) for queue in self._queues if queue]

        def rank(head: Waiting) -> tuple[float, int]:
            return -score(now_s - head.enqueued_s, self._length_of(head)), head.sequence

        return min(heads, key=rank)


def vllm_pr33392(
    parameters: PolicyParameters, length_of: LengthOf = _tokens, *, guarded: bool = False
) -> GuardedPolicy:
    """Make an empty policy that serves by the pull request's score.

    Parameters
    ----------
    parameters : PolicyParameters
        The unit of work, and the guard where it is wanted.
    length_of : callable
        As `ScoredQueues`.
    guarded : bool
        Whether kappad's guard holds over it; the pull request has none.
    """
    if not guarded:
        parameters = PolicyParameters(order_by=parameters.order_by, burst_work=math.inf)
    orders = FixedOrders(lambda: ScoredQueues(length_of), parameters)
    return GuardedPolicy(NAME, orders, parameters)
