"""The sidecar as a process: who may connect, how it stops, what a restart knows."""

import asyncio
import contextlib
import os
import signal
import stat
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import grpc
import grpc.aio
import pytest
from grpc_health.v1 import health_pb2
from grpc_health.v1.health_pb2_grpc import HealthStub

from estimator.store.sqlite import SqliteStore
from protos.kappad.estimator.v1 import estimator_pb2 as pb
from tests.support.kappad_process import COMMAND, ROOT, START_TIMEOUT_S, environment
from tests.support.sidecar import CLIENT, TIMEOUT_S, Peer, connected, eventually, rows

NOBODY = 65_534
_CONNECT = """
import os, socket, sys
# After the imports: another user may not be able to read this interpreter's files.
os.setgroups([])
os.setgid(int(sys.argv[2]))
os.setuid(int(sys.argv[3]))
with socket.socket(socket.AF_UNIX) as s:
    s.settimeout(5)
    try:
        s.connect(sys.argv[1])
    except OSError as error:
        print(type(error).__name__)
    else:
        print("connected")
"""


@pytest.fixture
def folder() -> Iterator[Path]:
    # Not pytest's tmp_path, which only its owner may enter.
    with tempfile.TemporaryDirectory(prefix="kappad-") as name:
        Path(name).chmod(0o755)
        yield Path(name)


@asynccontextmanager
async def process(
    folder: Path, *arguments: str
) -> AsyncIterator[tuple["subprocess.Popen[bytes]", Peer]]:
    """Run ``kappad serve`` until the block ends, and wait for SERVING."""
    address = f"unix://{folder}/k.sock"
    with (folder / "log").open("ab") as log:
        child = subprocess.Popen(  # noqa: ASYNC220  # a few ms, and nothing else runs yet
            [*COMMAND, "serve", "--listen", address, "--state-dir", str(folder / "state"),
             *arguments],
            cwd=ROOT,
            env=environment({"KAPPAD_SERVE_PUBLISH_INTERVAL_S": "0.02"}),
            stdout=log,
            stderr=log,
        )  # fmt: skip
    try:
        async with connected(address) as peer:

            async def serving() -> bool:
                assert child.poll() is None, (folder / "log").read_text()
                with contextlib.suppress(grpc.aio.AioRpcError):
                    request = health_pb2.HealthCheckRequest()
                    answer = await HealthStub(peer.channel).Check(request, wait_for_ready=True)
                    return int(answer.status) == int(health_pb2.HealthCheckResponse.SERVING)
                return False

            async with asyncio.timeout(START_TIMEOUT_S):
                await eventually(serving, "serving")
            yield child, peer
    finally:
        child.kill()
        child.wait(30.0)


async def _first_message(peer: Peer) -> pb.WatchParametersResponse:
    call = peer.estimator.WatchParameters(pb.WatchParametersRequest(client_id=CLIENT))
    message = await asyncio.wait_for(call.read(), TIMEOUT_S)
    call.cancel()
    assert isinstance(message, pb.WatchParametersResponse)
    return message


async def _published(peer: Peer, language: str) -> tuple[int, float]:
    """Wait for a language's κ: learning and publishing are two steps. Version and tokens/s."""
    found: list[tuple[int, float]] = []

    async def there() -> bool:
        message = await _first_message(peer)
        found.extend(
            (message.version, k.kappa_tokens_per_second)
            for k in message.snapshot.kappas
            if k.language == language
        )
        return bool(found)

    await eventually(there, f"a snapshot with {language}")
    return found[-1]


async def test_what_was_acknowledged_survives_a_kill_and_versions_go_on(folder: Path) -> None:
    async with process(folder) as (child, peer):
        await peer.report(rows(300, kappa=5.0))
        await peer.learned(300)
        await peer.admin.SetMode(pb.SetModeRequest(mode=pb.MODE_ON, reason="before the kill"))
        version, kappa = await _published(peer, "en")
        status = await peer.status()
        child.send_signal(signal.SIGKILL)
        assert child.wait(10.0) == -signal.SIGKILL
    assert (folder / "k.sock").is_socket(), "a killed process leaves its socket"
    async with process(folder, "--mode", "shadow") as (_, peer):
        again = await peer.learned(300)
        assert again.stored_count == status.stored_count == 300
        assert again.instance_id == status.instance_id
        assert again.snapshot_version > status.snapshot_version >= version
        assert again.settings.mode == pb.MODE_ON

        async def restored() -> bool:
            return (await _published(peer, "en"))[1] == pytest.approx(kappa, rel=0.02)

        await eventually(restored, "replayed and published")
        assert (await peer.report(rows(300, kappa=5.0))).duplicate_count == 300


async def test_a_term_signal_answers_what_was_taken_and_leaves_nothing(folder: Path) -> None:
    async with process(folder) as (child, peer):
        calls = [asyncio.create_task(peer.report(rows(200, boot=f"b{i}"))) for i in range(40)]
        await asyncio.wait(calls, return_when=asyncio.FIRST_COMPLETED)
        child.send_signal(signal.SIGTERM)
        answers = await asyncio.gather(*calls, return_exceptions=True)
        assert await asyncio.to_thread(child.wait, 20.0) == 0
    assert not (folder / "k.sock").exists()
    acknowledged = sum(
        answer.accepted_count
        for answer in answers
        if isinstance(answer, pb.ReportCompletionsResponse)
    )
    refused = [answer for answer in answers if isinstance(answer, BaseException)]
    assert acknowledged >= 200
    assert {e.code() for e in refused if isinstance(e, grpc.aio.AioRpcError)} <= {
        grpc.StatusCode.UNAVAILABLE
    }
    store = SqliteStore(folder / "state" / "kappad.sqlite3")
    try:
        assert store.count() == acknowledged
        checkpoint = store.load_checkpoint()
        assert checkpoint is not None
        assert checkpoint.row_id == store.last_row_id()
    finally:
        store.close()


async def test_more_signals_do_not_cut_the_drain_short(folder: Path) -> None:
    async with process(folder) as (child, peer):
        await peer.report(rows(5))
        child.send_signal(signal.SIGTERM)
        while child.poll() is None:
            child.send_signal(signal.SIGTERM)
            child.send_signal(signal.SIGINT)
            await asyncio.sleep(0.02)
        assert child.returncode == 0
    assert not (folder / "k.sock").exists()


async def test_a_clean_restart_goes_on_with_the_next_version(folder: Path) -> None:
    async with process(folder) as (child, peer):
        await peer.report(rows(50))
        await peer.learned(50)
        child.terminate()
        assert await asyncio.to_thread(child.wait, 20.0) == 0
    store = SqliteStore(folder / "state" / "kappad.sqlite3")
    checkpoint = store.load_checkpoint()
    store.close()
    assert checkpoint is not None
    async with process(folder) as (_, peer):
        first = await _first_message(peer)
        assert first.version == checkpoint.snapshot_version + 1
        assert (await peer.status()).learned_count == 50


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
async def test_only_the_owner_and_the_group_may_connect(folder: Path) -> None:
    async with process(folder):
        path = folder / "k.sock"
        assert stat.S_IMODE(path.stat().st_mode) == 0o660

        def connect(group: int) -> str:
            done = subprocess.run(
                [sys.executable, "-I", "-c", _CONNECT, str(path), str(group), str(NOBODY)],
                capture_output=True,
                text=True,
                timeout=30,
                check=True,
                cwd="/",
            )
            return done.stdout.strip()

        stranger = await asyncio.to_thread(connect, NOBODY)
        member = await asyncio.to_thread(connect, path.stat().st_gid)
    assert (stranger, member) == ("PermissionError", "connected")


def test_a_start_that_fails_says_why_in_one_line(folder: Path) -> None:
    (folder / "k.sock").write_text("not a socket")
    done = subprocess.run(
        [*COMMAND, "serve", "--listen", f"unix://{folder}/k.sock", "--state-dir", ":memory:"],
        cwd=ROOT,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 1
    assert "no socket" in done.stderr
    assert "Traceback" not in done.stderr
    assert (folder / "k.sock").read_text() == "not a socket"
