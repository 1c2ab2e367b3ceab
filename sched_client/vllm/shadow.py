"""The order that mode ``shadow`` would have chosen: a policy beside vLLM's own queue.

It sees the same waiting requests as the stock queue at every moment and says where it would have
taken another one; what it says changes nothing.
"""

from collections.abc import Callable
from typing import Any

from sched_client.policies.base import Policy, WaitingEntry


class ShadowOrder:
    """A policy that follows what the stock queue does.

    Parameters
    ----------
    policy : Policy
        Empty.
    entry_of : callable
        Makes a request's entry.
    """

    def __init__(self, policy: Policy, entry_of: Callable[[Any], WaitingEntry]) -> None:
        self.policy = policy
        self._entry_of = entry_of

    def add(self, request: Any) -> None:
        """Follow an arrival."""
        self.policy.add(self._entry_of(request))

    def would_differ(self, request: Any, now_s: float) -> bool:
        """Follow a pop of the stock queue, and say whether the policy would have taken another."""
        policy = self.policy
        if policy.peek(now_s).request_id == request.request_id:
            policy.pop(now_s)
            return False
        policy.remove(request.request_id)
        return True

    def give_back(self, request: Any) -> None:
        """Follow a preempted or skipped request."""
        self.policy.give_back(self._entry_of(request))

    def remove(self, request: Any) -> None:
        """Follow a removal."""
        self.policy.remove(request.request_id)
