"""When the shares of a stream's names have changed: which languages, which request types.

Owns the counts of one stream of names and their tests. Knows nothing of what the names are.
"""

import math
from collections.abc import Sequence
from typing import Any, Final, Self

from estimator.core.cusum import Cusum, Shift

# Completions that a mix is learned from before it is tested, and after a change: it takes more
# than a level, because shares are read off it.
SETTLE: Final = 64
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
# Names with a test of their own, and the least share for one; the others share a test.
_MAX_NAMES: Final = 7
_LEAST_SHARE: Final = 0.03
# Most names that are counted; further ones are of the others.
_MAX_COUNTED: Final = 32
# One name and the others.
_PAIR: Final = 2


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
        if self._n < SETTLE:
            for name in names:
                self._count(name)
            self._n += len(names)
            if self._n >= SETTLE:
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
    return Cusum(threshold=_SHARE_THRESHOLD, tolerance=_SHARE_TOLERANCE, known=SETTLE // BLOCK)


def moved_by(shift: Shift) -> float:
    """Give by how much a mean has moved, ≥ 0."""
    return abs(shift.after - shift.before)
