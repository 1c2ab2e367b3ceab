"""The parts of a snapshot beside its κ table: service times, queues and settings.

What an older sidecar does not say has the value that it acted on, or the default of `Settings`;
what a newer one says in a word unknown here is read as not said.
"""

import math
from collections.abc import Mapping
from typing import Final, cast

from protos.kappad.estimator.v1 import estimator_pb2 as pb
from sched_client.model import Between, Mode, Partition, ServiceTime, Settings, Within

_MODES: Final[Mapping[int, Mode]] = {
    pb.MODE_OFF: "off",
    pb.MODE_SHADOW: "shadow",
    pb.MODE_ON: "on",
}
_WITHIN: Final[Mapping[int, Within]] = {
    pb.WITHIN_ORDER_FCFS: "fcfs",
    pb.WITHIN_ORDER_SCORE: "score",
}
_BETWEEN: Final[Mapping[int, Between]] = {
    pb.BETWEEN_ORDER_SCORE: "score",
    pb.BETWEEN_ORDER_RATIO: "ratio",
    pb.BETWEEN_ORDER_SHORTEST: "shortest",
    pb.BETWEEN_ORDER_HALVES: "halves",
}
_DEFAULTS: Final = Settings()


def read_service(message: pb.ServiceTime) -> ServiceTime:
    """Give one model's service time."""
    return ServiceTime(
        overhead_s=message.overhead_seconds,
        seconds_per_token=message.seconds_per_token,
        seconds_per_prompt_token=message.seconds_per_prompt_token,
        reference_concurrency=message.reference_concurrency,
        mean_service_s=message.mean_service_seconds,
        mean_tokens=message.mean_token_count,
        mean_audio_s=message.mean_audio_seconds,
        sample_count=message.sample_count,
        slot_context_tokens=message.slot_context_token_count,
    )


def read_partition(message: pb.Partition) -> Partition:
    """Give one model's queues."""
    return Partition(
        boundaries_s=tuple(message.boundary_seconds),
        queue_ids=tuple(message.queue_ids),
        lowers_s=tuple(message.lower_seconds),
        uppers_s=tuple(message.upper_seconds),
        means_s=tuple(message.mean_seconds),
        shares=tuple(message.share_ratios),
    )


def read_settings(message: pb.Settings) -> Settings:
    """Give the settings, not yet judged (`sched_client.validity`)."""
    has = message.HasField
    least_lost = message.preemption_order == pb.PREEMPTION_ORDER_LEAST_LOST
    return Settings(
        # An unknown mode is refused by the check that follows, under the name it has here.
        mode=_MODES.get(message.mode) or cast("Mode", f"mode {message.mode}"),
        policy=message.policy,
        order_by="tokens" if message.order_by == pb.ORDER_BY_TOKENS else "service",
        phi=message.overtaking_ratio,
        burst_requests=message.burst_request_count,
        guard_s=message.guard_seconds if has("guard_seconds") else None,
        reorder_above=message.reorder_above_count,
        reorder_until=(
            message.reorder_until_count
            if has("reorder_until_count")
            else message.reorder_above_count
        ),
        within=_WITHIN.get(message.within_order, _DEFAULTS.within),
        between=_BETWEEN.get(message.between_order, _DEFAULTS.between),
        w_urgency=message.urgency_weight if has("urgency_weight") else _DEFAULTS.w_urgency,
        w_fairness=message.fairness_weight if has("fairness_weight") else _DEFAULTS.w_fairness,
        aging_rate=message.aging_rate if has("aging_rate") else _DEFAULTS.aging_rate,
        aging_power=message.aging_power if has("aging_power") else _DEFAULTS.aging_power,
        short_share=message.short_ratio if has("short_ratio") else _DEFAULTS.short_share,
        short_share_most=(
            message.short_ratio_most if has("short_ratio_most") else _DEFAULTS.short_share_most
        ),
        tier_weight=message.tier_weight if has("tier_weight") else math.inf,
        preemption="least_lost" if least_lost else "last",
    )
