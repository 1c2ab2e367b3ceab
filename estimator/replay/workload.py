"""What is replayed: which request of which file comes when, in a run of any length.

Files follow one another, or are mixed. Requests come in the files' order while there are enough
of them, else they are drawn with replacement. Everything is a stream: a million requests drawn
from a small file need no more memory than the file.
"""

import heapq
import random
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, islice
from typing import Final

from estimator.replay.arrivals import Arrivals, check_rate
from estimator.replay.job import NS_PER_S, Job
from estimator.replay.rows import Rows

MAX_REQUESTS: Final = 10_000_000
# (nanoseconds, file, row) of a request that comes at its own time.
_Timed = tuple[int, int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """Requests to be replayed.

    Attributes
    ----------
    files : tuple of Rows
        At least one, none empty.
    n : int
        Requests of a run, in [1, 10,000,000].
    weights : tuple of float
        Mixes the files: how often each is drawn from, in any unit. Empty: one after another,
        each with an equal share of the requests (all of its rows where ``n`` is all rows).
    resample : bool
        Draw with replacement even where there are enough rows.
    timed : bool
        Requests come at their rows' own times, for arrivals of kind ``trace``; mixed files run
        side by side on one clock, of each a share of its weight over the greatest.

    Raises
    ------
    ValueError
        Names the value, the limit and the remedy.
    """

    files: tuple[Rows, ...]
    n: int
    weights: tuple[float, ...] = ()
    resample: bool = False
    timed: bool = False

    def __post_init__(self) -> None:
        if not self.files or not all(map(len, self.files)):
            raise ValueError("a workload needs at least one request; name a trace")
        if not 1 <= self.n <= MAX_REQUESTS:
            raise ValueError(f"{self.n:,} requests, the limits are 1 and {MAX_REQUESTS:,}")
        if self.weights and len(self.weights) != len(self.files):
            counts = f"{len(self.weights)} weights for {len(self.files)} files"
            raise ValueError(f"{counts}; give one for each file")
        if not all(0.0 < weight < float("inf") for weight in self.weights):
            shown = ",".join(f"{weight:g}" for weight in self.weights)
            raise ValueError(f"weights are {shown}; each must be a number above 0")
        if not self.timed:
            return
        for rows, share in zip(self.files, self.shares, strict=True):
            _check_times(rows, 1 if self.weights else share)
        if self.resample:
            raise ValueError("requests drawn at random have no times of their own")

    @property
    def n_rows(self) -> int:
        """Rows of all files."""
        return sum(map(len, self.files))

    @property
    def is_fixed(self) -> bool:
        """Whether every seed brings the same requests at the same times."""
        return self.timed and len(set(self.weights)) <= 1

    @property
    def assumption(self) -> str:
        """What was assumed of the requests; empty for traces."""
        return "; ".join(rows.assumption for rows in self.files if rows.assumption)

    @property
    def shares(self) -> tuple[int, ...]:
        """Requests of each file where they follow one another."""
        if self.n == self.n_rows:
            return tuple(map(len, self.files))
        each, rest = divmod(self.n, len(self.files))
        return tuple(each + (index < rest) for index in range(len(self.files)))

    @property
    def mean_tokens(self) -> float:
        """Mean output tokens of a request, each file by its share."""
        return self._mean([rows.mean_tokens(n) for rows, n in self._replayed])

    @property
    def mean_prompt_tokens(self) -> float:
        """Mean prompt tokens of a request, each file by its share."""
        return self._mean([rows.mean_prompt_tokens(n) for rows, n in self._replayed])

    @property
    def frequencies(self) -> tuple[float, ...]:
        """How often each file's requests come, in no unit."""
        if not self.weights:
            return self.shares
        if not self.timed:
            return self.weights
        return tuple(w * len(rows) for w, rows in zip(self.weights, self.files, strict=True))

    @property
    def _replayed(self) -> list[tuple[Rows, int]]:
        """Each file and how many of its rows, from the first on, can come."""
        if self.weights:
            return [(rows, len(rows)) for rows in self.files]
        shares = self.shares
        return [
            (rows, len(rows) if self.is_drawn(file) else max(shares[file], 1))
            for file, rows in enumerate(self.files)
        ]

    def _mean(self, of_files: Sequence[float]) -> float:
        often = self.frequencies
        return sum(mean * f for mean, f in zip(of_files, often, strict=True)) / sum(often)

    def is_drawn(self, file: int) -> bool:
        """Tell whether a file's requests are drawn with replacement, not taken in order."""
        rows = self.files[file]
        if self.timed:
            return False
        if self.weights or self.resample or rows.always_drawn:
            return True
        return self.shares[file] > len(rows)

    def describe(self) -> str:
        """Say in one line what comes and how it was chosen."""
        if self.weights:
            total = sum(self.frequencies)
            parts = (
                f"{often / total:.0%} {rows.name}"
                for rows, often in zip(self.files, self.frequencies, strict=True)
            )
            how = "side by side at their own times" if self.timed else "drawn with replacement"
            most = "up to " if self.timed else ""
            return f"{most}{self.n:,} requests, mixed of {', '.join(parts)}, {how}"
        parts = (
            f"{share:,} of {rows.name} "
            f"({'drawn with replacement' if self.is_drawn(index) else 'in its order'})"
            for index, (rows, share) in enumerate(zip(self.files, self.shares, strict=True))
        )
        return f"{self.n:,} requests: {', then '.join(parts)}"

    def jobs(self, arrivals: Arrivals, *, rate_rps: float | None, seed: int) -> Iterator[Job]:
        """Yield a run's jobs in order of arrival.

        Parameters
        ----------
        arrivals : Arrivals
            How they come.
        rate_rps : float or None
            Mean requests a second; None, for arrivals of a trace, leaves its own times.
        seed : int
            Which requests are drawn, and when they come. The same seed gives the same requests
            at every rate.

        Yields
        ------
        Job

        Raises
        ------
        ValueError
            For a rate out of limits, or a trace whose times cannot be used.
        """
        if (arrivals.kind == "trace") != self.timed:
            raise ValueError("a workload is timed if, and only if, its arrivals are a trace's")
        if self.timed:
            jobs = self._at_own_times(rate_rps, seed)
        elif rate_rps is None:
            raise ValueError("a rate is missing: only arrivals of a trace have one of their own")
        else:
            times = arrivals.times_ns(rate_rps, seed)
            jobs = (
                self.files[file].job(row, index, arrival_ns, file)
                for index, ((file, row), arrival_ns) in enumerate(
                    zip(self._chosen(seed), times, strict=False)
                )
            )
        return self._grouped(jobs) if any(rows.has_groups for rows in self.files) else jobs

    def _grouped(self, jobs: Iterator[Job]) -> Iterator[Job]:
        """Let pieces of one file that follow one another come together, at the first's time.

        Each still takes its gap, so that the mean rate is that of requests. A row that is drawn
        is on its own, whatever file it was a piece of; files of two traces are never one.
        """
        drawn = [self.is_drawn(file) for file in range(len(self.files))]
        last, first_ns = "", 0
        for job in jobs:
            group_id = "" if drawn[job.segment] else job.group_id
            if group_id and len(self.files) > 1:
                group_id = f"{job.segment}/{group_id}"
            if not group_id or group_id != last or self.timed:
                last, first_ns = group_id, job.arrival_ns
            early_ns = job.arrival_ns - first_ns
            yield job._replace(
                group_id=group_id,
                arrival_ns=first_ns,
                abort_ns=None if job.abort_ns is None else job.abort_ns - early_ns,
            )

    def saturated(self, n: int, seed: int) -> Iterator[Job]:
        """Yield jobs that are all there at once, drawn from the rows that come, as they come."""
        rng = random.Random(f"{seed}/saturated")  # noqa: S311 - a scenario, no secret
        bounds, replayed = list(accumulate(self.frequencies)), self._replayed
        for index in range(n):
            file = _drawn_file(rng, bounds)
            rows, n_rows = replayed[file]
            # Nobody leaves: what is asked is how much the engine can do.
            yield rows.job_that_stays(int(rng.random() * n_rows), index, file)

    def _chosen(self, seed: int) -> Iterator[tuple[int, int]]:
        """Yield file and row of each request."""
        rng = random.Random(f"{seed}/rows")  # noqa: S311 - a scenario, no secret
        if self.weights:
            bounds = list(accumulate(self.weights))
            for _ in range(self.n):
                file = _drawn_file(rng, bounds)
                yield file, int(rng.random() * len(self.files[file]))
            return
        for file, share in enumerate(self.shares):
            if self.is_drawn(file):
                n_rows = len(self.files[file])
                for _ in range(share):
                    yield file, int(rng.random() * n_rows)
            else:
                for row in range(share):
                    yield file, row

    def _at_own_times(self, rate_rps: float | None, seed: int) -> Iterator[Job]:
        timed = self._side_by_side(seed) if self.weights else self._one_by_one()
        factor = 1.0
        if rate_rps is not None:
            check_rate(rate_rps)
            factor = self.own_rate_rps(seed) / rate_rps
        for index, (at_ns, file, row) in enumerate(timed):
            yield self.files[file].job(row, index, int(at_ns * factor), file)

    def own_rate_rps(self, seed: int) -> float:
        """Give the mean rate of the rows' own times.

        Raises
        ------
        ValueError
            The requests come all at once, or are fewer than two.
        """
        timed = self._side_by_side(seed) if self.weights else self._one_by_one()
        n, last_ns = 0, 0
        for n, (last_ns, _, _) in enumerate(timed, start=1):  # noqa: B007 - the last one counts
            pass
        if last_ns == 0:
            what = "come all at once" if n > 1 else "are fewer than two"
            raise ValueError(
                f"the trace's requests {what}: it has no rate of its own; take other arrivals "
                "than the trace's"
            )
        return (n - 1) * NS_PER_S / last_ns

    def _one_by_one(self) -> Iterator[_Timed]:
        """Yield files on one clock: each begins one of its mean gaps after the one before."""
        start_ns = 0
        for file, (rows, share) in enumerate(zip(self.files, self.shares, strict=True)):
            if not share:
                continue
            times = rows.arrivals_ns
            span_ns = times[share - 1] - times[0]
            if file:
                start_ns += span_ns // max(share - 1, 1)
            for row in range(share):
                yield start_ns + times[row] - times[0], file, row
            start_ns += span_ns

    def _side_by_side(self, seed: int) -> Iterator[_Timed]:
        """Yield files on their common clock, of each file a share of its weight over the most."""
        streams = [
            _thinned(rows, file, weight / max(self.weights), seed)
            for file, (rows, weight) in enumerate(zip(self.files, self.weights, strict=True))
        ]
        first_ns = None
        for at_ns, file, row in islice(heapq.merge(*streams), self.n):
            first_ns = at_ns if first_ns is None else first_ns
            yield at_ns - first_ns, file, row


def _thinned(rows: Rows, file: int, share: float, seed: int) -> Iterator[_Timed]:
    rng = random.Random(f"{seed}/thinned/{file}")  # noqa: S311 - a scenario, no secret
    for row, at_ns in enumerate(rows.arrivals_ns):
        if rng.random() < share:
            yield at_ns, file, row


def _check_times(rows: Rows, share: int) -> None:
    if len(rows.arrivals_ns) != len(rows):
        raise ValueError(f"{rows.name}: rows lack arrival_s; take other arrivals than the trace's")
    if share > len(rows):
        counts = f"{rows.name} has {len(rows):,} requests of its own time, not {share:,}"
        raise ValueError(f"{counts}; ask for fewer, or take other arrivals than the trace's")


def _drawn_file(rng: random.Random, bounds: Sequence[float]) -> int:
    """Draw an index by cumulative weights; one file costs no draw."""
    if len(bounds) == 1:
        return 0
    return min(bisect_right(bounds, rng.random() * bounds[-1]), len(bounds) - 1)
