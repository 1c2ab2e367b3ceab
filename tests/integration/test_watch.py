"""Watches over a real socket: state first, then changes, resumable, never a queue."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import grpc
import grpc.aio
import pytest

from estimator.convert import delta_from_proto, parameters_from_proto
from protos.kappad.estimator.v1 import estimator_pb2 as pb
from sched_client.model import GLOBAL_KEY, KappaEntry, Key
from tests.support.sidecar import CLIENT, TIMEOUT_S, Peer, connected, eventually, rows, sidecar


class Watch:
    """One watch, with what a client would hold."""

    def __init__(
        self,
        call: "grpc.aio.UnaryStreamCall[pb.WatchParametersRequest, pb.WatchParametersResponse]",
    ) -> None:
        self._call = call
        self.kappas: dict[Key, KappaEntry] = {}
        self.settings = pb.Settings()
        self.version = -1
        self.instance_id = ""
        self.events: list[str] = []

    async def next(self) -> str:
        """Read one message, apply it, and give its kind."""
        message = await asyncio.wait_for(self._call.read(), TIMEOUT_S)
        assert isinstance(message, pb.WatchParametersResponse), "the stream ended"
        kind = message.WhichOneof("event") or ""
        if kind == "snapshot":
            state = parameters_from_proto(
                message.snapshot, version=message.version, instance_id="", created_s=0.0
            )
            self.kappas, self.settings = dict(state.kappas), message.snapshot.settings
        elif kind == "delta":
            delta = delta_from_proto(message.delta, version=message.version)
            assert delta.base_version == self.version
            for key in delta.removed:
                self.kappas.pop(key, None)
            self.kappas.update(delta.kappas)
            if message.delta.HasField("settings"):
                self.settings = message.delta.settings
        assert message.version >= self.version or kind == "snapshot"
        self.version, self.instance_id = message.version, message.instance_id
        self.events.append(kind)
        return kind

    async def until(self, language: str, kappa: float) -> None:
        """Read until κ of a language is near a value."""
        async with asyncio.timeout(TIMEOUT_S):
            while not any(
                key.language == language
                and entry.kappa_tokens_per_s == pytest.approx(kappa, rel=0.1)
                for key, entry in self.kappas.items()
            ):
                await self.next()


@asynccontextmanager
async def watching(
    peer: Peer,
    *,
    models: tuple[str, ...] = (),
    start_version: int | None = None,
    instance_id: str = "",
    client_id: str = CLIENT,
) -> AsyncIterator[Watch]:
    call = peer.estimator.WatchParameters(
        pb.WatchParametersRequest(
            client_id=client_id,
            model_ids=models,
            start_version=start_version,
            instance_id=instance_id,
        )
    )
    try:
        yield Watch(call)
    finally:
        call.cancel()


async def test_what_is_reported_is_learned_and_seen(tmp_path: Path) -> None:
    async with sidecar(tmp_path) as peer, watching(peer) as watch:
        assert await watch.next() == "snapshot"
        assert GLOBAL_KEY in watch.kappas
        await peer.report(rows(200, kappa=4.0))
        await watch.until("en", 4.0)
        await peer.report(rows(200, boot="x", language="de", kappa=6.0))
        await watch.until("de", 6.0)
        assert "snapshot" not in watch.events[1:]
        status = await peer.status()
    assert status.clients[0].watching
    assert watch.instance_id == status.instance_id


async def test_a_mode_switch_reaches_a_watcher(tmp_path: Path) -> None:
    async with sidecar(tmp_path) as peer, watching(peer) as watch:
        await watch.next()
        done = await peer.admin.SetMode(pb.SetModeRequest(mode=pb.MODE_ON))
        assert await watch.next() == "delta"
        assert (watch.settings.mode, watch.version) == (pb.MODE_ON, done.snapshot_version)


async def test_an_idle_watcher_hears_bookmarks(tmp_path: Path) -> None:
    async with sidecar(tmp_path, bookmark_interval_s=0.05) as peer, watching(peer) as watch:
        await watch.next()
        version = watch.version
        assert [await watch.next() for _ in range(3)] == ["bookmark"] * 3
        assert watch.version == version


async def test_two_models_see_their_own_keys(tmp_path: Path) -> None:
    async with (
        sidecar(tmp_path) as peer,
        watching(peer, models=("a",)) as watch_a,
        watching(peer, models=("b",)) as watch_b,
    ):
        await watch_a.next()
        await watch_b.next()
        await peer.report(rows(100, boot="a", model="a", kappa=3.0))
        await watch_a.until("en", 3.0)
        await peer.report(rows(100, boot="b", model="b", kappa=5.0))
        await watch_b.until("en", 5.0)
        assert {key.model for key in watch_a.kappas} == {"", "a"}
        assert {key.model for key in watch_b.kappas} == {"", "b"}


async def test_a_watch_is_resumed_with_what_changed_meanwhile(tmp_path: Path) -> None:
    async with sidecar(tmp_path) as peer:
        async with watching(peer) as first:
            await first.next()
        await peer.admin.SetMode(pb.SetModeRequest(mode=pb.MODE_ON))
        await peer.admin.SetMode(pb.SetModeRequest(mode=pb.MODE_OFF))
        async with watching(
            peer, start_version=first.version, instance_id=first.instance_id
        ) as second:
            second.version, second.kappas = first.version, first.kappas
            assert await second.next() == "delta"
            assert second.version == first.version + 2
            assert second.settings.mode == pb.MODE_OFF


async def test_nothing_new_is_a_bookmark_at_once(tmp_path: Path) -> None:
    async with sidecar(tmp_path) as peer:
        async with watching(peer) as first:
            await first.next()
        async with watching(
            peer, start_version=first.version, instance_id=first.instance_id
        ) as second:
            second.version = first.version
            assert await second.next() == "bookmark"


@pytest.mark.parametrize("case", ["too old", "another instance", "from the future"])
async def test_what_cannot_be_resumed_is_given_the_whole_state(tmp_path: Path, case: str) -> None:
    async with sidecar(tmp_path, delta_limit=2) as peer:
        async with watching(peer) as first:
            await first.next()
        for mode in (pb.MODE_ON, pb.MODE_OFF, pb.MODE_ON):
            await peer.admin.SetMode(pb.SetModeRequest(mode=mode))
        version = first.version + 1000 if case == "from the future" else first.version
        instance_id = "other" if case == "another instance" else first.instance_id
        async with watching(peer, start_version=version, instance_id=instance_id) as second:
            assert await second.next() == "snapshot"
            assert second.settings.mode == pb.MODE_ON


async def test_a_slow_watcher_gets_the_newest_state_and_no_queue(tmp_path: Path) -> None:
    # Long names make a change of 40 keys some 15 kB, so that a few fill the transport's window.
    languages = [f"{i:03d}" + "x" * 120 for i in range(40)]
    window = (("grpc.http2.bdp_probe", 0), ("grpc.http2.lookahead_bytes", 65_536))
    async with (
        sidecar(tmp_path, publish_interval_s=0.001) as peer,
        connected(peer.address, window) as slow_peer,
        watching(slow_peer, models=("m" * 128,), client_id="slow") as slow,
    ):
        await slow.next()
        first = slow.version
        for turn in range(60):
            await peer.report(
                [
                    row
                    for i, language in enumerate(languages)
                    for row in rows(
                        10,
                        boot=f"{turn}-{i}",
                        model="m" * 128,
                        language=language,
                        kappa=3.0 + turn % 2 * 3,
                    )
                ]
            )
        status = await peer.learned(60 * 40 * 10)
        published = status.snapshot_version - first
        while slow.version < status.snapshot_version:
            await slow.next()
        newest = await peer.inspection.ListKappas(pb.ListKappasRequest(page_size=1000))
    assert published > 60
    # What lay between was merged, not queued; what it holds in the end is what there is.
    assert len(slow.events) < published / 3
    assert {key.language for key in slow.kappas} == {k.language for k in newest.kappas}


async def test_too_many_watchers_are_refused_with_a_delay(tmp_path: Path) -> None:
    async with sidecar(tmp_path, watcher_limit=1) as peer, watching(peer) as first:
        await first.next()
        async with watching(peer, client_id="second") as second:
            with pytest.raises(grpc.aio.AioRpcError, match="limit is 1") as caught:
                await second.next()
        assert caught.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED


async def test_a_watcher_that_leaves_is_not_counted(tmp_path: Path) -> None:
    async with sidecar(tmp_path, watcher_limit=1) as peer:
        async with watching(peer) as first:
            await first.next()

        async def gone() -> bool:
            return not (await peer.status()).clients[0].watching

        await eventually(gone, "the watch has ended")
        async with watching(peer) as second:
            assert await second.next() == "snapshot"


async def test_a_draining_sidecar_ends_its_watches_with_a_reason(tmp_path: Path) -> None:
    async with sidecar(tmp_path) as peer:
        call = peer.estimator.WatchParameters(pb.WatchParametersRequest(client_id=CLIENT))
        assert isinstance(await call.read(), pb.WatchParametersResponse)

        async def end() -> grpc.aio.AioRpcError:
            try:
                while await call.read() is not grpc.aio.EOF:
                    pass
            except grpc.aio.AioRpcError as error:
                return error
            raise AssertionError("the watch ended without a status")

        ended = asyncio.create_task(end())
        await asyncio.sleep(0)
        peer.stop.set()
        error = await asyncio.wait_for(ended, TIMEOUT_S)
    assert error.code() is grpc.StatusCode.UNAVAILABLE
    assert "shutting down" in (error.details() or "")


async def test_a_state_above_the_limit_of_what_is_received_is_sent(tmp_path: Path) -> None:
    limit = 65_536
    async with sidecar(tmp_path, message_limit_bytes=limit, batch_limit=100) as peer:
        languages = [f"{n:0128}" for n in range(300)]
        for at in range(0, len(languages), 10):
            batch = [
                row
                for n, language in enumerate(languages[at : at + 10], start=at)
                for row in rows(6, boot=f"b{n}", model="m" * 128, language=language)
            ]
            assert (await peer.report(batch)).accepted_count == 60
        await peer.learned(1800)

        async def all_is_sent() -> bool:
            # Learned is not published yet: that takes its share of the time only.
            call = peer.estimator.WatchParameters(pb.WatchParametersRequest(client_id=CLIENT))
            message = await asyncio.wait_for(call.read(), TIMEOUT_S)
            call.cancel()
            assert isinstance(message, pb.WatchParametersResponse)
            return message.ByteSize() > limit

        await eventually(all_is_sent, "a state above the limit")
