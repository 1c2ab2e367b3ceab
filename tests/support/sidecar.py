"""A sidecar inside the test's own event loop, with real sockets and a real store."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import grpc.aio

from estimator.runtime.config import load_config
from estimator.service.server import run
from protos.kappad.estimator.v1 import estimator_pb2 as pb
from protos.kappad.estimator.v1 import estimator_pb2_grpc as rpc

if TYPE_CHECKING:
    from protos.kappad.estimator.v1.estimator_pb2_grpc import (
        AdminServiceAsyncStub,
        EstimatorServiceAsyncStub,
        InspectionServiceAsyncStub,
    )

TIMEOUT_S = 20.0
CLIENT = "pod-0-boot"


async def eventually(ask: Callable[[], Awaitable[bool]], what: str) -> None:
    """Ask until the answer is yes."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + TIMEOUT_S
    for _ in range(1_000_000):
        if await ask():
            return
        assert loop.time() < deadline, f"not within {TIMEOUT_S:g} s: {what}"
        await asyncio.sleep(0.01)


@dataclass
class Peer:
    """A connection to a sidecar; stubs are one class at run time, async by their channel."""

    address: str
    channel: grpc.aio.Channel
    stop: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def estimator(self) -> "EstimatorServiceAsyncStub":
        return cast("EstimatorServiceAsyncStub", rpc.EstimatorServiceStub(self.channel))

    @property
    def inspection(self) -> "InspectionServiceAsyncStub":
        return cast("InspectionServiceAsyncStub", rpc.InspectionServiceStub(self.channel))

    @property
    def admin(self) -> "AdminServiceAsyncStub":
        return cast("AdminServiceAsyncStub", rpc.AdminServiceStub(self.channel))

    async def report(self, rows: list[pb.Completion]) -> pb.ReportCompletionsResponse:
        return await self.estimator.ReportCompletions(
            pb.ReportCompletionsRequest(
                client=pb.ClientStatus(client_id=CLIENT, model_id="m"), completions=rows
            ),
            timeout=TIMEOUT_S,
        )

    async def status(self) -> pb.GetStatusResponse:
        return await self.inspection.GetStatus(pb.GetStatusRequest(), timeout=TIMEOUT_S)

    async def learned(self, n: int) -> pb.GetStatusResponse:
        """Wait until so many completions are learned."""

        async def enough() -> bool:
            return (await self.status()).learned_count >= n

        await eventually(enough, f"{n} learned")
        return await self.status()


@asynccontextmanager
async def connected(address: str, options: Sequence[tuple[str, int]] = ()) -> AsyncIterator[Peer]:
    """Connect to a sidecar by its address."""
    target = address.replace("unix://", "unix:")
    async with grpc.aio.insecure_channel(target, options) as channel:
        yield Peer(address, channel)


@asynccontextmanager
async def sidecar(directory: Path, **flags: object) -> AsyncIterator[Peer]:
    """Run a sidecar in this loop; leaving drains it."""
    defaults = {
        "listen": f"unix://{directory}/k.sock",
        "state_dir": str(directory / "state"),
        "publish_interval_s": 0.02,
        "drain_delay_s": 0.0,
        "log_level": "error",
    }
    config = load_config(flags=defaults | flags)
    started: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    stop = asyncio.Event()
    task = asyncio.create_task(run(config, ready=started.set_result, stop=stop))
    waited: set[asyncio.Future[Any]] = {task, started}  # Any: either ends the wait
    await asyncio.wait(waited, return_when=asyncio.FIRST_COMPLETED, timeout=TIMEOUT_S)
    if task.done():
        started.cancel()
        await task  # raises why it could not start
    try:
        async with connected(await started) as peer:
            peer.stop = stop
            yield peer
    finally:
        stop.set()
        await asyncio.wait_for(task, TIMEOUT_S)


def rows(
    n: int, *, boot: str = "b", model: str = "m", language: str = "en", kappa: float = 4.0
) -> list[pb.Completion]:
    """Give affine completions with tokens = 3 + kappa · audio."""
    return [
        pb.Completion(
            completion_id=f"{boot}-{i}",
            model_id=model,
            task="transcribe",
            language=language,
            kind=pb.REQUEST_KIND_TRANSCRIPTION,
            audio_seconds=1.0 + i % 20,
            output_token_count=round(3 + kappa * (1 + i % 20)),
            finish_reason=pb.FINISH_REASON_STOP,
            service_seconds=0.5,
            mean_concurrency=2.0,
        )
        for i in range(n)
    ]
