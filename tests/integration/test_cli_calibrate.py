"""``kappad calibrate`` as an operator runs it: a profile that replay takes, or what is missing."""

import json
from pathlib import Path

import pytest

from estimator.replay.profile import EngineProfile, load_profile
from estimator.traces import cells_of, write_rows
from tests.support.exports import exported
from tests.support.kappad_process import kappad

ENGINE = EngineProfile(
    name="known", slots=8, step_s=0.006, per_sequence_s=0.0005, admission_s=0.03
)
KEYS = {"profile", "n", "left_out_count", "overtaken_ratio", "errors", "fit"}
FIT_KEYS = {"median_abs_ln", "p90_abs_ln", "r_squared", "quantiles", "by_concurrency"}


def write(path: Path, n: int, gap_s: float) -> str:
    rows = exported(ENGINE, n, gap_s)
    with path.open("w", encoding="utf-8", newline="") as out:
        write_rows((cells_of(one, arrival_s=round(at, 6)) for at, one in rows), out, "csv")
    return str(path)


@pytest.fixture(scope="module")
def busy(tmp_path_factory: pytest.TempPathFactory) -> str:
    return write(tmp_path_factory.mktemp("exports") / "busy.csv", 300, 0.06)


def test_the_written_profile_is_the_engines_and_replay_takes_it(busy: str, tmp_path: Path) -> None:
    out = tmp_path / "found.json"
    done = kappad(["calibrate", busy, "--json", "--name", "mine", "-o", str(out)])
    assert (done.returncode, done.stderr) == (0, "")
    document = json.loads(done.stdout)
    assert set(document) == KEYS
    assert set(document["fit"]) == FIT_KEYS
    profile = load_profile(out)
    assert document["profile"]["name"] == profile.name == "mine"
    assert document["profile"]["slots"] == profile.slots == 8
    assert profile.admission_s == pytest.approx(0.03, rel=0.02)
    assert profile.service_s(30, 4, 8) == pytest.approx(ENGINE.service_s(30, 4, 8), rel=0.02)
    again = kappad(
        ["replay", busy, "--engine", str(out), "--policy", "fcfs", "--load", "0.5", "--json"]
    )
    assert again.returncode == 0, again.stderr
    assert json.loads(again.stdout)["runs"][0]["n"] == 300


def test_the_text_says_how_well_it_fits_and_shows_the_profile(busy: str) -> None:
    done = kappad(["calibrate", busy])
    assert (done.returncode, done.stderr) == (0, "")
    assert "8 slots, from 300 requests" in done.stdout
    assert "R²" in done.stdout
    assert "measured over fitted" in done.stdout
    assert json.loads(done.stdout[done.stdout.index("{") :])["slots"] == 8


def test_thin_data_is_refused_with_what_is_missing(tmp_path: Path) -> None:
    done = kappad(["calibrate", write(tmp_path / "quiet.csv", 100, 3.0)])
    assert (done.returncode, done.stdout) == (1, "")
    assert "--slots" in done.stderr


def test_bad_rows_are_named_and_skipped(busy: str, tmp_path: Path) -> None:
    lines = Path(busy).read_text(encoding="utf-8").splitlines()
    spoilt = tmp_path / "spoilt.csv"
    cells = lines[5].split(",")
    cells[lines[0].split(",").index("service_s")] = "nan"
    spoilt.write_text("\n".join([*lines[:5], ",".join(cells), *lines[6:]]) + "\n", "utf-8")
    done = kappad(["calibrate", str(spoilt), "--slots", "8", "--json"])
    assert done.returncode == 3
    assert f"{spoilt}:6: service_s is 'nan'" in done.stderr
    assert json.loads(done.stdout)["n"] == 299


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ("", "empty"),
        ("audio_s,output_tokens\n3,9\n", "arrival_s is missing"),
        ("arrival_s,audio_s,output_tokens\n0,3,9\n", "no row has service_s"),
    ],
)
def test_what_is_no_export_is_one_line(content: str, told: str, tmp_path: Path) -> None:
    path = tmp_path / "other.csv"
    path.write_text(content, encoding="utf-8")
    done = kappad(["calibrate", str(path)])
    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr.count("\n") == 1
    assert told in done.stderr
