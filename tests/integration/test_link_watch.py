"""The watch against a real server: snapshots, changes, refusals, silence, garbage."""

import contextlib
import logging
import math
import socket
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import grpc
import pytest

from protos.kappad.estimator.v1 import estimator_pb2 as pb
from sched_client.model import GLOBAL_KEY, Key
from sched_client.options import ClientOptions
from sched_client.transport.link import Identity, Link
from tests.support.scripted_sidecar import (
    FAST,
    ScriptedSidecar,
    bookmark,
    delta,
    kappa,
    make_report,
    service,
    settings,
    short_folder,
    snapshot,
    started_link,
    wait_until,
)

ENGLISH = Key("whisper", "transcribe", "en")
GERMAN = Key("whisper", "transcribe", "de")


@pytest.fixture
def folder() -> Iterator[Path]:
    with short_folder() as path:
        yield path


@pytest.fixture
def sidecar(folder: Path) -> Iterator[ScriptedSidecar]:
    with ScriptedSidecar(f"unix://{folder}/s") as server:
        yield server


def _at_version(link: Link, version: int) -> None:
    wait_until(lambda: link.snapshot.version == version, f"snapshot {version}")


def test_a_link_that_is_not_started_holds_the_prior_and_has_no_thread(folder: Path) -> None:
    before = threading.active_count()
    options = ClientOptions(target=f"unix://{folder}/s", prior_kappa=4.5)
    link = Link(options, Identity("c", "m"), boot_id="b", monotonic=lambda: 12.5)
    assert link.snapshot.kappas[GLOBAL_KEY].kappa_tokens_per_s == 4.5
    assert (link.stale_since_s, link.kill_switch) == (12.5, False)
    link.close()
    assert threading.active_count() == before


def test_a_snapshot_is_taken_over_with_all_its_parts(sidecar: ScriptedSidecar) -> None:
    sidecar.greeting = [
        snapshot(
            7,
            kappa("en", 2.5, timestamps=False),
            partitions=[
                pb.Partition(
                    model_id="whisper", boundary_seconds=[1, 2], queue_ids=["a", "b", "c"]
                )
            ],
        )
    ]
    with started_link(sidecar.target) as link:
        _at_version(link, 7)
        entry, source = link.snapshot.resolve(Key("whisper", "transcribe", "en", timestamps=False))
        assert (entry.kappa_tokens_per_s, source) == (2.5, "learned")
        assert link.snapshot.partitions["whisper"].queue_of(1.5) == "b"
        assert link.snapshot.service_of("whisper").seconds_per_token == 0.02
        assert (link.snapshot.settings.mode, link.snapshot.settings.guard_s) == ("on", 9.0)
        wait_until(lambda: link.stale_since_s is None, "fresh")
        assert list(sidecar.watches[0].model_ids) == ["whisper"]
        assert not sidecar.watches[0].HasField("start_version")


def test_changes_build_on_what_is_held_and_leave_it_untouched(sidecar: ScriptedSidecar) -> None:
    sidecar.greeting = [snapshot(1, kappa("en"), kappa("de"))]
    with started_link(sidecar.target) as link:
        _at_version(link, 1)
        first = link.snapshot
        sidecar.send(
            delta(3, 1, kappa("fr", 4.0), kappa("en", 5.0), removed_kappas=[kappa("de")]),
            delta(4, 3, settings=settings(pb.MODE_OFF)),
        )
        _at_version(link, 4)
        assert link.snapshot.kappas[ENGLISH].kappa_tokens_per_s == 5.0
        assert GERMAN not in link.snapshot.kappas
        assert link.snapshot.settings.mode == "off"
        assert first.kappas[ENGLISH].kappa_tokens_per_s == 3.0
        assert GERMAN in first.kappas
        assert len(sidecar.watches) == 1


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        (snapshot(2, kappa("en", math.nan)), "kappa_tokens_per_s"),
        (snapshot(2, kappas=[kappa("en")]), "global key is missing"),
        (snapshot(2, services=[service(seconds_per_token=-1.0)]), "seconds_per_token"),
        (
            snapshot(
                2,
                partitions=[
                    pb.Partition(boundary_seconds=[2, 1], queue_ids=["a", "b", "c"]),
                ],
            ),
            "boundaries_s",
        ),
        (snapshot(2, settings=pb.Settings()), "settings.mode"),
        (delta(2, 1, kappa("en", -1.0)), "kappa_tokens_per_s"),
        (delta(2, 1, removed_kappas=[kappa()]), "global key"),
    ],
    ids=["nan", "no-global", "negative", "unsorted", "no-mode", "delta-negative", "delta-global"],
)
def test_an_invalid_snapshot_is_refused_whole_reported_and_followed_by_a_valid_one(
    sidecar: ScriptedSidecar, bad: pb.WatchParametersResponse, reason: str
) -> None:
    with started_link(sidecar.target) as link:
        _at_version(link, 1)
        held = link.snapshot
        sidecar.send(bad)
        wait_until(
            lambda: any(report.client.HasField("rejected_version") for report in sidecar.reports),
            "the refusal in a report",
        )
        told = sidecar.reports[-1].client
        assert told.rejected_version == 2
        assert reason in told.reject_reason
        assert told.applied_version == 1
        assert link.snapshot is held
        assert link.stale_since_s is None
        sidecar.send(snapshot(3, kappa("en")))
        _at_version(link, 3)
        assert len(sidecar.watches) == 1, "a refusal must not end the watch"


@pytest.mark.parametrize(
    "wrong",
    [delta(9, 8, kappa("en")), delta(2, 1, instance="two"), bookmark(1, instance="two")],
    ids=["wrong-base", "instance-in-delta", "instance-in-bookmark"],
)
def test_a_change_that_does_not_follow_starts_from_nothing(
    sidecar: ScriptedSidecar, wrong: pb.WatchParametersResponse
) -> None:
    with started_link(sidecar.target) as link:
        _at_version(link, 1)
        sidecar.greeting = [snapshot(20, instance="two")]
        sidecar.send(wrong)
        _at_version(link, 20)
        assert link.snapshot.instance_id == "two"
        assert not sidecar.watches[-1].HasField("start_version")


def test_a_new_instance_may_count_from_a_lower_version(sidecar: ScriptedSidecar) -> None:
    sidecar.greeting = [snapshot(50)]
    with started_link(sidecar.target) as link:
        _at_version(link, 50)
        sidecar.greeting = []
        sidecar.send(snapshot(2, instance="two"))
        _at_version(link, 2)


def test_a_watch_resumes_after_the_newest_version_that_a_bookmark_told(
    sidecar: ScriptedSidecar,
) -> None:
    with started_link(sidecar.target) as link:
        _at_version(link, 1)
        sidecar.greeting = []
        sidecar.send(bookmark(6))
        wait_until(lambda: link.position.version == 6, "the bookmark")
        sidecar.end_watch()
        wait_until(lambda: len(sidecar.watches) > 1, "another watch")
        assert (sidecar.watches[-1].start_version, sidecar.watches[-1].instance_id) == (6, "one")
        sidecar.send(delta(8, 6, kappa("en")))
        _at_version(link, 8)
        assert ENGLISH in link.snapshot.kappas


@pytest.mark.parametrize("code", [grpc.StatusCode.OUT_OF_RANGE, grpc.StatusCode.NOT_FOUND])
def test_a_position_that_the_sidecar_does_not_know_is_given_up(
    sidecar: ScriptedSidecar, code: grpc.StatusCode
) -> None:
    with started_link(sidecar.target) as link:
        _at_version(link, 1)
        sidecar.watch_errors = [code]
        sidecar.greeting = [snapshot(30)]
        sidecar.end_watch()
        _at_version(link, 30)
        assert sidecar.watches[1].start_version == 1
        assert not sidecar.watches[2].HasField("start_version")


def test_silence_makes_stale_and_opens_another_watch(
    sidecar: ScriptedSidecar, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "kappad")
    with started_link(sidecar.target) as link:
        wait_until(lambda: link.stale_since_s is None, "fresh")
        heard_after_s = time.monotonic()
        sidecar.greeting = []
        wait_until(lambda: len(sidecar.watches) > 1, "another watch")
        stale_since_s = link.stale_since_s
        assert stale_since_s is not None
        assert stale_since_s <= heard_after_s
        assert sidecar.watches[1].start_version == 1

        # More than one: the watch that gets it may just be ending for its own silence.
        def heard_again() -> bool:
            sidecar.send(bookmark(1))
            return link.stale_since_s is None

        wait_until(heard_again, "fresh again")
    told = [record.getMessage() for record in caplog.records]
    assert [line.split()[1].strip(",") for line in told[:3]] == ["connected", "stale", "connected"]
    assert "silent" in told[1]


def test_bookmarks_keep_a_quiet_watch_alive(sidecar: ScriptedSidecar) -> None:
    with started_link(sidecar.target) as link:
        wait_until(lambda: link.stale_since_s is None, "fresh")
        end = time.monotonic() + 2 * FAST.silence_s
        while time.monotonic() < end:
            sidecar.send(bookmark(1))
            time.sleep(FAST.silence_s / 5)
        assert len(sidecar.watches) == 1
        assert link.stale_since_s is None


def test_a_sidecar_that_comes_late_is_found(folder: Path) -> None:
    target = f"unix://{folder}/s"
    with started_link(target) as link:
        time.sleep(0.2)
        assert link.stale_since_s is not None
        with ScriptedSidecar(target):
            _at_version(link, 1)
        wait_until(lambda: link.stale_since_s is not None, "stale again")
        assert link.snapshot.version == 1


def test_retries_are_spread_and_never_busy(sidecar: ScriptedSidecar) -> None:
    sidecar.watch_errors = [grpc.StatusCode.UNAVAILABLE] * 1000
    with started_link(sidecar.target, replace(FAST, backoff_min_s=0.05, backoff_max_s=0.2)):
        time.sleep(1.0)
    assert 3 <= len(sidecar.watches) <= 20


def test_garbage_on_the_socket_changes_nothing(folder: Path) -> None:
    stop = threading.Event()

    def answer(listener: socket.socket) -> None:
        while not stop.is_set():
            with contextlib.suppress(OSError):
                peer, _ = listener.accept()
                with peer:
                    peer.sendall(b"\xff\x00garbage" * 500)
                    peer.settimeout(0.1)
                    peer.recv(100)

    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(f"{folder}/s")
        listener.listen()
        listener.settimeout(0.05)
        thread = threading.Thread(target=answer, args=(listener,))
        thread.start()
        try:
            with started_link(f"unix://{folder}/s") as link:
                link.report(make_report(1))
                time.sleep(0.6)
                assert link.snapshot.version == 0
                assert link.stale_since_s is not None
                assert link.failures == 0
        finally:
            stop.set()
            thread.join(5)


@pytest.mark.parametrize(
    "garbage",
    [
        b"\xff" * 40,
        b"\x22\x05\x0a\x7f\x01\x02\x03",  # a κ longer than its snapshot
        b"\x22\x04\x0a\x02\x0a\xff",  # a κ whose model is longer than the κ
        b"\x22\x7fshort",
        b"\x22\x00\x22\x00",  # two snapshots
    ],
    ids=["no-field", "long-entry", "long-name", "cut-short", "two-states"],
)
def test_garbage_in_a_message_is_not_acted_on(sidecar: ScriptedSidecar, garbage: bytes) -> None:
    with started_link(sidecar.target) as link:
        _at_version(link, 1)
        sidecar.greeting = [snapshot(5)]
        sidecar.send(garbage)
        _at_version(link, 5)
        assert not sidecar.watches[1].HasField("start_version")
        assert link.failures == 0


def test_an_empty_message_says_nothing(sidecar: ScriptedSidecar) -> None:
    with started_link(sidecar.target) as link:
        _at_version(link, 1)
        sidecar.send(b"", snapshot(6))
        _at_version(link, 6)
        assert len(sidecar.watches) == 1


def test_reconnecting_leaves_no_connection_behind(sidecar: ScriptedSidecar) -> None:
    sidecar.greeting = []
    with started_link(sidecar.target, replace(FAST, silence_s=0.03)):
        wait_until(lambda: len(sidecar.watches) > 5, "some watches")
        before = len(list(Path("/proc/self/fd").iterdir()))
        wait_until(lambda: len(sidecar.watches) > 25, "many watches")
        assert len(list(Path("/proc/self/fd").iterdir())) <= before + 6


def test_a_snapshot_of_thousands_of_keys_arrives_whole(sidecar: ScriptedSidecar) -> None:
    entries = [kappa(f"l{number}", 1.0 + number) for number in range(3000)]
    sidecar.greeting = [snapshot(4, *entries)]
    with started_link(sidecar.target) as link:
        _at_version(link, 4)
        assert len(link.snapshot.kappas) == 3001
        found = link.snapshot.kappas[Key("whisper", "transcribe", "l2999")]
        assert found.kappa_tokens_per_s == 3000.0


def test_a_link_ends_in_time_and_leaves_no_thread(sidecar: ScriptedSidecar) -> None:
    with started_link(sidecar.target) as link:
        _at_version(link, 1)
        begun_s = time.monotonic()
    assert time.monotonic() - begun_s < 2.0
    names = {thread.name for thread in threading.enumerate() if thread.is_alive()}
    assert not {name for name in names if name.startswith("kappad-")}
