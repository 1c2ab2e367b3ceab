"""Rows of a trace become jobs: what is kept, what is left out, what ends a replay."""

import csv
import gzip
from pathlib import Path
from statistics import fmean, pstdev

import pytest

from estimator.core.observation import Completion
from estimator.replay.job import Job
from estimator.replay.rows import (
    UNIFORM_AUDIO_S,
    UNIFORM_KAPPA_TOKENS_PER_S,
    UNIFORM_SPREAD_RATIO,
    Rows,
    read_rows,
    uniform_rows,
)
from estimator.traces import BadRow, TraceError

TRACES = Path(__file__).resolve().parents[3] / "benchmarks/traces"


def write(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


def job_of(completion: Completion) -> Job:
    rows = Rows("x")
    rows.append(completion)
    return rows.job(0, 7, 1000, 2)


def test_a_row_keeps_all_that_orders_and_teaches() -> None:
    job = job_of(
        Completion(
            completion_id="x",
            model="m",
            task="text",
            kind="text",
            timestamps=True,
            prompt_tokens=300,
            output_tokens=44,
            max_tokens=50,
            finish_reason="length",
            request_type="chat",
            group_id="g",
            priority=3,
        )
    )
    assert job == Job(
        index=7, arrival_ns=1000, output_tokens=44, audio_s=None, prompt_tokens=300, model="m",
        task="text", language="", timestamps=True, kind="text", max_tokens=50,
        finish_reason="length", request_type="chat", group_id="g", priority=3, abort_ns=None,
        segment=2,
    )  # fmt: skip


def test_what_a_trace_leaves_out_gets_the_defaults(tmp_path: Path) -> None:
    rows = read_rows(write(tmp_path / "a.csv", "audio_s,output_tokens\n2.5,11\n"))
    job = rows.job(0, 0, 0, 0)
    assert (job.audio_s, job.output_tokens, job.model, job.task) == (
        2.5,
        11,
        "default",
        "transcribe",
    )
    assert (job.language, job.kind, job.max_tokens, job.abort_ns) == (
        "",
        "transcription",
        None,
        None,
    )


def test_a_hidden_language_is_forgotten_and_nothing_else(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", "audio_s,output_tokens,language\n2.5,11,fr\n")
    shown, hidden = (read_rows(path, language_hidden=one).job(0, 0, 0, 0) for one in (False, True))
    assert shown.language == "fr"
    assert hidden == shown._replace(language="")


def test_a_request_without_a_token_decodes_one() -> None:
    assert job_of(Completion(completion_id="x", audio_s=1.0, output_tokens=0)).output_tokens == 1


def test_a_caller_who_left_leaves_again_after_the_same_time() -> None:
    left = Completion(
        completion_id="x",
        audio_s=3.0,
        output_tokens=4,
        finish_reason="aborted",
        wait_s=1.5,
        service_s=0.5,
    )
    job = job_of(left)
    assert job.abort_ns == 1000 + 2 * 10**9
    # What it would have become is unknown: Whisper's limit.
    assert job.output_tokens == 448


def test_failed_requests_and_leavers_of_unknown_patience_are_counted_out(tmp_path: Path) -> None:
    text = "audio_s,output_tokens,finish_reason\n1,4,stop\n1,4,aborted\n1,4,error\n1,4,length\n"
    rows = read_rows(write(tmp_path / "a.csv", text))
    assert (len(rows), rows.n_left_out) == (2, 2)


def test_bad_rows_are_told_by_line_and_skipped(tmp_path: Path) -> None:
    lines = ["arrival_s,audio_s,output_tokens", "0,1,4", "1,nan,4", "-2,1,4", "1e9,1,4", "2,1,5"]
    told: list[BadRow] = []
    rows = read_rows(write(tmp_path / "a.csv", "\n".join(lines)), on_bad_row=told.append)
    assert len(rows) == 2
    assert [(one.line, one.reason.split(",")[0]) for one in told] == [
        (3, "audio_s is 'nan'"),
        (4, "arrival_s is -2"),
        (5, "arrival_s is 1e+09"),
    ]


def test_a_timed_trace_must_be_in_order(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", "arrival_s,audio_s,output_tokens\n3,1,4\n2.5,1,4\n")
    message = r"a\.csv:3: arrival_s is 2\.5, before the row above \(3\); sort the file"
    with pytest.raises(TraceError, match=message):
        read_rows(path, timed=True)
    assert len(read_rows(path)) == 2


def test_a_timed_trace_must_have_times(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", "arrival_s,audio_s,output_tokens\n3,1,4\n,1,4\n")
    with pytest.raises(TraceError, match=r"a\.csv:3: arrival_s is missing; add it, or"):
        read_rows(path, timed=True)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "empty"),
        ("audio_s,output_tokens\n", "no row can be replayed"),
        ("audio_s,language\n1,en\n", "columns are missing"),
        ("output_tokens;audio_s\n1;1\n", "with commas between the columns"),
        ("audio_s,output_tokens\nnan,1\n", "no row can be replayed"),
    ],
)
def test_a_file_with_nothing_to_replay_is_refused(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(TraceError, match=message):
        read_rows(write(tmp_path / "a.csv", text))


def test_a_gzip_that_breaks_off_is_refused(tmp_path: Path) -> None:
    whole = gzip.compress(
        b"audio_s,output_tokens\n" + b"".join(b"%d,%d\n" % (1 + n, n) for n in range(900))
    )
    path = tmp_path / "a.csv.gz"
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(TraceError, match=r"a\.csv\.gz: the gzip stream breaks off"):
        read_rows(path)


def test_the_synthetic_mix_is_as_dense_as_librispeech() -> None:
    with gzip.open(TRACES / "librispeech-test-clean.csv.gz", "rt", encoding="utf-8") as lines:
        pairs = [
            (float(one["audio_s"]), int(one["output_tokens"])) for one in csv.DictReader(lines)
        ]
    seconds, tokens = (sum(column) for column in zip(*pairs, strict=True))
    kappa = tokens / seconds
    spread = sum(d * (n / (kappa * d) - 1.0) ** 2 for d, n in pairs) / seconds
    assert pytest.approx(kappa, rel=0.001) == UNIFORM_KAPPA_TOKENS_PER_S
    assert pytest.approx(spread**0.5, rel=0.003) == UNIFORM_SPREAD_RATIO


def test_the_synthetic_mix_has_each_clip_equally_often_and_its_spread() -> None:
    rows = uniform_rows()
    jobs = [rows.job(row, row, 0, 0) for row in range(len(rows))]
    for audio_s in UNIFORM_AUDIO_S:
        tokens = [job.output_tokens for job in jobs if job.audio_s == audio_s]
        assert len(tokens) == len(jobs) / len(UNIFORM_AUDIO_S)
        assert fmean(tokens) == pytest.approx(UNIFORM_KAPPA_TOKENS_PER_S * audio_s, rel=0.01)
        # Rounding to whole tokens adds a little to 5 s clips.
        assert pstdev(tokens) / fmean(tokens) == pytest.approx(UNIFORM_SPREAD_RATIO, rel=0.03)
    assert {job.language for job in jobs} == {"en"}
    assert "3.156" in rows.assumption
