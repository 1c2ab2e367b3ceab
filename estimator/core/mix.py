"""When the mix of a model's requests has changed: how long they are, which languages, which types.

Owns the lengths of one model's requests, their names' shares, and which of them has changed.
Knows nothing of what is learned from them.
"""

import math
from collections import OrderedDict
from collections.abc import Sequence
from typing import Any, Final, Self

from estimator.core.config import CoreConfig
from estimator.core.cusum import Shift
from estimator.core.drift import Change
from estimator.core.observation import Completion
from estimator.core.shares import BLOCK, SETTLE, ShareWatch, moved_by
from estimator.core.shift import ShiftTest

# Lengths spread by 0.5 to 1.1 in logarithms on eight traces; where all are alike (chunks of 30 s)
# a tenth is what counts as a change.
_LEAST_LENGTH_SCALE: Final = 0.1
# A mean length that has moved by at most so much is no event.
_LENGTH_TOLERANCE: Final = 0.1
# A share that has moved by at most so much is no event.
_SHARE_LEAST: Final = 0.05
_TINY: Final = 1e-12
_LENGTH: Final = "audio seconds"
_LANGUAGE: Final = "language"
_TYPE: Final = "request type"


class MixWatch:
    """Tell when the mix of one model's requests has changed.

    Parameters
    ----------
    config : CoreConfig
        Threshold and tolerance for lengths.

    Notes
    -----
    Lengths (logarithms of audio seconds), languages and request types are tested apart; the first
    that has moved makes the event, and then all three begin again: one change, one event. It ends
    when the new mix is known: after 64 completions, and more while it goes on moving.
    """

    __slots__ = (
        "_adapting",
        "_amount",
        "_audio_s",
        "_before",
        "_names",
        "_units",
        "_watches",
        "length",
        "moved_by",
    )  # fmt: skip

    def __init__(self, config: CoreConfig) -> None:
        self.length = ShiftTest(
            threshold=config.drift_threshold,
            tolerance=config.drift_tolerance,
            least_scale=_LEAST_LENGTH_SCALE,
            settle=SETTLE,
            batch=BLOCK,
        )
        self._watches = {_LANGUAGE: ShareWatch(), _TYPE: ShareWatch()}
        # What waits to be tested: audio seconds, languages, request types.
        self._audio_s: list[float] = []
        self._names: dict[str, list[str]] = {_LANGUAGE: [], _TYPE: []}
        # Of the event that is open: completions since its detection (-1 if there is none) and
        # since anything moved, what moved, its level before, and the mean since.
        self._adapting = -1
        self.moved_by = ("", "")
        self._before = self._amount = self._units = 0.0

    @property
    def is_open(self) -> bool:
        """Whether a change was detected whose new mix is not known yet."""
        return self._adapting >= 0

    def update(self, audio_s: float | None, language: str, request_type: str) -> Change | None:
        """Take one request.

        Parameters
        ----------
        audio_s : float or None
            Seconds of audio, > 0; None if there is none, and no language either.
        language, request_type : str
            Names.

        Returns
        -------
        Change or None
            One that begins or ends with it.
        """
        names = self._names
        types = names[_TYPE]
        types.append(request_type)
        if audio_s is not None:
            self._audio_s.append(audio_s)
            names[_LANGUAGE].append(language)
        if len(types) < BLOCK:
            return None
        found = self._test()
        change = self._begin(found) if self._adapting < 0 else self._follow(moved=bool(found))
        self._audio_s.clear()
        for waiting in names.values():
            waiting.clear()
        return change

    def _test(self) -> tuple[Shift, str, str] | None:
        """Give the first shift of any: what moved, and the name."""
        log = math.log
        shift = self.length.update([(log(s), s, 1.0, 1.0) for s in self._audio_s])
        found: tuple[Shift, str, str] | None = None
        if shift is not None and moved_by(shift) > _LENGTH_TOLERANCE * shift.before:
            found = shift, _LENGTH, ""
        for what, watch in self._watches.items():
            moved = watch.update(self._names[what])
            if moved is not None and found is None and moved_by(moved[0]) > _SHARE_LEAST:
                found = moved[0], what, moved[1]
        return found

    def _begin(self, found: tuple[Shift, str, str] | None) -> Change | None:
        if found is None:
            return None
        shift, what, name = found
        self._restart()
        self._adapting = 0
        self.moved_by = what, name
        self._before = shift.before
        return Change(
            begun=True,
            before=shift.before,
            after=shift.after,
            completions=shift.completions,
            z=abs(shift.z),
            detail=self._describe(),
        )

    def _describe(self) -> str:
        what, name = self.moved_by
        return what if what == _LENGTH else f"share of {what} {name or 'unknown'}"

    def _restart(self) -> None:
        self.length.restart()
        for watch in self._watches.values():
            watch.restart()
        self._amount = self._units = 0.0

    def _follow(self, *, moved: bool) -> Change | None:
        self._adapting += BLOCK
        if moved:
            self._restart()
        what, name = self.moved_by
        if what == _LENGTH:
            self._amount += sum(self._audio_s)
            self._units += len(self._audio_s)
        else:
            self._amount += self._names[what].count(name)
            self._units += len(self._names[what])
        if self._units < SETTLE:
            return None
        completions, self._adapting = self._adapting, -1
        return Change(
            begun=False,
            before=self._before,
            after=self._amount / max(self._units, _TINY),
            completions=completions,
            detail=self._describe(),
        )

    def state(self) -> list[Any]:
        """Give what was learned as JSON (hence Any)."""
        return [
            self._adapting, self.moved_by, self._before, self._amount, self._units, self._audio_s,
            self._names, self.length.state(),
            [watch.state() for watch in self._watches.values()],
        ]  # fmt: skip

    def restore(self, state: Sequence[Any]) -> Self:
        """Take on what `state` gave (JSON, hence Any); return self."""
        (
            self._adapting, moved, self._before, self._amount, self._units, audio_s, names, length,
            watches,
        ) = state  # fmt: skip
        self._audio_s = list(audio_s)
        self._names = {what: list(names[what]) for what in self._names}
        self.moved_by = (moved[0], moved[1])
        self.length.restore(length)
        for watch, row in zip(self._watches.values(), watches, strict=True):
            watch.restore(row)
        return self


class MixTable:
    """A `MixWatch` for each model, the least recently used ones dropped beyond ``max_models``."""

    def __init__(self, config: CoreConfig) -> None:
        self.config = config
        self._models: OrderedDict[str, MixWatch] = OrderedDict()
        self._evicted_while_open: list[str] = []

    def update(self, completion: Completion) -> Change | None:
        """Take one completion; give the change that begins or ends with it, if any.

        Notes
        -----
        Whole requests only: beam steps and language detections are parts of one.
        """
        kind = completion.kind
        if kind not in ("transcription", "text") or completion.finish_reason == "error":
            return None
        model = completion.model
        watch = self._models.get(model)
        if watch is None:
            watch = self._models[model] = MixWatch(self.config)
            if len(self._models) > self.config.max_models:
                gone, evicted = self._models.popitem(last=False)
                if evicted.is_open:
                    self._evicted_while_open.append(gone)
        else:
            self._models.move_to_end(model)
        audio_s = completion.audio_s if kind == "transcription" else None
        if audio_s is not None and audio_s <= 0.0:
            audio_s = None
        return watch.update(audio_s, completion.language, completion.request_type or kind)

    def take_evicted_while_open(self) -> list[str]:
        """Give the models that left with an open event since the last call."""
        gone = self._evicted_while_open
        if gone:  # asked after each completion
            self._evicted_while_open = []
        return gone

    def state(self, model: str = "") -> list[list[Any]]:
        """Give every model's state (or one's) as JSON (hence Any), least recently used first."""
        return [
            [name, watch.state()]
            for name, watch in self._models.items()
            if not model or name == model
        ]

    def restore(self, state: Sequence[Sequence[Any]]) -> None:
        """Take on what `state` gave (JSON, hence Any)."""
        for model, row in state:
            self._models[model] = MixWatch(self.config).restore(row)
