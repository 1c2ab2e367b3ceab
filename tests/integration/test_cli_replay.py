"""``kappad replay`` as a user runs it: figures by name, the same bytes, bad input told."""

import gzip
import json
import os
import signal
import subprocess
import time
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from estimator.core.observation import Completion
from estimator.core.pipeline import Pipeline
from estimator.runtime.seed import write_seed
from estimator.store.state_text import encoded
from sched_client.model import Settings
from tests.support.kappad_process import COMMAND, ROOT, environment, kappad
from tests.support.replay_command import SMALL, Capture, document_of, replayed, told, write_trace

# A target at which nothing listens: the command must not ask.
NOWHERE = "unix:///nonexistent/kappad.sock"
RUN_KEYS = {
    "policy", "rate_rps", "load", "seed", "n", "aborted_count", "ttft_s", "e2e_s", "max_wait_s",
    "slowdown_p50", "slowdown_p99", "throughput_rps", "mean_batch", "preemption_count",
    "group_count", "caller_s", "group_s",
}  # fmt: skip
SPREAD_KEYS = {"p50", "p90", "p99", "mean"}


@pytest.fixture
def trace(tmp_path: Path) -> str:
    return write_trace(tmp_path)


def test_json_has_the_documented_keys(trace: str, capsys: Capture) -> None:
    document = document_of([trace, "--load", "0.7,1.2", "--policy", "sjf", "--seeds", "2"], capsys)
    assert len(document["runs"]) == 2 * 2 * 2
    assert all(set(run) == RUN_KEYS for run in document["runs"])
    assert all(
        set(run[name]) == SPREAD_KEYS for run in document["runs"] for name in ("ttft_s", "e2e_s")
    )
    assert [(one["policy"], one["load"]) for one in document["summary"]] == [
        ("fcfs", 0.7), ("sjf", 0.7), ("fcfs", 1.2), ("sjf", 1.2),
    ]  # fmt: skip
    assert document["capacity_rps"] == pytest.approx(
        document["runs"][0]["rate_rps"] / document["runs"][0]["load"]
    )


def test_the_same_seed_gives_the_same_bytes_in_any_process(trace: str, capsys: Capture) -> None:
    arguments = [
        "replay",
        trace,
        "--load",
        "1.3",
        "--arrivals",
        "gamma",
        "--requests",
        "350",
        "--json",
    ]
    outputs = [
        kappad(arguments, target=NOWHERE, extra={"PYTHONHASHSEED": seed}) for seed in ("1", "2")
    ]
    assert [done.returncode for done in outputs] == [0, 0], outputs
    assert [done.stderr for done in outputs] == ["", ""]
    assert outputs[0].stdout == outputs[1].stdout
    here, _ = replayed(arguments[1:], capsys)
    assert here == outputs[0].stdout
    other, _ = replayed([*arguments[1:], "--seed", "9"], capsys)
    assert json.loads(other)["runs"] != json.loads(here)["runs"]


def test_the_table_names_policies_rates_and_what_percent_means(
    trace: str, capsys: Capture
) -> None:
    out, err = replayed([trace, "--rate", "20", *SMALL], capsys)
    assert err == ""
    assert "120 requests: 120 of" in out
    assert "in its order" in out
    assert "20 requests/s, load" in out
    assert all(name in out for name in ("fcfs", "sjf", "hrrn", "E2E p90 s", "TTFT p99 s"))
    assert "no interval" in out
    out, _ = replayed([trace, "--rate", "20", "--seeds", "2", *SMALL], capsys)
    assert "[95 % interval]" in out


def test_the_synthetic_mix_states_its_assumption(capsys: Capture) -> None:
    out, _ = replayed(["--workload", "uniform-5-30", "--rate", "20", *SMALL], capsys)
    assert "3.156 a second of audio" in out
    assert "drawn with replacement" in out


def test_a_traces_own_times_are_its_rate(trace: str, capsys: Capture) -> None:
    document = document_of([trace, "--arrivals", "trace"], capsys)
    assert document["runs"][0]["rate_rps"] == pytest.approx(5.0)
    faster = document_of([trace, "--arrivals", "trace", "--rate", "50"], capsys)
    throughput = [one["runs"][0]["throughput_rps"] for one in (document, faster)]
    assert throughput[1] / throughput[0] == pytest.approx(10, rel=0.15)


def test_json_lines_and_gzip_are_read_alike(tmp_path: Path, trace: str, capsys: Capture) -> None:
    packed = tmp_path / "packed.csv.gz"
    packed.write_bytes(gzip.compress(Path(trace).read_bytes()))
    lines = tmp_path / "lines.jsonl"
    names, *rows = (line.split(",") for line in Path(trace).read_text(encoding="utf-8").split())
    lines.write_text(
        "".join(json.dumps(dict(zip(names, row, strict=True))) + "\n" for row in rows),
        encoding="utf-8",
    )
    runs = [
        document_of([str(path), "--rate", "30", "--policy", "sjf"], capsys)["runs"]
        for path in (trace, packed, lines)
    ]
    assert runs[0] == runs[1] == runs[2]


def test_files_are_mixed_by_weight_or_follow_one_another(
    tmp_path: Path, trace: str, capsys: Capture
) -> None:
    other = tmp_path / "other.csv"
    other.write_text("audio_s,output_tokens\n" + "9,90\n" * 50, encoding="utf-8")
    both = ["--trace", trace, str(other), *SMALL, "--load", "0.8", "--policy", "fcfs"]
    assert "then 60 of" in document_of(both, capsys)["workload"]
    mixed = document_of([*both, "--mix", "1,3"], capsys)["workload"]
    assert "25% " in mixed
    assert "75% " in mixed


def test_a_chart_and_a_page_are_written(tmp_path: Path, trace: str, capsys: Capture) -> None:
    chart, page = tmp_path / "a.svg", tmp_path / "a.html"
    replayed([trace, "--load", "1.2", *SMALL, "--plot", str(chart)], capsys)
    assert ET.parse(chart).getroot().tag.endswith("svg")  # noqa: S314 - our own file
    replayed([trace, "--load", "1.2", *SMALL, "--plot", str(page)], capsys)
    text = page.read_text(encoding="utf-8")
    assert "<polyline" in text
    assert "<td>E2E p90 s</td>" in text
    message = told([trace, *SMALL, "--plot", str(tmp_path / "a.png")], capsys, code=2)
    assert "ends in .png; name a file that ends in .svg or .html" in message
    # Before anything is run: the trace is not even read.
    message = told(["no.csv", "--plot", str(tmp_path / "no/a.svg")], capsys, code=1)
    assert "no is no folder; make it first" in message
    (tmp_path / "b.svg").mkdir()
    message = told([trace, *SMALL, "--plot", str(tmp_path / "b.svg")], capsys, code=1)
    assert "cannot be written: Is a directory" in message


def test_capacity_tells_the_rate_and_the_pods(trace: str, capsys: Capture) -> None:
    arguments = [trace, "--capacity", "e2e_p90<700ms", "--rate", "100", "--policy", "sjf"]
    document = document_of(arguments, capsys)
    assert document["limit"] == "e2e_p90<700ms"
    assert [one["policy"] for one in document["capacity"]] == ["fcfs", "sjf"]
    for one in document["capacity"]:
        assert set(one) == {"policy", "rate_rps", "load", "value_s", "bound", "pods"}
        assert one["bound"] == "limit"
        assert one["value_s"] < 0.7
        assert one["pods"] == [{"rate_rps": 100.0, "pod_count": -(-100 // one["rate_rps"])}]
    out, _ = replayed(arguments, capsys)
    assert "pods for 100/s" in out
    assert "the limit" in out


def test_a_guard_less_policy_overtakes_more(trace: str, capsys: Capture) -> None:
    base = [trace, "--requests", "600", "--load", "1.4", "--policy", "sjf", "--estimates", "true"]
    waits = {
        name: document_of([*base, *options], capsys)["runs"][1]["max_wait_s"]
        for name, options in {
            "tight": ["--phi", "0", "--burst-requests", "0"],
            "default": [],
            "none": ["--no-guard"],
        }.items()
    }
    fcfs = document_of(base, capsys)["runs"][0]["max_wait_s"]
    assert fcfs == waits["tight"] < waits["default"] < waits["none"]


def test_every_setting_of_a_replay_can_be_said(trace: str, capsys: Capture) -> None:
    base = [trace, *SMALL, "--load", "1.3", "--policy", "sjf"]
    said = ["between=ratio", "w_fairness = 2", "guard_s=30", "tier_weight=3", "phi=0.1"]
    options = [part for text in said for part in ("--set", text)]
    settings = document_of([*base, *options, "--reorder-above", "1"], capsys)["settings"]
    assert settings == {
        "order_by": "service",
        "phi": 0.1,
        "burst_requests": Settings().burst_requests,
        "guard_s": 30.0,
        "reorder_above": 1,
        "reorder_until": 1,
        "within": Settings().within,
        "between": "ratio",
        "w_urgency": Settings().w_urgency,
        "w_fairness": 2.0,
        "aging_rate": Settings().aging_rate,
        "aging_power": Settings().aging_power,
        "short_share": Settings().short_share,
        "short_share_most": Settings().short_share_most,
        "tier_weight": 3.0,
        "preemption": Settings().preemption,
    }
    free = [*base, "--no-guard", "--set", "guard_s=none", "--set", "tier_weight=inf"]
    settings = document_of(free, capsys)["settings"]
    assert settings["burst_requests"] is None
    assert settings["guard_s"] is None
    assert settings["tier_weight"] is None
    assert settings["reorder_above"] == settings["reorder_until"] == 0


@pytest.mark.parametrize("estimates", ["learned", "duration", "true"])
def test_queues_are_found_whatever_the_estimates_are(
    estimates: str, tmp_path: Path, capsys: Capture
) -> None:
    path = tmp_path / "two.csv"
    rows = [f"{2.0 + index % 7 / 10 + 20.0 * (index % 3 == 0)}" for index in range(600)]
    lines = ["audio_s,output_tokens", *(f"{row},{round(4 * float(row))}" for row in rows)]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    base = [str(path), "--engine", "cpu-whisper-base", "--load", "1.3", "--policy", "ewsjf"]
    asked = [*base, "--estimates", estimates, "--set", "between=shortest"]
    fcfs, ewsjf = document_of(asked, capsys)["runs"]
    assert ewsjf["n"] == fcfs["n"] == 600
    # With one queue it would be fcfs.
    assert ewsjf["e2e_s"]["p50"] < 0.8 * fcfs["e2e_s"]["p50"]


def test_learning_starts_cold_warm_or_from_a_seed(
    tmp_path: Path, trace: str, capsys: Capture
) -> None:
    seed = tmp_path / "seed.json"
    pipeline = Pipeline()
    for index in range(300):
        audio_s = 1.0 + index % 20
        tokens = round(9 * audio_s)
        row = Completion(
            completion_id=f"x-{index}",
            language="en",
            audio_s=audio_s,
            output_tokens=tokens,
            finished_s=1.0 + index,
        )
        pipeline.learn_one(row)
    with seed.open("w", encoding="utf-8") as out:
        write_seed(
            out, "".join(encoded(pipeline.state())), created_s=1.0, kappad_version="x", model="",
            learned_count=300, key_count=1,
        )  # fmt: skip
    base = [trace, *SMALL, "--load", "1.3", "--policy", "sjf"]
    starts = [[], ["--warm"], ["--seed-state", str(seed)], ["--warm", "--seed-state", str(seed)]]
    documents = [document_of([*base, *options], capsys) for options in starts]
    assert [one["start"] for one in documents] == ["cold", "warm", "seed", "seed, warm"]
    # What is known decides the guard's burst, and so who overtakes whom; fcfs asks for nothing.
    assert len({json.dumps(one["runs"][0]) for one in documents}) == 1
    assert len({json.dumps(one["runs"][1]) for one in documents}) >= 3


def test_ctrl_c_ends_a_long_replay_without_a_traceback(trace: str) -> None:
    process = subprocess.Popen(
        [*COMMAND, "replay", trace, "--requests", "5000000", "--load", "1.1", "--json"],
        cwd=ROOT,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        _wait_until_busy(process.pid)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=30)
    finally:
        process.kill()
    assert (process.returncode, out, err) == (130, "", "")


def _wait_until_busy(pid: int, cpu_s: float = 2.0) -> None:
    """Wait until a process has worked for longer than it takes to start."""
    ticks = os.sysconf("SC_CLK_TCK")
    deadline_s = time.monotonic() + 50.0
    while time.monotonic() < deadline_s:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rsplit(")", 1)[1].split()
        if (int(fields[11]) + int(fields[12])) / ticks > cpu_s:
            return
        time.sleep(0.05)
    pytest.fail("the replay did not get going")
