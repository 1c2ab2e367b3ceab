"""How ``kappad replay`` shows its document on a terminal."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from estimator.cli.terminal import say, say_table

# Key of the summary (and part of a spread), what it is called, whether it is compared.
_LINES: Final = (
    ("e2e_s", "p50", "E2E p50 s"),
    ("e2e_s", "p90", "E2E p90 s"),
    ("e2e_s", "p99", "E2E p99 s"),
    ("e2e_s", "mean", "E2E mean s"),
    ("ttft_s", "p50", "TTFT p50 s"),
    ("ttft_s", "p90", "TTFT p90 s"),
    ("ttft_s", "p99", "TTFT p99 s"),
    ("ttft_s", "mean", "TTFT mean s"),
    ("max_wait_s", "", "longest wait s"),
    ("slowdown_p50", "", "slowdown p50"),
    ("slowdown_p99", "", "slowdown p99"),
    ("throughput_rps", "", "requests/s"),
    ("mean_batch", "", "mean batch"),
)
# The same where requests are pieces of files.
_GROUP_LINES: Final = (
    ("caller_s", "p50", "last answer p50 s"),
    ("caller_s", "p90", "last answer p90 s"),
    ("caller_s", "p99", "last answer p99 s"),
    ("caller_s", "mean", "last answer mean s"),
    ("group_s", "p50", "of files p50 s"),
    ("group_s", "p90", "of files p90 s"),
    ("group_s", "p99", "of files p99 s"),
    ("group_s", "mean", "of files mean s"),
)
_BOUNDS: Final = {
    "limit": "the limit",
    "engine": "the engine's capacity",
    "unreachable": "broken at any rate",
}
_COUNTS: Final = (("preemption_count", "preemptions"), ("aborted_count", "aborted"))


def show_runs(document: Mapping[str, Any]) -> None:  # Any: the document of `--json`
    """Print a table for each rate: figures by line, policies by column."""
    for line in head_of(document):
        say(line)
    for header, rows in tables_of(document):
        say()
        say_table(header, rows)


def tables_of(
    document: Mapping[str, Any],  # Any: as above
) -> list[tuple[list[str], list[list[object]]]]:
    """Give header and rows of the table for each rate."""
    points: dict[tuple[float, float], list[Mapping[str, Any]]] = {}
    for one in document["summary"]:
        points.setdefault((one["rate_rps"], one["load"]), []).append(one)
    return [_table(rate, load, policies) for (rate, load), policies in points.items()]


def _table(
    rate: float,
    load: float,
    policies: Sequence[Mapping[str, Any]],  # Any: as above
) -> tuple[list[str], list[list[object]]]:
    baseline, *others = policies
    header = [f"{rate:.4g} requests/s, load {load:.2f}", baseline["policy"]]
    for one in others:
        header += [one["policy"], "%"]
    rows: list[list[object]] = []
    grouped = all(one.get("group_s") for one in policies)
    for key, part, name in (*_LINES, *_GROUP_LINES) if grouped else _LINES:
        row: list[object] = [name]
        metric = f"{key}_{part}" if part else key
        for one in policies:
            row.append(one[key][part] if part else one[key])
            if one is not baseline:
                row.append(_percent(one["percent_against_fcfs"][metric]))
        rows.append(row)
    for key, name in _COUNTS:
        if any(one[key] for one in policies):
            rows.append(
                [name, baseline[key], *(cell for one in others for cell in (one[key], ""))]
            )
    return header, rows


def _percent(change: Mapping[str, float | None]) -> str:
    percent, low, high = change["percent"], change["low"], change["high"]
    if percent is None:
        return ""
    if low is None or high is None:
        return _signed(percent)
    return f"{_signed(percent)} [{_signed(low)}, {_signed(high)}]"


def _signed(percent: float) -> str:
    # Adding 0.0 makes 0.0 of -0.0.
    return f"{round(percent, 1) + 0.0:+.1f}"


def show_capacity(document: Mapping[str, Any]) -> None:  # Any: as above
    """Print the rate that a pod carries under each policy, and the pods needed."""
    for line in head_of(document):
        say(line)
    say()
    found = document["capacity"]
    header = ["policy", "requests/s a pod", "load", f"{document['limit']} there, s", "stopped by"]
    header += [f"pods for {one['rate_rps']:g}/s" for one in found[0]["pods"]]
    say_table(
        header,
        [
            (
                one["policy"],
                one["rate_rps"],
                one["load"],
                one["value_s"],
                _BOUNDS[one["bound"]],
                *(pods["pod_count"] for pods in one["pods"]),
            )
            for one in found
        ],
    )
    say()
    seeds = document["seed_count"]
    say(
        f"searched in steps of {document['tolerance_rps']:.3g} requests/s, "
        f"{'one seed' if seeds == 1 else f'mean of {seeds} seeds'}"
    )


def head_of(document: Mapping[str, Any]) -> list[str]:  # Any: as above
    """Say in a few lines what was replayed on what, and how to read it."""
    arrivals, estimates = document["arrivals"]["kind"], _estimates(document)
    lines = [
        f"{document['workload']}; engine {document['engine']}",
        document["assumption"],
        f"arrivals {arrivals}, estimates {estimates}",
        f"capacity measured: {document['capacity_rps']:.4g} requests/s",
    ]
    if "summary" in document:
        seeds = document["summary"][0]["seed_count"]
        how = (
            "one seed, so no interval (--seeds K gives one)"
            if seeds == 1
            else f"mean of {seeds} seeds [95 % interval]"
        )
        lines.append(f"%: against fcfs with the same requests at the same times; {how}")
    return [line for line in lines if line]


def _estimates(document: Mapping[str, Any]) -> str:  # Any: as above
    name = str(document["estimates"])
    return f"{name} ({document['start']} start)" if name == "learned" else name
