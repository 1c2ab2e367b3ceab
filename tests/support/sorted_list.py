"""The simplest possible scheduler: a list, sorted whenever someone is admitted.

Fed with a server's record and with the work of each request as the test knows it, it says which
admissions were not the ones that the policy's definition asks for. No guard: tests that use it
give the guard a burst that nothing reaches.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from tests.support.vllm_server import caller_id

# The record's clock is read just before the scheduler's, and durations read from the mel are
# exact to 0.03 s: response ratios closer than this cannot be told apart.
RATIO_TOLERANCE = 0.01


def mismatches(
    events: Sequence[dict[str, Any]],  # Any: JSON
    work_s: Mapping[str, float],
    policy: str,
) -> list[str]:
    """Compare admissions with those of a sorted list.

    Parameters
    ----------
    events : sequence of dict
        As `tests.support.recording_scheduler` writes them.
    work_s : Mapping of str to float
        Work of each request by ``X-Request-Id``; other requests are ignored.
    policy : {"fcfs", "sjf", "hrrn"}
        The order that was in force.

    Returns
    -------
    list of str
        One line for each admission that should have been another's.
    """
    waiting: dict[str, float] = {}
    wrong = []
    for event in events:
        if event["event"] == "add" and caller_id(event["id"]) in work_s:
            waiting[caller_id(event["id"])] = event["at_s"]
        elif event["event"] == "admit":
            for engine_id in event["ids"]:
                admitted = caller_id(engine_id)
                if admitted not in work_s:
                    continue
                right = _right_choices(waiting, work_s, policy, event["at_s"])
                if admitted not in right:
                    wrong.append(f"{admitted} of {len(waiting)} waiting, not {right}")
                del waiting[admitted]
    if waiting:
        wrong.append(f"never admitted: {sorted(waiting)}")
    return wrong


def _right_choices(
    waiting: Mapping[str, float], work_s: Mapping[str, float], policy: str, now_s: float
) -> list[str]:
    if policy == "fcfs":
        return sorted(waiting, key=lambda name: waiting[name])[:1]
    if policy == "sjf":
        return sorted(waiting, key=lambda name: (work_s[name], waiting[name]))[:1]
    ratios = {name: 1.0 + (now_s - at_s) / work_s[name] for name, at_s in waiting.items()}
    best = max(ratios.values())
    return [name for name, ratio in ratios.items() if ratio >= best * (1.0 - RATIO_TOLERANCE)]
