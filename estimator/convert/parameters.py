"""What a scheduler acts on: snapshots, deltas and their parts."""

import math
from collections.abc import Collection
from typing import Final, Literal

from estimator.convert import scalars
from estimator.convert.scalars import MODES, MODES_OUT, ORDERS, ORDERS_OUT, SOURCES_OUT
from estimator.runtime.delta import SnapshotDelta
from protos.kappad.estimator.v1 import estimator_pb2 as pb
from sched_client.model import KappaEntry, Key, Partition, ServiceTime, Settings, Snapshot

_DEFAULTS: Final = Settings()


def kappa_to_proto(key: Key, entry: KappaEntry) -> pb.KappaEntry:
    """Convert one key and its κ."""
    return pb.KappaEntry(
        model_id=key.model,
        task=key.task,
        language=key.language,
        timestamps=key.timestamps,  # type: ignore[arg-type]  # the stub forgets None
        kappa_tokens_per_second=entry.kappa_tokens_per_s,
        intercept_tokens=entry.intercept_tokens,
        ratio_p50=entry.ratio_p50,
        ratio_p90=entry.ratio_p90,
        ratio_p99=entry.ratio_p99,
        sample_count=entry.sample_count,
        source=SOURCES_OUT[entry.source],
    )


def key_to_proto(key: Key) -> pb.KappaEntry:
    """Convert a key alone, as a removed entry."""
    return pb.KappaEntry(
        model_id=key.model,
        task=key.task,
        language=key.language,
        timestamps=key.timestamps,  # type: ignore[arg-type]  # the stub forgets None
    )


def key_from_proto(message: pb.KappaEntry) -> Key:
    """Give the key of an entry."""
    timestamps = message.timestamps if message.HasField("timestamps") else None
    return Key(message.model_id, message.task, message.language, timestamps)


def kappa_from_proto(message: pb.KappaEntry) -> tuple[Key, KappaEntry]:
    """Convert one key and its κ; any source but LEARNED counts as a prior."""
    source: Literal["prior", "learned"] = (
        "learned" if message.source == pb.PREDICTION_SOURCE_LEARNED else "prior"
    )
    return key_from_proto(message), KappaEntry(
        kappa_tokens_per_s=message.kappa_tokens_per_second,
        intercept_tokens=message.intercept_tokens,
        ratio_p50=message.ratio_p50,
        ratio_p90=message.ratio_p90,
        ratio_p99=message.ratio_p99,
        sample_count=message.sample_count,
        source=source,
    )


def service_to_proto(model: str, service: ServiceTime) -> pb.ServiceTime:
    """Convert one model's service time."""
    return pb.ServiceTime(
        model_id=model,
        overhead_seconds=service.overhead_s,
        seconds_per_token=service.seconds_per_token,
        seconds_per_prompt_token=service.seconds_per_prompt_token,
        reference_concurrency=service.reference_concurrency,
        mean_service_seconds=service.mean_service_s,
        mean_token_count=service.mean_tokens,
        mean_audio_seconds=service.mean_audio_s,
        sample_count=service.sample_count,
        slot_context_token_count=service.slot_context_tokens,
    )


def service_from_proto(message: pb.ServiceTime) -> tuple[str, ServiceTime]:
    """Convert one model's service time."""
    return message.model_id, ServiceTime(
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


def partition_to_proto(model: str, partition: Partition) -> pb.Partition:
    """Convert one model's queues."""
    return pb.Partition(
        model_id=model,
        boundary_seconds=partition.boundaries_s,
        queue_ids=partition.queue_ids,
        lower_seconds=partition.lowers_s,
        upper_seconds=partition.uppers_s,
        mean_seconds=partition.means_s,
        share_ratios=partition.shares,
    )


def partition_from_proto(message: pb.Partition) -> tuple[str, Partition]:
    """Convert one model's queues."""
    return message.model_id, Partition(
        boundaries_s=tuple(message.boundary_seconds),
        queue_ids=tuple(message.queue_ids),
        lowers_s=tuple(message.lower_seconds),
        uppers_s=tuple(message.upper_seconds),
        means_s=tuple(message.mean_seconds),
        shares=tuple(message.share_ratios),
    )


def settings_to_proto(settings: Settings) -> pb.Settings:
    """Convert the settings."""
    return pb.Settings(
        mode=MODES_OUT[settings.mode],
        policy=settings.policy,
        order_by=ORDERS_OUT[settings.order_by],
        overtaking_ratio=settings.phi,
        burst_request_count=settings.burst_requests,
        guard_seconds=settings.guard_s,
        reorder_above_count=settings.reorder_above,
        reorder_until_count=settings.reorder_until,
        within_order=scalars.WITHINS_OUT[settings.within],
        between_order=scalars.BETWEENS_OUT[settings.between],
        urgency_weight=settings.w_urgency,
        fairness_weight=settings.w_fairness,
        aging_rate=settings.aging_rate,
        aging_power=settings.aging_power,
        short_ratio=settings.short_share,
        short_ratio_most=settings.short_share_most,
        tier_weight=None if math.isinf(settings.tier_weight) else settings.tier_weight,
        preemption_order=scalars.PREEMPTIONS_OUT[settings.preemption],
    )


def settings_from_proto(message: pb.Settings) -> Settings:
    """Convert the settings; an unknown mode is ``off`` (FCFS), an unknown order ``service``.

    What an older sidecar does not say has the default of `Settings`.
    """
    has = message.HasField
    return Settings(
        mode=MODES.get(message.mode, "off"),
        policy=message.policy,
        order_by=ORDERS.get(message.order_by, "service"),
        phi=message.overtaking_ratio,
        burst_requests=message.burst_request_count,
        guard_s=message.guard_seconds if has("guard_seconds") else None,
        reorder_above=message.reorder_above_count,
        reorder_until=(
            message.reorder_until_count
            if has("reorder_until_count")
            else message.reorder_above_count
        ),
        within=scalars.WITHINS.get(message.within_order, _DEFAULTS.within),
        between=scalars.BETWEENS.get(message.between_order, _DEFAULTS.between),
        w_urgency=message.urgency_weight if has("urgency_weight") else _DEFAULTS.w_urgency,
        w_fairness=message.fairness_weight if has("fairness_weight") else _DEFAULTS.w_fairness,
        aging_rate=message.aging_rate if has("aging_rate") else _DEFAULTS.aging_rate,
        aging_power=message.aging_power if has("aging_power") else _DEFAULTS.aging_power,
        short_share=message.short_ratio if has("short_ratio") else _DEFAULTS.short_share,
        short_share_most=(
            message.short_ratio_most if has("short_ratio_most") else _DEFAULTS.short_share_most
        ),
        tier_weight=message.tier_weight if has("tier_weight") else math.inf,
        preemption=scalars.PREEMPTIONS.get(message.preemption_order, "last"),
    )


def parameters_to_proto(snapshot: Snapshot, models: Collection[str] = ()) -> pb.Parameters:
    """Convert a snapshot; ``models`` keeps theirs and what belongs to none, empty keeps all."""
    return pb.Parameters(
        kappas=[
            kappa_to_proto(key, entry)
            for key, entry in snapshot.kappas.items()
            if not models or not key.model or key.model in models
        ],
        services=[
            service_to_proto(model, service)
            for model, service in snapshot.services.items()
            if not models or not model or model in models
        ],
        partitions=[
            partition_to_proto(model, partition)
            for model, partition in snapshot.partitions.items()
            if not models or not model or model in models
        ],
        settings=settings_to_proto(snapshot.settings),
    )


def parameters_from_proto(
    message: pb.Parameters, *, version: int, instance_id: str, created_s: float
) -> Snapshot:
    """Convert a whole state; the other arguments stand in the response around it."""
    return Snapshot(
        version=version,
        instance_id=instance_id,
        created_s=created_s,
        kappas=dict(map(kappa_from_proto, message.kappas)),
        services=dict(map(service_from_proto, message.services)),
        partitions=dict(map(partition_from_proto, message.partitions)),
        settings=settings_from_proto(message.settings),
    )


def delta_to_proto(delta: SnapshotDelta) -> pb.ParametersDelta:
    """Convert a delta; its version stands in the response around it."""
    return pb.ParametersDelta(
        base_version=delta.base_version,
        kappas=[kappa_to_proto(key, entry) for key, entry in delta.kappas.items()],
        removed_kappas=[key_to_proto(key) for key in delta.removed],
        services=[service_to_proto(m, s) for m, s in delta.services.items()],
        partitions=[partition_to_proto(m, p) for m, p in delta.partitions.items()],
        settings=None if delta.settings is None else settings_to_proto(delta.settings),
    )


def delta_from_proto(message: pb.ParametersDelta, *, version: int) -> SnapshotDelta:
    """Convert a delta that leads to ``version``."""
    return SnapshotDelta(
        base_version=message.base_version,
        version=version,
        kappas=dict(map(kappa_from_proto, message.kappas)),
        removed=frozenset(map(key_from_proto, message.removed_kappas)),
        services=dict(map(service_from_proto, message.services)),
        partitions=dict(map(partition_from_proto, message.partitions)),
        settings=settings_from_proto(message.settings) if message.HasField("settings") else None,
    )
