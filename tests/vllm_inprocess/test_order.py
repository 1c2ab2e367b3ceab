"""Admission order of the real scheduler against references that scan a list."""

import random
from collections.abc import Callable
from typing import Any

import pytest

from sched_client.model import Features, evaluate, policy_parameters
from tests.vllm_inprocess.engine import (
    Driver,
    build_scheduler,
    clip_lengths,
    make_request,
)

PHI, NO_GUARD = 0.3, float("inf")


class Reference:
    """Waiting requests in a list: work, arrival, and the guard's account of each."""

    def __init__(self, policy: str, phi: float, burst_work: float) -> None:
        self.policy = policy
        self.phi = phi
        self.burst_work = burst_work
        self.waiting: list[dict[str, Any]] = []

    def arrive(self, name: str, work: float, now_s: float) -> None:
        self.waiting.append(
            {"name": name, "work": work, "at": now_s, "served": 0.0, "overtaken": 0.0}
        )

    def choose(self, now_s: float) -> str:
        if self.policy == "sjf":
            candidate = min(self.waiting, key=lambda r: (r["work"], r["at"]))
        elif self.policy == "hrrn":
            candidate = max(self.waiting, key=lambda r: (now_s - r["at"]) / r["work"])
        else:
            candidate = self.waiting[0]
        place = self.waiting.index(candidate)
        work = candidate["work"]
        if any(
            self.phi * (r["served"] + work) + self.burst_work < r["overtaken"] + work
            for r in self.waiting[:place]
        ):
            candidate, place = self.waiting[0], 0
            work = candidate["work"]
        for index, other in enumerate(self.waiting):
            other["served"] += work
            if index < place:
                other["overtaken"] += work
        del self.waiting[place]
        return str(candidate["name"])


@pytest.mark.parametrize("burst_requests", [NO_GUARD, 2.0])
@pytest.mark.parametrize("policy", ["fcfs", "sjf", "hrrn"])
def test_admission_order_is_the_references(
    start: Callable[..., Any], policy: str, burst_requests: float
) -> None:
    driver, link = start(
        "on", policy, phi=PHI, burst_requests=burst_requests, max_num_seqs=3, length=_length
    )
    parameters = policy_parameters(link.snapshot, "whisper-test")
    reference = Reference(policy, PHI, parameters.burst_work)
    rng = random.Random(3)
    # Lengths that differ by a frame, so that no two requests tie.
    lengths = [1.0 + 0.07 * i for i in range(300)]
    rng.shuffle(lengths)
    pending = [(f"r{i}", seconds) for i, seconds in enumerate(lengths)]
    scheduler, expected = driver.scheduler, []
    while pending or scheduler.has_requests():
        for _ in range(min(len(pending), rng.choice([0, 0, 1, 3]))):
            name, seconds = pending.pop(0)
            driver.clock.now_s += 0.001
            scheduler.add_request(make_request(name, seconds))
            estimate = evaluate(link.snapshot, _features(seconds))
            reference.arrive(name, estimate.service_s, driver.clock.now_s)
        now_s, before = driver.clock.now_s, len(driver.admitted)
        driver.step()
        expected += [reference.choose(now_s) for _ in driver.admitted[before:]]
    assert driver.admitted == expected
    assert sorted(driver.finished) == sorted(driver.admitted)
    assert scheduler._kappad.failures == 0
    if policy != "fcfs":
        assert driver.admitted != sorted(driver.admitted, key=lambda name: int(name[1:]))


def _features(seconds: float) -> Features:
    return Features(
        model="whisper-test",
        task="transcribe",
        language="en",
        timestamps=False,
        audio_s=seconds,
        prompt_tokens=4,
        max_tokens=440,
    )


def _length(request: Any) -> int:
    return 3 + int(request.request_id[1:]) % 4


@pytest.mark.parametrize("mode", ["off", "shadow"])
@pytest.mark.parametrize("policy", ["fcfs", "priority"])
def test_modes_off_and_shadow_admit_exactly_as_stock_vllm(
    start: Callable[..., Any], mode: str, policy: str
) -> None:
    driver, link = start(mode, "sjf", max_num_seqs=3, length=_length, vllm_policy=policy)
    stock = Driver(build_scheduler(max_num_seqs=3, vllm_policy=policy), length=_length)
    admitted = []
    for driven in (driver, stock):
        _play(driven)
        admitted.append(driven.admitted)
    assert admitted[0] == admitted[1]
    assert len(set(admitted[0])) == 200
    assert link.status.effective_mode == mode
    assert (link.status.reordered > 0) is (mode == "shadow")


def _play(driver: Driver) -> None:
    rng = random.Random(11)
    for index, seconds in enumerate(clip_lengths(200)):
        request = make_request(
            f"r{index}", seconds, priority=rng.choice([0, 0, 1]), arrival_time=1e9 + index
        )
        driver.scheduler.add_request(request)
        if rng.random() < 0.3:
            driver.step()
        if rng.random() < 0.1:
            driver.abort(f"r{rng.randrange(index + 1)}")
    driver.run()
    unadmitted = {f"r{i}" for i in range(200)} - set(driver.admitted)
    driver.admitted += sorted(unadmitted)


@pytest.mark.parametrize("policy", ["sjf", "hrrn"])
def test_two_thousand_requests_none_lost(start: Callable[..., Any], policy: str) -> None:
    driver, link = start("on", policy, max_num_seqs=64)
    for index, seconds in enumerate(clip_lengths(2000)):
        driver.scheduler.add_request(make_request(f"r{index}", seconds))
        if index % 50 == 0:
            driver.step()
    driver.run()
    names = {f"r{i}" for i in range(2000)}
    assert set(driver.finished) == names
    assert len(driver.finished) == len(driver.admitted) == 2000
    assert len(link.reports) == 2000
    assert link.status.failures == 0
    assert link.status.waiting == 0
