"""The whole loop in one command: real Whisper on real vLLM, first FCFS, then kappad.

`main` is what ``kappad demo`` and ``make demo`` call.
"""

import asyncio
import random
import shlex
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Final

from rich.console import Console

from estimator.client import EngineClient, EstimatorClient
from estimator.demo import environment, simulated, weights
from estimator.demo.figures import RunFigures, figures_of
from estimator.demo.home import home
from estimator.demo.load import Arrival, Outcome, run
from estimator.demo.processes import SERVED_MODEL, Processes, StartError
from estimator.demo.result import DemoResult, Overhead, kappa_rows
from estimator.demo.schedule import Clip, arrival_of, mixed_lengths, poisson_arrivals, read_clips
from estimator.demo.stage import (
    Sidecar,
    look_further,
    sidecar,
    start_vllm,
    switch_mode,
    wait_until_learned,
)
from sched_client.model import Mode

LOAD: Final = 1.5
# Long enough that the batch is full most of the time, short enough to cost a quarter minute.
_CAPACITY_REQUESTS: Final = 24
_SHIFT_LOAD: Final = 0.9
_RUNS_DIR: Final = home() / ".cache" / "demo"
_INTERRUPTED: Final = 130  # as a shell reports a program ended by Ctrl-C


def main(
    *,
    vllm_python: str | None = None,
    json: bool = False,
    requests: int = 60,
    seed: int = 20,
) -> int:
    """Run the demo.

    Parameters
    ----------
    vllm_python : str, optional
        Interpreter of an environment with a CPU vLLM; built on the first call if not given.
    json : bool
        Print the result as JSON on stdout; everything else goes to stderr.
    requests : int
        Requests of the FCFS run and of the run with mode on, ≥ 4.
    seed : int
        Decides the clips' order and their arrival times.

    Returns
    -------
    int
        0 if every request was answered, 1 if not or if something did not start, 130 after Ctrl-C.
    """
    progress = Console(stderr=json)
    try:
        with _signals_interrupt():
            result = _demo(progress, vllm_python, requests, seed)
    except KeyboardInterrupt:
        progress.print("\nInterrupted; every process was stopped.")
        return _INTERRUPTED
    except (StartError, weights.WeightsError) as error:
        progress.print(f"kappad demo: {error}", highlight=False, markup=False)
        return 1
    if json:
        print(result.as_json())
    else:
        result.show(progress)
    return 0 if result.failed == 0 else 1


@contextmanager
def _signals_interrupt() -> Iterator[None]:
    """Treat SIGTERM and SIGHUP as Ctrl-C, so that they stop the children, too."""

    def interrupt(_number: int, _frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    previous = {
        number: signal.signal(number, interrupt) for number in (signal.SIGTERM, signal.SIGHUP)
    }
    try:
        yield
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)


def _demo(console: Console, vllm_python: str | None, requests: int, seed: int) -> DemoResult:
    _RUNS_DIR.mkdir(parents=True, exist_ok=True)
    run_dir = Path(tempfile.mkdtemp(prefix=time.strftime("%Y%m%d-%H%M%S-"), dir=_RUNS_DIR))
    reason = None if vllm_python else environment.unsupported_reason()
    if reason is not None:
        console.print(f"No vLLM here: {reason}.\n[bold]Simulated engine instead[/bold].")
        return simulated.demo(console, run_dir, requests=requests, seed=seed)
    if vllm_python is None:
        with _step(console, "vLLM's environment (a few minutes and 4 GB the first time)"):
            python = _build()
    else:
        python = Path(vllm_python)
        if not python.is_file():
            raise StartError(f"{python} is no file; name the interpreter of vLLM's environment")
    with _step(console, "Whisper-base's weights"):
        model = weights.ensure()
    with Processes(run_dir) as processes, sidecar(processes, run_dir) as place:
        with _step(console, "vLLM"):
            port, startup_s = start_vllm(processes, python, model, place.target)
        with EstimatorClient(place.target) as client:
            demo = _Demo(console=console, client=client, place=place, port=port, seed=seed)
            return demo.run(requests, startup_s=startup_s, python=python)


def _build() -> Path:
    try:
        return environment.build()
    except subprocess.CalledProcessError as error:
        raise StartError(
            f"vLLM's environment could not be built: {shlex.join(map(str, error.cmd))} exited "
            f"{error.returncode}; see its message above, or name one with --vllm-python"
        ) from error


def _announce(console: Console, what: str) -> None:
    """Say what begins where no spinner can, as in a log."""
    if not console.is_terminal:
        console.print(f"{what} …", highlight=False, markup=False)


@contextmanager
def _step(console: Console, what: str) -> Iterator[None]:
    """Show a spinner, and afterwards how long a step took."""
    started = time.monotonic()
    _announce(console, what)
    with console.status(f"{what} …"):
        yield
    console.print(f"{what}: {time.monotonic() - started:.1f} s", highlight=False, markup=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Demo:
    """The phases, on a stage that is set."""

    console: Console
    client: EstimatorClient
    place: Sidecar
    port: int
    seed: int

    def run(self, requests: int, *, startup_s: float, python: Path) -> DemoResult:
        clips = read_clips()
        english = [c for c in clips if c.language == "en"]
        others = [c for c in clips if c.language != "en"]
        started, (cpu_s, _) = time.monotonic(), self.place.child.usage()
        prior = dict(self.client.kappas(SERVED_MODEL)) or dict(self.client.kappas())
        capacity_rps = self._capacity(english)
        rng = self._rng("load")
        sequence = mixed_lengths(english, requests, rng)
        arrivals = poisson_arrivals(sequence, LOAD * capacity_rps, rng)
        self._switch("off")
        fcfs = self._phase("FCFS (mode off)", arrivals)
        self._switch("on")
        on = self._phase("kappad (mode on)", arrivals)
        rng = self._rng("shift")
        shifted = mixed_lengths(others, max(requests // 2, 4), rng)
        shift = self._phase(
            "other languages (mode on)",
            poisson_arrivals(shifted, _SHIFT_LOAD * capacity_rps, rng),
        )
        wait_until_learned(self.client, _CAPACITY_REQUESTS + len(english) + on.n + shift.n)
        end_cpu_s, resident_mib = self.place.child.usage()
        status = self.client.status()
        return DemoResult(
            engine=f"vLLM {_versions(status.clients)} on this CPU, Whisper-base, {python}",
            startup_s=startup_s,
            capacity_rps=capacity_rps,
            rate_rps=LOAD * capacity_rps,
            fcfs=fcfs,
            on=on,
            shift=shift,
            kappas=kappa_rows(prior, dict(self.client.kappas(SERVED_MODEL))),
            drifts=tuple(self.client.drift_events()),
            overhead=Overhead(
                sidecar_cpu_ratio=(end_cpu_s - cpu_s) / (time.monotonic() - started),
                sidecar_resident_mib=resident_mib,
                dropped_reports=sum(c.dropped_reports for c in status.clients),
                client_failures=sum(c.failures for c in status.clients),
            ),
            look_further=tuple(look_further(self.place)),
        )

    def _rng(self, phase: str) -> random.Random:
        return random.Random(f"{self.seed} {phase}")  # noqa: S311  # a load, not a secret

    def _capacity(self, clips: Sequence[Clip]) -> float:
        """Serve every clip once to warm up, then a burst of the mix, in requests per second."""
        self._send("warming up", [arrival_of(clip) for clip in clips])
        burst = mixed_lengths(clips, _CAPACITY_REQUESTS, self._rng("capacity"))
        outcomes = self._send("measuring capacity", [arrival_of(clip) for clip in burst])
        capacity_rps = figures_of(outcomes).throughput_rps
        self.console.print(f"Capacity {capacity_rps:.2f} requests/s, sending {LOAD} x that.")
        return capacity_rps

    def _phase(self, name: str, arrivals: Sequence[Arrival]) -> RunFigures:
        figures = figures_of(self._send(name, arrivals))
        self.console.print(
            f"{name}: {figures.n - figures.failed} answered, P50 {figures.p50_s:.2f} s, "
            f"P90 {figures.p90_s:.2f} s, {figures.throughput_rps:.2f} requests/s"
        )
        return figures

    def _send(self, name: str, arrivals: Sequence[Arrival]) -> list[Outcome]:
        """Send with live progress."""
        started, n, latest = time.monotonic(), 0, ""
        last_s = max(arrival.due_s for arrival in arrivals)
        over = f"in {last_s:.0f} s" if last_s else "at once"
        _announce(self.console, f"{name}: {len(arrivals)} requests {over}")
        with self.console.status(name) as status:

            def show(outcome: Outcome) -> None:
                nonlocal n, latest
                n += 1
                latest = outcome.text.strip() if outcome.ok else outcome.body
                status.update(
                    f"{name}: {n} of {len(arrivals)} answered, "
                    f"{time.monotonic() - started:.0f} s; {outcome.arrival.audio_s:.1f} s "
                    f"of {outcome.arrival.language} took {outcome.latency_s:.1f} s: "
                    f"{latest[:40]!r}".replace("[", "\\[")
                )

            return asyncio.run(run(self.port, arrivals, on_outcome=show))

    def _switch(self, mode: Mode) -> None:
        if not switch_mode(self.client, mode, "kappad demo"):
            raise StartError(
                f"vLLM did not follow to mode {mode}; see its log in {self.place.state_dir.parent}"
            )


def _versions(clients: Sequence[EngineClient]) -> str:
    return ", ".join(sorted({client.engine_version for client in clients}))


if __name__ == "__main__":
    sys.exit(main())
