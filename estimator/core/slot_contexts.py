"""KV memory that comes to one slot of each model's engines, as they have said.

Owns the bounded table. Not learned: it is said again with each report, and saved so that a sidecar
that starts anew publishes the same work as before. Time comes from outside.
"""

from collections.abc import Mapping
from typing import Any, Final

__all__ = ["SlotContexts"]

# An engine says it at least every 10 s; what nobody has said for so long holds no longer.
FORGET_S: Final = 60.0
# The API's limits: one token over a million slots, all tokens for one.
_MIN_TOKENS: Final = 1e-6
_MAX_TOKENS: Final = 1e12


class SlotContexts:
    """The least tokens a slot that an engine of a model has said within a minute.

    Parameters
    ----------
    most : int
        Models; beyond it the one that was said longest ago is forgotten.

    Notes
    -----
    The least and not the last, so that two engines with different memory do not take turns, each
    of which would be a snapshot and new estimates of all that wait. In O(1): what holds gives way
    to anything less, and to anything at all once it was not confirmed for a minute; if that is
    not the least of the rest, the engine with the least says so within seconds.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        # Tokens, and when they were said last; None before anything was since the start. Said
        # longest ago first. Replaced and never changed: a checkpoint reads it in another thread
        # while reports come in.
        self._held: dict[str, tuple[float, float | None]] = {}

    def get(self, model: str) -> float:
        """Give the tokens that come to a slot, 0 where nobody has said."""
        held = self._held.get(model)
        return 0.0 if held is None else held[0]

    def note(self, model: str, tokens: float, now_s: float) -> bool:
        """Take what an engine says; give whether what holds has changed.

        Parameters
        ----------
        model : str
            Served model.
        tokens : float
            Finite, ≥ 0; 0 from an engine that does not know, which counts as more than any other.
        now_s : float
            Seconds of a clock that does not jump back.
        """
        held = self._held.get(model)
        if held is None:
            if tokens > 0.0:
                self._put(model, tokens, now_s)
            return tokens > 0.0
        least, said_s = held
        if 0.0 < tokens <= least:
            self._put(model, tokens, now_s)
            return tokens != least
        if said_s is None:
            self._put(model, least, now_s)
            return False
        if now_s - said_s <= FORGET_S:
            return False
        self._put(model, tokens, now_s)
        return True

    def _put(self, model: str, tokens: float, now_s: float) -> None:
        held = {one: said for one, said in self._held.items() if one != model}
        if tokens > 0.0:
            held[model] = tokens, now_s
            if len(held) > self._most:
                del held[next(iter(held))]
        self._held = held

    def state(self, model: str = "") -> dict[str, float]:
        """Give what holds, said longest ago first; ``model`` keeps this one's."""
        return {one: held[0] for one, held in self._held.items() if not model or one == model}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Take on what `state` gave (JSON, hence Any).

        Raises
        ------
        ValueError
            For anything but tokens in [10⁻⁶, 10¹²].
        """
        held: dict[str, tuple[float, float | None]] = {}
        for model, value in state.items():
            if not (isinstance(value, int | float) and _MIN_TOKENS <= value <= _MAX_TOKENS):
                raise ValueError(f"slot_contexts[{model!r}] is {value!r}, not in [1e-6, 1e12]")
            held[model] = float(value), None
        # Of a configuration with more models, those that were said last.
        self._held = dict(list(held.items())[-self._most :])
