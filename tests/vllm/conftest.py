"""Real servers, started once for all tests: a stock vLLM, one with kappad, one short of KV."""

import json
import os
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from estimator.demo import environment, weights
from estimator.demo.load import Arrival, Outcome
from estimator.demo.processes import Processes
from estimator.demo.schedule import Clip, arrival_of, read_clips
from tests.support.sidecar_slot import SidecarSlot
from tests.support.vllm_server import VllmServer, start_vllm

AUDIO = Path(__file__).resolve().parents[1] / "audio"
LONG_AUDIO = AUDIO / "derived-libri-34.955s-16k.ogg"
# A request of the same engine with no audio at all.
TEXT_PROMPT = "<|startoftranscript|><|en|><|transcribe|><|notimestamps|>"
# Kept after a session, so that a failure can be looked into.
LOGS = Path(__file__).resolve().parents[2] / ".cache" / "vllm-tests"
# Four requests and a first block of decoder KV each, and one block to spare; found by trial with
# blocks of 128 tokens: 12 hold a request's 1,500 encoder positions.
SMALL_KV_BLOCKS = 54


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.vllm)
            # The first test of a session also builds and starts what it needs.
            item.add_marker(pytest.mark.timeout(900))


@dataclass(frozen=True, slots=True, kw_only=True)
class Stock:
    """What vLLM answers without kappad, one request at a time, at temperature 0."""

    texts: dict[str, str]
    long_text: str
    long_streamed_text: str
    empty_file_status: int
    completion: tuple[int, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Engine:
    """A vLLM with kappad's scheduler, and the socket that it looks for a sidecar at."""

    server: VllmServer
    slot: SidecarSlot
    before_any_sidecar: list[Outcome]


def long_arrival(*, stream: bool, request_id: str = "") -> Arrival:
    fields = [("language", "en")] + ([("stream", "true")] if stream else [])
    return Arrival(due_s=0.0, clip=LONG_AUDIO, fields=tuple(fields), request_id=request_id)


@pytest.fixture(scope="session")
def vllm_python() -> Path:
    reason = environment.unsupported_reason()
    if reason is not None:
        pytest.skip(reason)
    return environment.build(os.environ.get("KAPPAD_TEST_VLLM", environment.DEFAULT_VERSION))


@pytest.fixture(scope="session")
def model() -> Path:
    return weights.ensure()


@pytest.fixture(scope="session")
def clips() -> tuple[Clip, ...]:
    return tuple(read_clips())


@pytest.fixture(scope="session")
def folder() -> Iterator[Path]:
    # Not tmp_path: a unix socket's path may have 107 bytes at most.
    with tempfile.TemporaryDirectory(prefix="kappad-") as name:
        yield Path(name)


@pytest.fixture(scope="session")
def processes() -> Iterator[Processes]:
    with Processes(LOGS) as running:
        yield running


@pytest.fixture(scope="session")
def stock(vllm_python: Path, model: Path, clips: tuple[Clip, ...], folder: Path) -> Stock:
    with Processes(LOGS) as running:
        server = start_vllm(
            running, "stock", python=vllm_python, model=model, folder=folder, stock=True
        )
        texts = {}
        for clip in clips:
            status, body = server.answer(arrival_of(clip))
            assert status == 200, body
            texts[clip.path.name] = json.loads(body)["text"]
        (whole,) = server.send([long_arrival(stream=False)])
        (streamed,) = server.send([long_arrival(stream=True)])
        empty = Arrival(due_s=0.0, clip=AUDIO / "derived-empty.wav", fields=(("language", "en"),))
        status, _ = server.answer(empty)
        completion = server.complete(TEXT_PROMPT)
    return Stock(
        texts=texts,
        long_text=whole.text,
        long_streamed_text=streamed.text,
        empty_file_status=status,
        completion=completion,
    )


@pytest.fixture(scope="session")
def engine(
    stock: Stock,  # stopped before this one starts: two cores
    vllm_python: Path,
    model: Path,
    clips: tuple[Clip, ...],
    folder: Path,
    processes: Processes,
) -> Engine:
    slot = SidecarSlot(folder, processes)
    server = start_vllm(
        processes,
        "kappad",
        python=vllm_python,
        model=model,
        folder=folder,
        target=slot.target,
    )
    outcomes = server.send([arrival_of(clip) for clip in clips if clip.language in {"en", "es"}])
    slot.drain()
    return Engine(server=server, slot=slot, before_any_sidecar=outcomes)


@pytest.fixture(scope="session")
def small_engine(
    engine: Engine, vllm_python: Path, model: Path, folder: Path, processes: Processes
) -> VllmServer:
    return start_vllm(
        processes,
        "small",
        python=vllm_python,
        model=model,
        folder=folder,
        target=engine.slot.target,
        extra=["--num-gpu-blocks-override", str(SMALL_KV_BLOCKS)],
    )
