import csv
import os
import struct
import wave
from pathlib import Path

import numpy as np
import pytest
import soundfile

from estimator.cli import audio
from estimator.cli.audio import AudioError, read_length, split_length

ROOT = Path(__file__).resolve().parents[3]
FOLDERS = (ROOT / "tests/audio", ROOT / "estimator/demo/clips")


def rows(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


MANIFEST = rows(FOLDERS[0] / "manifest.csv")
CLIPS = rows(FOLDERS[1] / "manifest.csv")
# A header of a whole file before a body that is cut: soundfile reads the one and not the other.
CUT = "info-ok-read-fails"
# The manifest has the header's figure; decoding gives 198 samples less, as vLLM does.
HEADER_ONLY_FIGURES = {"common_voice_en_651325.mp3": 2.376}


def find(name: str) -> Path:
    (path,) = [folder / name for folder in FOLDERS if (folder / name).exists()]
    return path


@pytest.mark.parametrize("row", MANIFEST, ids=[row["file"] for row in MANIFEST])
def test_each_file_gives_its_length_or_one_clear_line(
    row: dict[str, str], capfd: pytest.CaptureFixture[str]
) -> None:
    path = find(row["file"])
    broken = row["soundfile"].startswith(("error", CUT)) or row["duration_s"] == "0.0"
    if broken:
        with pytest.raises(AudioError) as caught:
            read_length(str(path))
        message = str(caught.value)
        assert message.startswith(f"{path}: ")
        assert "; " in message  # a remedy
        assert "\n" not in message
        assert ("breaks off after 4.096 s of the 16.040 s" in message) == (row["soundfile"] == CUT)
    else:
        length = read_length(str(path))
        expected = HEADER_ONLY_FIGURES.get(row["file"], float(row["duration_s"]))
        assert length.duration_s == pytest.approx(expected, abs=6e-5)
        assert sum(length.pieces_s) == pytest.approx(length.duration_s)
        assert len(length.pieces_s) == (2 if expected > 30.0 else 1)
        assert not length.warnings
    # libmpg123 writes to the process's standard error behind Python's back.
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("row", CLIPS, ids=[row["file"] for row in CLIPS])
def test_each_clip_of_the_demo_is_as_long_as_its_manifest_says(row: dict[str, str]) -> None:
    length = read_length(str(FOLDERS[1] / row["file"]))
    assert length.duration_s == pytest.approx(float(row["duration_s"]), abs=0.006)
    assert row["source"]
    assert row["licence"]
    assert row["language"] in {"en", "es", "de", "fr", "hi"}


def test_each_file_is_stored_once_and_has_a_source_and_a_licence() -> None:
    listed = {row["file"] for row in MANIFEST} | {row["file"] for row in CLIPS}
    stored = [
        path.name
        for folder in FOLDERS
        for path in folder.iterdir()
        if path.name not in {"manifest.csv", "README.md"}
    ]
    assert sorted(stored) == sorted(listed)
    assert all(row["licence"] and row["source"] for row in MANIFEST)


def test_the_clips_of_the_demo_stay_below_three_megabytes() -> None:
    assert sum(path.stat().st_size for path in FOLDERS[1].iterdir()) <= 3_000_000


def test_long_audio_is_cut_at_the_quietest_tenth_of_a_second_before_thirty(tmp_path: Path) -> None:
    rate = 8000
    samples = np.random.default_rng(1).uniform(-0.5, 0.5, 67 * rate)
    samples[int(29.3 * rate) : int(29.5 * rate)] = 0.0
    samples[int((29.3 + 29.7) * rate) : int((29.3 + 29.9) * rate)] = 0.0
    path = tmp_path / "long.wav"
    soundfile.write(path, samples, rate)
    assert read_length(str(path)).pieces_s == pytest.approx((29.3, 29.7, 8.0), abs=0.11)


def test_exactly_thirty_seconds_stay_one_piece(tmp_path: Path) -> None:
    path = tmp_path / "thirty.wav"
    soundfile.write(path, np.ones(30 * 8000) * 0.1, 8000)
    assert read_length(str(path)).pieces_s == (30.0,)


@pytest.mark.parametrize(
    ("duration_s", "pieces"),
    [(0.5, (0.5,)), (30.0, (30.0,)), (60.0, (30.0, 30.0)), (67.0, (30.0, 30.0, 7.0))],
)
def test_a_bare_length_is_cut_into_thirties_and_a_rest(
    duration_s: float, pieces: tuple[float, ...]
) -> None:
    assert split_length(duration_s) == pieces


def test_folder_missing_unreadable_and_odd_names(tmp_path: Path) -> None:
    with pytest.raises(AudioError, match="no such file"):
        read_length(str(tmp_path / "none.wav"))
    with pytest.raises(AudioError, match="is a folder"):
        read_length(str(tmp_path))
    with pytest.raises(AudioError, match="null byte"):
        read_length("a\0b.wav")
    with pytest.raises(AudioError, match="cannot be opened: File name too long"):
        read_length("x" * 5000)
    with pytest.raises(AudioError, match=r"two\\nlines.wav: no such file") as caught:
        read_length(str(tmp_path / "two\nlines.wav"))
    assert "\n" not in str(caught.value)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read every file")
def test_a_file_without_rights_is_one_line(tmp_path: Path) -> None:
    path = tmp_path / "secret.wav"
    path.touch(mode=0o000)
    with pytest.raises(AudioError, match="cannot be opened: Permission denied"):
        read_length(str(path))


def test_a_name_that_is_no_utf_8_is_read(tmp_path: Path) -> None:
    name = os.fsencode(tmp_path) + b"/caf\xe9.wav"
    with open(name, "wb") as file, wave.open(file, "wb") as out:  # noqa: PTH123 # a bytes name
        out.setnchannels(1)
        out.setsampwidth(2)
        out.setframerate(8000)
        out.writeframes(b"\1\0" * 4000)
    assert read_length(os.fsdecode(name)).duration_s == 0.5


def test_a_pipe_and_a_device_do_not_hang(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.wav")
    for path in (tmp_path / "pipe.wav", Path("/dev/zero")):
        with pytest.raises(AudioError, match="no regular file"):
            read_length(str(path))


def sparse_wav(path: Path, seconds: int, rate: int = 8000) -> Path:
    """Write a WAV header before a hole: the size of a real file, and none of its disk."""
    size = seconds * rate
    header = struct.pack(
        "<4sI4s4sIHHIIHH4sI",
        b"RIFF", 36 + size, b"WAVE", b"fmt ", 16, 1, 1, rate, rate, 1, 8, b"data", size,
    )  # fmt: skip
    with path.open("wb") as file:
        file.write(header)
        file.truncate(len(header) + size)
    return path


def test_a_file_beyond_what_vllm_takes_is_not_decoded_and_warns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def never(*_: object) -> int:
        raise AssertionError("decoded")

    monkeypatch.setattr(audio, "_decoded_frames", never)
    length = read_length(str(sparse_wav(tmp_path / "huge.wav", 4000)))
    assert length.duration_s == 4000.0
    assert len(length.pieces_s) == 134
    assert [word in "".join(length.warnings) for word in ("MiB", "600", "not decoded")] == [
        True
    ] * 3


def test_more_than_a_day_is_refused(tmp_path: Path) -> None:
    with pytest.raises(AudioError, match="more than a day"):
        read_length(str(sparse_wav(tmp_path / "days.wav", 90_000)))
