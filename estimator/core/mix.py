"""When the mix of a model's requests has changed: how long they are, which languages, which types.

Owns the shares and lengths of one model's requests and their tests. Knows nothing of what is
learned from them.
"""

import math
from collections import OrderedDict
from collections.abc import Sequence
from typing import Any, Final, Self

from estimator.core.config import CoreConfig
from estimator.core.drift import Change
from estimator.core.observation import Completion
from estimator.core.shift import Cusum, Shift, ShiftTest

# Completions that a mix is learned from before it is tested, and after a change: it takes more
# than a level, because shares are read off it.
_SETTLE: Final = 64
# Lengths spread by 0.5 to 1.1 in logarithms on eight traces; where all are alike (chunks of 30 s)
# a tenth is what counts as a change.
_LEAST_LENGTH_SCALE: Final = 0.1
# A mean length that has moved by at most so much is no event.
_LENGTH_TOLERANCE: Final = 0.1
# A mix is tested once in so many completions: names by their counts, lengths by their sum.
BLOCK: Final = 8
# The variance of such a count is taken to be at least so much: a rare name comes in bursts that a
# normal threshold does not know.
_LEAST_VARIANCE: Final = 1.0
_LEAST_DEVIATION: Final = math.sqrt(_LEAST_VARIANCE)
_COUNT_CLIP: Final = 3.0
# Page-Hinkley's λ and δ for counts. Simulated binomial streams of shares from 2 to 80 % raised at
# most 0.1 event in 200,000 completions; 80 to 20 % took 40, 10 to 40 % took 56 (medians).
_SHARE_THRESHOLD: Final = 9.0
_SHARE_TOLERANCE: Final = 0.75
# A share that has moved by at most so much is no event.
_SHARE_LEAST: Final = 0.05
# Names with a test of their own, and the least share for one; the others share a test.
_MAX_NAMES: Final = 7
_LEAST_SHARE: Final = 0.03
# Most names that are counted; further ones are of the others.
_MAX_COUNTED: Final = 32
_TINY: Final = 1e-12
# One name and the others.
_PAIR: Final = 2
_LENGTH: Final = "audio seconds"
_LANGUAGE: Final = "language"
_TYPE: Final = "request type"


class ShareWatch:
    """Tell when the share of any name in a stream of names has changed.

    Attributes
    ----------
    shares_ : dict of str to float
        Share of each name with a test of its own, once settled.
    counts_ : dict of str to int
        Names seen since the last start, or, once settled, those without a test of their own since
        such names were last as frequent as ever.

    Notes
    -----
    Counts of 8, standardized by the binomial variance of the reference share, each in a
    Page-Hinkley test. A chi-square of all shares together would need its own null for each number
    of names and each share; one threshold on PSI fires at any share that is small (RESEARCH.md).
    """

    __slots__ = ("_block", "_in_block", "_n", "_tested", "_tests", "counts_", "shares_")

    def __init__(self) -> None:
        self.counts_: dict[str, int] = {}
        self.restart()

    def restart(self) -> None:
        """Forget everything."""
        self._n = self._in_block = 0
        self.counts_.clear()
        self.shares_: dict[str, float] = {}
        # By name; the last one, whose name is None, is of all others.
        self._block: dict[str | None, int] = {}
        self._tests: dict[str | None, Cusum] = {}
        self._tested: dict[str | None, float] = {}

    def update(self, names: Sequence[str]) -> tuple[Shift, str] | None:
        """Take some names; give the shift of a share and the name whose it is, if there is one."""
        if self._n < _SETTLE:
            for name in names:
                self._count(name)
            self._n += len(names)
            if self._n >= _SETTLE:
                self._settle()
            return None
        block = self._block
        for name in names:
            if name in block:
                block[name] += 1
            else:
                block[None] += 1
                self._count(name)
        self._in_block += len(names)
        return None if self._in_block < BLOCK else self._test()

    def _count(self, name: str) -> None:
        if name in self.counts_ or len(self.counts_) < _MAX_COUNTED:
            self.counts_[name] = self.counts_.get(name, 0) + 1

    def _settle(self) -> None:
        frequent = sorted(self.counts_.items(), key=lambda item: (-item[1], item[0]))
        self.shares_ = {
            name: count / self._n
            for name, count in frequent[:_MAX_NAMES]
            if count >= _LEAST_SHARE * self._n
        }
        self._make_tests()
        self.counts_.clear()

    def _make_tests(self) -> None:
        names: list[str | None] = [*self.shares_, None]
        self._block = dict.fromkeys(names, 0)
        # Where there is one name alone, the others' share says the same.
        tested = names if len(names) > _PAIR else names[-1:]
        self._tests = {name: _share_test() for name in tested}
        self._tested = {name: self._share(name) for name in tested}

    def _share(self, name: str | None) -> float:
        if name is None:
            return max(1.0 - sum(self.shares_.values()), 0.0)
        return self.shares_[name]

    def _test(self) -> tuple[Shift, str] | None:
        found: list[tuple[Shift, str | None]] = []
        n = self._in_block
        for name, test in self._tests.items():
            share, count = self._tested[name], self._block[name]
            expected = n * share
            variance = expected * (1.0 - share)
            deviation = math.sqrt(variance) if variance > _LEAST_VARIANCE else _LEAST_DEVIATION
            z = (count - expected) / deviation
            if z > _COUNT_CLIP or z < -_COUNT_CLIP:
                z = math.copysign(_COUNT_CLIP, z)
            shift = test.update(z, n, count, expected, n)
            if shift is not None:
                before = min(max(shift.before + shift.mean * deviation / n, 0.0), 1.0)
                found.append((shift._replace(before=before), name))
            elif name is None and test.is_calm and count == 0:
                self.counts_.clear()
        self._in_block = 0
        self._block = dict.fromkeys(self._block, 0)
        if not found:
            return None
        # What has come says more than what has gone.
        shift, name = max(found, key=lambda item: (item[0].after - item[0].before, item[1] or ""))
        if name is None:
            name = max(self.counts_, key=lambda other: (self.counts_[other], other), default="")
        self.restart()
        return shift, name

    def state(self) -> list[Any]:
        """Give what was learned as JSON (hence Any)."""
        return [
            self._n, self._in_block, self.counts_, self.shares_, list(self._block.values()),
            [test.state() for test in self._tests.values()],
        ]  # fmt: skip

    def restore(self, state: Sequence[Any]) -> Self:
        """Take on what `state` gave (JSON, hence Any); return self."""
        self._n, self._in_block, counts, shares, block, tests = state
        self.counts_, self.shares_ = dict(counts), dict(shares)
        if tests:
            self._make_tests()
            self._block = dict(zip(self._block, block, strict=True))
            for test, row in zip(self._tests.values(), tests, strict=True):
                test.restore(row)
        return self


def _share_test() -> Cusum:
    return Cusum(threshold=_SHARE_THRESHOLD, tolerance=_SHARE_TOLERANCE, known=_SETTLE // BLOCK)


def _moved(shift: Shift) -> float:
    return abs(shift.after - shift.before)


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
        "_adapting", "_amount", "_audio_s", "_before", "_moved", "_names", "_units", "_watches",
        "length",
    )  # fmt: skip

    def __init__(self, config: CoreConfig) -> None:
        self.length = ShiftTest(
            threshold=config.drift_threshold,
            tolerance=config.drift_tolerance,
            least_scale=_LEAST_LENGTH_SCALE,
            settle=_SETTLE,
            batch=BLOCK,
        )
        self._watches = {_LANGUAGE: ShareWatch(), _TYPE: ShareWatch()}
        # What waits to be tested: audio seconds, languages, request types.
        self._audio_s: list[float] = []
        self._names: dict[str, list[str]] = {_LANGUAGE: [], _TYPE: []}
        # Of the event that is open: completions since its detection (-1 if there is none) and
        # since anything moved, what moved, its level before, and the mean since.
        self._adapting = -1
        self._moved = ("", "")
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
        if shift is not None and _moved(shift) > _LENGTH_TOLERANCE * shift.before:
            found = shift, _LENGTH, ""
        for what, watch in self._watches.items():
            moved = watch.update(self._names[what])
            if moved is not None and found is None and _moved(moved[0]) > _SHARE_LEAST:
                found = moved[0], what, moved[1]
        return found

    def _begin(self, found: tuple[Shift, str, str] | None) -> Change | None:
        if found is None:
            return None
        shift, what, name = found
        self._restart()
        self._adapting = 0
        self._moved = what, name
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
        what, name = self._moved
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
        what, name = self._moved
        if what == _LENGTH:
            self._amount += sum(self._audio_s)
            self._units += len(self._audio_s)
        else:
            self._amount += self._names[what].count(name)
            self._units += len(self._names[what])
        if self._units < _SETTLE:
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
            self._adapting, self._moved, self._before, self._amount, self._units, self._audio_s,
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
        self._moved = (moved[0], moved[1])
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
