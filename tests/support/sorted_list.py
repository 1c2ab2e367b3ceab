"""The simplest possible scheduler: a list, sorted whenever someone is admitted.

Fed with a server's record and with the work of each request as the test knows it, it says which
admissions were not the ones that the policy's definition asks for. No guard: tests that use it
give the guard a burst that nothing reaches.
"""

import math
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from sched_client.model import Estimate, Partition
from tests.support.vllm_server import caller_id

# The record's clock is read just before the scheduler's, and durations read from the mel are
# exact to 0.03 s: response ratios closer than this cannot be told apart.
RATIO_TOLERANCE = 0.01
# What `ewsjf` and `halves` are to be run with: rate and power of aging; share of the short.
AGING = (0.02, 0.5)
SHORT_SHARE = 0.48
# So many arrivals tell `halves` what is short.
_WINDOW = 256


class _Waiting(NamedTuple):
    at_s: float
    estimate: Estimate
    queue: int
    is_long: bool


def mismatches(
    events: Sequence[dict[str, Any]],  # Any: JSON
    estimates: Mapping[str, Estimate],
    order: str,
    partition: Partition,
) -> list[str]:
    """Compare admissions with those of a sorted list.

    Parameters
    ----------
    events : sequence of dict
        As `tests.support.recording_scheduler` writes them.
    estimates : Mapping of str to Estimate
        Work of each request by ``X-Request-Id``; other requests are ignored.
    order : {"fcfs", "sjf", "hrrn", "halves", "ewsjf", "ewsjf-paper"}
        The order that was in force: ``ewsjf`` scores heads with aging, as `AGING` says, and
        ``halves`` cuts at `SHORT_SHARE` of what arrived.
    partition : Partition
        The queues that were in force.

    Returns
    -------
    list of str
        One line for each admission that should have been another's.
    """
    waiting: dict[str, _Waiting] = {}
    works: list[float] = []
    wrong = []
    for event in events:
        if event["event"] == "add" and caller_id(event["id"]) in estimates:
            name = caller_id(event["id"])
            estimate = estimates[name]
            works = [*works, estimate.service_s][-_WINDOW:]
            below = sum(w < estimate.service_s for w in works)
            equal = sum(w == estimate.service_s for w in works)
            waiting[name] = _Waiting(
                event["at_s"],
                estimate,
                bisect_right(partition.boundaries_s, estimate.service_s),
                is_long=below + equal / 2.0 > SHORT_SHARE * len(works),
            )
        elif event["event"] == "admit":
            for engine_id in event["ids"]:
                admitted = caller_id(engine_id)
                if admitted not in estimates:
                    continue
                right = _right_choices(waiting, order, partition, event["at_s"])
                if admitted not in right:
                    wrong.append(f"{admitted} of {len(waiting)} waiting, not {right}")
                del waiting[admitted]
    if waiting:
        wrong.append(f"never admitted: {sorted(waiting)}")
    return wrong


def _right_choices(
    waiting: Mapping[str, _Waiting], order: str, partition: Partition, now_s: float
) -> list[str]:
    ranks: dict[str, Callable[[_Waiting], tuple[float, ...]]] = {
        "fcfs": lambda one: (one.at_s,),
        "sjf": lambda one: (one.estimate.service_s, one.at_s),
        "halves": lambda one: (one.is_long, one.at_s),
    }
    if order in ranks:
        return sorted(waiting, key=lambda name: ranks[order](waiting[name]))[:1]
    if order == "hrrn":
        scores = {
            name: 1.0 + (now_s - one.at_s) / one.estimate.service_s
            for name, one in waiting.items()
        }
    else:
        heads: dict[int, str] = {}
        for name in sorted(waiting, key=lambda name: waiting[name].at_s):
            heads.setdefault(waiting[name].queue, name)
        score = _paper_score if order == "ewsjf-paper" else _aging_score
        scores = {
            name: score(waiting[name], partition, now_s - waiting[name].at_s)
            for name in heads.values()
        }
    best = max(scores.values())
    return [name for name, score in scores.items() if score >= best * (1.0 - RATIO_TOLERANCE)]


def _aging_score(one: _Waiting, partition: Partition, waited_s: float) -> float:
    """Score a head: urgency and what its queue ages by, without density."""
    rate, power = AGING
    return 1.0 / one.estimate.tokens + waited_s * rate / math.pow(
        partition.means_s[one.queue], power
    )


def _paper_score(one: _Waiting, _partition: Partition, waited_s: float) -> float:
    """Score a head by the paper's formula, with the weights of `sched_client.policies`."""
    length = one.estimate.tokens
    worth = 1.0 + waited_s / one.estimate.service_s + 0.5 * math.log(length + 1.0)
    return (one.queue + 1) / (length + 1.0) * worth
