"""A second model of an engine that batches continuously, written with simpy alone.

Nothing of `estimator.replay` is used or known here: each request is a process that waits for
its admission and then for as many step ends as it has tokens; the engine is a process that makes
steps. Time is simpy's, in whole nanoseconds. The waiting are searched from end to end.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

import simpy


class Call(NamedTuple):
    """A request: when it comes, its prompt and what it will produce, its work as expected."""

    arrival_ns: int
    prompt_tokens: int
    output_tokens: int
    work: float


@dataclass
class Waiting:
    """A request in the queue."""

    call: Call
    number: int
    admitted: simpy.Event
    taken_in_ns: int = -1


class Served(NamedTuple):
    """What became of a call."""

    admitted_ns: int
    first_token_ns: int
    finished_ns: int


# The smallest goes next; given the instant of the decision.
Rank = Callable[[Waiting, int], Any]


def first_come(waiting: Waiting, now_ns: int) -> Any:
    """Rank by arrival."""
    return waiting.number


def shortest(waiting: Waiting, now_ns: int) -> Any:
    """Rank by expected work."""
    return waiting.call.work, waiting.number


def highest_ratio(waiting: Waiting, now_ns: int) -> Any:
    """Rank by response ratio (Brinch Hansen 1971): the share of the wait in the work."""
    waited_s = now_ns / 1e9 - waiting.taken_in_ns / 1e9
    return -waited_s / waiting.call.work, waiting.number


class StepEngine:
    """An engine with slots, whose steps give each running request a token.

    Parameters
    ----------
    slots : int
        Most running requests.
    step_ns, per_sequence_ns, admission_ns, per_prompt_token_ns : int
        What a step costs: at all, for each running request, for each admitted in it, and for
        each prompt token of those.
    rank : callable
        Who goes next.
    """

    def __init__(
        self,
        *,
        slots: int,
        step_ns: int,
        per_sequence_ns: int = 0,
        admission_ns: int = 0,
        per_prompt_token_ns: int = 0,
        rank: Rank = first_come,
    ) -> None:
        self._env = simpy.Environment(initial_time=0)
        self._slots = slots
        self._step_ns = step_ns
        self._per_sequence_ns = per_sequence_ns
        self._admission_ns = admission_ns
        self._per_prompt_token_ns = per_prompt_token_ns
        self._rank = rank
        self._queue: list[Waiting] = []
        self._running = 0
        self._step_end = self._env.event()
        self._wake: simpy.Event | None = None
        self._served: dict[int, Served] = {}

    def serve(self, calls: Iterable[Call]) -> list[Served]:
        """Run until all calls are served; give what became of each, in their order."""
        for number, call in enumerate(calls):
            self._env.process(self._request(call, number))
        self._env.process(self._engine())
        self._env.run()
        return [self._served[number] for number in range(len(self._served))]

    def _request(self, call: Call, number: int) -> Any:
        env = self._env
        # Made before any event of the engine, so that it comes first among simultaneous ones.
        yield env.timeout(call.arrival_ns)
        waiting = Waiting(call, number, env.event())
        self._queue.append(waiting)
        if self._wake is not None and not self._wake.triggered:
            self._wake.succeed()
        yield waiting.admitted
        admitted_ns = int(env.now)
        ends_ns = []
        for _ in range(call.output_tokens):
            yield self._step_end
            ends_ns.append(int(env.now))
        self._running -= 1
        self._served[number] = Served(admitted_ns, ends_ns[0], ends_ns[-1])

    def _engine(self) -> Any:
        env = self._env
        while True:
            if not self._running and not self._queue:
                self._wake = env.event()
                yield self._wake
                self._wake = None
            cost_ns = self._step_ns + self._admit()
            cost_ns += self._per_sequence_ns * self._running
            yield env.timeout(cost_ns)
            ended, self._step_end = self._step_end, env.event()
            ended.succeed()
            yield env.timeout(0)  # after those who got their last token have left

    def _admit(self) -> int:
        """Admit as many as there are slots; give what that adds to the step."""
        now_ns = int(self._env.now)
        cost_ns = 0
        for waiting in self._queue:
            if waiting.taken_in_ns < 0:  # engines look at arrivals between steps
                waiting.taken_in_ns = now_ns
        while self._queue and self._running < self._slots:
            chosen = min(self._queue, key=lambda waiting: self._rank(waiting, now_ns))
            self._queue.remove(chosen)
            self._running += 1
            cost_ns += self._admission_ns
            cost_ns += self._per_prompt_token_ns * chosen.call.prompt_tokens
            chosen.admitted.succeed()
        return cost_ns
