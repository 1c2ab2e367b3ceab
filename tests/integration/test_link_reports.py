"""Reports against a real server: batches, retries, refusals, bounds, and the kill switch."""

import logging
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import grpc
import pytest
from google.protobuf.any_pb2 import Any as AnyMessage
from google.protobuf.duration_pb2 import Duration

from protos.kappad.estimator.v1 import estimator_pb2 as pb
from sched_client.completion import EngineStatus, RunningReport
from tests.support.scripted_sidecar import (
    BOOT_ID,
    FAST,
    ScriptedSidecar,
    make_report,
    short_folder,
    started_link,
    wait_until,
)


@pytest.fixture
def folder() -> Iterator[Path]:
    with short_folder() as path:
        yield path


@pytest.fixture
def sidecar(folder: Path) -> Iterator[ScriptedSidecar]:
    with ScriptedSidecar(f"unix://{folder}/s") as server:
        yield server


def _ids(count: int, first: int = 0) -> set[str]:
    return {f"{BOOT_ID}-{number}" for number in range(first, first + count)}


def test_reports_leave_in_bounded_batches_with_the_engines_status(
    sidecar: ScriptedSidecar,
) -> None:
    with started_link(sidecar.target) as link:
        link.status = EngineStatus("on", "as asked", "hrrn", 3, 2, 40, 9, 1)
        for number in range(600):
            link.report(make_report(number, request_id=f"caller-{number}", group_id="file-7"))
        wait_until(lambda: len(sidecar.completion_ids) >= 600, "600 completions")
    assert Counter(sidecar.completion_ids) == dict.fromkeys(_ids(600), 1)
    assert max(len(report.completions) for report in sidecar.reports) == 256
    told = next(report.client for report in sidecar.reports if report.client.policy == "hrrn")
    assert (told.client_id, told.model_id, told.engine_version) == (
        "pod/0/boot",
        "whisper",
        "0.32.0",
    )
    assert (told.effective_mode, told.mode_reason) == (pb.MODE_ON, "as asked")
    assert (told.waiting_count, told.running_count, told.admitted_count) == (3, 2, 40)
    assert (told.reordered_count, told.failure_count, told.dropped_report_count) == (9, 1, 0)


def test_callers_ids_leave_only_as_hashes(sidecar: ScriptedSidecar) -> None:
    with started_link(sidecar.target) as link:
        link.report(make_report(1, request_id="patient-name", group_id="secret-file"))
        link.report(make_report(2, request_id="patient-name-2", group_id="secret-file"))
        wait_until(lambda: len(sidecar.completion_ids) == 2, "two completions")
    rows = [row for report in sidecar.reports for row in report.completions]
    assert rows[0].group_id == rows[1].group_id
    assert rows[0].request_hash != rows[1].request_hash
    assert all(len(row.request_hash) == 32 and len(row.group_id) == 32 for row in rows)
    sent = b"".join(report.SerializeToString() for report in sidecar.reports)
    assert b"patient" not in sent
    assert b"secret" not in sent


def test_an_idle_client_gives_signs_of_life(sidecar: ScriptedSidecar) -> None:
    with started_link(sidecar.target, replace(FAST, sign_of_life_s=0.1)) as link:
        wait_until(lambda: len(sidecar.reports) >= 3, "three empty reports")
        wait_until(lambda: sidecar.reports[-1].client.applied_version == 1, "the version applied")
        assert link.snapshot.version == 1
    assert not sidecar.completion_ids


def test_a_failed_batch_is_sent_again_with_the_same_ids_and_none_is_lost(
    sidecar: ScriptedSidecar,
) -> None:
    stored: set[str] = set()
    answers = iter(range(1000))

    def flaky(request: pb.ReportCompletionsRequest, context: Any) -> pb.ReportCompletionsResponse:
        # Any: the types of contexts lack abort(). Every second answer is lost after the commit.
        stored.update(row.completion_id for row in request.completions)
        if next(answers) % 2 == 0:
            context.abort(grpc.StatusCode.UNAVAILABLE, "lost on the way")
        return pb.ReportCompletionsResponse(accepted_count=len(request.completions))

    sidecar.on_report = flaky
    with started_link(sidecar.target, replace(FAST, batch_size=10)) as link:
        for number in range(100):
            link.report(make_report(number))
        wait_until(lambda: len(stored) == 100, "all stored")
    assert stored == _ids(100)
    assert len(sidecar.completion_ids) > 100, "some were sent twice, under the same ids"


def test_reports_survive_a_restart_of_the_sidecar(folder: Path) -> None:
    target = f"unix://{folder}/s"
    with started_link(target) as link:
        with ScriptedSidecar(target) as first:
            link.report(make_report(0))
            wait_until(lambda: first.completion_ids, "the first report")
        for number in range(1, 300):
            link.report(make_report(number))
        time.sleep(0.2)
        with ScriptedSidecar(target) as second:
            wait_until(lambda: len(second.completion_ids) >= 299, "the others")
            assert set(second.completion_ids) == _ids(299, first=1)


def test_the_buffer_is_bounded_and_drops_the_oldest_counted(folder: Path) -> None:
    target = f"unix://{folder}/s"
    with started_link(target, replace(FAST, buffer_size=50, batch_size=8)) as link:
        wait_until(lambda: link.failures == 0 and not link.kill_switch, "started")
        for number in range(1000):
            link.report(make_report(number))
        with ScriptedSidecar(target) as sidecar:
            wait_until(lambda: f"{BOOT_ID}-999" in sidecar.completion_ids, "the newest")
            wait_until(lambda: sidecar.reports[-1].client.dropped_report_count, "the count")
            kept = len(set(sidecar.completion_ids))
            assert kept <= 58
            assert sidecar.reports[-1].client.dropped_report_count == 1000 - kept


def test_a_full_sidecar_is_given_the_time_that_it_asks_for(sidecar: ScriptedSidecar) -> None:
    came_s: list[float] = []

    def full(request: pb.ReportCompletionsRequest, context: Any) -> pb.ReportCompletionsResponse:
        # Any: as above.
        came_s.append(time.monotonic())
        if len(came_s) == 1:
            detail = AnyMessage(
                type_url="type.googleapis.com/google.rpc.RetryInfo",
                value=b"\x0a" + _prefixed(Duration(nanos=400_000_000).SerializeToString()),
            )
            status = b"\x08\x08\x1a" + _prefixed(detail.SerializeToString())
            context.set_trailing_metadata((("grpc-status-details-bin", status),))
            context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, "queue full")
        return pb.ReportCompletionsResponse(accepted_count=len(request.completions))

    sidecar.on_report = full
    with started_link(sidecar.target) as link:
        link.report(make_report(1))
        wait_until(lambda: len(came_s) >= 2, "the second attempt")
    assert came_s[1] - came_s[0] >= 0.4
    assert f"{BOOT_ID}-1" in sidecar.completion_ids


def _prefixed(data: bytes) -> bytes:
    assert len(data) < 128
    return bytes([len(data)]) + data


def test_a_batch_that_the_sidecar_calls_invalid_is_dropped_counted_and_logged_once(
    sidecar: ScriptedSidecar, caplog: pytest.LogCaptureFixture
) -> None:
    def picky(request: pb.ReportCompletionsRequest, context: Any) -> pb.ReportCompletionsResponse:
        if any(row.completion_id.endswith(("-1", "-2")) for row in request.completions):
            context.abort(grpc.StatusCode.INVALID_ARGUMENT, "not these")
        return pb.ReportCompletionsResponse(accepted_count=len(request.completions))

    sidecar.on_report = picky
    with started_link(sidecar.target, replace(FAST, batch_size=1)) as link:
        for number in (1, 2, 3):
            link.report(make_report(number))
        wait_until(lambda: f"{BOOT_ID}-3" in sidecar.completion_ids, "the third")
        wait_until(lambda: sidecar.reports[-1].client.dropped_report_count == 2, "the count")
    assert Counter(sidecar.completion_ids) == dict.fromkeys(_ids(3, first=1), 1)
    assert sum("not these" in record.getMessage() for record in caplog.records) == 1


def test_a_report_that_is_no_message_is_dropped_and_the_others_leave(
    sidecar: ScriptedSidecar, caplog: pytest.LogCaptureFixture
) -> None:
    with started_link(sidecar.target) as link:
        link.report(make_report(1, snapshot_version=2**70))
        link.report(make_report(2, request_type="\ud800", request_id="\udfff"))
        link.report(make_report(3, request_type="x" * 1000))
        wait_until(lambda: len(sidecar.completion_ids) == 2, "the others")
        assert set(sidecar.completion_ids) == _ids(2, first=2)
        assert link.failures == 1
    assert sum("no message" in record.getMessage() for record in caplog.records) == 1


def test_a_slow_sidecar_is_cut_off_at_the_deadline_and_asked_again(
    sidecar: ScriptedSidecar,
) -> None:
    def slow(request: pb.ReportCompletionsRequest, context: Any) -> pb.ReportCompletionsResponse:
        if len(sidecar.reports) == 1:
            time.sleep(0.5)
        return pb.ReportCompletionsResponse(accepted_count=len(request.completions))

    sidecar.on_report = slow
    with started_link(sidecar.target, replace(FAST, deadline_s=0.2)) as link:
        link.report(make_report(1))
        wait_until(lambda: len(sidecar.reports) >= 2, "another attempt", timeout_s=2.0)
        wait_until(lambda: link.snapshot.version == 1, "the watch, beside it")


def test_reporting_takes_microseconds_whatever_the_sidecar_does(folder: Path) -> None:
    with started_link(f"unix://{folder}/nobody") as link:
        report = make_report(1)
        took_ns = []
        for _ in range(20_000):
            begun_ns = time.thread_time_ns()
            link.report(report)
            took_ns.append(time.thread_time_ns() - begun_ns)
        assert sorted(took_ns)[len(took_ns) // 2] < 20_000


class _Runs:
    """One request."""

    def read(self, most: int) -> Iterator[RunningReport]:
        assert most
        yield RunningReport(make_report(0).features, 7, "runs")


def test_what_runs_is_not_told_while_closing_which_has_no_time_for_it(
    sidecar: ScriptedSidecar,
) -> None:
    with started_link(sidecar.target, replace(FAST, flush_s=30.0, sign_of_life_s=60.0)) as link:
        wait_until(lambda: sidecar.reports, "the first sign of life")
        link.running = _Runs()
        link.report(make_report(0))
    assert sidecar.completion_ids
    assert not any(report.running for report in sidecar.reports)


class _Changed:
    """What runs, in a vLLM whose requests have lost what is read of them."""

    def read(self, most: int) -> Iterator[RunningReport]:
        raise AttributeError(f"no tokens of {most} requests")


def test_what_runs_costs_no_completion_when_it_cannot_be_read(sidecar: ScriptedSidecar) -> None:
    with started_link(sidecar.target) as link:
        link.running = _Changed()
        link.report(make_report(0))
        wait_until(lambda: sidecar.completion_ids, "the completion")
        assert link.failures


def test_closing_sends_what_is_left(sidecar: ScriptedSidecar) -> None:
    with started_link(sidecar.target, replace(FAST, flush_s=30.0, sign_of_life_s=60.0)) as link:
        wait_until(lambda: sidecar.reports, "the first sign of life")
        for number in range(700):
            link.report(make_report(number))
    assert set(sidecar.completion_ids) == _ids(700)


def test_the_kill_switch_is_seen_with_no_sidecar_and_told_once(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "kappad")
    default = replace(FAST, poll_s=0.5)
    with started_link(f"unix://{folder}/kappad.sock", default) as link:
        (folder / "off").touch()
        wait_until(lambda: link.kill_switch, "the switch on", timeout_s=2.0)
        time.sleep(0.6)
        (folder / "off").unlink()
        wait_until(lambda: not link.kill_switch, "the switch off", timeout_s=2.0)
    told = [r.getMessage() for r in caplog.records if "kill switch" in r.getMessage()]
    assert [line.rsplit(" ", 1)[1] for line in told] == ["found", "gone"]
