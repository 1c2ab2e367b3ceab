"""A continuous-batching engine in steps: slots, budgets, KV blocks, and what a step costs.

Follows ``Scheduler.schedule()`` of vLLM's v1 engine: who runs goes first, one token each; where
blocks run out the last admitted is preempted, and then nobody is admitted in that step. Between
changes all steps are alike, so many are taken at once, exactly, in whole nanoseconds.
"""

from heapq import heappop, heappush
from math import isqrt
from typing import Final

from estimator.replay.job import NS_PER_S
from estimator.replay.kv import KvBlocks
from estimator.replay.profile import EngineProfile
from estimator.replay.request import Request

__all__ = ["Engine"]

_NO_LIMIT: Final = 1 << 62


class Engine:
    """Slots, blocks and time.

    Parameters
    ----------
    profile : EngineProfile
        What steps cost and what fits.

    Attributes
    ----------
    now_ns : int
        The end of the last step; moved on from outside while nothing runs.
    begun_ns : int
        The start of the last step.
    running : dict of int to Request
        By order of admission.
    step : int
        Steps done.
    busy_ns, running_ns : int
        Time in steps, and its integral over the running requests.
    admissions, preemptions : int
        How many there were.

    Notes
    -----
    A step is `begin_step`, any number of `admit`, and `advance`, which may take more steps like
    it. A request of n tokens takes its prefill's step and n - 1 more.
    """

    __slots__ = (
        "_admission_ns", "_admitted", "_budget", "_chunk", "_context", "_context_ns", "_cost_ns",
        "_ends", "_fresh", "_kv", "_last", "_left", "_mixed_ns", "_most_admitted", "_prompt_ns",
        "_sequence_ns", "_slots", "_step_ns", "admissions", "begun_ns", "busy_ns", "now_ns",
        "preemptions", "running", "running_ns", "step",
    )  # fmt: skip

    def __init__(self, profile: EngineProfile) -> None:
        self._step_ns = round(profile.step_s * NS_PER_S)
        self._sequence_ns = round(profile.per_sequence_s * NS_PER_S)
        self._admission_ns = round(profile.admission_s * NS_PER_S)
        self._mixed_ns = round(profile.mixed_step_s * NS_PER_S)
        self._prompt_ns = round(profile.per_prompt_token_s * NS_PER_S)
        self._context_ns = round(profile.per_context_token_s * NS_PER_S)
        self._slots = profile.slots
        self._most_admitted = profile.max_admissions_per_step or profile.slots
        self._budget = profile.max_tokens_per_step or _NO_LIMIT
        self._kv: KvBlocks | None = None
        if profile.kv_blocks is not None:
            self._kv = KvBlocks(
                profile.kv_blocks, profile.block_size, profile.blocks_per_admission
            )
        self.now_ns = self.begun_ns = 0
        self.running: dict[int, Request] = {}
        self.step = self.busy_ns = self.running_ns = self.admissions = self.preemptions = 0
        # (step, order) of the ends; those who left earlier stay until they come up.
        self._ends: list[tuple[int, int]] = []
        # Who is prefilled in chunks: one at most, the last admitted, as it takes all that is left.
        self._chunk: Request | None = None
        # Whose prefill this step completes, the tokens of all contexts after it, what it costs
        # beyond one like it, tokens of its budget that are left, and who was admitted in it.
        self._fresh: list[Request] = []
        self._context = 0
        self._cost_ns = 0
        self._left = self._budget
        self._admitted = 0
        # The steps taken last: when they began with all that the first cost beyond one like it,
        # the step, and what each costs more than the one before.
        self._last = (0, 0, 0)

    @property
    def full(self) -> bool:
        """Whether every slot is taken."""
        return len(self.running) >= self._slots

    @property
    def open(self) -> bool:
        """Whether this step may admit another, if that fits."""
        return (
            len(self.running) < self._slots
            and self._left > 0
            and self._admitted < self._most_admitted
        )

    # -- one step -----------------------------------------------------------------------------

    def begin_step(self) -> list[Request]:
        """Give every running request its token's place; give who was preempted, in that order."""
        self._admitted = self._cost_ns = 0
        preempted: list[Request] = []
        kv, running, chunk = self._kv, self.running, self._chunk
        if kv is not None and running:
            due = kv.due(self.step)
            if due <= kv.free:
                kv.free -= due
            else:
                preempted = self._preempt(kv)
                chunk = self._chunk
        decoding = len(running) - (chunk is not None)
        self._context += decoding
        self._left = self._budget - decoding
        if chunk is not None:
            tokens = min(chunk.prompt + chunk.produced - chunk.computed, self._left)
            if self._prefill(chunk, tokens):
                if chunk.computed == chunk.prompt + chunk.produced:
                    self._chunk = None
                    self._decode(chunk)
            else:
                preempted.append(self._give_up(chunk))
        return preempted

    def admit(self, request: Request) -> bool:
        """Admit a request in this step, while it is `open`; say whether it fits."""
        context = request.prompt + request.produced
        tokens = min(context, self._left)
        if tokens < context and request.job.audio_s is not None:
            return False
        # All of it must fit, though only a chunk is taken now (``scheduler_reserve_full_isl``).
        if self._kv is not None and self._kv.of(context) > self._kv.free:
            return False
        order = self.admissions
        self.admissions = order + 1
        self._cost_ns += self._admission_ns
        if not self._admitted and self.running:
            self._cost_ns += self._mixed_ns
        self._admitted += 1
        request.order = order
        request.running = True
        if request.admitted_ns is None:
            request.admitted_ns = self.now_ns
            request.admitted_integral = self.running_ns
        self.running[order] = request
        if self._kv is not None:
            self._kv.free -= self._kv.of(0)
        request.computed = 0
        self._prefill(request, tokens)
        if tokens == context:
            self._decode(request)
        else:
            self._chunk = request
        return True

    def abort(self, request: Request) -> None:
        """Take out a running request between two steps."""
        if request is not self._chunk:
            request.produced = self.produced(request)
        self._release(request, self._computed(request))

    def produced(self, request: Request) -> int:
        """Give the tokens that a running request has produced, between two steps."""
        if request is self._chunk:
            return request.produced
        return request.total - (request.end_step - self.step)

    def seen_ns(self, at_ns: int) -> int:
        """Give the end of the step within which something came, after the last `advance`."""
        if at_ns >= self.now_ns:
            return self.now_ns
        begun_ns, step_ns, growth_ns = self._last
        steps = _steps_until(at_ns, begun_ns, step_ns, growth_ns)
        return begun_ns + steps * step_ns + growth_ns * (steps * (steps - 1) // 2)

    # -- many steps ---------------------------------------------------------------------------

    def advance(self, until_ns: int, *, once: bool) -> list[Request]:
        """Take this step and more like it.

        Parameters
        ----------
        until_ns : int
            No step begins at or after this time, but for the first.
        once : bool
            Whether the next step may differ from this one.

        Returns
        -------
        list of Request
            Who ended with the last of the steps, in order of admission.
        """
        running, ends, first = self.running, self._ends, self.step
        n = len(running)
        while ends and ends[0][1] not in running:
            heappop(ends)
        step_ns = self._step_ns + self._sequence_ns * n + self._context_ns * self._context
        self._last = last = (self.now_ns + self._cost_ns, step_ns, self._context_ns * n)
        steps = 1
        if not once and self._chunk is None:
            steps = min(ends[0][0] - first, _steps_until(until_ns, *last))
            if self._kv is not None and steps > 1:
                steps = 1 + self._kv.fitting(first + 1, steps - 1)
                self._kv.free -= self._kv.needed(first + 1, steps - 1)
        cost_ns = self._cost_ns + step_ns * steps
        if self._fresh:
            first_token_ns = self.now_ns + self._cost_ns + step_ns
            for request in self._fresh:
                request.first_token_ns = first_token_ns
            self._fresh.clear()
        self.begun_ns = self.now_ns
        if steps > 1:
            more = n * (steps - 1)
            self._context += more
            cost_ns += self._context_ns * (more * steps // 2)
            self.begun_ns += cost_ns - step_ns - self._context_ns * more
        self.step = first + steps
        self.now_ns += cost_ns
        self.busy_ns += cost_ns
        self.running_ns += cost_ns * n
        return self._finished()

    def _finished(self) -> list[Request]:
        running, ends, step = self.running, self._ends, self.step
        finished = []
        while ends and ends[0][0] <= step:
            request = running.get(heappop(ends)[1])
            if request is not None:
                request.produced = request.total
                self._release(request, request.prompt + request.total - 1)
                finished.append(request)
        return finished

    # -- inside -------------------------------------------------------------------------------

    def _prefill(self, request: Request, tokens: int) -> bool:
        """Compute so many tokens of a prompt in this step; say whether there are blocks."""
        kv, computed = self._kv, request.computed
        if kv is not None:
            more = kv.of(computed + tokens) - kv.of(computed)
            if more > kv.free:
                return False
            kv.free -= more
        request.computed = computed + tokens
        self._context += tokens
        self._left -= tokens
        self._cost_ns += self._prompt_ns * tokens
        return True

    def _decode(self, request: Request) -> None:
        """Let a request decode after this step, which completes its prefill."""
        request.end_step = self.step + request.total - request.produced
        heappush(self._ends, (request.end_step, request.order))
        if request.first_token_ns is None:
            self._fresh.append(request)
        if self._kv is not None:
            self._kv.join(self._phase(self._kv, request))

    def _phase(self, kv: KvBlocks, request: Request) -> int:
        # At its last step the context is the prompt and all but the last token.
        return kv.phase(request.end_step - 1, request.prompt + request.total - 1)

    def _computed(self, request: Request) -> int:
        """Give the tokens of a running request's context, between two steps."""
        if request is self._chunk:
            return request.computed
        return request.prompt + self.produced(request) - 1

    def _release(self, request: Request, computed: int) -> None:
        del self.running[request.order]
        request.running = False
        self._context -= computed
        if self._kv is not None:
            self._kv.free += self._kv.of(computed)
            if request is not self._chunk:
                self._kv.leave(self._phase(self._kv, request))
        if request is self._chunk:
            self._chunk = None

    def _give_up(self, request: Request) -> Request:
        """Preempt a request: its tokens stay, what was computed does not."""
        self.abort(request)
        request.preemptions += 1
        self.preemptions += 1
        return request

    def _preempt(self, kv: KvBlocks) -> list[Request]:
        """Give blocks in order of admission, and preempt from the end where they run out."""
        preempted: list[Request] = []
        for order, request in list(self.running.items()):
            if order not in self.running:
                break
            if request is self._chunk or self._phase(kv, request) != self.step % kv.size:
                continue
            while not kv.free and request.running:
                preempted.append(self._give_up(next(reversed(self.running.values()))))
            if request.running:
                kv.free -= 1
        return preempted


def _steps_until(until_ns: int, begun_ns: int, step_ns: int, growth_ns: int) -> int:
    """Give how many steps, one at least, it takes to reach a time."""
    wanted_ns = until_ns - begun_ns
    if wanted_ns <= step_ns:
        return 1
    if not growth_ns:
        return -(-wanted_ns // step_ns)
    # The least k with k·step + growth·k(k - 1)/2 ≥ wanted.
    linear = 2 * step_ns - growth_ns
    steps = (isqrt(linear * linear + 8 * growth_ns * wanted_ns) - linear) // (2 * growth_ns)
    while steps * (linear + growth_ns * steps) < 2 * wanted_ns:
        steps += 1
    return max(steps, 1)
