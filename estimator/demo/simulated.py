"""The loop without vLLM, for machines that cannot run it: a simulated engine, said so.

Real here: the sidecar, its API, its learner, and the policies with their guard. Simulated: the
engine (a fixed number of seconds for each request, one at a time, sped up) and the transcripts'
lengths. What it shows is the loop, not a gain on any hardware.
"""

import random
import time
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from rich.console import Console

from estimator.client import EstimatorClient
from estimator.core.observation import Completion
from estimator.demo.figures import RunFigures, figures_of
from estimator.demo.load import Arrival, Outcome
from estimator.demo.processes import SERVED_MODEL, Processes
from estimator.demo.result import NOT_SHOWN, DemoResult, Overhead, kappa_rows
from estimator.demo.schedule import Clip, mixed_lengths, poisson_arrivals, read_clips
from estimator.demo.stage import look_further, sidecar, wait_until_learned
from sched_client.model import Features, Mode, parameters_of
from sched_client.policies import create_policy
from sched_client.policies.base import WaitingEntry

ENGINE: Final = "SIMULATED, no vLLM: one request at a time, seconds from a formula"
# Real Whisper-base on 2 cores took about 0.85 s plus 0.014 s a token; text tokens a second of
# audio by language (docs/vllm.md).
_ENCODER_S: Final = 0.85
_TOKEN_S: Final = 0.014
_TOKENS_PER_S: Final = {"en": 3.15, "es": 4.3, "de": 4.6, "fr": 4.8, "hi": 11.0}
_INTERCEPT_TOKENS: Final = 3.0
_SPREAD: Final = 0.2  # of tokens around the line, as for read speech
_WARM_UP: Final = 24
_LOAD: Final = 1.5
_SHIFT_LOAD: Final = 0.9


def demo(console: Console, run_dir: Path, *, requests: int, seed: int) -> DemoResult:
    """Run warm-up, FCFS, mode on and a shift of languages against the simulated engine.

    Parameters
    ----------
    console : rich.console.Console
        Gets the progress.
    run_dir : pathlib.Path
        Gets the sidecar's state and log.
    requests : int
        Requests of the two runs that are compared.
    seed : int
        Decides everything random.

    Returns
    -------
    DemoResult
        With an ``engine`` that says that it is simulated.
    """
    clips = read_clips()
    english = [c for c in clips if c.language == "en"]
    others = [c for c in clips if c.language != "en"]
    rng = random.Random(seed)  # noqa: S311  # a load, not a secret
    with (
        Processes(run_dir) as processes,
        sidecar(processes, run_dir) as place,
        EstimatorClient(place.target) as client,
    ):
        started, (cpu_s, _) = time.monotonic(), place.child.usage()
        before = dict(client.kappas())
        engine = Engine(client=client, rng=rng)
        engine.serve(poisson_arrivals(mixed_lengths(english, _WARM_UP, rng), 1.0, rng), "fcfs")
        wait_until_learned(client, engine.reported)
        mean_s = sum(_seconds(_mean_tokens(c)) for c in english) / len(english)
        arrivals = poisson_arrivals(mixed_lengths(english, requests, rng), _LOAD / mean_s, rng)
        runs: list[RunFigures] = []
        chosen = client.status().settings.policy
        for name, policy in (("FCFS", "fcfs"), ("kappad", chosen)):
            runs.append(engine.run(console, name, arrivals, policy))
        shifted = mixed_lengths(others, max(requests // 2, 4), rng)
        shift = poisson_arrivals(shifted, _SHIFT_LOAD / mean_s, rng)
        runs.append(engine.run(console, "other languages", shift, chosen))
        wait_until_learned(client, engine.reported)
        end_cpu_s, resident_mib = place.child.usage()
        return DemoResult(
            engine=ENGINE,
            startup_s=0.0,
            capacity_rps=1.0 / mean_s,
            rate_rps=_LOAD / mean_s,
            fcfs=runs[0],
            on=runs[1],
            shift=runs[2],
            kappas=kappa_rows(before, dict(client.kappas(SERVED_MODEL))),
            drifts=tuple(client.drift_events()),
            overhead=Overhead(
                sidecar_cpu_ratio=(end_cpu_s - cpu_s) / (time.monotonic() - started),
                sidecar_resident_mib=resident_mib,
                dropped_reports=0,
                client_failures=0,
            ),
            look_further=tuple(look_further(place)),
            not_shown=("anything about vLLM: the engine was simulated", *NOT_SHOWN),
        )


def _mean_tokens(clip: Clip) -> float:
    return _INTERCEPT_TOKENS + _TOKENS_PER_S[clip.language] * clip.duration_s


def _seconds(tokens: float) -> float:
    return _ENCODER_S + _TOKEN_S * tokens


@dataclass(slots=True, kw_only=True)
class Engine:
    """Serves one request at a time in virtual time, ordered by a real policy.

    Attributes
    ----------
    client : EstimatorClient
        Gives the estimates and takes the completions, over gRPC.
    rng : random.Random
        Decides the lengths of transcripts.
    reported : int
        Completions reported so far.
    """

    client: EstimatorClient
    rng: random.Random
    reported: int = 0
    _boot_id: str = field(default_factory=lambda: str(uuid.uuid4()))

    def run(
        self, console: Console, name: str, arrivals: Sequence[Arrival], policy: str
    ) -> RunFigures:
        """Serve and summarise."""
        mode: Mode = "off" if policy == "fcfs" else "on"
        self.client.set_mode(mode, "kappad demo, simulated engine")
        with console.status(name):
            figures = figures_of(self.serve(arrivals, policy))
        console.print(f"{name} (simulated): P50 {figures.p50_s:.2f} s, P90 {figures.p90_s:.2f} s")
        return figures

    def serve(self, arrivals: Sequence[Arrival], policy_name: str) -> list[Outcome]:
        """Serve every arrival, reporting each completion as it ends.

        Parameters
        ----------
        arrivals : sequence of Arrival
            Ascending in time.
        policy_name : str
            As `create_policy` knows it.

        Returns
        -------
        list of Outcome
            In the order of their ends, in virtual seconds.
        """
        settings = self.client.status().settings
        parameters = parameters_of(settings, mean_work=_seconds(25.0))
        policy = create_policy(policy_name, parameters)
        outcomes: list[Outcome] = []
        now_s, upcoming = 0.0, list(enumerate(arrivals))
        while upcoming or len(policy):
            if not len(policy):
                now_s = max(now_s, upcoming[0][1].due_s)
            while upcoming and upcoming[0][1].due_s <= now_s:
                index, arrival = upcoming.pop(0)
                policy.add(self._entry(index, arrival))
            chosen = policy.pop(now_s)
            arrival = arrivals[int(chosen.request_id)]
            tokens = self._tokens(arrival, int(chosen.request_id))
            wait_s, now_s = now_s - arrival.due_s, now_s + _seconds(tokens)
            self._report(arrival, tokens, wait_s=wait_s, predicted=chosen.tokens)
            outcomes.append(
                Outcome(
                    arrival=arrival, sent_s=arrival.due_s, finished_s=now_s, status=200, body="{}"
                )
            )
        return outcomes

    def _entry(self, index: int, arrival: Arrival) -> WaitingEntry:
        features = Features(
            model=SERVED_MODEL,
            task="transcribe",
            language=arrival.language,
            timestamps=False,
            audio_s=arrival.audio_s,
            duration_source="mel",
        )
        estimate = self.client.predict([features]).estimates[0]
        return WaitingEntry(
            str(index), arrival.due_s, estimate.service_s, estimate.tokens, estimate.queue_id
        )

    def _tokens(self, arrival: Arrival, index: int) -> int:
        clip = Clip(path=arrival.clip, language=arrival.language, duration_s=arrival.audio_s)
        # The same lengths under both policies: they belong to the request, not to the order.
        noise = random.Random(f"{arrival.clip.name} {index}").gauss(1.0, _SPREAD)  # noqa: S311  # a load
        return max(1, round(_mean_tokens(clip) * max(noise, 0.3)))

    def _report(self, arrival: Arrival, tokens: int, *, wait_s: float, predicted: float) -> None:
        self.reported += 1
        completion = Completion(
            completion_id=f"{self._boot_id}-{self.reported}",
            model=SERVED_MODEL,
            language=arrival.language,
            timestamps=False,
            audio_s=arrival.audio_s,
            duration_source="mel",
            prompt_tokens=4,
            output_tokens=tokens,
            finish_reason="stop",
            finished_s=time.time(),  # the API's unit; the engine's own time is virtual
            wait_s=wait_s,
            service_s=_seconds(tokens),
            concurrency=1.0,
            predicted_tokens=predicted,
        )
        self.client.report([completion], client_id="simulated-engine", model=SERVED_MODEL)
