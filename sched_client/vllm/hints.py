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
# What callers may call a tier; who names none has 0, and a smaller one goes first.
TIERS: Final[Mapping[str, int]] = {
    "paid": -1,
    "high": -1,
    "normal": 0,
    "free": 1,
    "low": 1,
    "batch": 2,
}
# Numbers are held to this, either way: no caller needs more steps, and none may invent them.
MAX_TIER: Final = 4


class Hints(NamedTuple):
    """Checked hints of one request.

    Attributes
    ----------
    audio_s : float or None
        Seconds of audio, in (0, `MAX_AUDIO_S`].
    language, request_type, group : str
        Printable labels of at most `MAX_LABEL` characters; empty for none.
    tier : int or None
        A priority in ± `MAX_TIER`: a smaller one goes first.
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
    >>> [read_hints({"tier": tier}).tier for tier in ("paid", "Batch", 1, "-2", 99, "gold")]
    [-1, 2, 1, -2, 4, None]
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
    if isinstance(value, str):
        name = value[:MAX_LABEL].strip().lower()
        # A form's fields are text: a number is one with or without quotes.
        if not (name.isascii() and name.removeprefix("-").isdigit()):
            return TIERS.get(name)
        value = int(name)
    if not isinstance(value, int) or isinstance(value, bool):
        return None
    return max(-MAX_TIER, min(value, MAX_TIER))


def _label(value: Any) -> str:  # Any: as above
    if not isinstance(value, str):
        return ""
    text = value[:MAX_LABEL].strip()
    return text if text.isprintable() else ""
