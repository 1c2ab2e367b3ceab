"""What a caller says of its own request (``vllm_xargs``); untrusted unless the operator says so.

Callers choose these values, so each is checked and bounded. Without trust they may only raise an
estimate, never lower it below what was measured, nor choose a tier or a group.
"""

import math
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

# Longer labels are cut: they become label values elsewhere.
MAX_LABEL: Final = 64
# A hint beyond a day of audio is a mistake; it is ignored.
MAX_AUDIO_S: Final = 86_400.0


class Hints(NamedTuple):
    """Checked hints of one request.

    Attributes
    ----------
    audio_s : float or None
        Seconds of audio, in (0, `MAX_AUDIO_S`].
    language, request_type, group : str
        Printable labels of at most `MAX_LABEL` characters; empty for none.
    tier : int or None
        A priority: a smaller one goes first.
    """

    audio_s: float | None = None
    language: str = ""
    tier: int | None = None
    request_type: str = ""
    group: str = ""


NO_HINTS: Final = Hints()


def read_hints(extra_args: object) -> Hints:
    """Read the hints of a request; anything unexpected counts as absent.

    Parameters
    ----------
    extra_args : object
        ``sampling_params.extra_args``.

    Returns
    -------
    Hints
        Checked values.

    Examples
    --------
    >>> read_hints({"audio_s": "2.5", "tier": "gold", "request_type": "live"}).audio_s
    2.5
    >>> read_hints({"audio_s": -1}) == NO_HINTS
    True
    """
    if not isinstance(extra_args, Mapping) or not extra_args:
        return NO_HINTS
    return Hints(
        audio_s=_seconds(extra_args.get("audio_s")),
        language=_label(extra_args.get("language")),
        tier=_tier(extra_args.get("tier")),
        request_type=_label(extra_args.get("request_type")),
        group=_label(extra_args.get("group")),
    )


def _seconds(value: Any) -> float | None:  # Any: callers may write any JSON here
    if value is None or isinstance(value, bool):
        return None
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return number if math.isfinite(number) and 0.0 < number <= MAX_AUDIO_S else None


def _tier(value: Any) -> int | None:  # Any: as above
    # vLLM's priorities are 32-bit integers in practice; more is a mistake or an attack.
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) < 1 << 31:
        return value
    return None


def _label(value: Any) -> str:  # Any: as above
    if not isinstance(value, str):
        return ""
    text = value[:MAX_LABEL].strip()
    return text if text.isprintable() else ""
