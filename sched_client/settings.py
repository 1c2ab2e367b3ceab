"""What the operator (or the optimizer) decides, and the queues that work falls into.

Standard library only; `sched_client.model` shows all of it again.
"""

import math
from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, Literal

Mode = Literal["off", "shadow", "on"]
OrderBy = Literal["service", "tokens"]
Within = Literal["fcfs", "score"]
Between = Literal["score", "ratio", "shortest", "halves"]
Preemption = Literal["last", "least_lost"]

MODES: Final[tuple[Mode, ...]] = ("off", "shadow", "on")
# So few are looked through for the oldest, each time one is chosen.
MAX_REORDER_ABOVE: Final = 64
# The most that each may be, so that every score stays finite and a share is one.
WEIGHT_LIMITS: Final[Mapping[str, float]] = MappingProxyType(
    {
        "w_urgency": 1e9,
        "w_fairness": 1e9,
        "aging_rate": 1e9,
        "aging_power": 4.0,
        "short_share": 1.0,
        "short_share_most": 1.0,
    }
)
MAX_TIER_WEIGHT: Final = 1e6


@dataclass(frozen=True, slots=True, kw_only=True)
class Partition:
    """Queues of like cost: a request belongs to the queue whose interval holds its service.

    Attributes
    ----------
    boundaries_s : tuple of float
        Ascending upper bounds in seconds of work, one fewer than ``queue_ids``.
    queue_ids : tuple of str
        Stable names of the queues, shortest work first.
    lowers_s, uppers_s : tuple of float
        Where the work of each queue was seen, in seconds; a request beyond it is a stranger
        (`sched_client.policies`: a bubble). Empty: wherever its interval goes.
    means_s : tuple of float
        Mean work of each queue in seconds, > 0; empty where none was learned.
    shares : tuple of float
        Share of recent requests in each queue, in sum 1; empty where none was learned.
    """

    boundaries_s: tuple[float, ...] = ()
    queue_ids: tuple[str, ...] = ("q0",)
    lowers_s: tuple[float, ...] = ()
    uppers_s: tuple[float, ...] = ()
    means_s: tuple[float, ...] = ()
    shares: tuple[float, ...] = ()

    def queue_of(self, service_s: float) -> str:
        """Give the id of the queue for an amount of work in seconds."""
        return self.queue_ids[bisect_right(self.boundaries_s, service_s)]


SINGLE_QUEUE: Final = Partition()


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What the operator (or later the optimizer) decides for every engine of a sidecar.

    Attributes
    ----------
    mode : {"off", "shadow", "on"}
        ``off`` admits FCFS and records nothing, ``shadow`` admits FCFS and records the order it
        would have chosen, ``on`` admits in the policy's order.
    policy : str
        A name that ``create_policy`` knows; an unknown one means FCFS.
    order_by : {"service", "tokens"}
        What work is counted in.
    phi : float
        Share of the work served since its arrival by which a request may be overtaken, [0, 1).
    burst_requests : float
        The overtaking allowed from the start, in mean requests, ≥ 0 (b₀ = this · mean work).
        Real Whisper on two cores, 60 requests at load 1.5, against FCFS, sjf at φ .3: 20 gave
        P50 -39 to -61 % and P90 +44 to +73 %, 8 gave P50 -35 to -55 % and P90 +33 to +49 %.
    guard_s : float or None
        Optional: whoever waited longer than this many seconds goes first.
    reorder_above : int
        As long as no more than this many wait, they go in order of arrival, ≥ 0. In a short queue
        an order gives little and takes it from the last percent: where one request is admitted a
        step, at load 0.7, shortest first raised the P99 of the TTFT by 90 %, with 8 here it does
        not (benchmarks/RESULTS.md, twin).
        An engine that was overloaded lately (`sched_client.policies.load`) does not wait for it.
    reorder_until : int
        Once more have waited, the policy orders them until no more than this many do, ≥ 0: in
        an overload the queue is then ordered to its end. At ``reorder_above`` or more, it
        changes nothing.
    within : {"fcfs", "score"}
        ewsjf: the order inside a queue.
    between : {"score", "ratio", "shortest", "halves"}
        ewsjf: whose head goes next: the highest score, the highest response ratio, or the queue
        of the shortest work. ``halves`` leaves the partition alone: two queues in order of
        arrival, cut at a share of the latest arrivals' work, the shorter one first.
    w_urgency, w_fairness : float
        ewsjf: weights of 1/remaining tokens and of the queue's density in the score, ≥ 0.
    aging_rate, aging_power : float
        ewsjf: a head's score grows by ``aging_rate · (queue's mean work in s)^-aging_power`` a
        second of waiting, ≥ 0 and finite: power 0 ages all queues alike, 1 as a response ratio.
    short_share, short_share_most : float
        ewsjf, ``halves``: the least and the most share of the arrivals that goes first, [0, 1].
        Between them it is as large as the guard lets all of them through; with no more most than
        least it stays (benchmarks/RESULTS.md, twin_queues). Where the works have a gap with at
        most φ of the work below it, that is the most (docs/policies.md).
    tier_weight : float
        What one step of priority multiplies a score by, ≥ 1; infinite: a smaller priority always
        goes first, as far as the guard allows. sjf and hrrn, which have no score, divide the work
        by it. Up to ``reorder_above`` waiting only an infinite one counts.
    preemption : {"last", "least_lost"}
        Whom the engine preempts when KV memory runs out: the last admitted, as vLLM does, or
        the one whose lost work is least.
    """

    mode: Mode = "shadow"
    policy: str = "ewsjf"
    order_by: OrderBy = "service"
    phi: float = 0.25
    burst_requests: float = 22.0
    guard_s: float | None = None
    reorder_above: int = 8
    reorder_until: int = 6
    within: Within = "fcfs"
    between: Between = "halves"
    w_urgency: float = 1.0
    w_fairness: float = 0.0
    aging_rate: float = 0.0
    aging_power: float = 0.0
    short_share: float = 0.46
    short_share_most: float = 0.58
    tier_weight: float = math.inf
    preemption: Preemption = "last"


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyParameters:
    """`Settings` resolved for one model: what a policy is built with.

    Attributes
    ----------
    order_by : {"service", "tokens"}
        Which field of an entry is its work.
    phi : float
        See `Settings`.
    burst_work : float
        b₀, in the unit of ``order_by``, ≥ 0; infinite switches the guard off.
    guard_s : float or None
        See `Settings`.
    reorder_above, reorder_until : int
        See `Settings`; 0, the defaults here, always ask the order.
    within, between, w_urgency, w_fairness, aging_rate, aging_power, short_share, tier_weight
        See `Settings`.
    short_share_most : float
        See `Settings`; 0, the default here, keeps the share as it is.
    partition : Partition
        The model's queues.
    """

    order_by: OrderBy = "service"
    phi: float = 0.3
    burst_work: float = 3.6
    guard_s: float | None = None
    reorder_above: int = 0
    reorder_until: int = 0
    within: Within = "fcfs"
    between: Between = "score"
    w_urgency: float = 1.0
    w_fairness: float = 0.0
    aging_rate: float = 0.0
    aging_power: float = 0.0
    short_share: float = 0.48
    short_share_most: float = 0.0
    tier_weight: float = math.inf
    partition: Partition = SINGLE_QUEUE


def parameters_of(
    settings: Settings, *, mean_work: float, partition: Partition = SINGLE_QUEUE
) -> PolicyParameters:
    """Resolve settings for one model.

    Parameters
    ----------
    settings : Settings
        What holds for every model.
    mean_work : float
        Mean work of the model's requests, > 0, in the unit of ``settings.order_by``.
    partition : Partition
        The model's queues.

    Returns
    -------
    PolicyParameters
        With b₀ in the unit that work is counted in.
    """
    return PolicyParameters(
        order_by=settings.order_by,
        phi=settings.phi,
        burst_work=settings.burst_requests * mean_work,
        guard_s=settings.guard_s,
        reorder_above=settings.reorder_above,
        reorder_until=settings.reorder_until,
        within=settings.within,
        between=settings.between,
        w_urgency=settings.w_urgency,
        w_fairness=settings.w_fairness,
        aging_rate=settings.aging_rate,
        aging_power=settings.aging_power,
        short_share=settings.short_share,
        short_share_most=settings.short_share_most,
        tier_weight=settings.tier_weight,
        partition=partition,
    )
