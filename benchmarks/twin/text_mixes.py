"""Mixed text on the engine that it is compared on: Azure's, with long contexts, and EWSJF's."""

import math
import random
from typing import Final, NamedTuple

from benchmarks.twin.material import TRACES, Mix, Scene, engine, scene
from estimator.core.observation import Completion
from estimator.replay.arrivals import Arrivals
from estimator.replay.job import Job
from estimator.replay.rows import Rows, read_rows
from estimator.replay.runs import Point, capacity_rps
from estimator.replay.workload import Workload

ENGINE: Final = "a100x4-llama2-13b"
LOAD: Final = 1.1
# Of a job's file, in the order of the workload: what a gateway knows of it.
APPLICATIONS: Final = ("chat", "completion", "document")
_AZURE: Final = ("azure-llm-2023-conv", "azure-llm-2023-code")
_AZURE_ROWS: Final = (19_366.0, 8_819.0)
_MOONCAKE: Final = "mooncake-conversation"
# EWSJF's workload as RESEARCH.md has it: 80 % short and 20 % long, prompts of 32 to 4,096 tokens.
# Assumed: where the border is, log-uniform prompts, and outputs of 128 tokens, the default of
# vLLM's own benchmark on random prompts.
_EWSJF_OUTPUT: Final = 128
_ROWS: Final = 4_000


class Kind(NamedTuple):
    """Requests that are alike.

    Attributes
    ----------
    name : str
        For its file.
    prompts : tuple of int
        Least and most tokens, uniform between them in the logarithm.
    output : int
        Tokens that each produces.
    share : float
        Of all requests.
    """

    name: str
    prompts: tuple[int, int]
    output: int
    share: float


def azure_at_own_times() -> Scene:
    """Give Azure's chats and completions as they came, stretched to the load."""
    files = tuple(read_rows(TRACES / f"{name}.csv.gz", timed=True) for name in _AZURE)
    n = sum(map(len, files))
    workload = Workload(files=files, n=n, weights=(1.0, 1.0), timed=True)
    rate_rps = LOAD * capacity_rps(engine(ENGINE), workload, 1)
    return Scene(engine(ENGINE), workload, Arrivals(kind="trace"), Point(rate_rps, LOAD))


def azure(n: int, mooncake_share: float = 0.0) -> Scene:
    """Give Azure's mix in Poisson arrivals, with a share of long contexts."""
    total = sum(_AZURE_ROWS)
    parts = tuple(zip(_AZURE, _AZURE_ROWS, strict=True))
    if mooncake_share:
        parts += ((_MOONCAKE, total * mooncake_share / (1.0 - mooncake_share)),)
    return scene(engine(ENGINE), Mix("azure", parts), LOAD, n)


def ewsjf_workload(n: int) -> Scene:
    """Give the workload of EWSJF's paper, as far as it is known."""
    kinds = (
        Kind("short", (32, 256), _EWSJF_OUTPUT, 0.8),
        Kind("long", (1_024, 4_096), _EWSJF_OUTPUT, 0.2),
    )
    return kinds_beside(n, kinds)


def kinds_beside(n: int, kinds: tuple[Kind, ...]) -> Scene:
    """Give kinds of requests that are alike but for their prompts, drawn by their shares."""
    files = tuple(_lengths(kind, seed) for seed, kind in enumerate(kinds))
    workload = Workload(files=files, n=n, weights=tuple(kind.share for kind in kinds))
    profile = engine(ENGINE)
    rate_rps = LOAD * capacity_rps(profile, workload, 1)
    return Scene(profile, workload, Arrivals(), Point(rate_rps, LOAD))


def typed(job: Job) -> Job:
    """Tell chat, completion and document apart, as a gateway can."""
    return job._replace(request_type=APPLICATIONS[job.segment])


def _lengths(kind: Kind, seed: int) -> Rows:
    rng = random.Random(seed)
    rows = Rows(kind.name, always_drawn=True)
    for _ in range(_ROWS):
        prompt = round(math.exp(rng.uniform(*map(math.log, kind.prompts))))
        rows.append(
            Completion(
                completion_id="synthetic", task="text", kind="text", prompt_tokens=prompt,
                output_tokens=kind.output,
            )
        )  # fmt: skip
    return rows
