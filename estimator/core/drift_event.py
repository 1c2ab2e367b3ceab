"""What a detected change is; without river, so that clients and stores need not load it."""

from dataclasses import dataclass
from typing import Literal

DriftKind = Literal["kappa", "mix", "service"]


@dataclass(frozen=True, slots=True, kw_only=True)
class DriftEvent:
    """One change that was detected, with its end once adapted.

    Attributes
    ----------
    event_id : str
        Opaque and unique; the same id again replaces the event (to set its end).
    kind : {"kappa", "mix", "service"}
        What changed.
    model, task, language, timestamps
        The key it was seen on.
    detected_s : float
        Unix time of the completion that raised it.
    before, after : float
        The level before and after, over the same completions around the change: for ``kappa``
        tokens per second of audio, for ``service`` seconds per token; so both hold the share of
        the intercept, without which a slope and an intercept could trade unseen. For ``mix`` the
        mean audio seconds, or a share in [0, 1], as ``detail`` says.
    z : float
        How sure: the difference of the two levels in its standard errors, as known at detection,
        ≥ 0. Every event has about 4.5 or more; how often a stationary stream gets there is in
        docs/drift.md. 0 where an older version did not say.
    completions_to_detect : int
        Completions of the key from the change, where the detector places it, to the detection.
    detail : str
        For ``mix``: what has moved; else empty.
    completions_to_adapt : int or None
        None until adapted.
    ended_s : float or None
        None until adapted.
    """

    event_id: str
    kind: DriftKind
    model: str
    task: str
    language: str
    timestamps: bool | None
    detected_s: float
    before: float
    after: float
    z: float = 0.0
    completions_to_detect: int = 0
    detail: str = ""
    completions_to_adapt: int | None = None
    ended_s: float | None = None
