"""Decayed sums of a regression, kept apart by how many requests ran.

Owns what a fit remembers of each octave of concurrency. Knows nothing of what is fitted.
"""

import math
from array import array
from collections.abc import Sequence
from struct import Struct
from typing import Any, Final, Self

import numpy as np

from estimator.core.config import CoreConfig
from estimator.core.non_negative import Matrix
from estimator.core.robust import Temper

# Up to 1,024 and all beyond: vLLM's max_num_seqs is 256 by default.
N_OCTAVES: Final = 11
# Columns of the sums: 1, tokens, uncached prompt, concurrency, tokens · concurrency, others
# admitted meanwhile, seconds.
WIDTH: Final = 7
_ADMITTED: Final = 5
_SECONDS: Final = 6
# What a row waits as: tokens, uncached prompt, concurrency, admitted, seconds, weight. An array
# takes bytes in half the time that it takes numbers in.
_ROW: Final = 6
packed_row: Final = Struct(f"{_ROW}d").pack
# Rows are taken into the sums every so many (a fit costs as much as 30 completions), and more
# often while there are few: a quarter of what is known. After each of the first 4, and so on.
_MAX_WAITING: Final = 256
_MAX_WAITING_RATIO: Final = 0.25
# The rows of all other octaves together count for at most so many, each octave a quarter of the
# one before: they say where an octave begins that has few of its own.
_NEIGHBOURS: Final = 16.0
_DECAY: Final = 0.25
# A robust deviation before any data, as a share of the estimate: hardware is unknown then.
_PRIOR_SPREAD: Final = 0.5
# Requests that run together share their steps, so their residuals are alike: sums of so many say
# by how much. With all of 16 slots taken a mean of many is 2.7 times as uncertain as without.
_RUN: Final = 16
_RUN_RATE: Final = 1.0 / 16.0
# Before any run, and the least and the most: a sum of equals has 16 times the variance.
_PRIOR_SHARED: Final = 4.0
_MAX_SHARED: Final = 16.0
_PRIOR_RUNS: Final = 2
_ROOT_TWO: Final = math.sqrt(2.0)
_TINY: Final = 1e-9


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
    sums : ndarray of float64, shape (7, 7)
        Σw·v·vᵀ over rows v, see `WIDTH`.
    rows : array of float
        Rows that wait, six numbers each.
    due : int
        Numbers in ``rows`` at which they are to be folded in.
    temper : Temper
        A busy engine's seconds are less even than an idle one's.
    """

    __slots__ = (
        "_n_run", "_n_runs", "_run", "_run_squares", "_shared", "_single", "count", "due", "rows",
        "sums", "temper",
    )  # fmt: skip

    def __init__(self, config: CoreConfig) -> None:
        self.count = 0.0
        self.sums: Matrix = np.zeros((WIDTH, WIDTH))
        self.rows: array[float] = array("d")
        self.due = _ROW
        self.temper = Temper(
            _PRIOR_SPREAD,
            clip_deviations=config.clip_deviations,
            gross_deviations=config.gross_deviations,
        )
        # Of the run that goes on: rows, their sum and squares. Variance of a row and of a run's
        # sum over its length.
        self._n_run = self._n_runs = 0
        self._run = self._run_squares = 0.0
        self._single, self._shared = 1.0, _PRIOR_SHARED

    def note(self, z: float) -> None:
        """Take a standardized residual, in the order in which requests finish."""
        self._n_run = n = self._n_run + 1
        self._run += z
        self._run_squares += z * z
        if n == _RUN:
            self._n_runs += 1
            rate = max(_RUN_RATE, 1.0 / (self._n_runs + _PRIOR_RUNS))
            self._single += rate * (self._run_squares / _RUN - self._single)
            self._shared += rate * (self._run * self._run / _RUN - self._shared)
            self._n_run = 0
            self._run = self._run_squares = 0.0

    @property
    def spread(self) -> float:
        """Relative deviation of a residual, for tests that take residuals as independent."""
        ratio = min(max(self._shared / max(self._single, _TINY), 1.0), _MAX_SHARED)
        return self.temper.scale_ * math.sqrt(ratio)

    def fold(self, forgetting: float) -> None:
        """Take the rows that wait into the sums, the last of them with full weight."""
        rows = np.frombuffer(self.rows).reshape(-1, _ROW)
        n = len(rows)
        columns = np.empty((n, WIDTH))
        columns[:, 0] = 1.0
        columns[:, 1:4] = rows[:, :3]
        np.multiply(rows[:, 0], rows[:, 2], out=columns[:, 4])
        columns[:, 5:] = rows[:, 3:5]
        keep = forgetting ** np.arange(n, -1, -1)
        self.sums = keep[0] * self.sums + (columns.T * (keep[1:] * rows[:, 5])) @ columns
        self.count = float(keep[0]) * self.count + float(keep[1:].sum())
        self.rows = array("d")
        self._schedule()

    def _schedule(self) -> None:
        waiting = int(_MAX_WAITING_RATIO * self.count) + 1
        self.due = _ROW * min(waiting, _MAX_WAITING)

    def discount(self, keep_ratio: float, factor: float) -> None:
        """Keep this share of the weight, the seconds times ``factor``."""
        sums = keep_ratio * self.sums
        sums[_SECONDS, :] *= factor
        sums[:, _SECONDS] *= factor
        self.sums = sums
        self.count *= keep_ratio
        self._schedule()

    def state(self) -> list[Any]:
        """Give what was learned as JSON (hence Any)."""
        return [
            self.count, self.sums.ravel().tolist(), self.rows.tolist(), self.temper.state(),
            [
                self._n_run, self._n_runs, self._run, self._run_squares, self._single,
                self._shared,
            ],
        ]  # fmt: skip

    def restore(self, state: Sequence[Any]) -> Self:
        """Take on what `state` gave (JSON, hence Any); return self.

        Raises
        ------
        ValueError
            If a number is not finite or the shapes are not this class's.
        """
        self.count, sums, rows, temper, runs = state
        if len(sums) != WIDTH * WIDTH or len(rows) % _ROW:
            raise ValueError(f"an octave has {WIDTH * WIDTH} sums and rows of {_ROW} numbers")
        if not all(map(math.isfinite, (self.count, *sums, *rows, *runs))):
            raise ValueError("what an octave remembers must be finite")
        self.sums = np.array(sums, dtype=np.float64).reshape(WIDTH, WIDTH)
        self.rows = array("d", rows)
        self._schedule()
        self.temper.restore(temper)
        (
            self._n_run, self._n_runs, self._run, self._run_squares, self._single, self._shared,
        ) = runs  # fmt: skip
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

    def spreads(self, least: float) -> list[float]:
        """Give each octave's spread, 0 for those with fewer rows."""
        return [
            0.0 if octave is None or octave.count < least else octave.spread
            for octave in self._by_octave
        ]

    def around(self, octave: int) -> tuple[Matrix, float]:
        """Give sums and number of rows of an octave, its neighbours counting for a few."""
        # Asking makes none: `admitted` is for readers, who leave the state alone.
        own = self._by_octave[octave]
        near = [
            (_DECAY ** abs(at - octave), other)
            for at, other in enumerate(self._by_octave)
            if other is not None and other is not own and other.count > 0.0
        ]
        count, sums = (0.0, np.zeros((WIDTH, WIDTH))) if own is None else (own.count, own.sums)
        others = sum(share * other.count for share, other in near)
        held = sum(other.count for _, other in near)
        scale = min(held, _NEIGHBOURS) / others if near else 0.0
        for share, other in near:
            sums = sums + scale * share * other.sums
            count += scale * share * other.count
        return sums, count

    def admitted(self, octave: int) -> tuple[float, float]:
        """Give how many are admitted while a request runs: for 0 tokens, and more for each."""
        own = self._by_octave[octave]
        if own is None or own.count < _NEIGHBOURS:
            sums, _ = self.around(octave)
        else:
            sums = own.sums
        weight = sums.item(0, 0)
        if weight <= 0.0:
            return 0.0, 0.0
        tokens, admitted = sums.item(0, 1) / weight, sums.item(0, _ADMITTED) / weight
        spread = sums.item(1, 1) / weight - tokens * tokens
        slope = 0.0
        if spread > _TINY * tokens * tokens:
            slope = max((sums.item(1, _ADMITTED) / weight - tokens * admitted) / spread, 0.0)
        return admitted - slope * tokens, slope

    def discount(self, keep_ratio: float, factor: float) -> None:
        """Keep this share of the past's weight, its seconds times ``factor``."""
        for octave in self._by_octave:
            if octave is None:
                continue
            if octave.rows:
                octave.fold(self.config.service_forgetting)
            octave.discount(keep_ratio, factor)

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
