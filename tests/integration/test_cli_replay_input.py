"""What ``kappad replay`` refuses, skips, or warns of, in a line each with the remedy."""

import gzip
import json
from pathlib import Path

import pytest

from tests.support.replay_command import SMALL, Capture, document_of, replayed, told, write_trace


@pytest.fixture
def trace(tmp_path: Path) -> str:
    return write_trace(tmp_path)


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
        (["TRACE", "--set", "between"], "--set: 'between' is no name=value, such as"),
        (["TRACE", "--set", "mode=on"], "--set: 'mode' is none of order_by, phi, "),
        (["TRACE", "--set", "between=fair"], "between: 'fair' is none of score, ratio, shortest"),
        (["TRACE", "--set", "w_urgency=much"], "w_urgency: 'much' is no number"),
        (["TRACE", "--set", "reorder_until=1.5"], "reorder_until: '1.5' is no whole number"),
        (["TRACE", "--set", "tier_weight=0"], "tier_weight: 0.0 is neither in [1, 1e+06] nor"),
        (["TRACE", "--set", "phi=nan"], "--set: phi: nan is not in [0, 1)"),
        (["TRACE", "--mix", "1,2"], "2 weights for 1 files; give one for each file"),
        (["TRACE", "--requests", "0"], "--requests"),
        (["TRACE", "--requests", "99999999"], "99,999,999 requests, the limits are 1 and"),
        (["TRACE", "--arrivals", "trace", "--requests", "999"], "not 999; ask for fewer"),
        (
            ["TRACE", "--arrivals", "trace", "--seeds", "3"],
            "3 runs at the trace's own times would",
        ),
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
