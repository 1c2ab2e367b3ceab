"""Which benchmarks there are, in the order in which ``make bench`` runs them."""

from dataclasses import dataclass
from typing import Final

__all__ = ["BENCHMARKS", "Benchmark"]


@dataclass(frozen=True, slots=True)
class Benchmark:
    """One run of one module, by default of the same name."""

    name: str
    module: str = ""
    arguments: tuple[str, ...] = ()
    inside_vllm: bool = False


BENCHMARKS: Final = (
    Benchmark("policies"),
    Benchmark("core"),
    Benchmark("learning"),
    Benchmark("drift"),
    Benchmark("partition"),
    Benchmark("service"),
    Benchmark("twin"),
    Benchmark("twin_queues", module="twin.queues"),
    Benchmark("twin_frontier", module="twin.frontier"),
    Benchmark("twin_text", module="twin.text"),
    Benchmark("twin_cuts", module="twin.cuts"),
    Benchmark("twin_paper"),
    Benchmark(
        "twin_engine_recorded",
        module="twin_engine",
        arguments=("--from", "benchmarks/reference/cpu-whisper-base"),
    ),
    Benchmark("twin_speed"),
    Benchmark("store"),
    Benchmark("transport", arguments=("--rounds", "6")),
    Benchmark("server"),
    Benchmark("server_fits"),
    Benchmark("scheduler", arguments=("--json",), inside_vllm=True),
    Benchmark("preemption", arguments=("--json",), inside_vllm=True),
    Benchmark("link", arguments=("--json",), inside_vllm=True),
    Benchmark("engine", arguments=("--json",)),
    Benchmark("twin_engine"),
    Benchmark(
        "engine-long",
        module="engine",
        arguments=("--rounds", "2", "--requests", "240", "--loads", "1.5"),
    ),
)
