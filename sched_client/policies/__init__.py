"""Orders of the waiting queue, each with a guard that bounds what anyone is overtaken by."""

from sched_client.policies.base import Policy, WaitingEntry
from sched_client.policies.create import POLICY_NAMES, create_policy

__all__ = ["POLICY_NAMES", "Policy", "WaitingEntry", "create_policy"]
