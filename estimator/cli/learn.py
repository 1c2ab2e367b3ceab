"""``kappad learn``: teaches a running sidecar from traces."""

import hashlib
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from estimator.cli.progress import Progress
from estimator.cli.remote import connect
from estimator.cli.terminal import (
    DEFAULT_TIMEOUT_S,
    EXIT_PARTIAL,
    CommandError,
    Json,
    Target,
    Timeout,
    printable,
    say,
    say_json,
    warn,
)
from sched_client.options import DEFAULT_TARGET

if TYPE_CHECKING:  # grpc and numpy only when a command runs
    from estimator.client import EstimatorClient, Status
    from estimator.traces import TraceReader, TraceRow

CLIENT_ID: Final = "kappad-learn"
# The batch that the sidecar's throughput is stated for.
_BATCH: Final = 256
# Bad rows named one by one; a file with more is another kind of file.
_MAX_NAMED: Final = 20
# Rows are learned after they are acknowledged; so long the command waits for that.
_MAX_WAIT_S: Final = 30.0
_POLL_S: Final = 0.1
_SKIPPED: Final = "row skipped"


@dataclass(slots=True)
class _FileResult:
    """What became of one file, as JSON has it."""

    file: str
    row_count: int = 0
    accepted_count: int = 0
    duplicate_count: int = 0
    bad_row_count: int = 0
    bad_rows: list[dict[str, object]] = field(default_factory=list)
    error: str = ""


def learn(
    files: Annotated[list[Path], typer.Argument(metavar="FILE", show_default=False)],
    strict: Annotated[bool, typer.Option("--strict", help="Stop at the first bad row.")] = False,
    target: Target = DEFAULT_TARGET,
    timeout_s: Timeout = DEFAULT_TIMEOUT_S,
    as_json: Json = False,
) -> None:
    """Teach a running sidecar from traces.

    CSV, CSV.gz or JSON Lines; several files follow one another. Rows get ids from the file's
    name and their number: teaching a file twice counts it once. A bad row is named by file and
    line and skipped; exit code 3 then. Waits until all is learned.
    """
    results = []
    with connect(target, timeout_s) as client:
        client.status()  # an unreachable sidecar is told at once, without retries
        for path in files:
            result = _teach(client, path, strict=strict)
            results.append(result)
            if result.error:
                warn(result.error)
            if strict and (result.error or result.bad_row_count):
                break
        status = _wait_until_learned(client)
    if as_json:
        say_json(
            {
                "files": [asdict(one) for one in results],
                "accepted_count": sum(one.accepted_count for one in results),
                "duplicate_count": sum(one.duplicate_count for one in results),
                "bad_row_count": sum(one.bad_row_count for one in results),
                "learned_count": status.learned,
                "snapshot_version": status.snapshot_version,
            }
        )
    else:
        for one in results:
            if one.row_count or not one.error:  # else its error has said all
                say(_sentence(one))
    if any(one.error or one.bad_row_count for one in results):
        raise typer.Exit(EXIT_PARTIAL)


def completion_id(path: Path, row: int) -> str:
    """Name a row of a trace for ever, wherever the file lies.

    Examples
    --------
    >>> completion_id(Path("/a/x.csv"), 7) == completion_id(Path("x.csv"), 7)
    True
    """
    name = path.name.encode("utf-8", "surrogateescape")
    return f"learn-{hashlib.sha256(name).hexdigest()[:16]}-{row}"


def _teach(client: "EstimatorClient", path: Path, *, strict: bool) -> _FileResult:
    from estimator.traces import TraceError, TraceReader  # noqa: PLC0415 # light start

    result = _FileResult(file=str(path))
    try:
        reader = TraceReader(path)
    except TraceError as error:
        result.error = str(error)
        return result
    with Progress(f"learning {printable(path.name)}") as progress:
        rows = _good_rows(reader, result, strict=strict)
        while batch := list(islice(rows, _BATCH)):
            _report(client, path, batch, result)
            progress.update(result.row_count, reader.progress_ratio)
    if result.error and result.row_count:
        result.error += f"; {result.accepted_count:,} rows before that were taught"
    hidden = result.bad_row_count - _MAX_NAMED
    if hidden > 0:
        warn(f"{path}: {hidden:,} more bad rows")
    return result


def _good_rows(
    reader: "TraceReader", result: _FileResult, *, strict: bool
) -> "Iterator[TraceRow]":
    from estimator.traces import BadRow, TraceError  # noqa: PLC0415 # light start

    try:
        for row in reader:
            result.row_count += 1
            if not isinstance(row, BadRow):
                yield row
                continue
            _note_bad(result, row.line, row.reason, then="stopped there" if strict else _SKIPPED)
            if strict:
                return
    except TraceError as error:
        # Ends the rows instead of losing those of the batch that is being gathered.
        result.error = str(error)


def _note_bad(result: _FileResult, line: int, reason: str, then: str = _SKIPPED) -> None:
    result.bad_row_count += 1
    if result.bad_row_count <= _MAX_NAMED:
        result.bad_rows.append({"line": line, "reason": reason})
        warn(f"{result.file}:{line}: {reason}; {then}")


def _report(
    client: "EstimatorClient", path: Path, batch: "Sequence[TraceRow]", result: _FileResult
) -> None:
    now_s = time.time()
    completions = [
        replace(
            row.completion,
            completion_id=completion_id(path, row.row),
            # A trace holds no dates: rows count as just finished, a microsecond apart, so that
            # they keep their order and are younger than what the sidecar forgets.
            finished_s=now_s - (len(batch) - index) * 1e-6,
        )
        for index, row in enumerate(batch)
    ]
    answer = client.report(completions, client_id=CLIENT_ID, model=completions[0].model)
    result.accepted_count += answer.accepted
    result.duplicate_count += answer.duplicates
    for one in answer.rejections:
        _note_bad(result, batch[one.index].line, one.message)


def _wait_until_learned(client: "EstimatorClient") -> "Status":
    deadline_s = time.monotonic() + _MAX_WAIT_S
    while True:
        status = client.status()
        if status.store_error:
            raise CommandError(f"the sidecar's store fails: {status.store_error}")
        if status.backlog == 0 or time.monotonic() > deadline_s:
            return status
        time.sleep(_POLL_S)


def _sentence(result: _FileResult) -> str:
    rows = "row" if result.accepted_count == 1 else "rows"
    text = f"{printable(result.file)}: {result.accepted_count:,} {rows} taught"
    if result.duplicate_count:
        text += f", {result.duplicate_count:,} known already"
    if result.bad_row_count:
        text += f", {result.bad_row_count:,} bad"
    if result.duplicate_count and not result.accepted_count:
        text += "; a file of this name was taught before, rename it to teach it again"
    return text
