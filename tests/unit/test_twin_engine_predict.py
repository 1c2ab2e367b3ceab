"""A recording of an engine is predicted without one."""

import json
from pathlib import Path

import pytest

from benchmarks.twin_engine_predict import RECORDING, predict_folder
from estimator.replay.profile import EngineProfile
from estimator.traces import cells_of, write_rows
from tests.support.exports import exported

# As slow as Whisper-base on two cores.
ENGINE = EngineProfile(
    name="cpu", slots=4, step_s=0.009, per_sequence_s=0.005, admission_s=0.4,
    max_admissions_per_step=2,
)  # fmt: skip
OVERHEAD_S = 0.2


def _record(folder: Path) -> None:
    runs = []
    for number, (load, gap_s) in enumerate(((0.8, 0.9), (1.3, 0.5))):
        rows = exported(ENGINE, 80, gap_s, seed=number, policy="fcfs")
        with (folder / f"run-{number}.csv").open("w", encoding="utf-8", newline="") as out:
            cells = (cells_of(one, arrival_s=round(at + OVERHEAD_S, 6)) for at, one in rows)
            write_rows(cells, out, "csv")
        runs.append(
            {
                "file": f"run-{number}.csv",
                "load": load,
                "mode": "shadow",
                "rate_rps": 1.0 / gap_s,
                "due_s": [at for at, _ in rows],
                "audio_s": [one.audio_s for _, one in rows],
                "tokens": [one.output_tokens for _, one in rows],
                "latency_s": [OVERHEAD_S + one.wait_s + one.service_s for _, one in rows],
            }
        )
    document = {"slots": ENGINE.slots, "runs": runs}
    (folder / RECORDING).write_text(json.dumps(document), encoding="utf-8")


def test_a_twins_own_recording_is_predicted_almost_exactly(tmp_path: Path) -> None:
    _record(tmp_path)
    result = predict_folder(tmp_path)
    assert result["worst_error"] < 0.02
    found = result["calibrated_on_run_0"]
    assert found["profile"]["request_overhead_s"] == pytest.approx(OVERHEAD_S, rel=0.05)
    (table,) = found["tables"].values()
    busy = table["run 1, load 1.3, mode shadow"]
    assert busy["p50_s"] > 2.0 * table["run 0, load 0.8, mode shadow"]["p50_s"]
    assert busy["p50_twin_s"] == pytest.approx(busy["p50_s"], rel=0.02)


def test_another_engine_than_the_recorded_one_is_told_apart(tmp_path: Path) -> None:
    _record(tmp_path)
    document = json.loads((tmp_path / RECORDING).read_text(encoding="utf-8"))
    second = document["runs"][1]
    second["latency_s"] = [1.5 * one for one in second["latency_s"]]
    (tmp_path / RECORDING).write_text(json.dumps(document), encoding="utf-8")
    assert predict_folder(tmp_path)["worst_error"] == pytest.approx(1 / 3, abs=0.02)
