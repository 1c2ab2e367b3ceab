"""The twin beside the real vLLM: calibrated on one run, it predicts another at another rate.

    .venv/bin/python -m benchmarks.twin_engine                 # record now, then predict
    .venv/bin/python -m benchmarks.twin_engine --from FOLDER   # predict from a recording
    .venv/bin/python -m benchmarks.twin_engine --record FOLDER # record only

A recording is one server's: runs with open-loop Poisson arrivals, each at its own load and in its
own mode, as CSV files that ``kappad export`` would write, beside ``recording.json``, which holds
when each request was due and how long its caller waited. No audio and no text.
"""

import argparse
import asyncio
import json
import platform
import random
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from benchmarks.twin_engine_predict import RECORDING, predict_folder
from estimator.client import EstimatorClient
from estimator.core.observation import Completion
from estimator.demo import environment, weights
from estimator.demo.figures import figures_of
from estimator.demo.load import Arrival, Outcome, run
from estimator.demo.processes import Processes
from estimator.demo.schedule import arrival_of, mixed_lengths, poisson_arrivals, read_clips
from estimator.demo.stage import sidecar, start_vllm, switch_mode
from estimator.traces import cells_of, write_rows
from sched_client.model import Mode

# Of `estimator.demo.processes.vllm_command`.
SLOTS: Final = 4
# Load and mode of each run: the first calibrates. In mode off nothing is reported; shadow admits
# first come, first served, too.
RUNS: Final[tuple[tuple[float, Mode], ...]] = ((0.8, "shadow"), (1.3, "shadow"), (1.3, "on"))
CAPACITY_REQUESTS: Final = 40
_REPORT_TIMEOUT_S: Final = 30.0


class Recorder:
    """Sends runs to one server and keeps what came of them."""

    def __init__(self, client: EstimatorClient, port: int, folder: Path, seed: int) -> None:
        self._client = client
        self._port = port
        self._folder = folder
        self._seed = seed
        self._clips = [clip for clip in read_clips() if clip.language == "en"]
        self._known = 0
        # Of each clip's transcript, by file name; the same every time, at temperature 0.
        self._tokens: dict[str, int] = {}

    def capacity_rps(self) -> float:
        """Serve each clip alone, then a burst of the mix."""
        for clip in self._clips:
            self._send([arrival_of(clip)])
            self._tokens[clip.path.name] = self._completions()[-1].output_tokens
        burst = mixed_lengths(self._clips, CAPACITY_REQUESTS, self._rng("capacity"))
        outcomes, _ = self._send([arrival_of(clip) for clip in burst])
        return figures_of(outcomes).throughput_rps

    def record(self, number: int, load: float, mode: Mode, rate_rps: float, n: int) -> Any:
        """Send a run and write its file; gives its entry in the recording (Any: JSON)."""
        rng = self._rng(f"run {number}")
        clips = mixed_lengths(self._clips, n, rng)
        arrivals = poisson_arrivals(clips, rate_rps, rng)
        if not switch_mode(self._client, mode, "recording"):
            sys.exit(f"vLLM did not follow to mode {mode}")
        outcomes, started_unix_s = self._send(arrivals)
        completions = self._completions()
        name = f"run-{number}.csv"
        with (self._folder / name).open("w", encoding="utf-8", newline="") as out:
            write_rows(
                (
                    cells_of(one, arrival_s=round(_arrival_s(one) - started_unix_s, 6))
                    for one in completions
                ),
                out,
                "csv",
            )
        figures = figures_of(outcomes)
        print(f"run {number}, load {load}, mode {mode}: {figures}", file=sys.stderr)
        return {
            "file": name,
            "load": load,
            "mode": mode,
            "rate_rps": rate_rps,
            "throughput_rps": figures.throughput_rps,
            "due_s": [round(one.arrival.due_s, 6) for one in outcomes],
            "audio_s": [one.arrival.audio_s for one in outcomes],
            "tokens": [self._tokens[one.arrival.clip.name] for one in outcomes],
            "latency_s": [round(one.latency_s, 6) for one in outcomes],
        }

    def _completions(self) -> list[Completion]:
        """Give what was reported since the last call."""
        return list(self._client.completions())[self._known :]

    def _send(self, arrivals: Sequence[Arrival]) -> tuple[list[Outcome], float]:
        self._known = self._stored()
        # One call after the other: what separates them is well below a millisecond.
        started_unix_s = time.time()  # the sidecar's ends are Unix times
        outcomes = asyncio.run(run(self._port, arrivals))
        if not all(one.ok for one in outcomes):
            sys.exit("some requests were not answered")
        due = self._known + len(arrivals)
        deadline = time.monotonic() + _REPORT_TIMEOUT_S
        while (stored := self._stored()) < due:
            if time.monotonic() > deadline:
                sys.exit(f"the sidecar was told of {stored} requests of {due}")
            time.sleep(0.2)
        return outcomes, started_unix_s

    def _stored(self) -> int:
        return sum(1 for _ in self._client.completions())

    def _rng(self, purpose: str) -> random.Random:
        return random.Random(f"{self._seed} {purpose}")


def _arrival_s(one: Completion) -> float:
    return one.finished_s - one.service_s - one.wait_s


def record(folder: Path, *, requests: int, seed: int) -> None:
    """Start everything, send the runs, write the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as place_of, Processes(Path(place_of)) as processes:
        python, model = environment.build(), weights.ensure()
        with (
            sidecar(processes, Path(place_of)) as place,
            EstimatorClient(place.target) as client,
        ):
            port, _ = start_vllm(processes, python, model, place.target)
            recorder = Recorder(client, port, folder, seed)
            capacity_rps = recorder.capacity_rps()
            print(f"capacity {capacity_rps:.2f} requests/s", file=sys.stderr)
            runs = [
                recorder.record(number, load, mode, load * capacity_rps, requests)
                for number, (load, mode) in enumerate(RUNS)
            ]
    document = {
        "engine": "vLLM on this CPU, Whisper-base, bfloat16, --enforce-eager",
        "machine": f"{platform.machine()}, {platform.processor() or 'unknown processor'}",
        "slots": SLOTS,
        "capacity_rps": capacity_rps,
        "seed": seed,
        "runs": runs,
    }
    (folder / RECORDING).write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


def main() -> None:
    """Record or read a recording; print what the twin makes of it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", action="store_true", help="kept for benchmarks.run: always JSON")
    parser.add_argument("--from", dest="source", type=Path, help="a recorded folder")
    parser.add_argument("--record", type=Path, help="write a recording there, predict nothing")
    parser.add_argument("--requests", type=int, default=80, help="of each run")
    parser.add_argument("--seed", type=int, default=20)
    options = parser.parse_args()
    if options.source is not None:
        print(json.dumps(predict_folder(options.source), indent=1))
        return
    reason = environment.unsupported_reason()
    if reason is not None:
        print(json.dumps({"not_run": reason}))
        return
    if options.record is not None:
        record(options.record, requests=options.requests, seed=options.seed)
        return
    with tempfile.TemporaryDirectory() as folder:
        record(Path(folder), requests=options.requests, seed=options.seed)
        print(json.dumps(predict_folder(Path(folder)), indent=1))


if __name__ == "__main__":
    main()
