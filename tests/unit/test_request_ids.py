"""What leaves the engine of a caller's id, and that the same id is found again."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sched_client.request_ids import MAX_ID_LENGTH, HashKey, asked_ids, caller_part


@pytest.mark.parametrize(
    ("engine_id", "asked"),
    [
        ("transcribe-abc-0123abcd", "abc"),
        ("transcribe-abc-0123abcd", "transcribe-abc"),
        ("transcribe-abc-0123abcd", "transcribe-abc-0123abcd"),
        ("transcribe-abc-7-0123abcd", "abc"),
        ("transcribe-abc-lang_detect-0123abcd", "abc"),
        ("translate-a b/ü-0123abcd", "a b/ü"),
        ("chatcmpl-5-0123abcd", "5"),
        # The caller's own id ends as the engine's do, and the engine's were switched off.
        ("transcribe-job-deadbeef", "job-deadbeef"),
        ("transcribe-job-deadbeef-0123abcd", "job-deadbeef"),
        ("transcribe-" + "x" * 1000 + "y-0123abcd", "x" * 1000 + "y"),
        ("transcribe-" + "x" * 1000 + "y", "x" * 1000 + "y"),
    ],
)
def test_whoever_knows_a_request_by_one_of_its_names_means_it(engine_id: str, asked: str) -> None:
    # The client cuts the head of what is too long before it hashes.
    assert caller_part(engine_id[-MAX_ID_LENGTH:]) in set(asked_ids(asked))


def test_the_engines_own_digits_do_not_count_and_the_callers_do() -> None:
    assert caller_part("transcribe-a-00000001") == caller_part("transcribe-a-00000002")
    assert caller_part("transcribe-a-12345678x") == "transcribe-a-12345678x"
    assert caller_part("transcribe-a-0123ABCD") == "transcribe-a-0123ABCD"
    assert caller_part("") == ""


@given(st.text(max_size=400))
def test_what_is_kept_and_asked_for_is_bounded(text: str) -> None:
    asked = list(asked_ids(text))
    assert len(asked) <= 2 * 5 * 66
    assert max(map(len, [caller_part(text), *asked])) <= MAX_ID_LENGTH
    assert caller_part(text) in asked


def test_hashes_are_those_that_older_clients_sent() -> None:
    # Pinned: a sidecar and a client of different versions must agree.
    assert HashKey("boot").hash("cmpl-1") == "9fdcdd9e3e0e418cb5a4e54bc4ca40ba"
    assert HashKey("boot").hash("") == ""
    assert HashKey("boot").hash("\ud800") != HashKey("boot").hash("\ud801")
