"""A small histogram in text: blocks, or hashes where the terminal has none."""

import math
from collections.abc import Sequence
from typing import Final

from estimator.cli.chart import can_encode, terminal_width

_BLOCKS: Final = " ▁▂▃▄▅▆▇█"
_ROWS: Final = 6
_LABEL: Final = 8
_MIN_COLUMNS: Final = 10


def draw(
    edges: Sequence[float],
    counts: Sequence[int],
    *,
    boundaries: Sequence[float] = (),
    names: Sequence[str] = (),
    width: int | None = None,
    blocks: bool | None = None,
) -> str:
    """Draw how often what lies between two edges was seen, on a logarithmic axis.

    Parameters
    ----------
    edges : sequence of float
        Ascending, > 0, in even ratios.
    counts : sequence of int
        One fewer, ≥ 0.
    boundaries : sequence of float
        Ascending; each is drawn as a line. One outside the edges is drawn at the margin.
    names : sequence of str
        What lies between two boundaries, one more of them; written below where there is room.
    width : int, optional
        Characters of a line; defaults to the terminal's, or 80.
    blocks : bool, optional
        Whether block characters may be used; defaults to what standard output can encode.

    Returns
    -------
    str
        Lines joined by newlines, each at most ``width`` wide.
    """
    fine = can_encode(_BLOCKS + "│") if blocks is None else blocks
    columns = max((width or terminal_width()) - _LABEL - 2, _MIN_COLUMNS)
    heights = _resampled(counts, columns)
    cuts = [_column(edges, bound, columns) for bound in boundaries]
    edge = "│" if fine else "|"
    most = max(counts, default=0)
    lines = []
    for row in range(_ROWS, 0, -1):
        cells = [_cell(height, row, most, fine=fine) for height in heights]
        for cut in cuts:
            cells[cut] = edge
        label = f"{most:,}" if row == _ROWS else ""
        lines.append(f"{label:>{_LABEL}}{edge}{''.join(cells)}".rstrip())
    lines += [f"{'':>{_LABEL + 1}}{line}".rstrip() for line in (
        _named(names, cuts, columns), _axis(edges, columns)) if line.strip()]  # fmt: skip
    return "\n".join(lines)


def _resampled(counts: Sequence[int], columns: int) -> list[int]:
    """Give each column the count of the bin that it lies in."""
    return [counts[index * len(counts) // columns] for index in range(columns)] if counts else []


def _column(edges: Sequence[float], bound: float, columns: int) -> int:
    low, high = math.log(edges[0]), math.log(edges[-1])
    share = (math.log(max(bound, edges[0])) - low) / (high - low) if high > low else 0.0
    return min(int(share * columns), columns - 1)


def _cell(count: int, row: int, most: int, *, fine: bool) -> str:
    filled = count / most * _ROWS - (row - 1) if most else 0.0
    if fine:
        steps = len(_BLOCKS) - 1
        eighths = min(max(round(filled * steps), 0), steps)
        # What was seen at all is shown.
        return _BLOCKS[max(eighths, 1) if count and row == 1 else eighths]
    return "#" if filled >= 0.5 or (count and row == 1) else " "  # noqa: PLR2004 - half a row


def _named(names: Sequence[str], cuts: Sequence[int], columns: int) -> str:
    """Write each name in the middle of its interval, if that is wide enough."""
    line = [" "] * columns
    for name, start, end in zip(names, (0, *cuts), (*cuts, columns), strict=False):
        if len(name) < end - start:
            at = (start + end - len(name) + 1) // 2
            line[at : at + len(name)] = name
    return "".join(line)


def _axis(edges: Sequence[float], columns: int) -> str:
    low, high = f"{edges[0]:.3g} s", f"{edges[-1]:.3g} s of work"
    return f"{low}{high:>{max(columns - len(low), len(high) + 1)}}"
