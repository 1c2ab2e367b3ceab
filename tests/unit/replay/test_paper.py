"""What the paper's tables are in the twin, and the search that only sees FCFS."""

import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from estimator.replay import paper_fit
from estimator.replay.paper import (
    LIBRISPEECH,
    SYNTHETIC,
    WORKLOADS,
    Cell,
    Numbers,
    Speech,
    errors_of,
    predict,
    read_speech,
    read_tables,
    spreads_of,
    workload_of,
)
from estimator.replay.profile import load_profile

BENCHMARKS = Path(__file__).resolve().parents[3] / "benchmarks"
TABLES = BENCHMARKS / "reference" / "asr_paper_tables.json"
SPEECH = Speech((2.0, 10.0), (8, 30))
PROFILE = load_profile("a100-whisper-large-v3")


def test_the_tables_are_whole_and_in_seconds() -> None:
    published = read_tables(TABLES)
    assert len(published) == 2 * 6 * 3
    assert sum(cell.policy == "fcfs" for cell in published) == 12
    assert published[Cell(LIBRISPEECH, 25.0, "sjf")] == Numbers(0.2963, 1.4868, 16.4053)
    assert published[Cell(SYNTHETIC, 15.0, "hrrn")].latencies_s == (2.2635, 4.5201, 9.6355)


def test_librispeech_has_whisper_s_tokens() -> None:
    speech = read_speech(BENCHMARKS / "traces" / "librispeech-test-clean.csv.gz")
    assert len(speech.audio_s) == len(speech.tokens) == 2620
    kappa = sum(speech.tokens) / sum(speech.audio_s)
    assert kappa == pytest.approx(1.08 * 3.156 + 1 / 7.42, rel=0.01)


def _of(name: str, **given: object) -> set[tuple[float, int]]:
    rows = workload_of(name, SPEECH, **given).files[0]  # type: ignore[arg-type]  # by name
    jobs = [rows.job(at, at, 0, 0) for at in range(len(rows))]
    return {(job.audio_s or 0.0, job.output_tokens) for job in jobs}


def test_synthetic_tokens_are_an_utterance_s_or_in_proportion_to_the_clip() -> None:
    assert _of(LIBRISPEECH) == {(2.0, 8), (10.0, 30)}
    assert _of(SYNTHETIC, factor=2.0, power=0.0) == {
        (5.0 * i, n) for i in range(1, 7) for n in (16, 60)
    }
    longest = [n for audio_s, n in _of(SYNTHETIC, factor=2.0, power=1.0) if audio_s == 30.0]
    assert sorted(longest) == [round(16 * 30 / 17.5), round(60 * 30 / 17.5)]
    expected = {(5.0 * i, round(0.5 * 38 / 12 * 5.0 * i)) for i in range(1, 7)}
    assert _of(SYNTHETIC, factor=0.5, synthetic="seconds") == expected


def test_errors_are_of_all_three_numbers_of_each_cell() -> None:
    cells = [Cell(LIBRISPEECH, 1.0, "sjf"), Cell(LIBRISPEECH, 5.0, "sjf")]
    theirs = {cell: Numbers(1.0, 2.0, 4.0) for cell in cells}
    ours = {cells[0]: Numbers(1.0, 1.0, 8.0), cells[1]: Numbers(1.0, 2.0, 4.0)}
    errors = errors_of(ours, theirs)
    assert errors.n == 6
    assert errors.median == 0.0
    assert errors.worst == pytest.approx(math.log(2.0))


def test_one_seed_already_shows_what_sjf_does_in_overload() -> None:
    speech = read_speech(BENCHMARKS / "traces" / "librispeech-test-clean.csv.gz")
    workloads = {name: workload_of(name, speech) for name in WORKLOADS}
    cells = [Cell(LIBRISPEECH, 25.0, policy) for policy in ("fcfs", "sjf", "hrrn")]
    fcfs, sjf, hrrn = predict(cells, PROFILE, workloads, [7]).values()
    assert sjf.ttft_p50_s < 0.2 * fcfs.ttft_p50_s
    assert sjf.e2e_p90_s > 1.3 * fcfs.e2e_p90_s
    assert fcfs.ttft_p50_s > hrrn.ttft_p50_s > sjf.ttft_p50_s
    # 17.8 a second is what the paper's waits come to.
    assert fcfs.throughput_rps == pytest.approx(17.0, rel=0.1)


def test_the_objective_is_quadratic_near_and_linear_far() -> None:
    near, twice = (paper_fit.objective([x], [0.0]) for x in (0.05, 0.1))
    assert twice == pytest.approx(4.0 * near)
    far = [paper_fit.objective([x], [0.0]) for x in (1.0, 2.0, 3.0)]
    assert far[1] - far[0] == pytest.approx(far[2] - far[1]) == pytest.approx(10.0)


def test_what_one_run_leaves_to_luck_counts_less() -> None:
    assert paper_fit.objective([0.3], [0.4]) < 0.2 * paper_fit.objective([0.3], [0.0])


def test_luck_is_least_where_nobody_waits_and_most_at_the_edge() -> None:
    speech = read_speech(BENCHMARKS / "traces" / "librispeech-test-clean.csv.gz")
    workloads = {name: workload_of(name, speech) for name in WORKLOADS}
    cells = [Cell(LIBRISPEECH, rate, "fcfs") for rate in (1.0, 20.0)]
    idle, edge = np.array(spreads_of(cells, PROFILE, workloads, range(6))).reshape(2, 3)
    assert (idle < 0.05).all()
    assert (edge > 2.0 * idle).all()


def test_the_simplex_finds_the_bottom_of_a_crooked_valley() -> None:
    def valley(point: Sequence[float]) -> float:
        x, y = point
        return float((1.0 - x) ** 2 + 20.0 * (y - x * x) ** 2)

    point, value, tried = paper_fit.minimise(valley, [-1.0, 1.0], rounds=400)
    assert point == pytest.approx([1.0, 1.0], abs=0.01)
    assert value < 1e-4
    assert tried <= 405


def test_the_search_looks_at_fcfs_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: set[str] = set()

    def told(cells: dict[Cell, Numbers], profile: object, *_: object) -> dict[Cell, Numbers]:
        asked.update(cell.policy for cell in cells)
        # A world in which latency is the admission's cost and nothing else.
        cost = profile.admission_s  # type: ignore[attr-defined]  # an EngineProfile
        return dict.fromkeys(cells, Numbers(cost, cost, cost))

    monkeypatch.setattr(paper_fit, "predict", told)
    monkeypatch.setattr(paper_fit, "spreads_of", lambda cells, *_: [0.0] * 3 * len(cells))
    published = {
        Cell(LIBRISPEECH, 1.0, policy): Numbers(*[seconds] * 3)
        for policy, seconds in (("fcfs", 0.03), ("sjf", 9.0), ("hrrn", 9.0))
    }
    start = paper_fit.Start(profile=PROFILE, factor=1.5, power=0.2)
    found = paper_fit.fit(published, SPEECH, start, seeds=[0], rounds=200)
    assert asked == {"fcfs"}
    assert found.profile.admission_s == pytest.approx(0.03, rel=0.02)
    assert found.profile.slots == PROFILE.slots
    assert found.loss < 1e-3
