"""What makes a snapshot unfit to act on, in words.

Owns the limits of every published value. Standard library only.
"""

import math
import operator
from collections.abc import Mapping
from typing import Final, get_args

from sched_client.model import (
    GLOBAL_KEY,
    MAX_REORDER_ABOVE,
    MODES,
    Between,
    KappaEntry,
    Key,
    OrderBy,
    Partition,
    Preemption,
    Settings,
    Snapshot,
    Within,
)
from sched_client.settings import MAX_TIER_WEIGHT, WEIGHT_LIMITS


def invalid_reason(snapshot: Snapshot) -> str | None:
    """Say why a snapshot must not be acted on.

    Parameters
    ----------
    snapshot : Snapshot
        As received.

    Returns
    -------
    str or None
        Field, value and limit of the first violation, or None for a valid snapshot.
    """
    if GLOBAL_KEY not in snapshot.kappas:
        return "kappas: the global key is missing"
    for key, entry in snapshot.kappas.items():
        reason = invalid_entry_reason(key, entry)
        if reason is not None:
            return reason
    return invalid_frame_reason(snapshot)


def invalid_entry_reason(key: Key, entry: KappaEntry) -> str | None:
    """Say why one κ entry must not be acted on, or give None."""
    kappa = entry.kappa_tokens_per_s
    # The usual case in one comparison (NaN fails it): a snapshot holds thousands of entries.
    if (
        0.0 <= kappa < math.inf
        and 0.0 < entry.ratio_p50 <= entry.ratio_p90 <= entry.ratio_p99 < math.inf
        and -math.inf < entry.intercept_tokens < math.inf
    ):
        return None
    ratios = (entry.ratio_p50, entry.ratio_p90, entry.ratio_p99)
    if not (math.isfinite(kappa) and kappa >= 0.0):
        return f"kappas[{key}].kappa_tokens_per_s: {kappa} is not finite and >= 0"
    if not math.isfinite(entry.intercept_tokens):
        return f"kappas[{key}].intercept_tokens: {entry.intercept_tokens} is not finite"
    if not (all(map(math.isfinite, ratios)) and 0.0 < ratios[0] <= ratios[1] <= ratios[2]):
        return f"kappas[{key}].ratio_p50/p90/p99: {ratios} are not finite, > 0 and ascending"
    return None


# Thirty years in seconds. Finite is not enough: products of what is allowed must be finite too.
_MAX_SERVICE: Final = 1e9
# Tokens of KV memory that come to a slot, where they are known: the API's limits for both.
_MIN_CONTEXT: Final = 1e-6
_MAX_CONTEXT: Final = 1e12


# Far above what a partition makes (8): bounds what one snapshot can ask of an engine.
_MAX_QUEUES: Final = 64
# Far below the least estimate: a mean near 0 would make aging infinite.
_MIN_MEAN_S: Final = 1e-6
_CHOICES: Final[Mapping[str, tuple[str, ...]]] = {
    "mode": MODES,
    "order_by": get_args(OrderBy),
    "within": get_args(Within),
    "between": get_args(Between),
    "preemption": get_args(Preemption),
}


def invalid_frame_reason(snapshot: Snapshot) -> str | None:
    """Say why the parts of a snapshot beside its κ table are invalid, or give None."""
    for model, service in snapshot.services.items():
        for name in ("seconds_per_token", "mean_service_s", "mean_tokens", "mean_audio_s"):
            value = getattr(service, name)
            if not 0.0 < value <= _MAX_SERVICE:
                return f"services[{model!r}].{name}: {value} is not in (0, {_MAX_SERVICE:g}]"
        for name in ("overhead_s", "seconds_per_prompt_token"):
            value = getattr(service, name)
            if not 0.0 <= value <= _MAX_SERVICE:
                return f"services[{model!r}].{name}: {value} is not in [0, {_MAX_SERVICE:g}]"
        value = service.slot_context_tokens
        if value != 0.0 and not _MIN_CONTEXT <= value <= _MAX_CONTEXT:
            name = f"services[{model!r}].slot_context_tokens"
            return f"{name}: {value} is neither 0 nor in [{_MIN_CONTEXT:g}, {_MAX_CONTEXT:g}]"
    for model, partition in snapshot.partitions.items():
        reason = invalid_partition_reason(partition)
        if reason is not None:
            return f"partitions[{model!r}]{reason}"
    return invalid_settings_reason(snapshot.settings)


def invalid_partition_reason(partition: Partition) -> str | None:
    """Say why queues must not be acted on, from the field's name on, or give None."""
    bounds, queue_ids = partition.boundaries_s, partition.queue_ids
    lowers, uppers = partition.lowers_s, partition.uppers_s
    count = len(queue_ids)
    ascending = all(map(math.isfinite, bounds)) and list(bounds) == sorted(set(bounds))
    checks = (
        (count == len(bounds) + 1, f": {len(bounds)} boundaries need one queue more"),
        (count <= _MAX_QUEUES, f": {count} queues are more than {_MAX_QUEUES}"),
        (
            all(queue_ids) and len(set(queue_ids)) == count,
            f".queue_ids: {queue_ids} are not all different and named",
        ),
        (ascending, f".boundaries_s: {bounds} are not finite and ascending"),
        *(
            (len(values) in (0, count), f".{name}: {len(values)} values for {count} queues")
            for name, values, _, _ in _per_queue(partition)
        ),
        *(
            (
                all(least <= value <= most for value in values),
                f".{name}: {values} are not in [{least:g}, {most:g}]",
            )
            for name, values, least, most in _per_queue(partition)
        ),
        (
            len(lowers) == len(uppers) and all(map(operator.le, lowers, uppers)),
            f".uppers_s: {uppers} are not at or above lowers_s: {lowers}",
        ),
    )
    return next((reason for valid, reason in checks if not valid), None)


def _per_queue(
    partition: Partition,
) -> tuple[tuple[str, tuple[float, ...], float, float], ...]:
    return (
        ("lowers_s", partition.lowers_s, 0.0, _MAX_SERVICE),
        ("uppers_s", partition.uppers_s, 0.0, _MAX_SERVICE),
        ("means_s", partition.means_s, _MIN_MEAN_S, _MAX_SERVICE),
        ("shares", partition.shares, 0.0, 1.0),
    )


def invalid_settings_reason(settings: Settings) -> str | None:
    """Say why settings must not be acted on, or give None."""
    for name, names in _CHOICES.items():
        if getattr(settings, name) not in names:
            value = getattr(settings, name)
            return f"settings.{name}: {value!r} is none of {', '.join(names)}"
    guard_s, tier_weight, most = settings.guard_s, settings.tier_weight, MAX_REORDER_ABOVE
    checks = (
        (0.0 <= settings.phi < 1.0, f"phi: {settings.phi} is not in [0, 1)"),
        (settings.burst_requests >= 0.0, f"burst_requests: {settings.burst_requests} is not >= 0"),
        (guard_s is None or guard_s > 0.0, f"guard_s: {guard_s} is not > 0"),
        (
            0 <= settings.reorder_above <= most,
            f"reorder_above: {settings.reorder_above} is not in [0, {most}]",
        ),
        (
            0 <= settings.reorder_until <= settings.reorder_above,
            f"reorder_until: {settings.reorder_until} is not in [0, {settings.reorder_above}]",
        ),
        *(
            (
                0.0 <= getattr(settings, name) <= limit,
                f"{name}: {getattr(settings, name)} is not in [0, {limit:g}]",
            )
            for name, limit in WEIGHT_LIMITS.items()
        ),
        (
            1.0 <= tier_weight <= MAX_TIER_WEIGHT or tier_weight == math.inf,
            f"tier_weight: {tier_weight} is neither in [1, {MAX_TIER_WEIGHT:g}] nor infinite",
        ),
    )
    return next((f"settings.{reason}" for valid, reason in checks if not valid), None)
