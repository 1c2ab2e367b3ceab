"""A small line chart in text: braille dots, or stars where the terminal has none."""

import shutil
import sys
from collections.abc import Sequence
from typing import Final

# A braille cell has 2 × 4 dots; bit of each by column and row (Unicode, block U+2800).
_BRAILLE: Final = ((0x01, 0x02, 0x04, 0x40), (0x08, 0x10, 0x20, 0x80))
_LABEL: Final = 8
_ROWS: Final = 6
_MIN_COLUMNS: Final = 10
# Wider than a screen says nothing more, and a file without a terminal has no width.
_MAX_COLUMNS: Final = 160


def draw(
    times: Sequence[float],
    values: Sequence[float],
    *,
    width: int | None = None,
    braille: bool | None = None,
) -> str:
    """Draw values over time.

    Parameters
    ----------
    times : sequence of float
        Seconds, not decreasing.
    values : sequence of float
        As many, finite.
    width : int, optional
        Characters of a line; defaults to the terminal's, or 80.
    braille : bool, optional
        Whether braille may be used; defaults to whether standard output can encode it.

    Returns
    -------
    str
        Lines joined by newlines, the highest value above, each at most ``width`` wide.
    """
    width = width or terminal_width()
    dots = can_encode("⠿│") if braille is None else braille
    columns = max(width - _LABEL - 2, _MIN_COLUMNS)
    low, high = min(values), max(values)
    # A flat line is drawn in the middle, with a scale of a tenth around it.
    margin = (high - low) * 0.05 or abs(high) * 0.1 or 1.0
    low, high = low - margin, high + margin
    wide, tall = (columns * 2, _ROWS * 4) if dots else (columns, _ROWS)
    heights = [
        tall - 1 - min(int((value - low) / (high - low) * tall), tall - 1)
        for value in _resampled(times, values, wide)
    ]
    lines = _braille(heights, columns) if dots else _stars(heights, columns)
    labels = {0: f"{high:.3g}", _ROWS - 1: f"{low:.3g}"}
    edge = "│" if dots else "|"
    return "\n".join(
        f"{labels.get(row, ''):>{_LABEL}}{edge}{line}".rstrip() for row, line in enumerate(lines)
    )


def _resampled(times: Sequence[float], values: Sequence[float], n: int) -> list[float]:
    """Give the value that held at each of ``n`` moments, evenly spread."""
    first, last = times[0], times[-1]
    step = (last - first) / (n - 1)
    sampled, at = [], 0
    for index in range(n):
        moment = first + index * step
        while at + 1 < len(times) and times[at + 1] <= moment:
            at += 1
        sampled.append(values[at])
    sampled[-1] = values[-1]
    return sampled


def _braille(heights: Sequence[int], columns: int) -> list[str]:
    cells = [[0] * columns for _ in range(_ROWS)]
    previous = heights[0]
    for x, y in enumerate(heights):
        # A step is drawn as a line, so that a jump is seen as one.
        for dot in range(min(y, previous), max(y, previous) + 1):
            cells[dot // 4][x // 2] |= _BRAILLE[x % 2][dot % 4]
        previous = y
    return ["".join(chr(0x2800 + cell) if cell else " " for cell in row) for row in cells]


def _stars(heights: Sequence[int], columns: int) -> list[str]:
    rows = [[" "] * columns for _ in range(_ROWS)]
    for x, y in enumerate(heights):
        rows[y][x] = "*"
    return ["".join(row) for row in rows]


def terminal_width() -> int:
    """Give the characters of a line of the terminal, 80 where there is none."""
    return min(shutil.get_terminal_size((80, 24)).columns, _MAX_COLUMNS)


def can_encode(text: str) -> bool:
    """Say whether standard output can show a text."""
    try:
        text.encode(sys.stdout.encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return False
    return True
