"""Every policy sees the same requests; the document says what came of it, and charts show it."""

import json
import xml.etree.ElementTree as ET
from dataclasses import replace

import pytest

from estimator.core.observation import Completion
from estimator.replay.arrivals import Arrivals
from estimator.replay.plot import html_of, svg_of
from estimator.replay.profile import EngineProfile
from estimator.replay.report import document_of, replay, with_baseline
from estimator.replay.rows import Rows, uniform_rows
from estimator.replay.runs import Point, Run, Setup, capacity_rps, run_once
from estimator.replay.workload import Workload

PROFILE = EngineProfile(name="small", slots=4, step_s=0.01, admission_s=0.02)
SETUP = Setup(profile=PROFILE, workload=Workload(files=(uniform_rows(),), n=150), estimates="true")
SVG = "{http://www.w3.org/2000/svg}"


def runs_of(seeds: range = range(2), *, keep_curves: bool = False) -> list[Run]:
    capacity = capacity_rps(PROFILE, SETUP.workload, 0)
    points = [Point(load * capacity, load) for load in (0.6, 1.3)]
    policies = with_baseline(["sjf", "hrrn"])
    return replay(SETUP, policies=policies, points=points, seeds=seeds, keep_curves=keep_curves)


@pytest.fixture(scope="module")
def runs() -> list[Run]:
    return runs_of(keep_curves=True)


def test_the_document_has_the_keys_of_the_design(runs: list[Run]) -> None:
    document = document_of(runs, SETUP, 7.0)
    assert document["engine"] == "small"
    assert len(document["runs"]) == 2 * 2 * 3
    for run in document["runs"]:
        assert set(run) >= {
            "policy", "rate_rps", "load", "seed", "n", "ttft_s", "e2e_s", "max_wait_s",
            "throughput_rps", "slowdown_p99",
        }  # fmt: skip
        assert set(run["ttft_s"]) == set(run["e2e_s"]) == {"p50", "p90", "p99", "mean"}
    assert [(one["policy"], one["load"]) for one in document["summary"]] == [
        (policy, load) for load in (0.6, 1.3) for policy in ("fcfs", "sjf", "hrrn")
    ]
    json.dumps(document, allow_nan=False)


def test_the_summary_is_the_mean_over_the_seeds_and_the_paired_change(runs: list[Run]) -> None:
    document = document_of(runs, SETUP, 7.0)
    sjf = next(one for one in document["summary"] if (one["policy"], one["load"]) == ("sjf", 1.3))
    of = {
        policy: [
            one["e2e_s"]["p50"]
            for one in document["runs"]
            if (one["policy"], one["load"]) == (policy, 1.3)
        ]
        for policy in ("fcfs", "sjf")
    }
    assert sjf["seed_count"] == 2
    assert sjf["e2e_s"]["p50"] == pytest.approx(sum(of["sjf"]) / 2)
    change = sjf["percent_against_fcfs"]["e2e_s_p50"]
    ratios = [ours / theirs for ours, theirs in zip(of["sjf"], of["fcfs"], strict=True)]
    assert change["percent"] == pytest.approx(100 * ((ratios[0] * ratios[1]) ** 0.5 - 1))
    assert change["low"] < change["percent"] < change["high"]
    # Overloaded, and lengths known: the median gains.
    assert change["percent"] < -10


def test_the_baseline_is_what_it_is_compared_with(runs: list[Run]) -> None:
    baseline = document_of(runs, SETUP, 7.0)["summary"][0]
    assert baseline["policy"] == "fcfs"
    assert {one["percent"] for one in baseline["percent_against_fcfs"].values()} <= {0.0, None}


def test_the_same_seed_gives_the_same_document(runs: list[Run]) -> None:
    again = document_of(runs_of(), SETUP, 7.0)
    assert json.dumps(document_of(runs, SETUP, 7.0)) == json.dumps(again)


def test_another_seed_gives_other_runs() -> None:
    one, other = (run_once(SETUP, "fcfs", Point(5.0, 1.0), seed).figures for seed in (0, 1))
    assert one != other


def test_policies_of_a_seed_serve_the_same_work(runs: list[Run]) -> None:
    # A conservation law: whatever the order, the engine makes about as many steps.
    by_seed = [run for run in runs if (run.seed, run.point.load) == (1, 1.3)]
    rates = [run.figures.throughput_rps for run in by_seed]
    assert max(rates) / min(rates) < 1.05
    assert {run.figures.n for run in by_seed} == {150}


def test_every_request_is_counted_as_it_ends() -> None:
    counted = 0

    def on_request() -> None:
        nonlocal counted
        counted += 1

    replay(SETUP, policies=["fcfs"], points=[Point(3.0, 0.5)], seeds=[0], on_request=on_request)
    assert counted == 150


@pytest.mark.parametrize("kind", ["gamma", "diurnal", "bursts"])
def test_other_arrivals_are_replayed_too(kind: str) -> None:
    setup = replace(SETUP, arrivals=Arrivals(kind=kind))  # type: ignore[arg-type]  # a kind
    assert run_once(setup, "hrrn", Point(4.0, 0.9), 0).figures.n == 150


def test_a_chart_is_an_svg_of_a_line_for_each_policy_in_both_halves(runs: list[Run]) -> None:
    root = ET.fromstring(svg_of(runs))  # noqa: S314 - our own text
    assert root.tag == f"{SVG}svg"
    lines = root.findall(f"{SVG}polyline")
    assert len(lines) == 2 * 2 * 3
    width, height = float(root.attrib["width"]), float(root.attrib["height"])
    for line in lines:
        for pair in line.attrib["points"].split():
            x, y = map(float, pair.split(","))
            assert 0 <= x <= width
            assert 0 <= y <= height
    texts = [text.text for text in root.findall(f"{SVG}text")]
    assert {"fcfs", "sjf", "hrrn", "E2E, s", "arrival, s"} <= set(texts)


def test_the_line_of_a_distribution_never_falls(runs: list[Run]) -> None:
    root = ET.fromstring(svg_of(runs))  # noqa: S314 - our own text
    first = root.findall(f"{SVG}polyline")[0].attrib["points"].split()
    xs, ys = zip(*(map(float, pair.split(",")) for pair in first), strict=True)
    assert list(xs) == sorted(xs)
    assert list(ys) == sorted(ys, reverse=True)


def test_a_chart_of_one_request_can_be_drawn() -> None:
    setup = replace(SETUP, workload=Workload(files=(uniform_rows(),), n=1))
    run = run_once(setup, "fcfs", Point(1.0, 0.1), 0, keep_curves=True)
    chart = svg_of([run])
    assert chart.count("<polyline") == 2
    # Over time it is one point; of both charts the axes tell where it is.
    assert chart.count("<circle") == 1
    texts = [text.text for text in ET.fromstring(chart).findall(f"{SVG}text")]  # noqa: S314 - ours
    assert len(set(texts)) > 15


def test_requests_that_all_take_as_long_have_an_axis_too() -> None:
    rows = Rows("alike")
    rows.append(Completion(completion_id="x", audio_s=1.0, output_tokens=20))
    setup = replace(SETUP, workload=Workload(files=(rows,), n=100))
    # Hours apart, so that they differ in nothing and times are large.
    run = run_once(setup, "fcfs", Point(1e-4, 0.1), 0, keep_curves=True)
    assert run.figures.e2e_s.p50 == run.figures.e2e_s.p99
    root = ET.fromstring(svg_of([run]))  # noqa: S314 - our own text
    texts = [text.text or "" for text in root.findall(f"{SVG}text")]
    under = texts.index("E2E, s")
    ticks = [float(text) for text in texts[texts.index("1") + 1 : under]]
    assert ticks[0] < run.figures.e2e_s.p50 < ticks[-1]
    assert any("00,000" in text for text in texts)
    assert not any("e+" in text for text in texts)


def test_a_page_holds_chart_and_tables_and_escapes_what_it_is_told(runs: list[Run]) -> None:
    page = html_of(runs, heading=["a<b>.csv"], tables=[(["x", "y"], [["<i>", 1.23456]])])
    assert "<svg" in page
    assert "a&lt;b&gt;.csv" in page
    assert "<td>&lt;i&gt;</td><td>1.235</td>" in page
    # Nothing is fetched from anywhere.
    assert "src=" not in page
    assert "href=" not in page


def test_runs_without_curves_cannot_be_drawn() -> None:
    with pytest.raises(ValueError, match="keep_curves"):
        svg_of([run_once(SETUP, "fcfs", Point(1.0, 0.1), 0)])
