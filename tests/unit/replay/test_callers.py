"""Callers of several pieces: they come together and wait for the last; figures say how long."""

import json

import pytest

from estimator.cli.replay_show import tables_of
from estimator.core.observation import Completion
from estimator.replay.arrivals import Arrivals
from estimator.replay.figures import Figures, Recorder
from estimator.replay.job import NS_PER_S, Job
from estimator.replay.outcome import Finish, Outcome, Totals
from estimator.replay.profile import EngineProfile
from estimator.replay.report import document_of, replay
from estimator.replay.rows import Rows
from estimator.replay.runs import Point, Setup
from estimator.replay.workload import Workload

PROFILE = EngineProfile(name="x", slots=2, step_s=0.1, admission_s=0.5, request_overhead_s=1.0)


def outcome(
    group_id: str, arrival_s: float, finished_s: float, finish: Finish = "stop"
) -> Outcome:
    job = Job(0, round(arrival_s * NS_PER_S), 5, audio_s=2.0, group_id=group_id)
    end_ns = round(finished_s * NS_PER_S)
    return Outcome(job, job.arrival_ns, end_ns, end_ns, 5, 0, 1.0, 5.0, 1.0, finish)


def figures_of(*outcomes: Outcome) -> Figures:
    recorder = Recorder(PROFILE)
    for one in outcomes:
        recorder(one)
    return recorder.figures(Totals(**dict.fromkeys(Totals._fields, 0)))


def test_a_caller_waits_from_its_first_arrival_to_its_last_end() -> None:
    figures = figures_of(
        outcome("f", 10.0, 13.0), outcome("", 10.0, 11.0), outcome("f", 10.5, 12.0)
    )
    assert figures.group_s is not None
    assert figures.caller_s is not None
    # The second outside the engine counts once.
    assert figures.group_s.mean == pytest.approx(4.0)
    assert figures.caller_s.mean == pytest.approx((4.0 + 2.0) / 2)
    assert (figures.group_count, figures.n) == (1, 3)
    assert figures.e2e_s.mean == pytest.approx((4.0 + 2.0 + 2.5) / 3)


def test_a_file_whose_caller_left_is_not_counted_and_its_pieces_are_nobodys() -> None:
    figures = figures_of(
        outcome("f", 10.0, 13.0), outcome("f", 10.0, 11.0, "aborted"),
        outcome("g", 0.0, 1.0), outcome("g", 0.0, 2.0),
    )  # fmt: skip
    assert figures.group_s is not None
    assert figures.caller_s is not None
    assert figures.group_s.mean == figures.caller_s.mean == pytest.approx(3.0)
    assert figures.group_count == 1


def test_a_file_of_one_piece_is_a_caller_and_no_group() -> None:
    assert figures_of(outcome("f", 10.0, 13.0)).group_s is None
    figures = figures_of(outcome("f", 10.0, 13.0), outcome("g", 0.0, 1.0), outcome("g", 0.0, 2.0))
    assert figures.caller_s is not None
    assert figures.caller_s.mean == pytest.approx(3.5)
    assert figures.group_count == 1


def test_without_groups_there_is_nothing_to_tell() -> None:
    figures = figures_of(outcome("", 10.0, 13.0))
    assert (figures.caller_s, figures.group_s, figures.group_count) == (None, None, 0)


def rows_of(name: str, groups: list[str], *, aborted: bool = False) -> Rows:
    rows = Rows(name)
    for index, group_id in enumerate(groups):
        rows.append(
            Completion(
                completion_id="x",
                audio_s=9.0,
                output_tokens=30 + index,
                group_id=group_id,
                finish_reason="aborted" if aborted else "stop",
                wait_s=2.0 if aborted else 0.0,
            ),
            arrival_s=float(index),
        )
    return rows


def jobs_of(workload: Workload, rate_rps: float | None = 10.0) -> list[Job]:
    arrivals = Arrivals(kind="poisson" if rate_rps else "trace")
    return list(workload.jobs(arrivals, rate_rps=rate_rps, seed=3))


def test_pieces_that_follow_one_another_come_at_the_time_of_the_first() -> None:
    alone = jobs_of(Workload(files=(rows_of("a", [""] * 6),), n=6))
    jobs = jobs_of(Workload(files=(rows_of("a", ["", "f", "f", "f", "g", ""]),), n=6))
    times = [job.arrival_ns for job in alone]
    assert [job.arrival_ns for job in jobs] == [
        times[0], times[1], times[1], times[1], times[4], times[5]
    ]  # fmt: skip
    assert [job.group_id for job in jobs] == ["", "f", "f", "f", "g", ""]
    assert [job.index for job in jobs] == list(range(6))


def test_a_piece_behind_another_request_comes_at_its_own_time() -> None:
    jobs = jobs_of(Workload(files=(rows_of("a", ["f", "", "f"]),), n=3))
    times = [job.arrival_ns for job in jobs]
    assert times == sorted(times)
    assert len(set(times)) == 3


def test_who_leaves_leaves_as_long_after_coming() -> None:
    jobs = jobs_of(Workload(files=(rows_of("a", ["f", "f"], aborted=True),), n=2))
    assert jobs[0].arrival_ns == jobs[1].arrival_ns
    assert {(job.abort_ns or 0) - job.arrival_ns for job in jobs} == {2 * NS_PER_S}


def test_a_row_that_is_drawn_is_on_its_own() -> None:
    jobs = jobs_of(Workload(files=(rows_of("a", ["f", "f", "g"]),), n=9))
    assert {job.group_id for job in jobs} == {""}
    assert len({job.arrival_ns for job in jobs}) == 9


def test_groups_of_two_traces_are_never_one() -> None:
    jobs = jobs_of(Workload(files=(rows_of("a", ["f", "f"]), rows_of("b", ["f", "f"])), n=4))
    assert [job.group_id for job in jobs] == ["0/f", "0/f", "1/f", "1/f"]


def test_a_trace_at_its_own_times_keeps_them() -> None:
    jobs = jobs_of(Workload(files=(rows_of("a", ["f", "f", ""]),), n=3, timed=True), None)
    assert [(job.arrival_ns, job.group_id) for job in jobs] == [
        (0, "f"), (NS_PER_S, "f"), (2 * NS_PER_S, "")
    ]  # fmt: skip


def document(groups: list[str]) -> dict[str, object]:
    setup = Setup(
        profile=PROFILE,
        workload=Workload(files=(rows_of("a", groups),), n=len(groups)),
        estimates="true",
    )
    runs = replay(setup, policies=["fcfs", "sjf"], points=[Point(2.0, 1.0)], seeds=[0, 1])
    return document_of(runs, setup, 2.0)


def test_a_replay_tells_what_callers_waited_where_there_are_files() -> None:
    found = document([*["f"] * 8, *[""] * 8, *["g"] * 8, *[""] * 8])
    summary = found["summary"]
    assert isinstance(summary, list)
    for one in summary:
        assert one["group_count"] == 2
        assert one["group_s"]["p50"] > one["e2e_s"]["p50"] > 0.0
        assert {"caller_s_mean", "group_s_p99"} < set(one["percent_against_fcfs"])
    ((_, rows),) = tables_of(found)
    assert [row[0] for row in rows if "answer" in str(row[0])] == [
        f"last answer {part} s" for part in ("p50", "p90", "p99", "mean")
    ]
    json.dumps(found, allow_nan=False)


def test_a_replay_without_files_is_silent_about_them() -> None:
    found = document([""] * 20)
    summary = found["summary"]
    assert isinstance(summary, list)
    assert {(one["group_s"], one["caller_s"], one["group_count"]) for one in summary} == {
        (None, None, 0)
    }
    ((_, rows),) = tables_of(found)
    assert not [row for row in rows if "answer" in str(row[0])]
