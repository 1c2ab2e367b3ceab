"""What happens to requests besides being admitted: reports, preemption, aborts, sessions."""

from collections.abc import Callable
from typing import Any

import pytest
from vllm.pooling_params import PoolingParams
from vllm.sampling_params import SamplingParams, StructuredOutputsParams
from vllm.v1.request import Request, RequestStatus

from sched_client.options import ClientOptions
from tests.vllm_inprocess.engine import (
    ENGLISH_PROMPT,
    audio_feature,
    clip_lengths,
    make_request,
    mel,
)


def test_a_report_says_what_happened(start: Callable[..., Any]) -> None:
    driver, link = start("on", max_num_seqs=2, length=lambda _: 4)
    for index in range(3):
        driver.scheduler.add_request(make_request(f"r{index}", 2.0 + index, priority=0))
    driver.run()
    reports = {report.request_id: report for report in link.reports}
    assert [report.counter for report in link.reports] == [1, 2, 3]
    third = reports["r2"]
    # Two run for four steps of 0.05 s; the third is alone afterwards.
    assert third.wait_s == pytest.approx(0.2)
    assert third.service_s == pytest.approx(0.2)
    assert third.concurrency == pytest.approx(1.0)
    assert reports["r0"].concurrency == pytest.approx(2.0)
    assert (third.output_tokens, third.finish_reason) == (4, "stop")
    assert third.features.language == "en"
    assert third.features.audio_s == pytest.approx(4.0)
    assert third.features.model == "whisper-test"
    assert third.predicted_tokens == pytest.approx(3.2 * 4.0)
    assert third.queue_id == "q0"


@pytest.mark.parametrize("mode", ["on", "shadow"])
def test_what_runs_is_told_with_its_tokens_so_far(start: Callable[..., Any], mode: str) -> None:
    driver, link = start(mode, max_num_seqs=2, length=lambda _: 6)
    for index in range(3):
        driver.scheduler.add_request(make_request(f"r{index}", 2.0 + index))
    for _ in range(4):
        driver.step()
    told = {one.request_id: one for one in link.running.read(256)}
    assert told.keys() == {"r0", "r1"}
    requests = driver.scheduler.requests
    assert all(one.output_tokens == requests[name].num_output_tokens for name, one in told.items())
    assert all(0 < one.output_tokens < 6 for one in told.values())
    assert told["r1"].features.audio_s == pytest.approx(3.0)
    assert told["r1"].started_s > 0.0
    driver.run()
    assert list(link.running.read(256)) == []


def test_a_length_finish_is_reported_as_such(start: Callable[..., Any]) -> None:
    driver, link = start("on", length=lambda _: 99)
    driver.scheduler.add_request(make_request("r0", 5.0, max_tokens=7))
    driver.run()
    (report,) = link.reports
    assert (report.finish_reason, report.output_tokens) == ("length", 7)
    assert report.features.max_tokens == 7


def test_aborts_of_waiting_and_running_are_reported(start: Callable[..., Any]) -> None:
    driver, link = start("on", max_num_seqs=1, length=lambda _: 20)
    driver.scheduler.add_request(make_request("running", 2.0))
    driver.scheduler.add_request(make_request("waiting", 5.0))
    driver.scheduler.add_request(make_request("last", 9.0))
    for _ in range(3):
        driver.step()
    driver.abort("running", "waiting", "absent")
    reports = {report.request_id: report for report in link.reports}
    assert {name: r.finish_reason for name, r in reports.items()} == {
        "running": "aborted",
        "waiting": "aborted",
    }
    assert reports["waiting"].service_s == 0.0
    assert reports["waiting"].concurrency == 0.0
    assert reports["waiting"].wait_s == pytest.approx(0.15)
    assert reports["running"].service_s == pytest.approx(0.15)
    driver.run()
    assert driver.admitted == ["running", "last"]
    assert not driver.scheduler._kappad.tracker.records


@pytest.mark.parametrize("mode", ["off", "shadow", "on"])
def test_preempted_requests_come_back_first(start: Callable[..., Any], mode: str) -> None:
    # Room for the encoder's blocks of four, but not for the text of all.
    driver, link = start(mode, "sjf", max_num_seqs=4, blocks=94 * 4 + 16, length=lambda _: 120)
    for index, seconds in enumerate(clip_lengths(40)):
        driver.scheduler.add_request(make_request(f"r{index}", seconds))
    resumed_first = 0
    while driver.scheduler.has_requests():
        preempted = [
            r.request_id for r in driver.scheduler.waiting if r.status == RequestStatus.PREEMPTED
        ]
        before = {r.request_id for r in driver.scheduler.running}
        driver.step()
        entered = {r.request_id for r in driver.scheduler.running} - before
        if preempted and entered:
            assert entered & set(preempted)
            resumed_first += 1
    assert driver.preempted > 0
    assert resumed_first > 0
    assert sorted(driver.finished) == sorted(f"r{i}" for i in range(40))
    if mode != "off":
        assert sum(report.preemptions for report in link.reports) == driver.preempted
    assert link.status.failures == 0


def test_detection_requests_and_beam_steps_are_ranked_as_short_and_marked(
    start: Callable[..., Any],
) -> None:
    driver, link = start("on", max_num_seqs=1, length=lambda _: 1)
    driver.scheduler.add_request(make_request("plain", 1.5, max_tokens=400))
    driver.scheduler.add_request(make_request("x-beam-0", 29.0, max_tokens=1))
    detection = make_request("y-lang_detect-1", 29.0, prompt=[50258], max_tokens=1)
    driver.scheduler.add_request(detection)
    driver.run()
    assert driver.admitted == ["x-beam-0", "y-lang_detect-1", "plain"]
    kinds = {report.request_id: report.features.kind for report in link.reports}
    assert kinds == {
        "plain": "transcription",
        "x-beam-0": "beam_step",
        "y-lang_detect-1": "detection",
    }


def _session_piece(seconds: float, *, last: bool = False) -> Request:
    return Request(
        request_id="session",
        prompt_token_ids=list(ENGLISH_PROMPT),
        sampling_params=SamplingParams(max_tokens=30, stop_token_ids=[50257]),
        pooling_params=None,
        mm_features=[audio_feature(mel(seconds))],
        resumable=not last,
    )


@pytest.mark.parametrize("mode", ["shadow", "on"])
def test_a_streaming_session_with_turns_while_it_runs_and_while_it_waits(
    start: Callable[..., Any], mode: str
) -> None:
    driver, link = start(mode, max_num_seqs=2, length=lambda _: 4)
    scheduler = driver.scheduler
    scheduler.add_request(make_request("other", 9.0))
    scheduler.add_request(_session_piece(2.0))
    driver.step()
    for _ in range(6):
        driver.step()
    session = scheduler.requests["session"]
    assert session.status == RequestStatus.WAITING_FOR_STREAMING_REQ
    for index, seconds in enumerate(clip_lengths(5)):
        scheduler.add_request(make_request(f"r{index}", seconds))
    for _ in range(3):
        driver.step()
    scheduler.add_request(_session_piece(3.0, last=True))
    driver.run()
    reports = {report.request_id: report for report in link.reports}
    assert reports["session"].features.kind == "session"
    assert set(driver.finished) == {"other", "session", *(f"r{i}" for i in range(5))}
    assert link.status.failures == 0
    assert not scheduler._kappad.tracker.records


@pytest.mark.parametrize("mode", ["off", "shadow", "on"])
def test_a_request_that_waits_for_its_grammar_blocks_nobody(
    start: Callable[..., Any], mode: str
) -> None:
    driver, link = start(mode, max_num_seqs=1, length=lambda _: 2)
    scheduler = driver.scheduler
    blocked = Request(
        request_id="blocked",
        prompt_token_ids=list(ENGLISH_PROMPT),
        sampling_params=SamplingParams(
            max_tokens=9,
            stop_token_ids=[50257],
            structured_outputs=StructuredOutputsParams(regex="a+"),
        ),
        pooling_params=None,
        mm_features=[audio_feature(mel(1.0))],
    )
    assert blocked.status == RequestStatus.WAITING_FOR_STRUCTURED_OUTPUT_GRAMMAR
    scheduler.add_request(blocked)
    for index in range(3):
        scheduler.add_request(make_request(f"r{index}", 4.0 + index))
    for _ in range(4):
        driver.step()
    assert driver.admitted == ["r0", "r1"]
    # The grammar never compiles here; the client leaves.
    driver.abort("blocked")
    driver.run()
    assert sorted(driver.finished) == ["r0", "r1", "r2"]
    assert link.status.failures == 0


def test_a_pooling_request_can_wait_too(start: Callable[..., Any]) -> None:
    driver, link = start("on", max_num_seqs=1)
    pooling = Request(
        request_id="pool",
        prompt_token_ids=[1, 2, 3],
        sampling_params=None,
        pooling_params=PoolingParams(),
    )
    driver.scheduler.add_request(make_request("r0", 9.0))
    driver.scheduler.add_request(pooling)
    driver.scheduler._kappad.begin_step()
    assert driver.scheduler.waiting.peek_request() is pooling
    driver.abort("pool")
    driver.run()
    kinds = {report.request_id: report.features.kind for report in link.reports}
    assert kinds == {"pool": "detection", "r0": "transcription"}
    assert link.status.failures == 0


def test_a_text_request_without_audio_runs(start: Callable[..., Any]) -> None:
    driver, link = start("on", max_num_seqs=1)
    driver.scheduler.add_request(make_request("text", None, audio=False, prompt=[1, 2, 3, 4, 5]))
    driver.run()
    (report,) = link.reports
    assert (report.features.kind, report.features.task) == ("text", "text")
    assert report.features.prompt_tokens == 5


def test_pieces_of_one_file_share_a_group(start: Callable[..., Any]) -> None:
    driver, link = start("on", max_num_seqs=1)
    add = driver.scheduler.add_request
    for piece in range(3):
        add(make_request(f"transcribe-job-{piece}-0123abcd", 9.0, arrival_time=5.25))
    # A caller's own number at the end of its id, and nobody else of that time.
    add(make_request("transcribe-job-17-0123abcd", 9.0, arrival_time=6.5))
    add(make_request("transcribe-lone-0-0123abcd", 9.0, arrival_time=5.25))
    driver.run()
    groups = {report.request_id: report.group_id for report in link.reports}
    # The first is taken before the second arrives, yet all three had by its end.
    assert {groups[f"transcribe-job-{piece}-0123abcd"] for piece in range(3)} == {
        "transcribe-job@5.25"
    }
    assert groups["transcribe-job-17-0123abcd"] == ""
    assert groups["transcribe-lone-0-0123abcd"] == ""


def test_priority_of_vllm_goes_first_in_its_priority_mode(start: Callable[..., Any]) -> None:
    driver, _ = start("on", vllm_policy="priority", max_num_seqs=1)
    for index, (seconds, priority) in enumerate([(1.0, 5), (9.0, 0), (5.0, 0), (2.0, 5)]):
        driver.scheduler.add_request(make_request(f"r{index}", seconds, priority=priority))
    driver.run()
    assert driver.admitted == ["r2", "r1", "r0", "r3"]


@pytest.mark.parametrize("policy", ["sjf", "hrrn", "ewsjf"])
@pytest.mark.parametrize("trust", [True, False])
def test_a_tier_is_a_hint_that_must_be_trusted(
    start: Callable[..., Any], policy: str, trust: bool
) -> None:
    options = ClientOptions(trust_hints=trust)
    driver, link = start("on", policy, options=options, max_num_seqs=1, between="shortest")
    for index, (seconds, tier) in enumerate([(2.0, "free"), (29.0, "paid"), (5.0, ["paid"])]):
        request = make_request(f"r{index}", seconds, extra_args={"tier": tier})
        driver.scheduler.add_request(request)
    driver.clock.now_s += 1.0
    driver.run()
    if trust:
        assert driver.admitted == ["r1", "r2", "r0"]
    elif policy == "ewsjf":  # one queue, by arrival
        assert driver.admitted == ["r0", "r1", "r2"]
    else:
        assert driver.admitted == ["r0", "r2", "r1"]
    assert {r.priority for r in link.reports} == ({-1, 0, 1} if trust else {0})


@pytest.mark.parametrize("policy", ["sjf", "hrrn", "ewsjf"])
def test_those_who_pay_do_not_starve_those_who_do_not(
    start: Callable[..., Any], policy: str
) -> None:
    options = ClientOptions(trust_hints=True)
    driver, link = start(
        "on", policy, options=options, max_num_seqs=1, phi=0.3, burst_requests=2.0, w_fairness=1.0
    )
    scheduler = driver.scheduler
    scheduler.add_request(make_request("free", 20.0, extra_args={"tier": "free"}))
    admitted_after = None
    for index in range(200):
        scheduler.add_request(make_request(f"paid{index}", 5.0, extra_args={"tier": "paid"}))
        driver.step()
        if "free" in driver.admitted and admitted_after is None:
            admitted_after = len(driver.admitted) - 1
    driver.run()
    # 0.05 + 0.16 s of work each; the guard lets 2 · 0.3 s and three tenths of what is served by.
    work = 0.05 + 0.01 * 3.2 * 5.0
    assert admitted_after is not None
    assert 1 <= admitted_after <= 1 + 2.0 * 0.3 / (1.0 - 0.3) / work
    assert link.status.failures == 0
