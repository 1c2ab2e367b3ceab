"""Every command in a process of its own, against a sidecar in another."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.kappad_process import (
    COMMAND,
    ROOT,
    Sidecar,
    environment,
    kappad,
    kappad_json,
    sidecar,
)

AUDIO = ROOT / "tests/audio"
NOBODY = "unix:///tmp/kappad-test-nobody-listens.sock"


def trace(path: Path, kappa: float, language: str, rows: int = 200) -> Path:
    """Write a trace whose tokens are exactly 3 + κ·s, rounded."""
    lines = ["audio_s,output_tokens,language"]
    for index in range(rows):
        seconds = 1.0 + index * 7 % 290 / 10.0
        lines.append(f"{seconds},{round(3 + kappa * seconds)},{language}")
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def taught(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sidecar]:
    """A sidecar that has learned two languages."""
    folder = tmp_path_factory.mktemp("traces")
    with sidecar() as running:
        files = [trace(folder / "en.csv", 3.0, "en"), trace(folder / "hi.csv", 11.0, "hi")]
        done = kappad(["learn", *map(str, files)], target=running.target)
        assert done.returncode == 0, done
        yield running


def test_predict_by_length_has_the_fields_of_the_design(taught: Sidecar) -> None:
    arguments = ["predict", "--duration", "10", "--language", "en"]
    document = kappad_json(arguments, target=taught.target)
    assert document["errors"] == []
    (one,) = document["estimates"]
    assert {
        "source", "duration_s", "tokens", "tokens_p50", "tokens_p90", "tokens_p99", "service_s",
        "queue_id", "snapshot_version",
    } <= one.keys()  # fmt: skip
    assert one["source"] == "learned"
    assert one["tokens"] == pytest.approx(33.0, rel=0.1)
    assert one["tokens_p50"] <= one["tokens_p90"] <= one["tokens_p99"]
    assert one["service_s"] > 0.0
    assert one["pieces"] == 1


def test_predict_adds_the_pieces_of_long_audio(taught: Sidecar) -> None:
    document = kappad_json(
        ["predict", "--duration", "70", "--duration", "10", "--language", "en"],
        target=taught.target,
    )
    long, short = document["estimates"]
    assert (long["pieces"], long["duration_s"]) == (3, 70.0)
    # 2 · (3 + 90) + 33 tokens: each piece has the intercept of its own.
    assert long["tokens"] == pytest.approx(219.0, rel=0.1)
    assert long["service_s"] > 3 * short["service_s"]


def test_predict_takes_many_files_and_names_the_bad_ones(taught: Sidecar) -> None:
    names = ["derived-libri-34.955s-16k.ogg", "derived-libri-truncated.flac", "stereo.wav"]
    files = [str(AUDIO / name) for name in names]
    done = kappad(["predict", "--json", "--audio", *files], target=taught.target)
    assert done.returncode == 3
    document = json.loads(done.stdout)
    assert [Path(one["file"]).name for one in document["estimates"]] == [names[0], names[2]]
    assert [one["pieces"] for one in document["estimates"]] == [2, 1]
    (error,) = document["errors"]
    assert error["file"] == files[1]
    (line,) = done.stderr.splitlines()
    assert line == f"kappad: {error['message']}"
    assert "breaks off after 4.096 s" in line


def test_predict_answers_every_file_of_the_folder_without_a_traceback(taught: Sidecar) -> None:
    files = sorted(str(path) for path in AUDIO.iterdir())
    done = kappad(["predict", "--json", *files], target=taught.target)
    assert done.returncode == 3
    document = json.loads(done.stdout)
    answered = [one["file"] for one in document["estimates"]]
    refused = [one["file"] for one in document["errors"]]
    assert sorted([*answered, *refused]) == files
    assert len(done.stderr.splitlines()) == len(refused)
    assert all(line.startswith("kappad: ") for line in done.stderr.splitlines())
    assert "Traceback" not in done.stderr


def test_predict_takes_names_that_are_no_text(taught: Sidecar, tmp_path: Path) -> None:
    name = os.fsencode(tmp_path) + b"/caf\xe9\n.wav"
    with open(name, "wb") as file:  # noqa: PTH123 # a bytes name
        file.write((AUDIO / "stereo.wav").read_bytes())
    document = kappad_json(["predict", "--audio", name], target=taught.target)
    assert os.fsencode(document["estimates"][0]["file"]) == name
    done = kappad(["predict", name + b"-missing"], target=taught.target)
    assert done.returncode == 3
    assert len(done.stderr.splitlines()) == 1


def test_predict_prints_a_table(taught: Sidecar) -> None:
    done = kappad(["predict", "--duration", "10", "--language", "hi"], target=taught.target)
    assert done.returncode == 0
    header, row = done.stdout.splitlines()
    assert header.split()[0] == "audio"
    assert row.startswith("(length)")
    assert row.endswith("learned")


@pytest.mark.parametrize(
    "arguments",
    [
        ["predict"],
        ["predict", "--duration", "0"],
        ["predict", "--duration", "nan"],
        ["predict", "--duration", "inf"],
        ["predict", "--duration", "1e9"],
        ["predict", "--duration", "x"],
        ["mode", "set", "sometimes"],
        ["mode", "set", "on", "--reason", "x" * 300],
        ["learn"],
        ["export"],
        ["export", "somewhere.txt"],
        ["export", "--model", "somewhere.csv"],
        ["explain"],
        ["kappa", "--limit", "0"],
        ["status", "--timeout-s", "-1"],
        ["nonsense"],
        ["serve", "--mode", "sometimes"],
        ["serve", "--listen", "nonsense"],
        ["serve", "--config", "/does/not/exist.toml"],
    ],
)
def test_wrong_usage_is_one_line_and_exit_code_2(arguments: list[str]) -> None:
    done = kappad(arguments, target=NOBODY)
    assert done.returncode == 2, done
    assert done.stdout == ""
    (line,) = done.stderr.splitlines()
    assert line.startswith("kappad: ")


@pytest.mark.parametrize(
    "arguments",
    [
        ["status"],
        ["kappa"],
        ["kappa", "--history"],
        ["drift"],
        ["explain", "x"],
        ["mode", "get"],
        ["mode", "set", "on"],
        ["predict", "--duration", "1"],
        ["learn", str(ROOT / "README.md")],
        ["export", "-"],
        ["export", "--model", "-"],
    ],
)
def test_nobody_listening_is_one_line_with_the_remedy_and_exit_code_1(
    arguments: list[str],
) -> None:
    done = kappad([*arguments, "--json"], target=NOBODY)
    assert done.returncode == 1, done
    assert done.stdout == ""
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"kappad: cannot reach {NOBODY} (No such file or directory)")
    assert "`kappad serve`" in line


def test_status_as_table_and_as_json(taught: Sidecar) -> None:
    document = kappad_json(["status"], target=taught.target)
    assert document["learned_count"] == document["stored_count"] == 400
    assert document["backlog_count"] == 0
    assert document["mode"] in {"off", "shadow", "on"}
    assert 0.0 < document["p90_coverage_ratio"] <= 1.0
    assert document["store_error"] == ""
    assert [one["client_id"] for one in document["clients"]] == ["kappad-learn"]
    done = kappad(["status"], target=taught.target)
    assert done.returncode == 0
    assert "learned   400" in done.stdout
    assert f"p90 held {100 * document['p90_coverage_ratio']:.1f} %" in done.stdout
    assert "no engine has reported yet" in done.stdout
    assert max(map(len, done.stdout.splitlines())) <= 100


def test_kappa_as_table_and_as_json(taught: Sidecar) -> None:
    document = kappad_json(["kappa"], target=taught.target)
    by_language = {one["language"]: one for one in document["kappas"]}
    assert by_language["en"]["kappa_tokens_per_s"] == pytest.approx(3.0, rel=0.05)
    assert by_language["hi"]["kappa_tokens_per_s"] == pytest.approx(11.0, rel=0.05)
    assert by_language["hi"]["sample_count"] == 200
    narrowed = kappad_json(["kappa", "--language", "hi"], target=taught.target)
    assert [one["language"] for one in narrowed["kappas"]] == ["hi"]
    done = kappad(["kappa"], target=taught.target)
    assert "default/transcribe/en" in done.stdout


def test_kappa_history_is_drawn_at_80_columns_without_a_terminal(taught: Sidecar) -> None:
    history = kappad_json(["kappa", "--history"], target=taught.target)["history"]
    assert {"recorded_unix_s", "kappa_tokens_per_s", "sample_count"} <= history[0].keys()
    times = [one["recorded_unix_s"] for one in history]
    assert times == sorted(times, reverse=True)
    for encoding, edge in (("utf-8", "│"), ("ascii", "|")):
        done = kappad(
            ["kappa", "--history"], target=taught.target, extra={"PYTHONIOENCODING": encoding}
        )
        assert done.returncode == 0
        assert done.stdout.count(edge) >= 6
        assert max(map(len, done.stdout.splitlines())) <= 80


def test_drift_as_table_and_as_json(taught: Sidecar) -> None:
    document = kappad_json(["drift"], target=taught.target)
    assert isinstance(document["drift_events"], list)
    done = kappad(["drift"], target=taught.target)
    assert done.returncode == 0
    assert done.stdout


def test_mode_is_set_and_read_back(taught: Sidecar) -> None:
    first = kappad_json(["mode", "set", "on", "--reason", "a test"], target=taught.target)
    assert first["mode"] == "on"
    second = kappad_json(["mode", "set", "off"], target=taught.target)
    assert second["previous_mode"] == "on"
    assert second["snapshot_version"] > first["snapshot_version"]
    assert kappad_json(["mode", "get"], target=taught.target)["mode"] == "off"
    assert kappad(["mode", "get"], target=taught.target).stdout == "off\n"
    done = kappad(["mode", "set", "SHADOW"], target=taught.target)
    assert done.stdout.startswith("mode shadow (was off, from version ")
    assert "a test" in taught.log()


def test_help_is_light_and_names_the_exit_codes() -> None:
    probe = (
        "import sys; sys.argv=['kappad','--help']\n"
        "import estimator.cli.main as m\n"
        "try: m.main()\n"
        "except SystemExit as e: assert e.code == 0\n"
        "heavy = {'grpc','river','numpy','pydantic','soundfile','google.protobuf','rich'}\n"
        "print(sorted(heavy & set(sys.modules)), file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", probe],
        cwd=ROOT, env=environment(), capture_output=True, text=True, timeout=60.0, check=True,
    )  # fmt: skip
    assert done.stderr == "[]\n"
    assert "Exit codes: 0 done; 1 " in done.stdout


def test_a_reader_that_leaves_is_no_error_message(taught: Sidecar) -> None:
    with subprocess.Popen(
        [*COMMAND, "export", "-", "--target", taught.target],
        cwd=ROOT, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    ) as process:  # fmt: skip
        assert process.stdout is not None
        process.stdout.close()
        assert process.stderr is not None
        assert process.stderr.read() == b""
        assert process.wait(60.0) == 141


def test_ctrl_c_ends_a_waiting_command_with_130(tmp_path: Path) -> None:
    path = trace(tmp_path / "slow.csv", 3.0, "en", rows=2000)
    with sidecar() as running:
        running.process.send_signal(signal.SIGSTOP)
        try:
            with subprocess.Popen(
                [*COMMAND, "learn", str(path), "--target", running.target, "--timeout-s", "60"],
                cwd=ROOT, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            ) as process:  # fmt: skip
                time.sleep(3.0)  # it imports, connects and waits for the frozen sidecar
                assert process.poll() is None
                process.send_signal(signal.SIGINT)
                _, stderr = process.communicate(timeout=30.0)
                assert process.returncode == 130
                assert stderr == b""
        finally:
            running.process.send_signal(signal.SIGCONT)


def test_a_frozen_sidecar_runs_into_the_deadline() -> None:
    with sidecar() as running:
        running.process.send_signal(signal.SIGSTOP)
        try:
            done = kappad(["status", "--timeout-s", "0.5"], target=running.target)
        finally:
            running.process.send_signal(signal.SIGCONT)
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    assert "within 0.5 s" in line


def test_a_server_that_is_no_sidecar_is_one_line() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:  # accepts, and never answers
        port = listener.getsockname()[1]
        done = kappad(["status", "--timeout-s", "1"], target=f"127.0.0.1:{port}")
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    assert "within 1 s" in line
