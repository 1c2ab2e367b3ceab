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
REFERENCE = Path(__file__).resolve().parents[2] / "benchmarks" / "reference" / "cpu-whisper-base"


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
    found = result["calibrated_on_run_0"]
    assert found["worst_error_at_another_rate"] < 0.02
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
    found = predict_folder(tmp_path)["calibrated_on_run_0"]
    assert found["worst_error_at_another_rate"] == pytest.approx(1 / 3, abs=0.02)


def test_the_real_engine_is_predicted_at_another_rate_within_20_percent() -> None:
    """Calibrated on one run of vLLM with Whisper-base, P50 and P90 of the other, both ways."""
    result = predict_folder(REFERENCE)
    for source in ("calibrated_on_run_0", "calibrated_on_run_1"):
        found = result[source]
        assert found["worst_error_at_another_rate"] < 0.2
        assert found["median_abs_ln"] < 0.12
        # An encoder pass and 4 slots on two cores; a step is a small part of it.
        profile = found["profile"]
        assert 0.6 < profile["admission_s"] < 1.2
        assert profile["step_s"] + profile["per_sequence_s"] < 0.05
