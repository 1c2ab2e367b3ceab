"""Run every benchmark and write RESULTS.md: what ``make bench`` does.

Each benchmark is a module of its own that prints one JSON object; it compares with a baseline in
the same run, because the machines are noisy. A promise is a figure, a limit and where to find the
figure; RESULTS.md says for each whether it was kept.
"""

import argparse
import json
import math
import operator
import os
import platform
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from benchmarks.listing import BENCHMARKS, Benchmark
from benchmarks.promises import PROMISES, Promised
from estimator.demo.environment import build, unsupported_reason

ROOT: Final = Path(__file__).resolve().parents[1]
RESULTS: Final = ROOT / "benchmarks" / "RESULTS.md"
_COMPARISONS: Final = {"<=": operator.le, ">=": operator.ge}
# The longest, a million completions through the sidecar, takes about four minutes.
_TIMEOUT_S: Final = 3600


def judged(promised: Promised, result: object) -> str:
    """Give a promise's row of the table: what, measured, limit, and whether it was kept."""
    what, path, comparison, limit = promised
    value = _find(result, path)
    kept = "yes" if _COMPARISONS[comparison](value, limit) else "**no**"
    return f"| {what} | {_number(value)} | {comparison} {limit:g} | {kept} |"


def main() -> None:
    """Run the benchmarks that were asked for, all by default."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help=", ".join(b.name for b in BENCHMARKS))
    wanted = parser.parse_args().names
    unknown = set(wanted) - {b.name for b in BENCHMARKS}
    if unknown:
        parser.error(f"unknown benchmark {', '.join(sorted(unknown))}")
    chosen = [b for b in BENCHMARKS if not wanted or b.name in wanted]
    sections = _old_sections()
    for benchmark in chosen:
        print(f"{benchmark.name} …", file=sys.stderr, flush=True)
        sections[benchmark.name] = _section(benchmark)
        _write(sections)
    print(RESULTS, file=sys.stderr)


def _section(benchmark: Benchmark) -> str:
    python = sys.executable
    if benchmark.inside_vllm:
        reason = unsupported_reason()
        if reason is not None:
            return f"Not run: {reason}.\n"
        python = str(build())
    command = ("-m", f"benchmarks.{benchmark.module or benchmark.name}", *benchmark.arguments)
    began = time.monotonic()
    load = os.getloadavg()[0]
    done = subprocess.run(
        [python, *command],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
        timeout=_TIMEOUT_S,
        check=False,
    )
    # A benchmark may exit with 1 where a target of its own is missed; its figures still count.
    try:
        result = json.loads(done.stdout[done.stdout.index("{") :])
    except ValueError:
        sys.exit(f"benchmarks.{benchmark.name} printed no JSON and exited {done.returncode}")
    if "not_run" in result:
        return f"Not run: {result['not_run']}.\n"
    how = (
        f"`python {' '.join(command)}`, {_commit()}, {time.strftime('%Y-%m-%d')}, "
        f"{time.monotonic() - began:.0f} s, load average at the start {load:.1f}"
    )
    lines = [how, ""]
    promises = PROMISES.get(benchmark.name)
    if promises:
        lines += ["| promise | measured | limit | kept |", "|---|---|---|---|"]
        lines += [judged(promised, result) for promised in promises] + [""]
    for title, rows in _take_tables(result):
        lines += [*_table(title, rows), ""]
    lines += ["| figure | value |", "|---|---|"]
    lines += [f"| {name} | {_number(value)} |" for name, value in _flat(result)]
    return "\n".join(lines) + "\n"


def _find(result: object, path: str) -> float:
    for key in path.split("/"):
        result = result[key]  # type: ignore[index]  # JSON; a missing key stops the run
    if result is None:
        return math.nan  # "never", which keeps no promise
    return float(result)  # type: ignore[arg-type]  # a number, or the promise is wrong


def _take_tables(value: Any) -> Iterator[tuple[str, dict[str, dict[str, Any]]]]:  # Any: JSON
    """Take out what stands under ``tables``: title, then row, then column."""
    if isinstance(value, dict):
        yield from value.pop("tables", {}).items()
        for inner in value.values():
            yield from _take_tables(inner)


def _table(title: str, rows: dict[str, dict[str, Any]]) -> Iterator[str]:  # Any: JSON
    columns = list(dict.fromkeys(column for row in rows.values() for column in row))
    yield f"| {title} | {' | '.join(column.replace('_', ' ') for column in columns)} |"
    yield "|---" * (len(columns) + 1) + "|"
    for name, row in rows.items():
        yield f"| {name} | {' | '.join(_number(row.get(column, '')) for column in columns)} |"


def _flat(value: Any, prefix: str = "") -> Iterator[tuple[str, Any]]:  # Any: JSON
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from _flat(inner, f"{prefix} / {name}" if prefix else str(name))
    elif isinstance(value, list) and not all(isinstance(v, int | float | str) for v in value):
        for index, inner in enumerate(value):
            yield from _flat(inner, f"{prefix} / {index}")
    else:
        yield prefix, value


def _number(value: object) -> str:
    if isinstance(value, list):
        return ", ".join(_number(inner) for inner in value)
    if value is None:
        return "never"
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _commit() -> str:
    return _output(("git", "describe", "--always", "--dirty"))


def _output(command: Sequence[str]) -> str:
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    return done.stdout.strip() or "unknown"


def _old_sections() -> dict[str, str]:
    """Read the sections of the last run, so that one benchmark can be run alone."""
    if not RESULTS.exists():
        return {}
    parts = RESULTS.read_text(encoding="utf-8").split("\n## ")[1:]
    return {part.split("\n", 1)[0]: part.split("\n", 1)[1].strip() + "\n" for part in parts}


def _write(sections: dict[str, str]) -> None:
    processor = next(
        (
            line.split(":", 1)[1].strip()
            for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
            if line.startswith("model name")
        ),
        platform.processor(),
    )
    head = (
        "# Results\n\nWritten by `make bench` (`python -m benchmarks.run [NAME…]`); do not edit. "
        f"Machine: {processor}, {os.cpu_count()} cores, shared with others; Python "
        f"{platform.python_version()}. Times are noisy, so each benchmark compares with a "
        "baseline in the same run.\n"
    )
    known = [b.name for b in BENCHMARKS]
    body = "".join(f"\n## {name}\n\n{sections[name]}" for name in known if name in sections)
    RESULTS.write_text(head + body, encoding="utf-8")


if __name__ == "__main__":
    main()
