"""Admission order of the real scheduler against references that scan a list."""

import math
import random
from bisect import bisect_right
from collections.abc import Callable
from typing import Any

import pytest

from sched_client.model import (
    Estimate,
    Features,
    Partition,
    PolicyParameters,
    evaluate,
    policy_parameters,
)
from tests.vllm_inprocess.engine import (
    Driver,
    build_scheduler,
    clip_lengths,
    make_request,
)

PHI, NO_GUARD = 0.3, float("inf")


# Work is 0.08 to 0.75 s here: 40, 35 and 25 % of it.
QUEUES = Partition(
    boundaries_s=(0.35, 0.59), queue_ids=("q4", "q1", "q9"), means_s=(0.21, 0.47, 0.66)
)
# By name: the policy, and its settings.
ORDERS: dict[str, tuple[str, dict[str, Any]]] = {
    "fcfs": ("fcfs", {}),
    "sjf": ("sjf", {}),
    "hrrn": ("hrrn", {}),
    "halves": (
        "ewsjf",
        {"between": "halves", "short_share": 0.4, "short_share_most": 0.4},
    ),
    "shortest queue": ("ewsjf", {"between": "shortest"}),
    "shortest queue, shortest in it": ("ewsjf", {"between": "shortest", "within": "score"}),
    "ratio of heads": ("ewsjf", {"between": "ratio"}),
    "the seed's sentence": (
        "ewsjf",
        {"between": "score", "within": "score", "w_fairness": 40.0},
    ),
    "aging heads": (
        "ewsjf",
        {"between": "score", "aging_rate": 0.02, "aging_power": 1.0, "w_fairness": 20.0},
    ),
    "ewsjf-paper": ("ewsjf-paper", {}),
}


class Reference:
    """Waiting requests in a list: work, arrival, and the guard's account of each."""

    def __init__(self, policy: str, parameters: PolicyParameters) -> None:
        self.policy = policy
        self.parameters = parameters
        self.waiting: list[dict[str, Any]] = []
        self.works: list[float] = []

    def arrive(self, name: str, estimate: Estimate, now_s: float) -> None:
        work = estimate.service_s
        self.works = [*self.works, work][-256:]
        below = sum(w < work for w in self.works) + sum(w <= work for w in self.works)
        self.waiting.append(
            {
                "name": name,
                "work": work,
                "tokens": estimate.tokens,
                "queue": bisect_right(QUEUES.boundaries_s, work),
                "long": below / 2 > self.parameters.short_share * len(self.works),
                "at": now_s,
                "served": 0.0,
                "overtaken": 0.0,
            }
        )

    def choose(self, now_s: float) -> str:
        phi, burst_work = self.parameters.phi, self.parameters.burst_work
        candidate = self.propose(now_s)
        place = self.waiting.index(candidate)
        work = candidate["work"]
        if any(
            phi * (r["served"] + work) + burst_work < r["overtaken"] + work
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

    def propose(self, now_s: float) -> dict[str, Any]:
        waiting, parameters = self.waiting, self.parameters
        if self.policy == "fcfs":
            return waiting[0]
        if self.policy == "sjf":
            return min(waiting, key=lambda r: (r["work"], r["at"]))
        if self.policy == "hrrn":
            return max(waiting, key=lambda r: (now_s - r["at"]) / r["work"])
        if self.policy == "ewsjf" and parameters.between == "halves":
            return min(waiting, key=lambda r: (r["long"], r["at"]))
        queues = [[r for r in waiting if r["queue"] == number] for number in range(3)]
        if self.policy == "ewsjf" and parameters.within == "score":
            # Here no queue ages where requests are scored: the fewest tokens go first.
            queues = [sorted(queue, key=lambda r: (r["tokens"], r["at"])) for queue in queues]
        heads = [queue[0] for queue in queues if queue]
        return max(heads, key=lambda head: self.score(head, queues[head["queue"]], now_s))

    def score(self, head: dict[str, Any], queue: list[dict[str, Any]], now_s: float) -> float:
        parameters, waited = self.parameters, now_s - head["at"]
        if self.policy == "ewsjf-paper":
            # The paper's formula; its parameters as sched_client/policies/ewsjf_paper.py has them.
            length = head["tokens"]
            weight = 1.0 + waited / head["work"] + 0.5 * math.log(length + 1.0)
            return float((head["queue"] + 1) / (length + 1.0) * weight)
        if parameters.between == "shortest":
            return float(-head["queue"])
        if parameters.between == "ratio":
            return float(waited / head["work"])
        density = len(queue) / sum(r["tokens"] for r in self.waiting)
        rate = parameters.aging_rate * QUEUES.means_s[head["queue"]] ** -parameters.aging_power
        return float(
            parameters.w_urgency / head["tokens"] + parameters.w_fairness * density + rate * waited
        )


@pytest.mark.parametrize("burst_requests", [NO_GUARD, 2.0])
@pytest.mark.parametrize("name", ORDERS)
def test_admission_order_is_the_references(
    start: Callable[..., Any], name: str, burst_requests: float
) -> None:
    policy, settings = ORDERS[name]
    driver, link = start(
        "on",
        policy,
        phi=PHI,
        burst_requests=burst_requests,
        partition=QUEUES,
        max_num_seqs=3,
        length=_length,
        **settings,
    )
    reference = Reference(policy, policy_parameters(link.snapshot, "whisper-test"))
    rng = random.Random(3)
    # Lengths that differ by a frame, so that no two requests tie.
    lengths = [1.0 + 0.07 * i for i in range(0, 300, 2)]
    rng.shuffle(lengths)
    pending = [(f"r{i}", seconds) for i, seconds in enumerate(lengths)]
    scheduler, expected, queues = driver.scheduler, [], {}
    while pending or scheduler.has_requests():
        for _ in range(min(len(pending), rng.choice([0, 0, 1, 3]))):
            arriving, seconds = pending.pop(0)
            driver.clock.now_s += 0.001
            scheduler.add_request(make_request(arriving, seconds))
            estimate = evaluate(link.snapshot, _features(seconds))
            queues[arriving] = estimate.queue_id
            reference.arrive(arriving, estimate, driver.clock.now_s)
        now_s, before = driver.clock.now_s, len(driver.admitted)
        driver.step()
        expected += [reference.choose(now_s) for _ in driver.admitted[before:]]
    assert driver.admitted == expected
    assert sorted(driver.finished) == sorted(driver.admitted)
    assert scheduler._kappad.failures == 0
    if policy != "fcfs":
        assert driver.admitted != sorted(driver.admitted, key=lambda name: int(name[1:]))
    # What is reported is the partition's name for the work, in all three queues.
    assert {report.request_id: report.queue_id for report in link.reports} == queues
    assert set(queues.values()) == set(QUEUES.queue_ids)


def test_the_orders_are_not_each_others(start: Callable[..., Any]) -> None:
    # So that the test above could fail: without a guard each order admits in a way of its own.
    seen = set()
    for policy, settings in ORDERS.values():
        driver, _ = start(
            "on",
            policy,
            burst_requests=NO_GUARD,
            partition=QUEUES,
            max_num_seqs=2,
            length=_length,
            **settings,
        )
        rng = random.Random(5)
        for index in range(120):
            driver.clock.now_s += 0.02
            request = make_request(f"r{index}", 1.0 + 0.07 * rng.randrange(300))
            driver.scheduler.add_request(request)
            if index > 40 and index % 3 == 0:
                driver.step()
        driver.run()
        seen.add(tuple(driver.admitted))
    # All but one: shortest first, in the queue of the shortest, is shortest first.
    assert len(seen) == len(ORDERS) - 1


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


@pytest.mark.parametrize("policy", ["sjf", "hrrn", "ewsjf", "ewsjf-paper"])
def test_two_thousand_requests_none_lost(start: Callable[..., Any], policy: str) -> None:
    driver, link = start("on", policy, max_num_seqs=64, aging_rate=0.1, w_fairness=1.0)
    rng = random.Random(2)
    for index, seconds in enumerate(clip_lengths(2000)):
        driver.scheduler.add_request(make_request(f"r{index}", seconds))
        if index % 50 == 0:
            # Another partition each time: of one to six queues, some of them named as before.
            bounds = tuple(sorted(rng.uniform(0.1, 0.9) for _ in range(rng.randrange(6))))
            queue_ids = tuple(f"q{rng.randrange(3) + 3 * n}" for n in range(len(bounds) + 1))
            link.publish(
                partitions={"whisper-test": Partition(boundaries_s=bounds, queue_ids=queue_ids)}
            )
            driver.step()
    driver.run()
    names = {f"r{i}" for i in range(2000)}
    assert set(driver.finished) == names
    assert len(driver.finished) == len(driver.admitted) == 2000
    assert len(link.reports) == 2000
    assert link.status.failures == 0
    assert link.status.waiting == 0
