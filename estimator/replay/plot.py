"""Draws runs as SVG: the distribution of E2E and its P90 over time, one line a policy.

Two line charts need no drawing library: the SVG is written here, the same bytes for the same runs.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape
from typing import Final

from estimator.replay.runs import Point, Run

# Okabe and Ito's palette, which the colour-blind can tell apart; fcfs, the baseline, is black.
_COLOURS: Final = ("#000000", "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00")
_WIDTH, _HEIGHT, _GAP = 430, 250, 20
_LEFT, _RIGHT, _TOP, _BOTTOM = 60, 24, 34, 44
_LEGEND: Final = 26
_TICKS: Final = 7
_STEPS: Final = (1.0, 2.0, 5.0, 10.0)
# An axis of less than so many times its low end has too few of the ticks 1, 2, 5 of a decade.
_NARROW: Final = 5.0
# E2E that differ by less than this factor are shown with so much room on both sides.
_ALIKE: Final = 1.5
# From here on "%.4g" would show powers of ten.
_LARGE: Final = 1e4


@dataclass(frozen=True, slots=True)
class _Axis:
    """Maps values to pixels; ``log`` where short and long must both be seen."""

    low: float
    high: float
    start: float
    end: float
    log: bool = False

    def at(self, value: float) -> float:
        """Give the pixel of a value."""
        low, high = self.low, self.high
        if self.log:
            value, low, high = math.log(value), math.log(low), math.log(high)
        return self.start + (value - low) / (high - low) * (self.end - self.start)

    def ticks(self) -> list[float]:
        """Give round values within the axis."""
        if self.log and self.high > _NARROW * self.low:
            decades = range(math.floor(math.log10(self.low)), math.ceil(math.log10(self.high)) + 1)
            steps = (1.0, 2.0, 5.0) if len(decades) < _TICKS else (1.0,)
            values = [step * 10.0**decade for decade in decades for step in steps]
        else:
            rough = (self.high - self.low) / _TICKS
            scale = 10.0 ** math.floor(math.log10(rough))
            step = next(one * scale for one in _STEPS if one * scale >= rough * 0.999)
            first = math.ceil(self.low / step)
            values = [index * step for index in range(first, first + 2 * _TICKS)]
        return [one for one in values if self.low <= one <= self.high * (1 + 1e-9)]


def _label(value: float) -> str:
    return f"{value:,.0f}" if value >= _LARGE else f"{value:.4g}"


# Header and rows.
Table = tuple[Sequence[str], Sequence[Sequence[object]]]
_Lines = Sequence[tuple[str, Sequence[float], Sequence[float]]]


def svg_of(runs: Sequence[Run]) -> str:
    """Draw runs.

    Parameters
    ----------
    runs : sequence of Run
        Those with curves are drawn, a row of two charts for each rate.

    Returns
    -------
    str
        An SVG document.

    Raises
    ------
    ValueError
        If no run has curves.
    """
    rows: dict[Point, list[Run]] = {}
    for run in runs:
        if run.curves is not None:
            rows.setdefault(run.point, []).append(run)
    if not rows:
        raise ValueError("no run kept its curves; replay with keep_curves")
    row_height = _TOP + _HEIGHT + _BOTTOM
    width = 2 * (_LEFT + _WIDTH + _RIGHT) + _GAP
    height = _LEGEND + row_height * len(rows)
    policies = list(dict.fromkeys(run.policy for drawn in rows.values() for run in drawn))
    colours = {name: _COLOURS[i % len(_COLOURS)] for i, name in enumerate(policies)}
    size = f'viewBox="0 0 {width} {height}" width="{width}" height="{height}"'
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="sans-serif" font-size="12">',
        f'<rect width="{width}" height="{height}" fill="#ffffff"/>',
        *_legend(colours),
    ]
    for index, (point, drawn) in enumerate(rows.items()):
        top = _LEGEND + index * row_height + _TOP
        title = f"{point.rate_rps:.4g} requests/s, load {point.load:.2f}"
        parts += _row(drawn, colours, top, title)
    return "\n".join((*parts, "</svg>")) + "\n"


def _legend(colours: dict[str, str]) -> Iterable[str]:
    left = _LEFT
    for name, colour in colours.items():
        yield f'<rect x="{left}" y="12" width="18" height="4" fill="{colour}"/>'
        yield f'<text x="{left + 24}" y="18">{escape(name)}</text>'
        left += 44 + 8 * len(name)


def _row(runs: Sequence[Run], colours: dict[str, str], top: int, title: str) -> Iterable[str]:
    curves = [(run.policy, run.curves) for run in runs if run.curves is not None]
    shares: _Lines = [(name, one.e2e_s, one.share_ratio) for name, one in curves]
    times: _Lines = [(name, one.arrived_s, one.p90_s) for name, one in curves]
    low = min(min(xs) for _, xs, _ in shares)
    high = max(max(xs) for _, xs, _ in shares)
    if high < _ALIKE * low:
        # A line in the middle, and values beside it.
        low, high = low / _ALIKE, high * _ALIKE
    across = _Axis(low, high, _LEFT, _LEFT + _WIDTH, log=True)
    up = _Axis(0.0, 1.0, top + _HEIGHT, top)
    yield from _chart(f"{title}: share of requests within", "E2E, s", across, up, shares, colours)
    left = 2 * _LEFT + _WIDTH + _RIGHT + _GAP
    last = max(xs[-1] for _, xs, _ in times)
    across = _Axis(0.0, last or 1.0, left, left + _WIDTH)
    up = _Axis(0.0, 1.05 * max(max(ys) for _, _, ys in times), top + _HEIGHT, top)
    yield from _chart(f"{title}: P90 of E2E, s", "arrival, s", across, up, times, colours)


def _chart(
    title: str, unit: str, across: _Axis, up: _Axis, lines: _Lines, colours: dict[str, str]
) -> Iterable[str]:
    left, right, bottom, top = across.start, across.end, up.start, up.end
    yield f'<text x="{left}" y="{top - 10}" font-weight="bold">{escape(title)}</text>'
    for value in up.ticks():
        y = f"{up.at(value):.1f}"
        yield f'<line x1="{left}" y1="{y}" x2="{right}" y2="{y}" stroke="#dddddd"/>'
        yield f'<text x="{left - 6}" y="{y}" dy="4" text-anchor="end">{_label(value)}</text>'
    for value in across.ticks():
        x = f"{across.at(value):.1f}"
        yield f'<line x1="{x}" y1="{bottom}" x2="{x}" y2="{bottom + 4}" stroke="#666666"/>'
        yield f'<text x="{x}" y="{bottom + 17}" text-anchor="middle">{_label(value)}</text>'
    yield f'<text x="{right}" y="{bottom + 34}" text-anchor="end">{escape(unit)}</text>'
    yield f'<path d="M{left} {top}V{bottom}H{right}" fill="none" stroke="#666666"/>'
    for name, xs, ys in lines:
        points = " ".join(
            f"{across.at(x):.1f},{up.at(y):.1f}" for x, y in zip(xs, ys, strict=True)
        )
        yield (
            f'<polyline points="{points}" fill="none" stroke="{colours[name]}" '
            f'stroke-width="1.8"><title>{escape(name)}</title></polyline>'
        )
        if len(xs) == 1:  # a line of one point shows nothing
            x, y = f"{across.at(xs[0]):.1f}", f"{up.at(ys[0]):.1f}"
            yield f'<circle cx="{x}" cy="{y}" r="3" fill="{colours[name]}"/>'


def html_of(runs: Sequence[Run], *, heading: Sequence[str], tables: Sequence[Table]) -> str:
    """Draw runs as a page that needs nothing else.

    Parameters
    ----------
    runs : sequence of Run
        As for `svg_of`.
    heading : sequence of str
        Lines above the charts.
    tables : sequence of tuple
        Header and rows of each table below them; numbers are shown with four digits.

    Returns
    -------
    str
        An HTML document.
    """
    body = [f"<p>{escape(line)}</p>" for line in heading]
    body.append(svg_of(runs))
    for header, rows in tables:
        body.append("<table>")
        body.append(_tr("th", header))
        body += [_tr("td", row) for row in rows]
        body.append("</table>")
    return _PAGE.format(body="\n".join(body))


def _tr(tag: str, cells: Sequence[object]) -> str:
    texts = (f"{one:.4g}" if isinstance(one, float) else str(one) for one in cells)
    return "<tr>" + "".join(f"<{tag}>{escape(one)}</{tag}>" for one in texts) + "</tr>"


_PAGE: Final = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<title>kappad replay</title>
<style>
body {{ font-family: sans-serif; max-width: 62rem; margin: 1rem auto; padding: 0 1rem; }}
svg {{ max-width: 100%; height: auto; }}
table {{ border-collapse: collapse; margin: 1rem 0; font-size: 0.9rem; }}
th, td {{ padding: 0.15rem 0.6rem; text-align: right; border-bottom: 1px solid #dddddd; }}
th:first-child, td:first-child {{ text-align: left; }}
</style>
</head>
<body>
<h1>kappad replay</h1>
{body}
</body>
</html>
"""
