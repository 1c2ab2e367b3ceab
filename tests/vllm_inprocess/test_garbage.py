"""What an arrival leaves to Python's garbage collector, which stops the engine when it runs."""

from collections.abc import Callable
from typing import Any

import pytest

from sched_client.model import Partition
from tests.support.collector import counted_by
from tests.vllm_inprocess.engine import clip_lengths, make_request

QUEUES = Partition(boundaries_s=(0.2, 0.5), queue_ids=("q1", "q2", "q3"))
WAITING, ARRIVALS = 400, 300
# What comes with the first or with one of many, and goes as they go: five objects for each 128 of
# the guard's ledger, three for each 32 of hrrn, a cached value.
ONCE = 60


@pytest.mark.parametrize("mode", ["on", "shadow"])
@pytest.mark.parametrize("policy", ["sjf", "hrrn", "ewsjf", "ewsjf-paper", "halves"])
def test_an_arrival_leaves_three_objects_of_which_one_is_vllms(
    start: Callable[..., Any], mode: str, policy: str
) -> None:
    # More, and the collector runs in so many arrivals that their 99th percentile is its own time
    # (benchmarks/scheduler.py): our record, the policy's item, vLLM's event.
    chosen = (
        {"between": "halves"} if policy == "halves" else {"between": "score", "within": "score"}
    )
    name = "ewsjf" if policy == "halves" else policy
    driver, _ = start(mode, name, max_num_seqs=1, partition=QUEUES, **chosen)
    lengths = clip_lengths(WAITING + ARRIVALS)
    requests = [make_request(f"r{number}", s) for number, s in enumerate(lengths)]
    for request in requests[:WAITING]:
        driver.scheduler.add_request(request)
    driver.step()

    def arrive() -> None:
        for request in requests[WAITING:]:
            driver.scheduler.add_request(request)

    assert counted_by(arrive) <= 3 * ARRIVALS + ONCE
    assert len(driver.scheduler.waiting) == WAITING + ARRIVALS - 1
