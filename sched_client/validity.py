"""What makes a snapshot unfit to act on, in words.

Owns the limits of every published value. Standard library only.
"""

import math
from typing import Final

from sched_client.model import (
    GLOBAL_KEY,
    MAX_REORDER_ABOVE,
    MODES,
    KappaEntry,
    Key,
    Settings,
    Snapshot,
)


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
    for model, partition in snapshot.partitions.items():
        bounds = partition.boundaries_s
        if len(partition.queue_ids) != len(bounds) + 1:
            return f"partitions[{model!r}]: {len(bounds)} boundaries need one queue more"
        if not all(map(math.isfinite, bounds)) or list(bounds) != sorted(set(bounds)):
            return f"partitions[{model!r}].boundaries_s: {bounds} are not finite and ascending"
    return invalid_settings_reason(snapshot.settings)


def invalid_settings_reason(settings: Settings) -> str | None:
    """Say why settings must not be acted on, or give None."""
    mode, guard_s, most = settings.mode, settings.guard_s, MAX_REORDER_ABOVE
    checks = (
        (mode in MODES, f"mode: {mode!r} is none of {', '.join(MODES)}"),
        (
            settings.order_by in ("service", "tokens"),
            f"order_by: {settings.order_by!r} is neither service nor tokens",
        ),
        (0.0 <= settings.phi < 1.0, f"phi: {settings.phi} is not in [0, 1)"),
        (settings.burst_requests >= 0.0, f"burst_requests: {settings.burst_requests} is not >= 0"),
        (guard_s is None or guard_s > 0.0, f"guard_s: {guard_s} is not > 0"),
        (
            0 <= settings.reorder_above <= most,
            f"reorder_above: {settings.reorder_above} is not in [0, {most}]",
        ),
    )
    return next((f"settings.{reason}" for valid, reason in checks if not valid), None)
