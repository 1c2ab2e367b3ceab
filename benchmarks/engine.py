"""FCFS against kappad on real vLLM: latency, throughput, and a load at which nothing is gained.

One server for everything; rounds alternate the order of the two (ABBA), so that a drift of the
machine's speed favours neither. Open loop; the same arrivals for both sides of a round.

    .venv/bin/python -m benchmarks.engine --json

Throughput counts up to the last answer. What an order loses at the end of a run, where its last
clips leave the machine half empty, weighs less the longer the run is: compare ``--requests 240``.
"""

import argparse
import asyncio
import json
import random
import statistics
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

from estimator.client import EstimatorClient
from estimator.demo import environment, weights
from estimator.demo.figures import RunFigures, figures_of, p50_gain, throughput_ratio
from estimator.demo.load import Arrival, run
from estimator.demo.processes import Processes
from estimator.demo.schedule import arrival_of, mixed_lengths, poisson_arrivals, read_clips
from estimator.demo.stage import sidecar, start_vllm, switch_mode
from sched_client.model import Mode

# The papers' point of comparison, and one where hardly anybody waits: there is nothing to gain.
LOADS: Final = (1.5, 0.6)
CAPACITY_REQUESTS: Final = 32


class Bench:
    """The runs against one server."""

    def __init__(self, client: EstimatorClient, port: int, *, requests: int, seed: int) -> None:
        self._client = client
        self._port = port
        self._requests = requests
        self._seed = seed
        self._clips = [clip for clip in read_clips() if clip.language == "en"]

    def capacity_rps(self) -> float:
        """Serve each clip once, then a burst of the mix."""
        self._send([arrival_of(clip) for clip in self._clips])
        burst = mixed_lengths(self._clips, CAPACITY_REQUESTS, self._rng("capacity"))
        return self._send([arrival_of(clip) for clip in burst]).throughput_rps

    def compare(self, load: float, capacity_rps: float, rounds: int) -> dict[str, Any]:
        """Run both orders at one load; Any: JSON."""
        fcfs: list[RunFigures] = []
        on: list[RunFigures] = []
        for number in range(rounds):
            rng = self._rng(f"round {number}")
            clips = mixed_lengths(self._clips, self._requests, rng)
            arrivals = poisson_arrivals(clips, load * capacity_rps, rng)
            sides: list[tuple[Mode, list[RunFigures]]] = [("off", fcfs), ("on", on)]
            for mode, figures in sides if number % 2 == 0 else reversed(sides):
                if not switch_mode(self._client, mode, "benchmark"):
                    sys.exit(f"vLLM did not follow to mode {mode}")
                figures.append(self._send(arrivals))
                print(f"load {load}, round {number}, {mode}: {figures[-1]}", file=sys.stderr)
        return {
            "rate_rps": load * capacity_rps,
            "p50_gain_ratio": [p50_gain(a, b) for a, b in zip(fcfs, on, strict=True)],
            "p50_gain_ratio_median": statistics.median(map(p50_gain, fcfs, on)),
            "throughput_ratio": [throughput_ratio(a, b) for a, b in zip(fcfs, on, strict=True)],
            "throughput_ratio_median": statistics.median(map(throughput_ratio, fcfs, on)),
            "fcfs": [asdict(figures) for figures in fcfs],
            "on": [asdict(figures) for figures in on],
        }

    def _rng(self, purpose: str) -> random.Random:
        return random.Random(f"{self._seed} {purpose}")

    def _send(self, arrivals: Sequence[Arrival]) -> RunFigures:
        figures = figures_of(asyncio.run(run(self._port, arrivals)))
        if figures.failed:
            sys.exit(f"{figures.failed} requests were not answered")
        return figures


def main() -> None:
    """Start everything, compare at each load, print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="kept for benchmarks.run: always JSON")
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--requests", type=int, default=60)
    parser.add_argument("--seed", type=int, default=20)
    parser.add_argument("--loads", type=float, nargs="+", default=LOADS)
    options = parser.parse_args()
    reason = environment.unsupported_reason()
    if reason is not None:
        print(json.dumps({"not_run": reason}))
        return
    with tempfile.TemporaryDirectory() as folder, Processes(Path(folder)) as processes:
        python, model = environment.build(), weights.ensure()
        with sidecar(processes, Path(folder)) as place, EstimatorClient(place.target) as client:
            port, startup_s = start_vllm(processes, python, model, place.target)
            bench = Bench(client, port, requests=options.requests, seed=options.seed)
            capacity_rps = bench.capacity_rps()
            result = {
                "vllm_startup_s": startup_s,
                "capacity_rps": capacity_rps,
                "requests": options.requests,
                "seed": options.seed,
                "loads": {
                    str(load): bench.compare(load, capacity_rps, options.rounds if load > 1 else 2)
                    for load in options.loads
                },
            }
    print(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
