"""The frontier: how low the median gets for how long a longest wait, by order and setting.

A setting is on it if no other has both a lower P50 of the E2E and a shorter longest wait. Beside
the orders of kappad stand those that were the best known before it (RESEARCH.md, issue 5): two
classes cut at a median that was known beforehand, under the guard, with b₀ in tokens.

Run: ``python -m benchmarks.twin.frontier [--draw FILE.svg]`` (about 2 minutes of one core).
"""

import argparse
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from benchmarks.twin.contenders import (
    BURST,
    UNGUARDED,
    VLLM_PR,
    Contender,
    guarded,
    run,
    two_halves,
)
from benchmarks.twin.material import SPEECH, Row, Scene, Table, engine, scene
from estimator.replay.figures import Figures, change_of, metric
from estimator.replay.job import Job

_FIRST_SEED: Final = 200
_PHIS: Final = (0.1, 0.15, 0.2, 0.25, 0.3, 0.4)
_METRICS: Final = ("e2e_s_p50", "e2e_s_p90", "e2e_s_p99", "max_wait_s", "ttft_s_p50")
_LENGTHS: Final = ((2_620, 5), (20_000, 2))
_LOAD: Final = 1.2
# Of the table of known settings: b₀ in tokens.
_BURSTS_TOKENS: Final = (500.0, 3_000.0)


class Curve(NamedTuple):
    """Settings of one order, in the order in which they bind less."""

    name: str
    settings: tuple[Contender, ...]


def curves(mean_tokens: float) -> tuple[Curve, ...]:
    """Give all curves; b₀ in tokens is told in mean requests."""
    known = tuple(
        Contender(
            f"φ {phi:g}, b₀ {tokens:g} tokens", "ewsjf",
            guarded(phi, tokens / mean_tokens, between="shortest", order_by="tokens"),
            cuts=(0.5,),
        )
        for tokens in _BURSTS_TOKENS
        for phi in (0.2, 0.25, 0.3)
    )  # fmt: skip
    return (
        Curve("sjf", (*_guarded("sjf"), Contender("no guard", "sjf", UNGUARDED))),
        Curve("hrrn", (*_guarded("hrrn"), Contender("no guard", "hrrn", UNGUARDED))),
        Curve(
            "ewsjf, halves",
            tuple(Contender(f"φ {phi:g}", "ewsjf", two_halves(phi)) for phi in _PHIS),
        ),
        Curve(
            "ewsjf, halves, other shares",
            tuple(
                Contender(f"share {share:g}, φ .28", "ewsjf", two_halves(0.28, share))
                for share in (0.4, 0.44, 0.46, 0.5, 0.55, 0.6)
            ),
        ),
        Curve(
            "ewsjf, fitted queues, shortest first",
            tuple(
                Contender(f"φ {phi:g}", "ewsjf", guarded(phi, between="shortest"), fitted=True)
                for phi in (0.2, 0.3, 0.4)
            ),
        ),
        Curve("known: two classes at the true median", known),
        Curve(
            "ewsjf-paper",
            (
                Contender("φ .3", "ewsjf-paper", guarded(0.3), fitted=True),
                Contender("no guard", "ewsjf-paper", UNGUARDED, fitted=True),
            ),
        ),
        Curve(
            "vLLM PR #33392",
            (
                Contender("φ .3", VLLM_PR, guarded(0.3)),
                Contender("no guard", VLLM_PR, UNGUARDED),
            ),
        ),
    )


def _guarded(policy: str) -> tuple[Contender, ...]:
    return tuple(Contender(f"φ {phi:g}", policy, guarded(phi)) for phi in _PHIS)


class Point(NamedTuple):
    """What a setting comes to, in percent against fcfs."""

    curve: str
    setting: str
    values: dict[str, float]

    @property
    def p50(self) -> float:
        """Of the E2E."""
        return self.values["e2e_s_p50"]

    @property
    def longest_wait(self) -> float:
        """Of the longest wait."""
        return self.values["max_wait_s"]


def measured(n: int, seeds: int) -> list[Point]:
    """Run all settings over the same requests."""
    at = scene(engine("decode-bound"), SPEECH, _LOAD, n)
    jobs = {seed: at.jobs(seed) for seed in range(_FIRST_SEED, _FIRST_SEED + seeds)}
    base = [at.fcfs(own) for own in jobs.values()]
    return [
        Point(curve.name, one.name, _values(at, one, jobs, base))
        for curve in curves(at.workload.mean_tokens)
        for one in curve.settings
    ]


def _values(
    at: Scene, one: Contender, jobs: dict[int, list[Job]], base: list[Figures]
) -> dict[str, float]:
    ours = [run(at, own, one, "duration", seed) for seed, own in jobs.items()]
    return {
        what: change_of(
            [metric(figures, what) for figures in ours],
            [metric(figures, what) for figures in base],
        ).percent
        or 0.0
        for what in _METRICS
    }


def best(points: list[Point]) -> set[tuple[str, str]]:
    """Name those of which no other has both a lower median and a shorter longest wait."""
    return {
        (one.curve, one.setting)
        for one in points
        if not any(
            other.p50 <= one.p50
            and other.longest_wait <= one.longest_wait
            and (other.p50, other.longest_wait) != (one.p50, one.longest_wait)
            for other in points
        )
    }


def measure() -> Row:
    """Give a table for each length of run; who is on the frontier is bold."""
    tables: dict[str, Table] = {}
    for n, seeds in _LENGTHS:
        points = measured(n, seeds)
        ahead = best(points)
        table: Table = {}
        for one in points:
            mark = "**" if (one.curve, one.setting) in ahead else ""
            row = {what: f"{value:+.0f}" for what, value in one.values.items()}
            table[f"{mark}{one.curve}, {one.setting}{mark}"] = dict(row)
        title = (
            f"frontier, decode-bound, load {_LOAD:g}, {n:,} requests × {seeds}, b₀ {BURST:g} mean "
            "requests unless it says otherwise, % against fcfs"
        )
        tables[title] = table
    return {"tables": tables}


_WIDTH: Final = 860
_HEIGHT: Final = 460
_LEFT: Final = 70
_TOP: Final = 24
_PLOT: Final = 470
_X: Final = (-100.0, 0.0)
_Y: Final = (0.0, 120.0)
_COLOURS: Final = (
    "#4477aa", "#66ccee", "#228833", "#99cc66", "#ccbb44", "#000000", "#aa3377", "#ee6677",
)  # fmt: skip


def drawing(points: list[Point], title: str) -> str:
    """Draw the longest wait over the median as an SVG; what is beyond the edge is left out."""
    return "\n".join((
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}">',
        '<g font-family="sans-serif" font-size="12">',
        f'<rect width="{_WIDTH}" height="{_HEIGHT}" fill="#ffffff"/>',
        f'<text x="{_LEFT}" y="15" font-weight="bold">{title}</text>',
        *_axes(),
        *_lines(points),
        "</g></svg>",
        "",
    ))  # fmt: skip


def _x(percent: float) -> float:
    return _LEFT + _PLOT * (percent - _X[0]) / (_X[1] - _X[0])


def _y(percent: float) -> float:
    low, high = _Y
    return _TOP + (_HEIGHT - _TOP - 50) * (high - percent) / (high - low)


def _axes() -> Iterator[str]:
    bottom, right = _y(_Y[0]), _x(_X[1])
    for percent in range(int(_X[0]), int(_X[1]) + 1, 20):
        at = _x(percent)
        yield f'<path d="M{at:.0f} {_TOP}V{bottom:.0f}" stroke="#dddddd"/>'
        yield f'<text x="{at:.0f}" y="{bottom + 16:.0f}" text-anchor="middle">{percent}</text>'
    for percent in range(int(_Y[0]), int(_Y[1]) + 1, 20):
        at = _y(percent)
        yield f'<path d="M{_LEFT} {at:.0f}H{right:.0f}" stroke="#dddddd"/>'
        yield f'<text x="{_LEFT - 6}" y="{at + 4:.0f}" text-anchor="end">+{percent}</text>'
    middle = (_LEFT + right) / 2
    yield (
        f'<text x="{middle:.0f}" y="{bottom + 36:.0f}" text-anchor="middle">'
        "median of the E2E, % against fcfs</text>"
    )
    yield (
        f'<text transform="translate(20 {_y(60):.0f}) rotate(-90)" text-anchor="middle">'
        "longest wait, % against fcfs</text>"
    )


def _lines(points: list[Point]) -> Iterator[str]:
    names = list(dict.fromkeys(one.curve for one in points))
    for number, (name, colour) in enumerate(zip(names, _COLOURS, strict=True)):
        shown = [
            one
            for one in points
            if one.curve == name and one.longest_wait <= _Y[1] and one.p50 <= _X[1]
        ]
        places = [(_x(one.p50), _y(max(one.longest_wait, 0.0))) for one in shown]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
        yield f'<polyline points="{path}" fill="none" stroke="{colour}"/>'
        for (x, y), one in zip(places, shown, strict=True):
            yield (
                f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3.5" fill="{colour}">'
                f"<title>{name}, {one.setting}</title></circle>"
            )
        at = _TOP + 16 + 20 * number
        yield f'<circle cx="{_LEFT + _PLOT + 24}" cy="{at - 4}" r="4" fill="{colour}"/>'
        yield f'<text x="{_LEFT + _PLOT + 34}" y="{at}">{name}</text>'


def main() -> None:
    """Print the tables as JSON, or draw the longer runs' frontier into a file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--draw", type=Path, metavar="FILE.svg")
    file = parser.parse_args().draw
    if file is None:
        print(json.dumps(measure(), indent=2))
        return
    n, seeds = _LENGTHS[-1]
    title = f"decode-bound, load {_LOAD:g}, {n:,} requests"
    file.write_text(drawing(measured(n, seeds), title), encoding="utf-8")


if __name__ == "__main__":
    main()
