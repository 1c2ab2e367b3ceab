"""The one bounded queue between the calls that report and the task that learns."""

import asyncio
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

from estimator.core.observation import Completion
from estimator.runtime.errors import ExhaustedError

__all__ = ["Backlog", "Report", "ReportResult", "acknowledge", "refuse"]

# A full backlog of 65,536 takes about this long at 10,000 completions/s; half of it is room.
_RETRY_AFTER_S = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportResult:
    """What became of one report; indices are into what was submitted.

    Attributes
    ----------
    accepted_count, duplicate_count : int
        Rows that are new, and rows that were known.
    too_old_indices : tuple of int
        Rows that finished before the retention window.
    """

    accepted_count: int
    duplicate_count: int = 0
    too_old_indices: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Report:
    """Rows of one call, and the future that it waits for."""

    completions: Sequence[Completion]
    done: asyncio.Future[ReportResult]


class Backlog:
    """Reports that wait to be stored, counted in rows until they are learned.

    Parameters
    ----------
    limit : int
        Most rows that are waiting or being worked on, ≥ 1.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._reports: deque[Report] = deque()
        self._n_rows = 0

    @property
    def n_rows(self) -> int:
        """Rows not stored and learned yet."""
        return self._n_rows

    def __bool__(self) -> bool:
        return bool(self._reports)

    def put(self, completions: Sequence[Completion]) -> asyncio.Future[ReportResult]:
        """Take a report.

        Returns
        -------
        asyncio.Future of ReportResult
            Resolved once the rows are committed.

        Raises
        ------
        ExhaustedError
            If there is no room for all of the rows: a report is taken whole or not at all.
        """
        if self._n_rows + len(completions) > self.limit:
            raise ExhaustedError(
                f"the backlog holds {self._n_rows} of {self.limit} completions, no room for "
                f"{len(completions)} more; send them again in {_RETRY_AFTER_S:g} s",
                reason="BACKLOG_FULL",
                metadata={
                    "backlog_count": str(self._n_rows),
                    "backlog_limit": str(self.limit),
                    "completion_count": str(len(completions)),
                },
                retry_after_s=_RETRY_AFTER_S,
            )
        self._n_rows += len(completions)
        done: asyncio.Future[ReportResult] = asyncio.get_running_loop().create_future()
        self._reports.append(Report(completions, done))
        return done

    def take(self, n_rows: int) -> list[Report]:
        """Take the oldest reports: at least one, and at most ``n_rows`` rows beyond it."""
        group: list[Report] = []
        total = 0
        while self._reports and (not group or total + len(self._reports[0].completions) <= n_rows):
            report = self._reports.popleft()
            total += len(report.completions)
            group.append(report)
        return group

    def settle(self, n_rows: int) -> None:
        """Make room: so many rows are learned, or will never be."""
        self._n_rows -= n_rows
        if self._n_rows < 0:
            raise RuntimeError(f"backlog of {self._n_rows} rows: something was settled twice")

    def fail(self, error: Exception) -> None:
        """Refuse everything that waits."""
        while self._reports:
            report = self._reports.popleft()
            self.settle(len(report.completions))
            refuse([report], error)


def acknowledge(
    group: Sequence[Report], duplicates: Sequence[int], too_old: Sequence[int]
) -> None:
    """Answer reports that were committed together; indices are into all their rows."""
    known, old = set(duplicates), set(too_old)
    offset = 0
    for report in group:
        n = len(report.completions)
        here = range(offset, offset + n)
        n_known = sum(i in known for i in here) if known else 0
        stale = tuple(i - offset for i in here if i in old) if old else ()
        if not report.done.done():  # the caller may have gone; its rows are kept all the same
            report.done.set_result(
                ReportResult(
                    accepted_count=n - n_known - len(stale),
                    duplicate_count=n_known,
                    too_old_indices=stale,
                )
            )
        offset += n


def refuse(group: Sequence[Report], error: Exception) -> None:
    """Answer reports of which nothing was committed."""
    for report in group:
        if not report.done.done():
            report.done.set_exception(error)
