"""``kappad replay`` as a user runs it: figures by name, the same bytes, bad input told."""

import gzip
import json
import os
import signal
import subprocess
import time
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import pytest

from estimator.cli.main import main
from estimator.core.observation import Completion
from estimator.core.pipeline import Pipeline
from estimator.runtime.seed import write_seed
from estimator.store.state_text import encoded
from tests.support.kappad_process import COMMAND, ROOT, environment, kappad

# A target at which nothing listens: the command must not ask.
NOWHERE = "unix:///nonexistent/kappad.sock"
RUN_KEYS = {
    "policy", "rate_rps", "load", "seed", "n", "aborted_count", "ttft_s", "e2e_s", "max_wait_s",
    "slowdown_p50", "slowdown_p99", "throughput_rps", "mean_batch", "preemption_count",
}  # fmt: skip
SPREAD_KEYS = {"p50", "p90", "p99", "mean"}
SMALL = ("--requests", "120", "--engine", "cpu-whisper-base")

Capture = pytest.CaptureFixture[str]


def replayed(arguments: list[str], capsys: Capture, *, code: int = 0) -> tuple[str, str]:
    """Run the command through its own entry point, in this process."""
    with pytest.raises(SystemExit) as ended:
        main(["replay", *arguments])
    captured = capsys.readouterr()
    assert ended.value.code == code, captured
    return captured.out, captured.err


def document_of(arguments: list[str], capsys: Capture, *, code: int = 0) -> dict[str, Any]:
    out, _ = replayed([*arguments, "--json"], capsys, code=code)
    document: dict[str, Any] = json.loads(out)
    return document


def told(arguments: list[str], capsys: Capture, *, code: int) -> str:
    """Run what must fail: nothing on standard output, one line on standard error."""
    out, err = replayed(arguments, capsys, code=code)
    assert out == ""
    assert err.startswith("kappad: ")
    assert err.count("\n") == 1, err
    return err


@pytest.fixture
def trace(tmp_path: Path) -> str:
    rows = (f"{i / 5},{1 + i % 9},{4 * (1 + i % 9) + i % 3},en" for i in range(200))
    header = "arrival_s,audio_s,output_tokens,language\n"
    path = tmp_path / "speech.csv"
    path.write_text(header + "\n".join(rows) + "\n", encoding="utf-8")
    return str(path)


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


def test_a_run_shorter_than_a_cycle_of_its_rate_is_told(trace: str, capsys: Capture) -> None:
    short = [trace, *SMALL, "--arrivals", "bursts", "--rate", "40", "--policy", "fcfs"]
    _, err = replayed(short, capsys)
    assert err.startswith("kappad: 120 requests at 40/s last 3 s, less than the 60 s of one cycle")
    assert "more --requests or a lower --burst-cycle-s" in err
    _, err = replayed([*short, "--burst-cycle-s", "2"], capsys)
    assert err == ""


def test_too_few_requests_to_tell_anything_are_told(trace: str, capsys: Capture) -> None:
    few = [trace, "--engine", "decode-bound", "--policy", "fcfs"]
    _, err = replayed([*few, "--requests", "319"], capsys)
    assert err == (
        "kappad: 319 requests are fewer than 5 for each of the engine's 64 slots: hardly anybody "
        "waits in so short a run; give more --requests\n"
    )
    _, err = replayed([*few, "--requests", "320"], capsys)
    assert err == ""
    search = [*few, "--capacity", "ttft_p90<400ms"]
    _, err = replayed(search, capsys)
    assert "less than 20 times the limit: no queue has time to grow" in err
    least = err.split("give --requests ")[1].split()[0]
    assert 200 < int(least) < 1000
    _, err = replayed([*search, "--requests", f"{int(least) + 20}"], capsys)
    assert err == ""


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


def test_a_seed_that_is_none_is_told_in_one_line(
    tmp_path: Path, trace: str, capsys: Capture
) -> None:
    path = bad(tmp_path, "{}", "seed.json")
    assert "is no seed" in told([trace, "--seed-state", path], capsys, code=2)
    message = told([trace, "--estimates", "true", "--seed-state", path], capsys, code=2)
    assert "true estimates learn nothing; leave --warm and --seed-state out" in message


def bad(tmp_path: Path, text: str, name: str = "bad.csv") -> str:
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    return str(path)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "bad.csv: empty; the first line must name the columns"),
        ("audio_s\n1\n", "bad.csv: columns are missing: a trace needs output_tokens"),
        ("audio_s,output_tokens\n", "bad.csv: no row can be replayed"),
    ],
)
def test_a_file_that_is_no_trace_ends_the_replay(
    tmp_path: Path, text: str, message: str, capsys: Capture
) -> None:
    assert message in told([bad(tmp_path, text)], capsys, code=3)


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ("nan,3,0", "audio_s is 'nan', must be a finite number"),
        ("-1,3,0", "audio_s is -1.0, the limits are 0 to"),
        ("1,-3,0", "output_tokens is -3, the limits are 0 to"),
        ("1,3,-4", "arrival_s is -4, must be 0 to"),
        ("1,x,0", "output_tokens is 'x'"),
        ("1,3", "2 fields where the header has 3"),
    ],
)
def test_a_bad_row_is_named_and_skipped_or_stops_there(
    tmp_path: Path, row: str, reason: str, capsys: Capture
) -> None:
    path = bad(tmp_path, f"audio_s,output_tokens,arrival_s\n2,7,0\n{row}\n2,7,1\n")
    out, err = replayed([path, "--rate", "1", "--json"], capsys, code=3)
    assert err.startswith(f"kappad: {path}:3: {reason}")
    assert err.splitlines()[0].endswith("row skipped")
    assert err.count(":3: ") == 1
    assert json.loads(out)["runs"][0]["n"] == 2
    assert f"{path}:3: {reason}" in told([path, "--rate", "1", "--strict"], capsys, code=3)


def test_a_gzip_that_breaks_off_ends_the_replay(
    tmp_path: Path, trace: str, capsys: Capture
) -> None:
    whole = gzip.compress(Path(trace).read_bytes())
    path = tmp_path / "cut.csv.gz"
    path.write_bytes(whole[: len(whole) // 2])
    message = told([str(path)], capsys, code=3)
    assert "cut.csv.gz: the gzip stream breaks off" in message
    assert "copy the file again" in message


def test_unsorted_times_matter_only_where_they_are_used(tmp_path: Path, capsys: Capture) -> None:
    path = bad(tmp_path, "arrival_s,audio_s,output_tokens\n5,1,3\n4,1,3\n")
    message = told([path, "--arrivals", "trace"], capsys, code=3)
    assert f"{path}:3: arrival_s is 4, before the row above (5); sort the file" in message
    assert document_of([path, "--rate", "1"], capsys)["runs"][0]["n"] == 2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "give a trace, or --workload uniform-5-30"),
        (["TRACE", "--workload", "uniform-5-30"], "give files or --workload, not both"),
        (["--workload", "x"], "'x' is not one of uniform-5-30"),
        (["TRACE", "--rate", "0"], "--rate: '0' is no number above 0; give such as 10"),
        (["TRACE", "--rate", "-3"], "'-3' is no number above 0"),
        (["TRACE", "--load", "nan"], "--load: 'nan' is no number above 0"),
        (["TRACE", "--rate", "1e99"], "the rate is 1e+99 requests/s, the limits are"),
        (["TRACE", "--policy", "lifo"], "--policy: 'lifo' is not one of fcfs, sjf, hrrn"),
        (["TRACE", "--arrivals", "weekly"], "'weekly' is not one of trace, poisson"),
        (["TRACE", "--arrivals", "gamma", "--gamma-cv", "0"], "cv is 0.0, must be above 0"),
        (["TRACE", "--estimates", "guessed"], "'guessed' is not one of learned, duration, true"),
        (["TRACE", "--order-by", "age"], "'age' is not one of service, tokens"),
        (["TRACE", "--phi", "1"], "--phi: 1 is not in [0, 1)"),
        (["TRACE", "--burst-requests", "-1"], "-1 is no number of at least 0; --no-guard"),
        (["TRACE", "--mix", "1,2"], "2 weights for 1 files; give one for each file"),
        (["TRACE", "--requests", "0"], "--requests"),
        (["TRACE", "--requests", "99999999"], "99,999,999 requests, the limits are 1 and"),
        (["TRACE", "--arrivals", "trace", "--requests", "999"], "not 999; ask for fewer"),
        (["TRACE", "--engine", "warp"], "warp: is neither a profile nor a file; name one of"),
        (["TRACE", "--capacity", "e2e<2s"], "is on 'e2e'; use ttft_p50"),
        (["TRACE", "--capacity", "e2e_p90<2s", "--load", "1"], "leave --load out"),
        (["TRACE", "--capacity", "e2e_p90<2s", "--plot", "a.svg"], "leave --plot out"),
    ],
)
def test_what_cannot_be_replayed_is_told_in_one_line(
    arguments: list[str], message: str, trace: str, capsys: Capture
) -> None:
    filled = [trace if one == "TRACE" else one for one in arguments]
    assert message in told(filled, capsys, code=2)


@pytest.mark.parametrize(
    ("profile", "message"),
    [
        ("{", "no JSON"),
        ('{"name": "x", "slots": 0, "step_s": 0.1}', "slots is 0, must be 1 to"),
        ('{"name": "x", "slots": 4, "step_s": -1}', "step_s is -1, must be 0 to"),
        ('{"name": "x", "slots": 4, "step_s": 0.1, "gpus": 2}', "field 'gpus' is unknown"),
        (
            '{"name": "x", "slots": 4, "step_s": 0.1, "kv_blocks": 2, "block_size": 4}',
            "needs 7 KV blocks",
        ),
    ],
)
def test_an_impossible_engine_is_told_in_one_line(
    tmp_path: Path, profile: str, message: str, trace: str, capsys: Capture
) -> None:
    path = bad(tmp_path, profile, "engine.json")
    assert message in told([trace, "--engine", path], capsys, code=2)


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
