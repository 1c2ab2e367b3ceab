"""Policies by name. Standard library only."""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

from sched_client.model import PolicyParameters
from sched_client.policies.base import Policy
from sched_client.policies.ewsjf import QueuedOrders
from sched_client.policies.ewsjf_paper import paper_orders
from sched_client.policies.fcfs import Fcfs
from sched_client.policies.guarded import FixedOrders, GuardedPolicy
from sched_client.policies.hrrn import HighestRatioFirst
from sched_client.policies.orders import KeyedOrder, shortest_first_rank
from sched_client.policies.queues import QueueBook
from sched_client.policies.waiting import check_parameters


def _sjf(parameters: PolicyParameters) -> Policy:
    orders = FixedOrders(lambda: KeyedOrder(shortest_first_rank), parameters)
    return GuardedPolicy("sjf", orders, parameters)


def _hrrn(parameters: PolicyParameters) -> Policy:
    return GuardedPolicy("hrrn", FixedOrders(HighestRatioFirst, parameters), parameters)


def _ewsjf(parameters: PolicyParameters) -> Policy:
    check_parameters(parameters)
    return GuardedPolicy("ewsjf", QueuedOrders(QueueBook(parameters)), parameters)


def _ewsjf_paper(parameters: PolicyParameters) -> Policy:
    check_parameters(parameters)
    return GuardedPolicy("ewsjf-paper", paper_orders(parameters), parameters)


_POLICIES: Final[Mapping[str, Callable[[PolicyParameters], Policy]]] = MappingProxyType(
    {"fcfs": Fcfs, "sjf": _sjf, "hrrn": _hrrn, "ewsjf": _ewsjf, "ewsjf-paper": _ewsjf_paper}
)
POLICY_NAMES: Final = tuple(_POLICIES)


def create_policy(name: str, parameters: PolicyParameters) -> Policy:
    """Make an empty policy.

    Parameters
    ----------
    name : str
        One of `POLICY_NAMES`.
    parameters : PolicyParameters
        The unit of work and the guard.

    Returns
    -------
    Policy
        For one engine's waiting queue.

    Raises
    ------
    ValueError
        For an unknown name, listing the known ones, or parameters outside their limits.

    Examples
    --------
    >>> from sched_client.policies import WaitingEntry
    >>> policy = create_policy("sjf", PolicyParameters())
    >>> policy.add(WaitingEntry("long", enqueued_s=0.0, service_s=2.0, tokens=90.0))
    >>> policy.add(WaitingEntry("short", enqueued_s=0.1, service_s=0.2, tokens=9.0))
    >>> policy.pop(now_s=0.2).request_id
    'short'
    """
    factory = _POLICIES.get(name)
    if factory is None:
        raise ValueError(f"policy {name!r} is unknown; use one of {', '.join(_POLICIES)}")
    return factory(parameters)
