"""The demo without vLLM: a real sidecar, real policies, a simulated engine."""

import json
from pathlib import Path

import pytest

from estimator.demo import environment, run


def test_without_vllm_the_loop_runs_and_says_that_it_is_simulated(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(environment, "unsupported_reason", lambda: "no AVX2 here")
    monkeypatch.setattr(run, "_RUNS_DIR", tmp_path)
    assert run.main(json=True, requests=60, seed=20) == 0
    output = capsys.readouterr()
    result = json.loads(output.out)
    assert "No vLLM here: no AVX2 here" in output.err
    assert result["engine"].startswith("SIMULATED")
    assert result["not_shown"][0].startswith("anything about vLLM")
    assert result["fcfs"]["failed"] == result["on"]["failed"] == 0
    # In virtual time both runs do the same work; only the order differs.
    assert result["throughput_ratio"] == pytest.approx(1.0)
    assert result["p50_gain_ratio"] > 0.35
    kappas = {row["language"]: row for row in result["kappas"]}
    assert set(kappas) == {"en", "de", "es", "fr", "hi"}
    # What the simulated transcripts are drawn from.
    assert kappas["en"]["after_tokens_per_s"] == pytest.approx(3.15, rel=0.15)
