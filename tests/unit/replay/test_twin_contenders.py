"""The benchmark's frontier, its cuts, and its contenders under fcfs's own conditions."""

import pytest

from benchmarks.run import judged
from benchmarks.twin import queues
from benchmarks.twin.contenders import (
    HALVES,
    SJF,
    VLLM,
    Contender,
    cut,
    guarded,
    run,
    works_of,
)
from benchmarks.twin.frontier import Point, best, drawing
from benchmarks.twin.material import SPEECH, engine, scene
from benchmarks.twin.text_classes import by_file, by_work
from benchmarks.twin.text_mixes import ewsjf_workload
from sched_client.model import Settings


def point(name: str, p50: float, wait: float) -> Point:
    return Point("curve", name, {"e2e_s_p50": p50, "max_wait_s": wait})


def test_the_frontier_is_who_nobody_beats_in_both() -> None:
    points = [
        point("low", -70.0, 40.0),
        point("short", -20.0, 10.0),
        point("beaten", -60.0, 45.0),
        point("equal in one", -70.0, 41.0),
    ]
    assert best(points) == {("curve", "low"), ("curve", "short")}


def test_points_beyond_the_edge_are_not_drawn() -> None:
    curves = ("a", "b", "c", "d", "e", "f", "g", "h")
    points = [Point(name, "x", {"e2e_s_p50": -50.0, "max_wait_s": 30.0}) for name in curves]
    points.append(Point("a", "far out", {"e2e_s_p50": -90.0, "max_wait_s": 500.0}))
    svg = drawing(points, "title")
    # One for each curve in the plot and one in the legend.
    assert svg.count("<circle") == 16
    assert "far out" not in svg


def test_a_cut_is_a_quantile_of_work_that_no_run_has() -> None:
    at = scene(engine("decode-bound"), SPEECH, 1.2, 3_000)
    partition = cut(at, "duration", (0.25, 0.5))
    works = works_of(at, "duration", at.jobs(7))
    shares = [(works <= bound).mean() for bound in partition.boundaries_s]
    assert shares == pytest.approx([0.25, 0.5], abs=0.03)
    assert partition.means_s == tuple(sorted(partition.means_s))


def test_a_tail_that_is_not_known_keeps_no_promise() -> None:
    found: dict[str, float | None] = dict.fromkeys(queues.METRICS, -5.0)
    line = queues._line({HALVES.name: found | {"e2e_s_p99": None}}, HALVES)
    assert (line["p50_percent"], line["tail_percent"]) == (-5.0, None)
    assert judged(("tail", "tail_percent", "<=", 36.0), line).endswith("| **no** |")


def test_production_is_the_contender_in_halves() -> None:
    default = Settings()
    assert (default.policy, default.between) == (HALVES.policy, HALVES.settings.between)
    assert HALVES.settings == default


@pytest.mark.parametrize("one", [HALVES, SJF, VLLM], ids=lambda one: one.name)
def test_a_guard_that_allows_nothing_makes_all_first_come_first_served(one: Contender) -> None:
    at = scene(engine("decode-bound"), SPEECH, 1.2, 300)
    jobs = at.jobs(1)
    strict = one._replace(settings=guarded(0.0, 0.0, between=one.settings.between))
    assert run(at, jobs, strict, "duration", 1) == at.fcfs(jobs)


def test_the_short_four_fifths_of_ewsjf_are_those_of_the_first_file() -> None:
    jobs = ewsjf_workload(2_000).jobs(1)
    short, long = by_file(jobs)
    prompts = [job.prompt_tokens for job in jobs]
    assert short.mean() == pytest.approx(0.8, abs=0.04)
    assert max(p for p, one in zip(prompts, short, strict=True) if one) <= 256
    assert min(p for p, one in zip(prompts, long, strict=True) if one) >= 1_024
    half, fifth = by_work(jobs)
    assert half.mean() == pytest.approx(0.5, abs=0.02)
    assert fifth.mean() == pytest.approx(0.2, abs=0.02)
