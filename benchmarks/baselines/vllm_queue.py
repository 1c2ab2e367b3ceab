"""What an operation of vLLM's own priority queue costs; runs inside vLLM's environment.

``.venv-vllm/bin/python -m benchmarks.baselines.vllm_queue 100 1000`` prints JSON by number
waiting. The queue is vLLM's, with vLLM's requests; a priority is work in whole milliseconds, so
that it serves the shortest first as sjf does. It has no guard.
"""

import json
import random
import statistics
import sys
import time
from collections.abc import Iterator

from vllm.sampling_params import SamplingParams
from vllm.v1.core.sched.request_queue import PriorityRequestQueue
from vllm.v1.request import Request

from benchmarks.policies import RATE_PER_S, SEED, works

_BLOCKS = 15
_OPERATIONS = 200


def _requests(rng: random.Random) -> Iterator[Request]:
    sampling = SamplingParams(max_tokens=1)
    number = 0
    while True:
        number += 1
        yield Request(
            f"r{number}",
            [1],
            sampling,
            None,
            arrival_time=number / RATE_PER_S,
            priority=int(1000.0 * works(1, rng)[0]),
        )


def measure(waiting: int) -> dict[str, float]:
    """Measure the queue at a number waiting.

    Returns
    -------
    dict of str to float
        Median µs of ``add + peek + pop``, and of a ``remove`` of one that waits anywhere.
    """
    rng = random.Random(SEED)
    source = _requests(rng)
    queue = PriorityRequestQueue()
    for _ in range(waiting):
        queue.add_request(next(source))

    def operations() -> float:
        requests = [next(source) for _ in range(_OPERATIONS)]
        begin = time.thread_time_ns()
        for request in requests:
            queue.add_request(request)
            queue.peek_request()
            queue.pop_request()
        return (time.thread_time_ns() - begin) / _OPERATIONS / 1e3

    def removal() -> float:
        gone = rng.choice(queue._heap)
        begin = time.thread_time_ns()
        queue.remove_request(gone)
        taken = (time.thread_time_ns() - begin) / 1e3
        queue.add_request(next(source))
        return taken

    return {
        "operation": statistics.median(operations() for _ in range(_BLOCKS)),
        "remove": statistics.median(removal() for _ in range(_BLOCKS)),
    }


if __name__ == "__main__":
    print(json.dumps({waiting: measure(int(waiting)) for waiting in sys.argv[1:]}))
