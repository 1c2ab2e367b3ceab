"""A learner over a store that fails when told to, on a clock that stands still."""

import asyncio
import random
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

from estimator.core.observation import Completion
from estimator.runtime.config import ServeConfig, load_config
from estimator.runtime.learner import Learner
from estimator.runtime.startup import build_learner
from estimator.runtime.store_worker import StoreWorker
from estimator.store.base import AppendResult, Checkpoint, StoreError
from estimator.store.memory import MemoryStore
from estimator.telemetry.metrics import Metrics

NOW_S = 1_000_000.0


class FragileStore(MemoryStore):
    """A store that can be told to fail, and that remembers its checkpoints."""

    def __init__(self) -> None:
        super().__init__(now_s=lambda: NOW_S)
        self.broken = False
        self.checkpoints: list[Checkpoint] = []
        self.append_sizes: list[int] = []

    def append(self, completions: Sequence[Completion]) -> AppendResult:
        self._check()
        self.append_sizes.append(len(completions))
        return super().append(completions)

    def save_checkpoint(self, checkpoint: Checkpoint) -> None:
        self._check()
        self.checkpoints.append(checkpoint)
        super().save_checkpoint(checkpoint)

    def close(self) -> None:
        """Stay open: the next runtime of the same test goes on with it."""

    def _check(self) -> None:
        if self.broken:
            raise StoreError("the disk is full; free space")


@dataclass
class Runtime:
    """What a test drives."""

    store: FragileStore
    worker: StoreWorker
    learner: Learner
    metrics: Metrics


def completions(n: int, *, first: int = 0, kappa: float = 4.0) -> list[Completion]:
    """Give affine completions of one key, with tokens = 3 + kappa · audio."""
    return [
        Completion(
            completion_id=f"boot-{first + i}",
            model="m",
            language="en",
            audio_s=1.0 + i % 20,
            output_tokens=round(3 + kappa * (1 + i % 20)),
            finished_s=NOW_S - 1.0,
            service_s=0.5,
            concurrency=2.0,
        )
        for i in range(n)
    ]


def two_classes(n: int, *, models: int = 1) -> list[Completion]:
    """Give completions of two clearly different lengths; of models ``m``, ``m1``, …, in turn."""
    rng = random.Random(5)
    rows = []
    for i in range(n):
        audio_s = rng.choice((2.0, 20.0)) * rng.lognormvariate(0.0, 0.2)
        tokens = round(3 + 4.0 * audio_s)
        rows.append(
            Completion(
                completion_id=f"two-{i}",
                model=f"m{i % models or ''}",
                language="en",
                audio_s=audio_s,
                output_tokens=tokens,
                finished_s=NOW_S - 1.0,
                service_s=0.1 + 0.01 * tokens,
                concurrency=2.0,
                predicted_tokens=float(tokens),
            )
        )
    return rows


def config(**flags: object) -> ServeConfig:
    return load_config(flags={"state_dir": ":memory:", "publish_interval_s": 0.001, **flags})


@asynccontextmanager
async def running(
    store: FragileStore, settings: ServeConfig, *, drain: bool = True
) -> AsyncIterator[Runtime]:
    """Run a learner; at the end drain it, or drop it as a crash would."""
    metrics = Metrics()
    worker, learner = await build_learner(settings, store, metrics, now_s=lambda: NOW_S)
    task = asyncio.create_task(learner.run())
    try:
        yield Runtime(store, worker, learner, metrics)
    finally:
        if drain:
            learner.drain()
            await asyncio.wait_for(task, 10.0)
        else:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        await worker.close()


async def until(condition: Callable[[], bool], what: str) -> None:
    """Let the loop run until something holds, at most five seconds."""
    deadline = asyncio.get_running_loop().time() + 5.0
    for _ in iter(condition, True):
        assert asyncio.get_running_loop().time() < deadline, f"not within 5 s: {what}"
        await asyncio.sleep(0.001)
