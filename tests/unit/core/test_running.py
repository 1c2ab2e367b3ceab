"""The table of what runs: bounded, keyed, forgotten in time."""

import math

import pytest

from estimator.core.censored import Bound
from estimator.core.running import MAX_REPORTED, SILENCE_S, Running, RunningTable, running_of
from sched_client.model import GLOBAL_KEY, Key, RequestKind

EN = Key("m", "transcribe", "en", False)
TEXT = Key("m", "text")


def _running(n: int, key: Key = EN) -> list[Running]:
    return [Running(key, 4.0 + i, i, f"hash-{i}") for i in range(n)]


def test_a_request_bounds_its_key_and_every_parent() -> None:
    table = RunningTable()
    table.note("a", _running(2), 0.0)
    assert table.bounds() == {member: [Bound(4.0, 0.0), Bound(5.0, 1.0)] for member in EN.chain()}
    assert GLOBAL_KEY in table.bounds()


def test_text_bounds_no_key_that_counts_seconds() -> None:
    table = RunningTable()
    table.note("a", _running(1, TEXT), 0.0)
    assert all(key.task == "text" for key in table.bounds())


def test_a_new_list_replaces_the_one_before_of_that_client_only() -> None:
    table = RunningTable()
    table.note("a", _running(3), 0.0)
    table.note("b", _running(4), 0.0)
    table.note("a", _running(1), 1.0)
    assert len(table) == 5
    table.note("a", [], 2.0)
    assert len(table) == 4


def test_a_completion_takes_its_request_out_once() -> None:
    table = RunningTable()
    table.note("a", [*_running(2), Running(EN, 9.0, 9)], 0.0)
    version = table.version
    table.finish("a", "hash-1")
    assert (len(table), table.version) == (2, version + 1)
    for client_id, request_hash in (("a", "hash-1"), ("b", "hash-0"), ("a", "")):
        table.finish(client_id, request_hash)
    assert (len(table), table.version) == (2, version + 1)


def test_a_silent_client_is_forgotten() -> None:
    table = RunningTable()
    table.note("a", _running(2), 0.0)
    table.note("b", _running(3), 10.0)
    assert not table.expire(SILENCE_S - 1.0)
    assert table.expire(SILENCE_S + 1.0)
    assert len(table) == 3
    assert table.expire(SILENCE_S + 11.0)
    assert table.bounds() == {}


def test_neither_a_client_nor_many_can_make_it_grow() -> None:
    table = RunningTable()
    for number in range(100):
        table.note(f"client-{number}", _running(2 * MAX_REPORTED), float(number))
        assert len(table) <= 2048
    # The newest are kept.
    table.finish("client-99", "hash-0")
    assert len(table) == 2047


def test_clients_whose_requests_have_all_ended_leave_nothing() -> None:
    table = RunningTable()
    for number in range(3):
        table.note(f"client-{number}", _running(1), 0.0)
        table.finish(f"client-{number}", "hash-0")
    # Who is forgotten for its silence was there.
    assert not table.expire(SILENCE_S + 1.0)


def test_a_key_with_many_requests_keeps_an_even_part_that_counts_for_all() -> None:
    table = RunningTable()
    for number in range(4):
        table.note(f"client-{number}", _running(MAX_REPORTED), 0.0)
    kept = table.bounds()[EN]
    assert len(kept) == 64
    assert sum(bound.weight for bound in kept) == pytest.approx(4 * MAX_REPORTED)
    mean = sum(bound.tokens for bound in kept) / len(kept)
    assert mean == pytest.approx((MAX_REPORTED - 1) / 2, abs=8.0)


@pytest.mark.parametrize(
    ("kind", "key", "audio_s", "size"),
    [
        ("transcription", EN, 4.0, 4.0),
        ("transcription", EN, None, None),
        ("transcription", EN, math.nan, None),
        ("transcription", EN, 0.0, None),
        ("transcription", EN, 1e9, None),
        ("transcription", TEXT, 4.0, None),
        ("transcription", Key("m" * 200, "transcribe"), 4.0, None),
        ("text", TEXT, None, 50.0),
        ("text", EN, 4.0, None),
        ("detection", EN, 4.0, None),
        ("session", EN, 4.0, None),
    ],
)
def test_only_what_will_teach_is_taken(
    kind: RequestKind, key: Key, audio_s: float | None, size: float | None
) -> None:
    running = running_of(key, kind, audio_s=audio_s, prompt_tokens=50, tokens=7)
    assert (running.size if running else None) == size


def test_a_negative_count_is_not_taken() -> None:
    assert running_of(EN, "transcription", audio_s=4.0, prompt_tokens=0, tokens=-1) is None


def test_of_many_keys_those_that_run_most_are_bounded() -> None:
    table = RunningTable()
    invented = [Running(EN._replace(language=f"x{i}"), 4.0, i) for i in range(MAX_REPORTED)]
    table.note("a", invented, 0.0)
    table.note("b", _running(2), 0.0)
    bounds = table.bounds()
    assert len(bounds) == 128
    assert bounds[EN] == [Bound(4.0, 0.0), Bound(5.0, 1.0)]
    assert GLOBAL_KEY in bounds
