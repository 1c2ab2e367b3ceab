"""Settings as words: read from ``name=value``, and shown.

Whatever `Settings` holds can be said, so that a new setting needs nothing here.
"""

import math
from collections.abc import Collection, Iterable, Mapping
from dataclasses import fields, replace
from typing import Any, Final, get_args, get_type_hints

from sched_client.model import Settings
from sched_client.validity import invalid_settings_reason

_KINDS: Final[Mapping[str, Any]] = get_type_hints(Settings)  # Any: a type, of any kind
_NOTHING: Final = ("none", "off")


def with_texts(settings: Settings, texts: Iterable[str], *, fixed: Collection[str]) -> Settings:
    """Give the settings with each ``name=value`` applied, the later ones winning.

    Parameters
    ----------
    settings : Settings
        What holds for the others.
    texts : iterable of str
        Such as ``between=ratio``, ``tier_weight=inf`` or ``guard_s=none``.
    fixed : collection of str
        Names that cannot be said here.

    Returns
    -------
    Settings

    Raises
    ------
    ValueError
        Naming the text, and the names or the limit.

    Examples
    --------
    >>> with_texts(Settings(), ["between=ratio", "w_urgency=2"], fixed=()).w_urgency
    2.0
    """
    names = [one.name for one in fields(Settings) if one.name not in fixed]
    values: dict[str, Any] = {}  # Any: each setting has its own type
    for text in texts:
        name, equals, value = (part.strip() for part in text.partition("="))
        if not equals:
            raise ValueError(f"{text!r} is no name=value, such as between=ratio")
        if name not in names:
            raise ValueError(f"{name!r} is none of {', '.join(names)}")
        values[name] = _value(name, value)
    if "reorder_above" in values:
        # As in the sidecar's configuration: whoever lowers one lowers the other.
        until = min(settings.reorder_until, values["reorder_above"])
        values.setdefault("reorder_until", until)
    changed = replace(settings, **values)
    reason = invalid_settings_reason(changed)
    if reason is not None:
        raise ValueError(reason.removeprefix("settings."))
    return changed


def _value(name: str, text: str) -> object:
    kind = _KINDS[name]
    # A choice, or a number that may be left out; what a choice is, the check of all of them says.
    parts = get_args(kind)
    if type(None) in parts:
        if text.lower() in _NOTHING:
            return None
        kind = next(one for one in parts if one is not type(None))
    elif parts:
        return text
    if kind not in (int, float):
        return text
    try:
        return kind(text)
    except ValueError:
        what = "whole number" if kind is int else "number"
        raise ValueError(f"{name}: {text!r} is no {what}") from None


def document_of(settings: Settings, *, without: Collection[str] = ()) -> dict[str, object]:
    """Give the settings as JSON holds them: what is infinite is null."""
    document = {
        one.name: getattr(settings, one.name)
        for one in fields(Settings)
        if one.name not in without
    }
    return {
        name: None if isinstance(value, float) and math.isinf(value) else value
        for name, value in document.items()
    }


def order_words(settings: Settings) -> str:
    """Say in one line how ewsjf orders; the other policies have nothing of it."""
    if settings.between == "halves":
        least, most = settings.short_share, settings.short_share_most
        share = f"{least:.0%}" if most <= least else f"{least:.0%} to {most:.0%}"
        return f"the shorter {share} of arrivals first, each half by arrival"
    weights = f"urgency {settings.w_urgency:g}, fairness {settings.w_fairness:g}"
    aging = f"aging {settings.aging_rate:g} · mean^-{settings.aging_power:g}"
    return f"within {settings.within}, between {settings.between} ({weights}, {aging})"


def tier_words(settings: Settings) -> str:
    """Say what a step of priority is worth, and who is preempted."""
    weight = settings.tier_weight
    worth = "first" if math.isinf(weight) else f"urgent × {weight:g} a step"
    victim = "the last admitted" if settings.preemption == "last" else "whose lost work is least"
    return f"a smaller priority is {worth}; preempted is {victim}"
