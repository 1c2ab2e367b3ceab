"""Teaching and exporting: counted once, read back the same, broken files told."""

import gzip
import json
import os
import random
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from estimator.traces import TraceReader
from tests.support.kappad_process import (
    COMMAND,
    ROOT,
    Sidecar,
    environment,
    kappad,
    kappad_json,
    sidecar,
)

GOOD = "audio_s,output_tokens,language\n" + "".join(
    f"{1 + n % 20},{6 + 3 * (n % 20)},en\n" for n in range(300)
)


@pytest.fixture(scope="module")
def running() -> Iterator[Sidecar]:
    with sidecar() as started:
        yield started


def write(path: Path, text: str) -> str:
    path.write_text(text, encoding="utf-8")
    return str(path)


def test_learning_twice_teaches_once_wherever_the_file_lies(
    running: Sidecar, tmp_path: Path
) -> None:
    name = write(tmp_path / "twice.csv", GOOD)
    first = kappad_json(["learn", name], target=running.target)
    assert (first["accepted_count"], first["duplicate_count"]) == (300, 0)
    before = kappad_json(["kappa"], target=running.target)
    (tmp_path / "elsewhere").mkdir()
    copy = write(tmp_path / "elsewhere" / "twice.csv", GOOD)
    second = kappad_json(["learn", copy], target=running.target)
    assert (second["accepted_count"], second["duplicate_count"]) == (0, 300)
    assert second["learned_count"] == first["learned_count"]
    assert kappad_json(["kappa"], target=running.target) == before
    done = kappad(["learn", copy], target=running.target)
    assert "0 rows taught, 300 known already" in done.stdout


def test_a_file_that_was_taught_in_part_is_completed_after_a_restart(tmp_path: Path) -> None:
    whole = gzip.compress(GOOD.encode())
    path = tmp_path / "part.csv.gz"
    state = ["--state-dir", str(tmp_path / "state")]
    path.write_bytes(whole[: len(whole) // 2])
    with sidecar(*state) as first:
        done = kappad(["learn", str(path), "--json"], target=first.target)
        assert done.returncode == 3
        part = json.loads(done.stdout)["accepted_count"]
        assert 0 < part < 300
    path.write_bytes(whole)
    with sidecar(*state) as second:
        again = kappad_json(["learn", str(path)], target=second.target)
        assert (again["accepted_count"], again["duplicate_count"]) == (300 - part, part)
        assert again["learned_count"] == 300
        assert kappad_json(["learn", str(path)], target=second.target)["accepted_count"] == 0


def test_bad_rows_are_named_by_file_and_line_and_skipped(running: Sidecar, tmp_path: Path) -> None:
    text = "audio_s,output_tokens\n1,4\nnan,4\n2,7\n3,-1\n"
    name = write(tmp_path / "bad.csv", text)
    done = kappad(["learn", "--json", name], target=running.target)
    assert done.returncode == 3
    document = json.loads(done.stdout)
    assert (document["accepted_count"], document["bad_row_count"]) == (2, 2)
    assert [row["line"] for row in document["files"][0]["bad_rows"]] == [3, 5]
    lines = done.stderr.splitlines()
    assert lines[0].startswith(f"kappad: {name}:3: audio_s is 'nan'")
    assert lines[1].startswith(f"kappad: {name}:5: output_tokens is -1")


def test_strict_stops_at_the_first_bad_row(running: Sidecar, tmp_path: Path) -> None:
    bad = write(tmp_path / "strict.csv", "audio_s,output_tokens\n1,4\nx,4\n2,7\n3,y\n")
    after = write(tmp_path / "after-strict.csv", GOOD)
    done = kappad(["learn", "--json", "--strict", bad, after], target=running.target)
    assert done.returncode == 3
    document = json.loads(done.stdout)
    assert len(document["files"]) == 1
    assert (document["accepted_count"], document["bad_row_count"]) == (1, 1)


def test_a_thousand_bad_rows_are_not_a_thousand_lines(running: Sidecar, tmp_path: Path) -> None:
    name = write(tmp_path / "noise.csv", "audio_s,output_tokens\n" + "a,b\n" * 1000)
    done = kappad(["learn", name], target=running.target)
    assert done.returncode == 3
    assert len(done.stderr.splitlines()) == 21
    assert "980 more bad rows" in done.stderr


@pytest.mark.parametrize(
    ("name", "content", "word"),
    [
        ("empty.csv", b"", "empty"),
        ("columns.csv", b"audio_s,language\n1,en\n", "output_tokens"),
        ("cut.csv.gz", gzip.compress(GOOD.encode())[:-9], "breaks off"),
        ("binary.csv", os.urandom(64) + b"\xff", "kappad: "),
        ("kind.xml", b"<a/>", "use .csv"),
        ("none.csv", None, "no such file"),
    ],
)
def test_a_file_that_cannot_be_read_is_one_line_and_the_others_are_taught(
    running: Sidecar, tmp_path: Path, name: str, content: bytes | None, word: str
) -> None:
    path = tmp_path / name
    if content is not None:
        path.write_bytes(content)
    fine = write(tmp_path / f"fine-after-{name}.csv", "audio_s,output_tokens\n1,4\n")
    done = kappad(["learn", "--json", str(path), fine], target=running.target)
    assert done.returncode == 3
    (line,) = done.stderr.splitlines()
    assert word in line
    assert str(path) in line
    document = json.loads(done.stdout)
    assert [bool(one["error"]) for one in document["files"]] == [True, False]
    assert document["files"][1]["accepted_count"] == 1


def test_the_rows_before_a_break_are_taught(running: Sidecar, tmp_path: Path) -> None:
    rng = random.Random(1)
    rows = [f"{rng.uniform(1.0, 30.0):.4f},{rng.randrange(1, 400)}" for _ in range(1000)]
    whole = gzip.compress("\n".join(["audio_s,output_tokens", *rows]).encode())
    (tmp_path / "broken.csv.gz").write_bytes(whole[: len(whole) * 2 // 5])
    done = kappad(["learn", str(tmp_path / "broken.csv.gz"), "--json"], target=running.target)
    assert done.returncode == 3
    document = json.loads(done.stdout)
    (file,) = document["files"]
    # More than whole batches of 256, which a half batch that is lost would leave.
    assert file["accepted_count"] == file["row_count"] > 256
    assert file["accepted_count"] % 256
    assert f"{file['accepted_count']} rows before that were taught" in file["error"]


def kappas(target: str) -> dict[tuple[Any, ...], tuple[float, float, int]]:  # Any: JSON
    return {
        (one["model"], one["task"], one["language"], one["timestamps"]): (
            one["kappa_tokens_per_s"],
            one["intercept_tokens"],
            one["sample_count"],
        )
        for one in kappad_json(["kappa"], target=target)["kappas"]
    }


def test_an_export_teaches_another_sidecar_the_same(tmp_path: Path) -> None:
    source = tmp_path / "source.jsonl"
    rows = [
        {
            "audio_s": 1 + n * 7 % 29 + 0.5,
            "output_tokens": 3 + (3 if n % 3 else 9) * (1 + n * 7 % 29) + n % 4,
            "language": "en" if n % 3 else "hi",
            "model": "base",
            "timestamps": bool(n % 2),
            "finish_reason": "length" if n % 50 == 49 else "stop",
            "service_s": 0.2 + 0.01 * (n % 30),
            "concurrency": 1 + n % 4,
        }
        for n in range(500)
    ]
    source.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    exported = [tmp_path / f"history.{suffix}" for suffix in ("csv.gz", "jsonl")]
    with sidecar() as first:
        assert kappad(["learn", str(source)], target=first.target).returncode == 0
        for path in exported:
            document = kappad_json(["export", str(path)], target=first.target)
            assert document == {"file": str(path), "row_count": 500}
        learned = kappas(first.target)
    assert list(tmp_path.glob(".*")) == []  # nothing half written is left
    one, other = (list(TraceReader(path)) for path in exported)
    assert [row.completion for row in one] == [row.completion for row in other]  # type: ignore[union-attr] # a bad row has none, which fails
    with sidecar() as second:
        document = kappad_json(["learn", str(exported[0])], target=second.target)
        assert (document["accepted_count"], document["bad_row_count"]) == (500, 0)
        copied = kappas(second.target)
    assert len(learned) >= 6
    assert copied.keys() == learned.keys()
    for key, values in learned.items():
        assert copied[key] == pytest.approx(values, rel=1e-9), key


def test_export_to_standard_output_is_csv_or_json_lines(running: Sidecar) -> None:
    done = kappad(["export", "-"], target=running.target)
    assert done.returncode == 0
    header, *rows = done.stdout.splitlines()
    assert header.startswith("arrival_s,audio_s,prompt_tokens,output_tokens,language,task,model,")
    done = kappad(["export", "-", "--json"], target=running.target)
    documents = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(documents) == len(rows) > 0
    assert min(one["arrival_s"] for one in documents) == 0.0


def test_an_export_never_replaces_a_device_and_leaves_nothing_behind(
    running: Sidecar, tmp_path: Path
) -> None:
    pipe = tmp_path / "pipe.csv"
    os.mkfifo(pipe)
    for path, word in (
        (pipe, "no regular file"),
        (tmp_path / "no" / "x.csv", "cannot be written"),
    ):
        done = kappad(["export", str(path)], target=running.target)
        assert done.returncode == 1
        (line,) = done.stderr.splitlines()
        assert word in line
    assert pipe.is_fifo()
    assert [path.name for path in tmp_path.iterdir()] == ["pipe.csv"]


def test_an_export_that_fails_keeps_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "old.csv"
    write(path, "old")
    done = kappad(["export", str(path)], target="unix:///tmp/kappad-test-nobody.sock")
    assert done.returncode == 1
    assert path.read_text(encoding="utf-8") == "old"
    assert [one.name for one in tmp_path.iterdir()] == ["old.csv"]


def test_progress_is_drawn_on_a_terminal_only(running: Sidecar, tmp_path: Path) -> None:
    name = write(tmp_path / "seen.csv", GOOD.replace(",en", ",de"))
    master, slave = os.openpty()
    try:
        done = subprocess.run(
            [*COMMAND, "learn", name, "--target", running.target],
            cwd=ROOT, env=environment(), stdout=subprocess.PIPE, stderr=slave, timeout=60.0,
            check=True,
        )  # fmt: skip
        os.close(slave)
        os.set_blocking(master, False)
        shown = os.read(master, 65536)
    finally:
        os.close(master)
    assert b"300 rows taught" in done.stdout
    assert shown.endswith(b"\r\x1b[K")  # the bar is wiped at the end
