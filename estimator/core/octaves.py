"""Decayed sums of a regression, kept apart by how many requests ran.

Owns what a fit remembers of each octave of concurrency. Knows nothing of what is fitted.
"""

import math
from array import array
from collections.abc import Sequence
from typing import Any, Final, Self

import numpy as np

from estimator.core.config import CoreConfig
from estimator.core.non_negative import Matrix
from estimator.core.robust import Temper

# Up to 1,024 and all beyond: vLLM's max_num_seqs is 256 by default.
N_OCTAVES: Final = 11
# Columns of the sums: 1, tokens, uncached prompt, concurrency, tokens · concurrency, seconds.
WIDTH: Final = 6
_SECONDS: Final = 5
# What a row waits as: tokens, uncached prompt, concurrency, seconds, weight.
_ROW: Final = 5
# Rows are taken into the sums every so many (a fit costs as much as 30 completions), and more
# often while there are few: a quarter of what is known. After each of the first 4, and so on.
_MAX_WAITING: Final = 128
_MAX_WAITING_RATIO: Final = 0.25
# The rows of all other octaves together count for at most so many, each octave a quarter of the
# one before: they say where an octave begins that has few of its own.
_NEIGHBOURS: Final = 16.0
_DECAY: Final = 0.25
# A robust deviation before any data, as a share of the estimate: hardware is unknown then.
_PRIOR_SPREAD: Final = 0.5
_ROOT_TWO: Final = math.sqrt(2.0)


def octave_of(concurrency: float) -> int:
    """Give the octave of a concurrency ≥ 1: the nearest power of two, so that no border is one.

    Engines are given 8, 16 or 256 slots, and an engine without a queue runs one request.

    Examples
    --------
    >>> [octave_of(k) for k in (1.0, 1.4, 2.0, 15.9, 16.0, 1e6)]
    [0, 0, 1, 4, 4, 10]
    """
    octave = math.frexp(concurrency * _ROOT_TWO)[1] - 1
    return octave if octave < N_OCTAVES else N_OCTAVES - 1


class Octave:
    """What is remembered of one octave.

    Attributes
    ----------
    count : float
        Decayed number of rows in the sums.
    sums : ndarray of float64, shape (6, 6)
        Σw·v·vᵀ over rows v, see `WIDTH`.
    rows : array of float
        Rows that wait, five numbers each.
    temper : Temper
        A busy engine's seconds are less even than an idle one's.
    """

    __slots__ = ("count", "rows", "sums", "temper")

    def __init__(self, config: CoreConfig) -> None:
        self.count = 0.0
        self.sums: Matrix = np.zeros((WIDTH, WIDTH))
        self.rows: array[float] = array("d")
        self.temper = Temper(
            _PRIOR_SPREAD,
            clip_deviations=config.clip_deviations,
            gross_deviations=config.gross_deviations,
        )

    @property
    def is_due(self) -> bool:
        """Whether enough rows wait."""
        waiting = len(self.rows) // _ROW
        return waiting >= _MAX_WAITING or waiting > _MAX_WAITING_RATIO * self.count

    def fold(self, forgetting: float) -> None:
        """Take the rows that wait into the sums, the last of them with full weight."""
        rows = np.frombuffer(self.rows).reshape(-1, _ROW)
        n = len(rows)
        columns = np.empty((n, WIDTH))
        columns[:, 0] = 1.0
        columns[:, 1:4] = rows[:, :3]
        np.multiply(rows[:, 0], rows[:, 2], out=columns[:, 4])
        columns[:, _SECONDS] = rows[:, 3]
        keep = forgetting ** np.arange(n, -1, -1)
        self.sums = keep[0] * self.sums + (columns.T * (keep[1:] * rows[:, 4])) @ columns
        self.count = float(keep[0]) * self.count + float(keep[1:].sum())
        self.rows = array("d")

    def state(self) -> list[Any]:
        """Give what was learned as JSON (hence Any)."""
        return [
            self.count, self.sums.ravel().tolist(), self.rows.tolist(), self.temper.state(),
        ]  # fmt: skip

    def restore(self, state: Sequence[Any]) -> Self:
        """Take on what `state` gave (JSON, hence Any); return self.

        Raises
        ------
        ValueError
            If a number is not finite or the shapes are not this class's.
        """
        self.count, sums, rows, temper = state
        if len(sums) != WIDTH * WIDTH or len(rows) % _ROW:
            raise ValueError(f"an octave has {WIDTH * WIDTH} sums and rows of {_ROW} numbers")
        if not all(map(math.isfinite, (self.count, *sums, *rows))):
            raise ValueError("what an octave remembers must be finite")
        self.sums = np.array(sums, dtype=np.float64).reshape(WIDTH, WIDTH)
        self.rows = array("d", rows)
        self.temper.restore(temper)
        return self


class Octaves:
    """Sums for each octave of concurrency, each of which forgets only as it is seen.

    Parameters
    ----------
    config : CoreConfig
        ``service_forgetting`` is the weight that a row keeps after each later one of its octave.

    Notes
    -----
    One memory for all loads forgets what an idle engine took while it is busy, and the share of
    the load in a residence with it: exponential forgetting loses whatever is not excited
    (estimator wind-up). Forgetting only where something new comes in is the remedy, and octaves
    are its simplest form. They also make the fit local: seconds are not linear in the concurrency
    over a wide range of it.

    References
    ----------
    Kulhavý (1987), Restricted exponential forgetting in real-time identification, Automatica 23.
    """

    __slots__ = ("_by_octave", "config")

    def __init__(self, config: CoreConfig) -> None:
        self.config = config
        self._by_octave: list[Octave | None] = [None] * N_OCTAVES

    def of(self, octave: int) -> Octave:
        """Give an octave, made on its first use."""
        found = self._by_octave[octave]
        if found is None:
            found = self._by_octave[octave] = Octave(self.config)
        return found

    def known(self, least: float) -> list[int]:
        """Give the octaves with at least so many rows in their sums."""
        return [
            at
            for at, octave in enumerate(self._by_octave)
            if octave is not None and octave.count >= least
        ]

    def around(self, octave: int) -> tuple[Matrix, float]:
        """Give sums and number of rows of an octave, its neighbours counting for a few."""
        own = self.of(octave)
        near = [
            (_DECAY ** abs(at - octave), other)
            for at, other in enumerate(self._by_octave)
            if other is not None and other is not own and other.count > 0.0
        ]
        count, sums = own.count, own.sums
        others = sum(share * other.count for share, other in near)
        scale = min(_NEIGHBOURS / others, 1.0) if near else 0.0
        for share, other in near:
            sums = sums + scale * share * other.sums
            count += scale * share * other.count
        return sums, count

    def discount(self, keep_ratio: float, factor: float) -> None:
        """Keep this share of the past's weight, its seconds times ``factor``."""
        for octave in self._by_octave:
            if octave is None:
                continue
            if octave.rows:
                octave.fold(self.config.service_forgetting)
            sums = keep_ratio * octave.sums
            sums[_SECONDS, :] *= factor
            sums[:, _SECONDS] *= factor
            octave.sums = sums
            octave.count *= keep_ratio

    def state(self) -> list[list[Any]]:
        """Give what was learned as JSON (hence Any), the octave before each one's state."""
        return [
            [at, *octave.state()]
            for at, octave in enumerate(self._by_octave)
            if octave is not None
        ]

    def restore(self, state: Sequence[Sequence[Any]]) -> Self:
        """Take on what `state` gave (JSON, hence Any); return self."""
        for at, *octave in state:
            self.of(at).restore(octave)
        return self
