"""The mode is changed while requests wait: none is lost, and the order follows at once."""

import itertools
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from sched_client.model import GLOBAL_KEY, KappaEntry
from sched_client.options import ClientOptions
from tests.vllm_inprocess.engine import ENGLISH_PROMPT, clip_lengths, make_request


def _fill(driver: Any, count: int) -> list[float]:
    lengths = clip_lengths(count)
    for index, seconds in enumerate(lengths):
        driver.clock.now_s += 0.01
        driver.scheduler.add_request(make_request(f"r{index}", seconds))
    return lengths


@pytest.mark.parametrize(
    "modes", [("off", "on"), ("shadow", "on"), ("on", "off"), ("on", "shadow")]
)
def test_a_hundred_waiting_move_along(start: Callable[..., Any], modes: tuple[str, str]) -> None:
    driver, link = start(modes[0], "sjf", burst_requests=float("inf"), max_num_seqs=2)
    lengths = _fill(driver, 104)
    driver.step()
    driver.step()
    done = len(driver.admitted)
    assert len(driver.scheduler.waiting) == 104 - done
    link.set(mode=modes[1])
    driver.run()
    assert link.status.effective_mode == modes[1]
    rest = driver.admitted[done:]
    waiting = [i for i in range(104) if f"r{i}" not in driver.admitted[:done]]
    if modes[1] == "on":
        waiting.sort(key=lambda i: (lengths[i], i))
    assert rest == [f"r{i}" for i in waiting]
    assert sorted(driver.finished) == sorted(f"r{i}" for i in range(104))


def test_switching_at_every_step_loses_none(start: Callable[..., Any]) -> None:
    driver, link = start("on", "sjf", max_num_seqs=3, blocks=94 * 3 + 9, length=lambda _: 60)
    _fill(driver, 60)
    names = [("off", "sjf"), ("on", "hrrn"), ("shadow", "sjf"), ("on", "sjf"), ("on", "fcfs")]
    step = 0
    while driver.scheduler.has_requests():
        mode, policy = names[step % len(names)]
        link.set(mode=mode, policy=policy)
        driver.step()
        step += 1
    assert sorted(driver.finished) == sorted(f"r{i}" for i in range(60))
    assert driver.preempted > 0
    assert link.status.failures == 0


def test_the_kill_switch_and_its_end(start: Callable[..., Any]) -> None:
    driver, link = start("on", "sjf", max_num_seqs=1)
    _fill(driver, 10)
    link.kill_switch = True
    driver.step()
    assert driver.admitted == ["r0"]
    assert (link.status.effective_mode, link.status.mode_reason) == ("off", "kill switch")
    link.kill_switch = False
    driver.run()
    assert link.status.effective_mode == "on"
    assert len(driver.finished) == 10


def test_a_long_silence_means_first_come_first_served_but_reports_go_on(
    start: Callable[..., Any],
) -> None:
    options = ClientOptions(stale_fcfs_after_s=5.0)
    driver, link = start("on", "sjf", options=options, max_num_seqs=1)
    link.set(mode="on")
    _fill(driver, 10)
    link.stale_since_s = driver.clock.now_s - 4.9
    driver.step()
    assert link.status.effective_mode == "on"
    driver.clock.now_s += 1.0
    driver.run()
    assert (link.status.effective_mode, link.status.mode_reason) == ("off", "stale")
    assert driver.admitted[1:] == sorted(driver.admitted[1:])
    assert len(link.reports) == 10
    link.stale_since_s = None
    driver.scheduler.add_request(make_request("r10", 3.0))
    driver.step()
    assert link.status.effective_mode == "on"


def test_a_sidecar_that_never_came_up(start: Callable[..., Any]) -> None:
    for mode, expected in (("auto", "shadow"), ("on", "on")):
        options = ClientOptions(mode=mode)
        driver, link = start("shadow", "sjf", options=options, max_num_seqs=1)
        link.stale_since_s = 0.0
        lengths = _fill(driver, 10)
        driver.run()
        assert link.status.effective_mode == expected
        shortest = f"r{lengths.index(min(lengths))}"
        assert driver.admitted[0] == (shortest if expected == "on" else "r0")


def test_an_unknown_policy_is_first_come_first_served_with_a_reason(
    start: Callable[..., Any],
) -> None:
    driver, link = start("on", "from-the-future", max_num_seqs=1)
    _fill(driver, 10)
    driver.run()
    assert driver.admitted == [f"r{i}" for i in range(10)]
    assert (link.status.policy, link.status.effective_mode) == ("fcfs", "on")
    assert "from-the-future" in link.status.mode_reason


def test_mode_off_reports_nothing(start: Callable[..., Any]) -> None:
    driver, link = start("off")
    _fill(driver, 5)
    driver.run()
    assert link.reports == []
    link.set(mode="shadow")
    driver.scheduler.add_request(make_request("r5", 3.0))
    driver.run()
    assert [r.request_id for r in link.reports] == ["r5"]


def _learn(link: Any, language_kappa: float) -> None:
    """Publish what was learned: English clips are as long as ``language_kappa`` says."""
    key = GLOBAL_KEY._replace(model="whisper-test", task="transcribe", language="en")
    entry = KappaEntry(kappa_tokens_per_s=language_kappa, source="learned", sample_count=99)
    link.publish(kappas={**link.snapshot.kappas, key: entry})


def test_waiting_requests_are_estimated_anew_when_their_key_moves(
    start: Callable[..., Any],
) -> None:
    driver, link = start("on", "sjf", burst_requests=float("inf"), max_num_seqs=1)
    spanish = [50258, 50262, 50359, 50363]
    for index in range(20):
        driver.scheduler.add_request(make_request(f"en{index}", 5.0 + index * 0.1))
        driver.scheduler.add_request(make_request(f"es{index}", 8.0 + index * 0.1, prompt=spanish))
    driver.step()
    assert driver.admitted == ["en0"]
    _learn(link, 40.0)  # English turns out to be ten times the prior: Spanish goes first now
    driver.run()
    assert driver.admitted[1:21] == [f"es{i}" for i in range(20)]
    assert driver.admitted[21:] == [f"en{i}" for i in range(1, 20)]


def test_a_move_below_five_percent_changes_no_estimate(start: Callable[..., Any]) -> None:
    driver, link = start("on", "sjf", burst_requests=float("inf"), max_num_seqs=1)
    _learn(link, 3.2)
    for index in range(6):
        driver.scheduler.add_request(make_request(f"r{index}", 5.0 + index))
    driver.step()
    records = driver.scheduler._kappad.tracker.records
    before = {name: record.tokens for name, record in records.items()}
    _learn(link, 3.2 * 1.04)
    driver.step()
    driver.step()
    assert all(records[name].tokens == before[name] for name in list(records))
    _learn(link, 3.2 * 1.12)
    driver.step()
    driver.step()  # the first adopts the snapshot, the second looks for what it moved
    waiting = [r.request_id for r in driver.scheduler.waiting]
    assert waiting
    assert all(records[name].tokens > 1.1 * before[name] for name in waiting)
    driver.run()


def test_estimates_that_moved_in_shadow_are_new_when_the_mode_is_switched_on(
    start: Callable[..., Any],
) -> None:
    driver, link = start("shadow", "sjf", burst_requests=float("inf"), max_num_seqs=1)
    spanish = [50258, 50262, 50359, 50363]
    for name, seconds, prompt in (
        ("a", 1.0, ENGLISH_PROMPT),
        ("en", 5.0, ENGLISH_PROMPT),
        ("es", 8.0, spanish),
    ):
        driver.scheduler.add_request(make_request(name, seconds, prompt=prompt))
    driver.step()
    _learn(link, 40.0)
    driver.step()
    link.set(mode="on")
    driver.run()
    assert driver.admitted == ["a", "es", "en"]


def test_revising_a_long_queue_takes_several_steps(start: Callable[..., Any]) -> None:
    driver, link = start("on", "sjf", max_num_seqs=1, length=lambda _: 400)
    _fill(driver, 300)
    driver.step()
    client = driver.scheduler._kappad
    readings = 0

    def ticking() -> float:
        nonlocal readings
        readings += 1
        return float(driver.clock.now_s) + readings * 20e-6

    client.clock = ticking
    _learn(link, 40.0)
    revised = []
    while True:
        driver.step()
        fresh = sum(
            r.checked_version == link.snapshot.version for r in client.tracker.records.values()
        )
        revised.append(fresh)
        if not client.estimates.busy:
            break
    # 200 µs at 20 µs a reading: ten or fewer a step.
    assert len(revised) > 20
    assert all(0 < b - a <= 10 for a, b in itertools.pairwise(revised[:-1]))
    assert revised[-1] >= 299


def test_new_guard_parameters_reach_the_policy(start: Callable[..., Any]) -> None:
    driver, link = start("on", "sjf", burst_requests=float("inf"), max_num_seqs=1)
    driver.scheduler.add_request(make_request("long", 29.0))
    for index in range(30):
        driver.scheduler.add_request(make_request(f"r{index}", 2.0))
    for _ in range(9):
        driver.step()
    assert "long" not in driver.admitted
    link.publish(settings=replace(link.snapshot.settings, phi=0.0, burst_requests=0.0))
    done = len(driver.admitted)
    for _ in range(4):
        driver.step()
    assert driver.admitted[done] == "long"
    driver.run()
