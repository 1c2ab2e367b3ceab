"""The tables of ``kappad replay`` say what the document says."""

from typing import Any

from estimator.cli.replay_show import tables_of
from estimator.replay.figures import METRICS


def policy(name: str, change: dict[str, float | None]) -> dict[str, Any]:
    spread = {"p50": 1.0, "p90": 2.0, "p99": 3.0, "mean": 1.5}
    rest = {one: 4.0 for one in METRICS if not one.startswith(("ttft_s", "e2e_s"))}
    return {
        "policy": name, "rate_rps": 5.0, "load": 0.5, "ttft_s": spread, "e2e_s": spread, **rest,
        "preemption_count": 0.0, "aborted_count": 0.0,
        "percent_against_fcfs": dict.fromkeys(METRICS, change),
    }  # fmt: skip


def cells(change: dict[str, float | None]) -> set[object]:
    summary = [policy("fcfs", change), policy("sjf", change)]
    ((header, rows),) = tables_of({"summary": summary})
    assert header == ["5 requests/s, load 0.50", "fcfs", "sjf", "%"]
    assert len(rows) == len(METRICS)
    return {row[3] for row in rows}


def test_a_percent_has_a_sign_and_an_interval_where_there_is_one() -> None:
    assert cells({"percent": -12.34, "low": -20.0, "high": 3.06}) == {"-12.3 [-20.0, +3.1]"}
    assert cells({"percent": 12.34, "low": None, "high": None}) == {"+12.3"}
    assert cells({"percent": None, "low": None, "high": None}) == {""}


def test_nothing_is_less_than_nothing() -> None:
    assert cells({"percent": -0.01, "low": -0.04, "high": -0.0}) == {"+0.0 [+0.0, +0.0]"}
