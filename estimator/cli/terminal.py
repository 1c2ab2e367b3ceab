"""What every command prints with: exit codes, options, tables, times, one-line errors."""

import json
import sys
import time
from collections.abc import Sequence
from typing import Annotated, Final

import typer

from sched_client.options import DEFAULT_TARGET

# Documented in docs/commands.md and in `kappad --help`.
EXIT_FAILED: Final = 1
EXIT_USAGE: Final = 2
EXIT_PARTIAL: Final = 3
EXIT_INTERNAL: Final = 70  # EX_SOFTWARE of sysexits.h
EXIT_INTERRUPTED: Final = 130
EXIT_BROKEN_PIPE: Final = 141

_ISO: Final = "%Y-%m-%d %H:%M:%S"
_MINUTE_S: Final = 60
_HOUR_S: Final = 3600
_DAY_S: Final = 86400

Target = Annotated[
    str,
    typer.Option(
        "--target",
        metavar="ADDRESS",
        envvar="KAPPAD_TARGET",
        help=f"The sidecar: unix:///path or host:port. Default: {DEFAULT_TARGET}",
        show_default=False,
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON, units in the names.")]
Timeout = Annotated[
    float,
    typer.Option(
        "--timeout-s", metavar="S", min=0.1, max=600.0, help="Deadline of each call, seconds."
    ),
]
DEFAULT_TIMEOUT_S: Final = 5.0


class CommandError(Exception):
    """Ends a command with one line on standard error and an exit code."""

    def __init__(self, message: str, code: int = EXIT_FAILED) -> None:
        super().__init__(message)
        self.message = message
        self.code = code


def printable(text: str) -> str:
    r"""Escape what would break a line or a terminal, such as a file name's newline.

    Examples
    --------
    >>> printable("a\nb")
    'a\\nb'
    """
    if text.isprintable():
        return text
    return "".join(
        one if one.isprintable() else one.encode("unicode_escape").decode("ascii") for one in text
    )


def say(text: str = "") -> None:
    """Print a line to standard output."""
    print(text)


def warn(text: str) -> None:
    """Print a line to standard error."""
    print(f"kappad: {printable(text)}", file=sys.stderr, flush=True)


def say_json(value: object) -> None:
    """Print a JSON document; NaN and infinity, which JSON lacks, become null."""
    try:
        print(json.dumps(value, allow_nan=False))
    except ValueError:
        print(json.dumps(_finite(value), allow_nan=False))


def _finite(value: object) -> object:
    if isinstance(value, dict):
        return {key: _finite(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(one) for one in value]
    if isinstance(value, float) and value - value != 0.0:
        return None
    return value


def say_table(header: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Print columns, numbers to the right; nothing but the header where there are no rows."""
    cells = [[printable(_cell(one)) for one in row] for row in rows]
    widths = [
        max([len(name), *(len(row[column]) for row in cells)])
        for column, name in enumerate(header)
    ]
    numeric = [
        bool(rows) and all(row[column] is None or _is_number(row[column]) for row in rows)
        for column in range(len(header))
    ]
    for row in [list(header), *cells]:
        padded = [
            text.rjust(width) if right else text.ljust(width)
            for text, width, right in zip(row, widths, numeric, strict=True)
        ]
        print("  ".join(padded).rstrip())


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _cell(value: object) -> str:
    if value is None or value == "":
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.4g}"
    return f"{value:,}" if isinstance(value, int) else str(value)


def at(unix_s: float) -> str:
    """Show a Unix time as local date and time.

    Examples
    --------
    >>> len(at(0.0))
    19
    """
    try:
        return time.strftime(_ISO, time.localtime(unix_s))
    except (OverflowError, ValueError, OSError):
        return f"{unix_s:g}"


def span(seconds: float) -> str:
    """Show a span in its natural unit.

    Examples
    --------
    >>> span(0.4), span(75), span(7300), span(200_000)
    ('0 s', '1 min', '2.0 h', '2.3 d')
    """
    if seconds < _MINUTE_S:
        return f"{max(seconds, 0.0):.0f} s"
    if seconds < _HOUR_S:
        return f"{seconds / _MINUTE_S:.0f} min"
    if seconds < _DAY_S:
        return f"{seconds / _HOUR_S:.1f} h"
    return f"{seconds / _DAY_S:.1f} d"
