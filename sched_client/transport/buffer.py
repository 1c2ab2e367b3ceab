"""The bounded buffer between the engine's thread and the reporter. Standard library only."""

from collections import deque

from sched_client.completion import CompletionReport


class ReportBuffer:
    """Reports on their way from the engine's thread to the reporter's; bounded.

    Parameters
    ----------
    size : int
        Most reports kept; beyond it the oldest is dropped and counted.

    Notes
    -----
    One thread appends and one takes; what was dropped follows from two counters with one writer
    each, so that the engine's thread needs no lock.
    """

    def __init__(self, size: int) -> None:
        self._reports: deque[CompletionReport] = deque(maxlen=size)
        self._appended = 0
        self._taken = 0
        self._dropped = 0

    def append(self, report: CompletionReport) -> None:
        """Add a report; never blocks and never raises."""
        self._reports.append(report)
        self._appended += 1

    def take(self) -> CompletionReport | None:
        """Remove and give the oldest report, None if there is none."""
        try:
            report = self._reports.popleft()
        except IndexError:
            return None
        self._taken += 1
        return report

    @property
    def dropped(self) -> int:
        """Reports dropped so far; read by the taking thread, never too high."""
        # In this order a report appended meanwhile is missed rather than counted as dropped.
        appended = self._appended
        self._dropped = max(self._dropped, appended - self._taken - len(self._reports))
        return self._dropped

    def __len__(self) -> int:
        """Count the reports that wait."""
        return len(self._reports)
