"""Reads what ``kappad export`` wrote: when requests came, and what became of each."""

from collections.abc import Callable
from pathlib import Path

from estimator.core.observation import Completion
from estimator.traces import BadRow, TraceError, TraceReader

__all__ = ["read_export"]


def read_export(
    path: Path, *, on_bad_row: Callable[[BadRow], None] = lambda _: None
) -> list[tuple[float, Completion]]:
    """Read an export whole.

    Parameters
    ----------
    path : Path
        CSV or JSON Lines, plain or gzipped (`estimator.traces`).
    on_bad_row : callable, optional
        Told of each row that is skipped; may raise to stop there.

    Returns
    -------
    list of (float, Completion)
        Arrival in seconds since the export's origin, and the request, in the file's order.

    Raises
    ------
    TraceError
        The file cannot be read, breaks off, or does not say when requests came and how long they
        waited and ran. Names the file, the line and the remedy.
    """
    rows: list[tuple[float, Completion]] = []
    for row in TraceReader(path):
        if isinstance(row, BadRow):
            on_bad_row(row)
            continue
        if row.arrival_s is None:
            raise TraceError(
                f"{path}:{row.line}: arrival_s is missing; "
                "calibrate takes what kappad export wrote"
            )
        rows.append((row.arrival_s, row.completion))
    if not any(one.service_s > 0.0 for _, one in rows):
        raise TraceError(
            f"{path}: no row has service_s, the seconds from admission to the end; "
            "calibrate takes what kappad export wrote of a sidecar that served an engine"
        )
    return rows
