"""The trace format that ``learn``, ``export``, ``evaluate`` and ``replay`` share.

Owns the columns, what a valid row is, and reading and writing CSV and JSON Lines, plain or
gzipped. Streams: memory does not grow with the file. Knows nothing of sidecars or clocks.
"""

import csv
import gzip
import io
import json
import math
import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final, Literal, cast, get_args

from estimator.core.observation import Completion, FinishReason, violation_of
from sched_client.model import DEFAULT_MODEL, RequestKind

# DESIGN.md, "Traces".
CANONICAL_COLUMNS: Final = (
    "arrival_s", "audio_s", "prompt_tokens", "output_tokens", "language", "task", "model",
    "finish_reason", "request_type", "group_id", "priority",
)  # fmt: skip
# What an export adds, so that learning from it gives the same state again. Other readers of the
# format ignore columns that they do not know.
EXPORT_COLUMNS: Final = (
    *CANONICAL_COLUMNS, "timestamps", "kind", "max_tokens", "cached_prompt_tokens", "wait_s",
    "service_s", "concurrency", "preemptions",
)  # fmt: skip
TraceFormat = Literal["csv", "jsonl"]
# A longer line is no trace but something else, such as a binary file.
_MAX_LINE_CHARACTERS: Final = 1 << 20
_GZIP_MAGIC: Final = b"\x1f\x8b"
_TRUE: Final = frozenset({"1", "true"})
_FALSE: Final = frozenset({"0", "false"})
_INTEGERS: Final = (
    "prompt_tokens", "output_tokens", "priority", "max_tokens", "cached_prompt_tokens",
    "preemptions",
)  # fmt: skip
_REALS: Final = ("arrival_s", "audio_s", "wait_s", "service_s", "concurrency")
# vLLM's own word for a request whose caller left.
_FINISH_SYNONYMS: Final = {"abort": "aborted"}


class TraceError(Exception):
    """A file cannot be read on; the message names the file, what is wrong and the remedy."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceRow:
    """One request of a trace.

    Attributes
    ----------
    row : int
        Counts the file's rows from 1, bad ones included.
    line : int
        Line of the file on which the row ends.
    completion : Completion
        The request, valid but for its ``completion_id`` and ``finished_s``, which a trace does
        not hold.
    arrival_s : float or None
        Seconds since the trace's own origin.
    """

    row: int
    line: int
    completion: Completion
    arrival_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BadRow:
    """A row that was skipped, and why.

    Attributes
    ----------
    row, line : int
        As in `TraceRow`.
    reason : str
        Names the column, the value and what it must be.
    """

    row: int
    line: int
    reason: str


def format_of(name: str) -> TraceFormat:
    """Tell the format from a file's name.

    Parameters
    ----------
    name : str
        Ends in ``.csv``, ``.csv.gz``, ``.jsonl`` or ``.jsonl.gz``.

    Returns
    -------
    {"csv", "jsonl"}

    Raises
    ------
    TraceError
        For any other ending.
    """
    lowered = name.lower().removesuffix(".gz")
    if lowered.endswith(".csv"):
        return "csv"
    if lowered.endswith(".jsonl"):
        return "jsonl"
    raise TraceError(f"{name}: not a trace by its name; use .csv, .jsonl, or one of them with .gz")


class TraceReader:
    """Iterates over the rows of one file, bad ones included.

    Parameters
    ----------
    path : Path
        The file; whether it is gzipped is told from its first bytes.

    Raises
    ------
    TraceError
        The file cannot be opened, is empty, lacks a required column, is not UTF-8, or breaks
        off; the last two may come after some rows.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._format = format_of(str(path))
        try:
            if not path.is_file():
                what = "is not a file" if path.exists() else "no such file"
                raise TraceError(f"{path}: {what}; name a trace in CSV or JSON Lines")
            self._size = max(path.stat().st_size, 1)
            self._raw: IO[bytes] = path.open("rb")
        except OSError as error:
            raise TraceError(f"{path}: cannot be read: {error.strerror}") from error

    @property
    def progress_ratio(self) -> float:
        """Share of the file's bytes that were read."""
        return min(self._raw.tell() / self._size, 1.0) if not self._raw.closed else 1.0

    def __iter__(self) -> Iterator[TraceRow | BadRow]:
        with self._raw:
            try:
                rows = self._csv_rows() if self._format == "csv" else self._jsonl_rows()
                yield from rows
            except (EOFError, zlib.error, gzip.BadGzipFile) as error:
                message = f"{self.path}: the gzip stream breaks off ({error}); copy the file again"
                raise TraceError(message) from error
            except UnicodeDecodeError as error:
                raise TraceError(f"{self.path}: not UTF-8 text ({error.reason})") from error
            except OSError as error:
                raise TraceError(f"{self.path}: cannot be read: {error}") from error

    def _lines(self) -> Iterator[str]:
        magic = self._raw.read(len(_GZIP_MAGIC))
        self._raw.seek(0)
        binary = gzip.GzipFile(fileobj=self._raw) if magic == _GZIP_MAGIC else self._raw
        # newline="" leaves line ends inside quoted fields to the csv module.
        with io.TextIOWrapper(cast("IO[bytes]", binary), "utf-8-sig", newline="") as text:
            while line := text.readline(_MAX_LINE_CHARACTERS):
                if len(line) >= _MAX_LINE_CHARACTERS:
                    limit = f"{_MAX_LINE_CHARACTERS:,}"
                    raise TraceError(f"{self.path}: a line has over {limit} characters: no trace")
                yield line

    def _csv_rows(self) -> Iterator[TraceRow | BadRow]:
        reader = csv.reader(self._lines(), strict=True)
        try:
            header = [name.strip() for name in next(reader, [])]
        except csv.Error as error:
            raise TraceError(f"{self.path}: the header is no CSV ({error})") from error
        self._check_header(header)
        row = 0
        while True:
            try:
                cells = next(reader)
            except StopIteration:
                return
            except csv.Error as error:
                row += 1
                yield BadRow(row=row, line=reader.line_num, reason=f"no CSV: {error}")
                continue
            if not cells:
                continue
            row += 1
            if len(cells) != len(header):
                reason = f"{len(cells)} fields where the header has {len(header)}"
                yield BadRow(row=row, line=reader.line_num, reason=reason)
            else:
                yield _row_of(dict(zip(header, cells, strict=True)), row, reader.line_num)

    def _check_header(self, header: list[str]) -> None:
        if not any(header):
            raise TraceError(f"{self.path}: empty; the first line must name the columns")
        known = [name for name in header if name in EXPORT_COLUMNS]
        if len(known) != len(set(known)):
            raise TraceError(f"{self.path}: a column is named twice in {', '.join(header)[:200]}")
        required = "a trace needs output_tokens, and audio_s or prompt_tokens"
        if "output_tokens" not in known or not {"audio_s", "prompt_tokens"} & set(known):
            found = ", ".join(header)[:200]
            remedy = ", with commas between the columns" if len(header) == 1 else ""
            raise TraceError(
                f"{self.path}: columns are missing: {required}{remedy}; found {found!r}"
            )

    def _jsonl_rows(self) -> Iterator[TraceRow | BadRow]:
        row = 0
        for line, text in enumerate(self._lines(), start=1):
            if not text.strip():
                continue
            row += 1
            try:
                value = json.loads(text)
            except (ValueError, RecursionError) as error:
                yield BadRow(row=row, line=line, reason=f"no JSON: {error}")
                continue
            if isinstance(value, dict):
                yield _row_of(value, row, line)
            else:
                yield BadRow(row=row, line=line, reason="not a JSON object")
        if row == 0:
            raise TraceError(f"{self.path}: empty; each line must be a JSON object")


def _row_of(cells: Mapping[str, object], row: int, line: int) -> TraceRow | BadRow:
    try:
        arrival_s, completion = _completion_of(cells)
    except (TypeError, ValueError) as error:
        return BadRow(row=row, line=line, reason=str(error))
    violation = violation_of(completion)
    if violation is not None:
        return BadRow(row=row, line=line, reason=violation.message)
    return TraceRow(row=row, line=line, completion=completion, arrival_s=arrival_s)


def _completion_of(cells: Mapping[str, object]) -> tuple[float | None, Completion]:
    reals = {name: _real(name, cells.get(name)) for name in _REALS}
    integers = {name: _integer(name, cells.get(name)) for name in _INTEGERS}
    output_tokens = integers["output_tokens"]
    if output_tokens is None:
        raise ValueError("output_tokens is missing")
    audio_s, prompt_tokens = reals["audio_s"], integers["prompt_tokens"]
    if audio_s is None and prompt_tokens is None:
        raise ValueError("audio_s and prompt_tokens are both missing")
    task = _text("task", cells.get("task")) or ("text" if audio_s is None else "transcribe")
    default_kind = "text" if audio_s is None or task == "text" else "transcription"
    kind = _text("kind", cells.get("kind")) or default_kind
    if kind not in get_args(RequestKind):
        raise ValueError(f"kind is {kind!r}, must be one of {', '.join(get_args(RequestKind))}")
    finish = _text("finish_reason", cells.get("finish_reason")).lower() or "stop"
    finish = _FINISH_SYNONYMS.get(finish, finish)
    if finish not in get_args(FinishReason):
        choices = ", ".join(get_args(FinishReason))
        raise ValueError(f"finish_reason is {finish!r}, must be one of {choices}")
    completion = Completion(
        completion_id="unset",
        model=_text("model", cells.get("model")) or DEFAULT_MODEL,
        task=task,
        language=_text("language", cells.get("language")),
        timestamps=_boolean("timestamps", cells.get("timestamps")),
        kind=cast("RequestKind", kind),  # checked just above
        audio_s=audio_s,
        duration_source="hint" if audio_s is not None else "none",
        prompt_tokens=prompt_tokens or 0,
        cached_prompt_tokens=integers["cached_prompt_tokens"] or 0,
        output_tokens=output_tokens,
        max_tokens=integers["max_tokens"],
        finish_reason=cast("FinishReason", finish),  # checked just above
        wait_s=reals["wait_s"] or 0.0,
        service_s=reals["service_s"] or 0.0,
        concurrency=reals["concurrency"] or 0.0,
        preemptions=integers["preemptions"] or 0,
        request_type=_text("request_type", cells.get("request_type")),
        group_id=_text("group_id", cells.get("group_id")),
        priority=integers["priority"] or 0,
    )
    return reals["arrival_s"], completion


def _text(name: str, value: object) -> str:
    if value is None:
        return ""
    if not isinstance(value, str | int):
        raise TypeError(f"{name} is {_shown(value)}, must be text")
    text = str(value).strip()
    if not text.isascii() and any("\ud800" <= character <= "\udfff" for character in text):
        raise ValueError(f"{name} is {_shown(value)}, which is no Unicode text")
    return text


def _real(name: str, value: object) -> float | None:
    if value is None or value == "":
        return None
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise TypeError(f"{name} is {_shown(value)}, must be a finite number")
    try:
        # float() reads "1_000" as Python source does; nobody's spreadsheet means that.
        number = math.nan if isinstance(value, str) and "_" in value else float(value)
    except (ValueError, OverflowError):
        number = math.nan
    if not math.isfinite(number):
        raise ValueError(f"{name} is {_shown(value)}, must be a finite number")
    return number


def _integer(name: str, value: object) -> int | None:
    number = _real(name, value)
    if number is None:
        return None
    # Spreadsheets and data frames write whole numbers as 17.0.
    if not number.is_integer():
        raise ValueError(f"{name} is {_shown(value)}, must be a whole number")
    return int(number)


def _boolean(name: str, value: object) -> bool | None:
    text = str(value).strip().lower() if value is not None else ""
    if not text:
        return None
    if text in _TRUE:
        return True
    if text in _FALSE:
        return False
    raise ValueError(f"{name} is {_shown(value)}, must be true or false")


def _shown(value: object) -> str:
    text = ascii(value)
    return text if len(text) <= _SHOWN_CHARACTERS else text[:_SHOWN_CHARACTERS] + "…"


_SHOWN_CHARACTERS: Final = 60


def cells_of(completion: Completion, *, arrival_s: float | None) -> dict[str, object]:
    """Give the cells of `EXPORT_COLUMNS` for a completion, absent ones as None.

    Parameters
    ----------
    completion : Completion
        As stored.
    arrival_s : float or None
        Seconds since the trace's origin.

    Returns
    -------
    dict of str to object
        In the order of the columns.
    """
    cells: dict[str, object] = {"arrival_s": arrival_s}
    for name in EXPORT_COLUMNS[1:]:
        value = getattr(completion, name)
        cells[name] = None if value == "" else value
    return cells


def write_rows(rows: Iterable[Mapping[str, object]], out: IO[str], form: TraceFormat) -> int:
    """Write rows as `cells_of` gives them.

    Parameters
    ----------
    rows : Iterable of Mapping
        Cells by column.
    out : text file
        Opened with ``newline=""``.
    form : {"csv", "jsonl"}
        CSV leaves absent cells empty, JSON Lines leaves them out.

    Returns
    -------
    int
        Number of rows written.
    """
    count = 0
    if form == "csv":
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(EXPORT_COLUMNS)
        for cells in rows:
            writer.writerow([_csv_cell(cells[name]) for name in EXPORT_COLUMNS])
            count += 1
        return count
    for cells in rows:
        present = {name: value for name, value in cells.items() if value is not None}
        out.write(json.dumps(present, ensure_ascii=False) + "\n")
        count += 1
    return count


def _csv_cell(value: object) -> object:
    if value is None:
        return ""
    return str(value).lower() if isinstance(value, bool) else value
