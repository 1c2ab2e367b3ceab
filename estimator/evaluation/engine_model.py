"""A small model of continuous batching: what load alone does to the seconds of a request.

Owns slots, steps and the mean concurrency of each residence. First come, first served, in virtual
time. It answers one question, whether a service fit takes load for slower hardware, and is no
twin: no KV memory, no preemption, no chunked prefill, no policy.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from heapq import heappop, heappush
from typing import Final, NamedTuple

from estimator.core.observation import Completion


class Job(NamedTuple):
    """One request: output tokens, ≥ 1, prompt tokens that must be computed, seconds of audio."""

    tokens: int
    prompt_tokens: int = 0
    audio_s: float | None = None


class Residence(NamedTuple):
    """What became of one job.

    Attributes
    ----------
    job : Job
        The request.
    admitted_s, finished_s : float
        In virtual time.
    concurrency : float
        Mean number of running requests in between, itself included.
    """

    job: Job
    admitted_s: float
    finished_s: float
    concurrency: float

    @property
    def service_s(self) -> float:
        """Seconds from the first admission to the end."""
        return self.finished_s - self.admitted_s

    def completion(self, index: int, start_s: float = 0.0) -> Completion:
        """Give what an engine that started at ``start_s`` would report of it."""
        job = self.job
        return Completion(
            completion_id=f"modelled-{index}",
            task="transcribe" if job.audio_s is not None else "text",
            kind="transcription" if job.audio_s is not None else "text",
            audio_s=job.audio_s,
            prompt_tokens=job.prompt_tokens,
            output_tokens=job.tokens,
            finished_s=start_s + self.finished_s,
            service_s=self.service_s,
            concurrency=self.concurrency,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineModel:
    """What a step costs.

    Attributes
    ----------
    step_s, per_sequence_s : float
        A decode step's fixed part, and its part for each running request.
    admission_s, per_prompt_token_s : float
        What an admission adds to the step it falls into, which holds up all that run: an encoder
        pass, a prefill.
    slots : int
        Most running requests (vLLM's ``max_num_seqs``).
    noise : float
        Standard deviation of a step's relative error.
    """

    step_s: float
    per_sequence_s: float
    admission_s: float
    per_prompt_token_s: float = 0.0
    slots: int = 16
    noise: float = 0.02

    def capacity_rps(self, jobs: Sequence[Job]) -> float:
        """Give the throughput with all slots taken: what load 1 is."""
        tokens = sum(job.tokens for job in jobs) / len(jobs)
        prompt = sum(job.prompt_tokens for job in jobs) / len(jobs)
        steps_s = tokens * (self.step_s / self.slots + self.per_sequence_s)
        return 1.0 / (steps_s + self.admission_s + self.per_prompt_token_s * prompt)

    def slower(self, factor: float) -> "EngineModel":
        """Give the same engine on a machine that takes ``factor`` times as long."""
        return replace(
            self,
            step_s=factor * self.step_s,
            per_sequence_s=factor * self.per_sequence_s,
            admission_s=factor * self.admission_s,
            per_prompt_token_s=factor * self.per_prompt_token_s,
        )


# An RTX 4090 takes 0.030 + 0.0069 · n seconds for Whisper large-v3 (MLPerf Inference v5.1 logs);
# the share of each further sequence in a step is an assumption.
GPU: Final = EngineModel(step_s=0.0065, per_sequence_s=0.0004, admission_s=0.030)
# Whisper-base on two cores: 0.85 + 0.014 · n seconds one at a time (docs/vllm.md).
CPU: Final = EngineModel(step_s=0.009, per_sequence_s=0.005, admission_s=0.85)


def serve(
    engine: EngineModel,
    jobs: Sequence[Job],
    *,
    load: float,
    rng: random.Random,
    change_at: int | None = None,
    change: float = 1.0,
) -> list[Residence]:
    """Serve jobs that arrive by a Poisson process.

    Parameters
    ----------
    engine : EngineModel
        What steps cost.
    jobs : sequence of Job
        In the order of their arrival.
    load : float
        Arrivals over the engine's capacity at the start, > 0.
    rng : random.Random
        Decides arrivals and noise.
    change_at : int, optional
        Admissions after which the machine takes ``change`` times as long.
    change : float
        See there.

    Returns
    -------
    list of Residence
        In the order in which they finish.

    Notes
    -----
    Between an admission and the next end or arrival all steps are alike and are taken at once:
    O(log slots) for each of them.
    """
    rate = load * engine.capacity_rps(jobs)
    arrival_s = rng.expovariate(rate)
    # (step of the end, index, admitted, integral of concurrency by then)
    running: list[tuple[int, int, float, float]] = []
    done: list[Residence] = []
    now_s = integral = 0.0
    step = index = 0
    while len(done) < len(jobs):
        if not running and index < len(jobs):
            now_s = max(now_s, arrival_s)
        cost_s = 0.0
        while index < len(jobs) and arrival_s <= now_s and len(running) < engine.slots:
            if index == change_at:
                engine = engine.slower(change)
            job = jobs[index]
            heappush(running, (step + job.tokens, index, now_s, integral))
            cost_s += engine.admission_s + engine.per_prompt_token_s * job.prompt_tokens
            arrival_s += rng.expovariate(rate)
            index += 1
        step_s = engine.step_s + engine.per_sequence_s * len(running)
        steps = running[0][0] - step
        if index < len(jobs) and len(running) < engine.slots:
            # The next admission waits for the end of the step that it falls into.
            until = max(arrival_s - now_s - cost_s, 0.0) / step_s
            steps = min(steps, int(until) + 1)
        spent_s = cost_s + steps * step_s
        spent_s *= max(1.0 + engine.noise * rng.gauss(0.0, 1.0), 0.1)
        step += steps
        now_s += spent_s
        integral += len(running) * spent_s
        while running and running[0][0] <= step:
            _, at, admitted_s, before = heappop(running)
            service_s = now_s - admitted_s
            done.append(Residence(jobs[at], admitted_s, now_s, (integral - before) / service_s))
    return done
