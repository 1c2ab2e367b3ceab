import csv
import gzip
import io
import json
import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from estimator.core.observation import Completion, violation_of
from estimator.traces import (
    CANONICAL_COLUMNS,
    EXPORT_COLUMNS,
    BadRow,
    TraceError,
    TraceReader,
    TraceRow,
    cells_of,
    format_of,
    write_rows,
)


def read(path: Path) -> tuple[list[TraceRow], list[BadRow]]:
    rows = list(TraceReader(path))
    good = [row for row in rows if isinstance(row, TraceRow)]
    return good, [row for row in rows if isinstance(row, BadRow)]


def write(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


def test_columns_are_those_of_the_design_and_exports_only_add() -> None:
    assert CANONICAL_COLUMNS == (
        "arrival_s", "audio_s", "prompt_tokens", "output_tokens", "language", "task", "model",
        "finish_reason", "request_type", "group_id", "priority",
    )  # fmt: skip
    assert EXPORT_COLUMNS[: len(CANONICAL_COLUMNS)] == CANONICAL_COLUMNS


def test_a_minimal_audio_row_gets_the_defaults(tmp_path: Path) -> None:
    ((row,), bad) = read(write(tmp_path / "a.csv", "audio_s,output_tokens\n2.5,11\n"))
    assert not bad
    one = row.completion
    assert (one.audio_s, one.output_tokens, one.prompt_tokens) == (2.5, 11, 0)
    assert (one.model, one.task, one.language, one.kind) == (
        "default", "transcribe", "", "transcription",
    )  # fmt: skip
    assert one.finish_reason == "stop"
    assert (row.row, row.line, row.arrival_s) == (1, 2, None)


def test_a_row_without_audio_is_text(tmp_path: Path) -> None:
    text = "arrival_s,prompt_tokens,output_tokens\n0.5,374,44\n"
    ((row,), _) = read(write(tmp_path / "t.csv", text))
    assert (row.completion.kind, row.completion.task) == ("text", "text")
    assert (row.completion.prompt_tokens, row.arrival_s) == (374, 0.5)


def test_unknown_columns_blank_lines_byte_order_mark_and_spaces_are_no_trouble(
    tmp_path: Path,
) -> None:
    text = "\ufeff audio_s , output_tokens,colour\n\n1.0,17.0,red\n\n2.0,3,\n"
    good, bad = read(write(tmp_path / "b.csv", text))
    assert [row.completion.output_tokens for row in good] == [17, 3]
    assert [row.line for row in good] == [3, 5]
    assert not bad


@pytest.mark.parametrize(
    ("cells", "word"),
    [
        ("nan,1", "audio_s"),
        ("inf,1", "audio_s"),
        ("-1,1", "audio_s"),
        ("0,1", "audio_s"),
        ("1e9,1", "audio_s"),
        ("abc,1", "audio_s"),
        ("1_0,1", "audio_s"),
        ("1,-4", "output_tokens"),
        ("1,1.5", "output_tokens"),
        ("1,99999999999", "output_tokens"),
        ("1,", "output_tokens is missing"),
        (",5", "both missing"),
        ("1", "1 fields where the header has 2"),
        ("1,2,3", "3 fields where the header has 2"),
    ],
)
def test_bad_csv_rows_are_named_by_line_and_reason(tmp_path: Path, cells: str, word: str) -> None:
    good, bad = read(write(tmp_path / "x.csv", f"audio_s,output_tokens\n1,2\n{cells}\n3,4\n"))
    assert [row.completion.audio_s for row in good] == [1.0, 3.0]
    assert [row.row for row in good] == [1, 3]
    (one,) = bad
    assert (one.line, one.row) == (3, 2)
    assert word in one.reason


@pytest.mark.parametrize(
    ("line", "word"),
    [
        ("{", "no JSON"),
        ("[1]", "not a JSON object"),
        ("[" * 100_000, "no JSON"),
        ('{"audio_s": true, "output_tokens": 1}', "audio_s"),
        ('{"audio_s": [1], "output_tokens": 1}', "audio_s"),
        ('{"audio_s": 1e400, "output_tokens": 1}', "audio_s"),
        ('{"audio_s": 1, "output_tokens": ' + "9" * 400 + "}", "output_tokens"),
        ('{"audio_s": 1}', "output_tokens is missing"),
        ('{"audio_s": 1, "output_tokens": 1, "language": ["en"]}', "language"),
        ('{"audio_s": 1, "output_tokens": 1, "language": "\\ud800"}', "language"),
        ('{"audio_s": 1, "output_tokens": 1, "language": "a\\u0000"}', "language"),
        ('{"audio_s": 1, "output_tokens": 1, "model": "' + "m" * 200 + '"}', "model"),
        ('{"audio_s": 1, "output_tokens": 1, "finish_reason": "tired"}', "finish_reason"),
        ('{"audio_s": 1, "output_tokens": 1, "kind": "song"}', "kind"),
        ('{"audio_s": 1, "output_tokens": 1, "timestamps": "perhaps"}', "timestamps"),
        ('{"audio_s": 1, "output_tokens": 9, "max_tokens": 8}', "max_tokens"),
    ],
)
def test_bad_json_rows_are_named_by_line_and_reason(tmp_path: Path, line: str, word: str) -> None:
    fine = '{"audio_s": 1, "output_tokens": 2}'
    good, bad = read(write(tmp_path / "x.jsonl", f"{fine}\n\n{line}\n{fine}\n"))
    assert len(good) == 2
    (one,) = bad
    assert (one.line, one.row) == (3, 2)
    assert word in one.reason
    assert len(one.reason) < 400


def test_vllm_own_word_for_an_abort_is_understood(tmp_path: Path) -> None:
    line = '{"audio_s": 1, "output_tokens": 2, "finish_reason": "abort"}'
    ((row,), _) = read(write(tmp_path / "a.jsonl", line))
    assert row.completion.finish_reason == "aborted"


@pytest.mark.parametrize(
    ("name", "content", "word"),
    [
        ("a.csv", b"", "empty"),
        ("a.csv", b"\n\n", "empty"),
        ("a.jsonl", b"", "empty"),
        ("a.csv", b"audio_s,language\n1,en\n", "output_tokens"),
        ("a.csv", b"language,output_tokens\nen,1\n", "audio_s or prompt_tokens"),
        ("a.csv", b"audio_s,audio_s,output_tokens\n1,1,1\n", "twice"),
        ("a.csv", b"audio_s,output_tokens\n\xff\xfe,1\n", "UTF-8"),
        ("a.csv", b"x" * (2 << 20), "characters"),
        ("a.csv.gz", b"\x1f\x8b but no gzip after all", "gzip"),
        ("a.txt", b"audio_s,output_tokens\n1,1\n", "use .csv"),
    ],
)
def test_a_file_that_is_no_trace_is_one_clear_error(
    tmp_path: Path, name: str, content: bytes, word: str
) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(TraceError, match=name) as caught:
        list(TraceReader(path))
    assert word in str(caught.value)
    assert "\n" not in str(caught.value)


def test_missing_files_and_folders_are_errors(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="no such file"):
        TraceReader(tmp_path / "none.csv")
    folder = tmp_path / "folder.csv"
    folder.mkdir()
    with pytest.raises(TraceError, match="is not a file"):
        TraceReader(folder)


def test_a_gzip_that_breaks_off_gives_its_rows_and_then_the_error(tmp_path: Path) -> None:
    lines = "".join(f"{index % 29 + 0.5},{index}\n" for index in range(20_000))
    packed = gzip.compress(f"audio_s,output_tokens\n{lines}".encode())
    path = tmp_path / "cut.csv.gz"
    path.write_bytes(packed[: len(packed) // 2])
    rows: list[TraceRow | BadRow] = []
    with pytest.raises(TraceError, match="breaks off"):
        rows.extend(TraceReader(path))
    assert 1_000 < len(rows) < 20_000


def test_gzip_is_told_from_the_bytes_not_from_the_name(tmp_path: Path) -> None:
    path = tmp_path / "packed.csv"
    path.write_bytes(gzip.compress(b"audio_s,output_tokens\n1,2\n"))
    assert len(read(path)[0]) == 1


def test_progress_ends_at_one(tmp_path: Path) -> None:
    reader = TraceReader(write(tmp_path / "a.csv", "audio_s,output_tokens\n1,2\n"))
    assert reader.progress_ratio == 0.0
    list(reader)
    assert reader.progress_ratio == 1.0


@pytest.mark.parametrize(
    ("name", "form"), [("A.CSV", "csv"), ("a.csv.gz", "csv"), ("a.jsonl.gz", "jsonl")]
)
def test_the_format_is_told_from_the_name(name: str, form: str) -> None:
    assert format_of(name) == form


names = st.text(
    st.characters(exclude_categories=("Cs", "Cc"), exclude_characters="\u2028\u2029"), max_size=12
).map(str.strip)
seconds = st.floats(0.0, 1000.0)
completions: st.SearchStrategy[Completion] = st.builds(
    Completion,
    completion_id=st.just("unset"),
    model=names.filter(bool),
    task=st.sampled_from(["transcribe", "translate"]),
    language=names,
    timestamps=st.sampled_from([None, True, False]),
    kind=st.sampled_from(["transcription", "detection", "beam_step", "session"]),
    audio_s=st.floats(0.001, 3000.0),
    duration_source=st.just("hint"),
    prompt_tokens=st.integers(0, 1000),
    cached_prompt_tokens=st.integers(0, 1000),
    output_tokens=st.integers(0, 448),
    max_tokens=st.none() | st.integers(448, 9999),
    finish_reason=st.sampled_from(["stop", "length", "aborted", "error"]),
    wait_s=seconds,
    service_s=seconds,
    concurrency=seconds,
    request_type=names,
    group_id=names,
    priority=st.integers(-9, 9),
)


@settings(max_examples=60, deadline=None)
@given(
    rows=st.lists(st.tuples(completions, st.floats(0.0, 1e6)), min_size=1, max_size=8),
    name=st.sampled_from(["t.csv", "t.jsonl", "t.csv.gz", "t.jsonl.gz"]),
)
def test_what_is_written_is_read_back_equal(
    tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[Completion, float]], name: str
) -> None:
    assert all(violation_of(one) is None for one, _ in rows)
    buffer = io.StringIO(newline="")
    count = write_rows((cells_of(one, arrival_s=at) for one, at in rows), buffer, format_of(name))
    data = buffer.getvalue().encode()
    path = tmp_path_factory.mktemp("trace") / name
    path.write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    good, bad = read(path)
    assert not bad
    assert count == len(rows)
    assert [(row.completion, row.arrival_s) for row in good] == rows


def test_absent_cells_are_empty_in_csv_and_left_out_in_json() -> None:
    cells = cells_of(Completion(completion_id="x", prompt_tokens=3, kind="text"), arrival_s=None)
    out = io.StringIO(newline="")
    write_rows([cells], out, "csv")
    header, row = csv.reader(out.getvalue().splitlines())
    assert dict(zip(header, row, strict=True))["audio_s"] == ""
    out = io.StringIO(newline="")
    write_rows([cells], out, "jsonl")
    document: dict[str, Any] = json.loads(out.getvalue())  # Any: JSON
    assert "audio_s" not in document
    assert document["prompt_tokens"] == 3


def test_numbers_survive_to_the_last_bit(tmp_path: Path) -> None:
    odd = math.nextafter(1.1, 2.0)
    cells = cells_of(Completion(completion_id="x", audio_s=odd, output_tokens=1), arrival_s=odd)
    with (tmp_path / "n.csv").open("w", newline="", encoding="utf-8") as out:
        write_rows([cells], out, "csv")
    ((row,), _) = read(tmp_path / "n.csv")
    assert (row.completion.audio_s, row.arrival_s) == (odd, odd)
