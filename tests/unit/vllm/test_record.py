"""A record gives back what was read, and a session's next turn is a record of its own."""

from types import SimpleNamespace

import pytest

from sched_client.model import Features
from sched_client.vllm.features import FeatureReader, Reading
from sched_client.vllm.hints import NO_HINTS, Hints
from sched_client.vllm.record import Record
from sched_client.vllm.tracker import Tracker
from tests.support.vllm_fakes import Request

MEASURED = Features("w", "transcribe", "en", False, "session", 2.5, 4, 440, "mel")
ORDERINGS = {
    "as measured": MEASURED,
    "a longer clip by hint": MEASURED._replace(audio_s=20.0),
    "a language by hint": MEASURED._replace(language="de"),
    "a class of text": Features("w", "text", "chat/7", None, "text", None, 96, 4096, "none"),
}


@pytest.mark.parametrize("ordering", list(ORDERINGS.values()), ids=list(ORDERINGS))
def test_it_gives_back_what_was_read(ordering: Features) -> None:
    measured = ordering._replace(language="") if ordering.task == "text" else MEASURED
    record = Record(Request("a"), 1.0, 1)
    record.take(Reading(measured, ordering, Hints(request_type="batch")))
    assert record.features == measured
    assert record.ordering == ordering
    assert record.key == ordering.key
    assert record.hints.request_type == "batch"


def test_a_record_that_was_not_read_has_nothing_to_tell() -> None:
    assert Record(Request("a"), 1.0, 1).features is None
    with pytest.raises(RuntimeError, match="'a' was not read"):
        Record(Request("a"), 1.0, 1).ordering  # noqa: B018 -- a property that raises


def test_what_runs_is_told_of_one_turn_and_not_of_two() -> None:
    tracker = Tracker()
    request = Request("a", prefill_stats=SimpleNamespace(num_cached_tokens=3))
    first = tracker.arrive(request, 1.0)
    first.take(Reading(MEASURED, MEASURED, NO_HINTS))
    tracker.admit("a", 2.0)
    (told,) = tracker.read(9)
    assert (told.features, told.started_s) == (MEASURED, 2.0)
    # The reporter's thread may hold the first turn while the engine's goes on to the second.
    tracker.come_again(first, 5.0)
    assert list(tracker.read(9)) == []
    second = tracker.records["a"]
    second.take(Reading(MEASURED._replace(audio_s=7.0), MEASURED, NO_HINTS))
    assert first.features == MEASURED
    (told,) = tracker.read(9)
    assert told.features.audio_s == 7.0
    report = tracker.finish(request, 6.0, 0.0)
    assert report is not None
    assert (report.wait_s, report.service_s, report.cached_prompt_tokens) == (0.0, 4.0, 3)


def test_what_runs_is_told_with_the_time_it_started_from_the_first_moment() -> None:
    tracker = Tracker()

    class Seen(dict[str, Record]):
        """Read by another thread at the very moment at which a record is put into it."""

        def __setitem__(self, request_id: str, record: Record) -> None:
            super().__setitem__(request_id, record)
            told.extend(one.started_s for one in tracker.read(9))

    told: list[float] = []
    tracker.running = Seen()
    tracker.arrive(Request("a"), 1.0).take(Reading(MEASURED, MEASURED, NO_HINTS))
    tracker.admit("a", 2.0)
    assert told == [2.0]


def test_the_second_turn_is_younger_and_in_the_same_group() -> None:
    tracker = Tracker()
    record = tracker.arrive(Request("call-0-0123abcd"), 1.0)
    tracker.arrive(Request("call-1-0123abcd"), 1.5)
    tracker.come_again(record, 5.0)
    again = tracker.records["call-0-0123abcd"]
    assert (again.enqueued_s, again.sequence) == (5.0, 3)
    assert tracker.group_id(again) == "call@1000000000.0"
    again.take(FeatureReader().read(again.request))
    assert again.service_s == 0.0


def test_the_turns_of_one_session_are_one_member_of_the_group_that_a_hint_names() -> None:
    tracker = Tracker()
    record = tracker.arrive(Request("a"), 1.0)
    tracker.join(record, "hint:g")
    tracker.come_again(record, 5.0)
    again = tracker.records["a"]
    tracker.join(again, "hint:g")
    assert tracker.group_id(again) == ""
    tracker.join(tracker.arrive(Request("b"), 6.0), "hint:g")
    assert tracker.group_id(again) == "hint:g"
