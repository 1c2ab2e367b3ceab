"""``kappad evaluate`` as a user runs it: figures by name, bad input told, no sidecar."""

import json
from pathlib import Path

import pytest

from tests.support.kappad_process import kappad

KEYS = {
    "n", "mae_tokens", "oracle_mae_tokens", "mae_ratio_to_oracle", "mae_ratio_to_cumulative",
    "mape", "p90_coverage", "segments", "drift_events",
}  # fmt: skip
SEGMENT_KEYS = {
    "file", "n", "kappa_hindsight", "completions_to_cross_10_percent", "completions_to_stay_20",
}  # fmt: skip
# A target at which nothing listens: the command must not ask.
NOWHERE = "unix:///nonexistent/kappad.sock"


def evaluated(*arguments: str) -> dict[str, object]:
    done = kappad(["evaluate", "--json", *arguments], target=NOWHERE)
    assert done.returncode == 0, done.stderr
    document: dict[str, object] = json.loads(done.stdout)
    return document


def write(path: Path, kappa: int, n: int = 200, language: str = "en") -> str:
    # κ with a ripple of ±1 token, which no line explains.
    rows = (f"{1 + i % 7},{kappa * (1 + i % 7) + i % 3 - 1},{language}" for i in range(n))
    path.write_text("audio_s,output_tokens,language\n" + "\n".join(rows) + "\n", encoding="utf-8")
    return str(path)


def test_json_has_exactly_the_documented_keys(tmp_path: Path) -> None:
    slow, fast = write(tmp_path / "a.csv", 3), write(tmp_path / "b.csv", 6)
    document = evaluated(slow, fast, "--language-hidden")
    assert set(document) == KEYS
    assert document["n"] == 400
    segments = document["segments"]
    assert isinstance(segments, list)
    assert [set(one) for one in segments] == [SEGMENT_KEYS] * 2
    assert [one["file"] for one in segments] == [slow, fast]
    assert segments[0]["kappa_hindsight"] == pytest.approx(3.0, rel=0.01)
    assert 0 < segments[1]["completions_to_cross_10_percent"] < 40
    events = document["drift_events"]
    assert isinstance(events, list)
    for event in events:
        assert set(event) == {"index", "kind", "key", "before", "after"}
        assert set(event["key"]) == {"model", "task", "language", "timestamps"}


def test_the_same_run_gives_the_same_bytes(tmp_path: Path) -> None:
    name = write(tmp_path / "a.csv", 3)
    arguments = [
        "evaluate",
        "--json",
        name,
        "--resample",
        "2",
        "--order",
        "completion",
        "--n",
        "90",
    ]
    first, second = (kappad(arguments, target=NOWHERE).stdout for _ in range(2))
    assert first == second
    assert json.loads(first)["n"] == 180


def test_a_known_language_is_no_change_for_another(tmp_path: Path) -> None:
    files = [
        write(tmp_path / "a.csv", 3, language="en"),
        write(tmp_path / "b.csv", 6, language="fr"),
        write(tmp_path / "c.csv", 3, language="en"),
    ]
    known, hidden = evaluated(*files), evaluated(*files, "--language-hidden")
    last = [document["segments"][-1] for document in (known, hidden)]  # type: ignore[index]  # JSON
    assert last[0]["completions_to_cross_10_percent"] == 0
    assert last[1]["completions_to_cross_10_percent"] > 0


def test_bad_rows_and_files_are_named_and_the_rest_is_answered(tmp_path: Path) -> None:
    good = write(tmp_path / "good.csv", 3)
    bad = tmp_path / "bad.csv"
    bad.write_text("audio_s,output_tokens\n1,4\nnan,4\n2,7\n", encoding="utf-8")
    missing = str(tmp_path / "missing.csv")
    done = kappad(["evaluate", "--json", good, str(bad), missing], target=NOWHERE)
    assert done.returncode == 3
    assert json.loads(done.stdout)["n"] == 202
    lines = done.stderr.splitlines()
    assert lines[0].startswith(f"kappad: {bad}:3: audio_s is 'nan'")
    assert lines[1].startswith(f"kappad: {missing}: no such file")
    assert len(lines) == 2


def test_nothing_to_judge_is_null_not_a_number(tmp_path: Path) -> None:
    done = kappad(["evaluate", "--json", str(tmp_path / "missing.csv")], target=NOWHERE)
    assert done.returncode == 3
    document = json.loads(done.stdout)
    assert document["n"] == 0
    assert document["mae_tokens"] is None
    plain = kappad(["evaluate", str(tmp_path / "missing.csv")], target=NOWHERE)
    assert (plain.returncode, plain.stdout) == (3, "")


def test_an_unknown_order_is_wrong_usage(tmp_path: Path) -> None:
    done = kappad(["evaluate", write(tmp_path / "a.csv", 3), "--order", "up"], target=NOWHERE)
    assert done.returncode == 2
    assert "'up' is not one of trace, completion" in done.stderr


def test_the_table_names_each_file(tmp_path: Path) -> None:
    name = write(tmp_path / "a.csv", 3)
    done = kappad(["evaluate", name], target=NOWHERE)
    assert done.returncode == 0
    assert "200 completions" in done.stdout
    assert name in done.stdout


def test_the_contest_runs_other_learners_over_the_same_rows(tmp_path: Path) -> None:
    files = [write(tmp_path / "a.csv", 3, n=80), write(tmp_path / "b.csv", 6, n=80)]
    document = evaluated(*files, "--language-hidden", "--contest")
    table = document["contest"]
    assert isinstance(table, list)
    names = [one["learner"] for one in table]
    assert names[:2] == ["pipeline", "cumulative"]
    assert len(names) >= 2 + 5
    assert {one["n"] for one in table} == {160}
    assert document["mae_tokens"] == table[0]["mae_tokens"]
    done = kappad(["evaluate", *files, "--contest", "--n", "20"], target=NOWHERE)
    assert done.returncode == 0
    assert all(name in done.stdout for name in names)


def test_a_file_in_which_nothing_can_be_judged_is_told(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("audio_s,output_tokens,finish_reason\n5,20,aborted\n", encoding="utf-8")
    done = kappad(["evaluate", str(path)], target=NOWHERE)
    assert (done.returncode, done.stdout) == (0, "")
    assert "nothing to judge" in done.stderr


def test_one_row_has_no_ratio_to_its_own_rate(tmp_path: Path) -> None:
    done = kappad(["evaluate", write(tmp_path / "a.csv", 3, n=1)], target=NOWHERE)
    assert done.returncode == 0
    assert "- x that of each file's own rate" in done.stdout
    assert "nan" not in done.stdout
