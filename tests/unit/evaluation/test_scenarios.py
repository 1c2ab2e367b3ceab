from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from estimator.core.observation import Completion
from estimator.evaluation.scenarios import (
    Admission,
    Finish,
    Stream,
    Trace,
    in_completion_order,
    in_trace_order,
    leading,
    ordered_pairs,
    resampled,
    without_language,
)

tokens_of_clips = st.lists(st.integers(0, 40), min_size=1, max_size=30)
slot_counts = st.integers(1, 8)


def trace(tokens: list[int], name: str = "a", language: str = "en") -> Trace:
    return Trace(
        name,
        tuple(
            Completion(
                completion_id=f"{name}-{i}", language=language, audio_s=1.0 + i, output_tokens=n
            )
            for i, n in enumerate(tokens)
        ),
    )


def facts(stream: Stream) -> Counter[tuple[float | None, int]]:
    return Counter((one.audio_s, one.output_tokens) for one, _ in stream.items)


@given(tokens_of_clips, tokens_of_clips, slot_counts)
def test_no_completion_is_lost_or_doubled(first: list[int], second: list[int], slots: int) -> None:
    segments = [trace(first), trace(second, "b")]
    expected = Counter(
        (one.audio_s, one.output_tokens) for part in segments for one in part.completions
    )
    for stream in (in_trace_order(segments), in_completion_order(segments, slots=slots)):
        assert facts(stream) == expected
        assert len({one.completion_id for one, _ in stream.items}) == len(stream.items)
        admitted = [event.position for event in stream.events if isinstance(event, Admission)]
        finished = [event.position for event in stream.events if isinstance(event, Finish)]
        assert admitted == list(range(len(stream.items)))
        assert sorted(finished) == admitted


@given(tokens_of_clips, slot_counts)
def test_a_request_finishes_after_its_admission_and_slots_are_never_exceeded(
    tokens: list[int], slots: int
) -> None:
    stream = in_completion_order([trace(tokens)], slots=slots)
    running: set[int] = set()
    now_s = 0.0
    for event in stream.events:
        if isinstance(event, Admission):
            running.add(event.position)
            assert len(running) <= slots
            continue
        running.remove(event.position)
        assert {index for index, _ in event.running} == running
        assert event.at_s >= now_s
        now_s = event.at_s
        assert stream.items[event.position].completion.finished_s == event.at_s
    assert not running


@given(tokens_of_clips, slot_counts)
def test_those_that_run_show_fewer_tokens_than_they_will_have_and_never_lose_any(
    tokens: list[int], slots: int
) -> None:
    stream = in_completion_order([trace(tokens)], slots=slots)
    seen: dict[str, int] = {}
    for event in stream.events:
        if isinstance(event, Finish):
            for one in stream.running_of(event):
                assert one.tokens <= one.completion.output_tokens
                assert one.tokens >= seen.get(one.completion.completion_id, 0)
                seen[one.completion.completion_id] = one.tokens


def test_requests_that_start_together_finish_short_ones_first() -> None:
    stream = in_completion_order([trace([30, 10, 20])], slots=3)
    assert [event.position for event in stream.events if isinstance(event, Finish)] == [1, 2, 0]


def test_tokens_so_far_follow_from_the_common_speed() -> None:
    stream = in_completion_order([trace([30, 10])], slots=2, overhead_s=1.0, seconds_per_token=0.5)
    first = next(event for event in stream.events if isinstance(event, Finish))
    assert first.at_s == 6.0
    assert [one.tokens for one in stream.running_of(first)] == [10]


def test_one_slot_is_trace_order() -> None:
    parts = [trace([3, 1, 2]), trace([9], "b")]
    alone, plain = in_completion_order(parts, slots=1), in_trace_order(parts)
    assert [event.position for event in alone.events] == [event.position for event in plain.events]


def test_segments_keep_their_names_and_order() -> None:
    stream = in_trace_order([trace([1, 2]), trace([3], "b")])
    assert [part.name for part in stream.segments] == ["a", "b"]
    assert [segment for _, segment in stream.items] == [0, 0, 1]
    assert [one.finished_s for one, _ in stream.items] == [0.0, 1.0, 2.0]


@given(tokens_of_clips, st.integers(0, 5))
def test_a_resample_is_a_permutation_and_the_same_for_the_same_seed(
    tokens: list[int], seed: int
) -> None:
    once, again = resampled(trace(tokens), seed), resampled(trace(tokens), seed)
    assert once == again
    assert Counter(once.completions) == Counter(trace(tokens).completions)


def test_seeds_and_names_differ_in_their_draws() -> None:
    whole = trace(list(range(30)))
    draws = {resampled(whole, seed).completions for seed in range(5)}
    assert len(draws) == 5


@pytest.mark.parametrize(("n", "distinct"), [(3, 3), (50, 10)])
def test_a_draw_repeats_only_where_there_are_too_few(n: int, distinct: int) -> None:
    drawn = resampled(trace(list(range(10))), 1, n)
    assert len(drawn) == n
    assert len(set(drawn.completions)) <= distinct
    if n == distinct:
        assert len(set(drawn.completions)) == distinct


def test_leading_takes_the_first() -> None:
    assert [one.output_tokens for one in leading(trace([5, 6, 7]), 2).completions] == [5, 6]
    assert len(leading(trace([5]), 2)) == 1


def test_hiding_the_language_changes_nothing_else() -> None:
    hidden = without_language(trace([5, 6]))
    assert {one.language for one in hidden.completions} == {""}
    assert [one.output_tokens for one in hidden.completions] == [5, 6]
    assert hidden.name == "a"


def test_ordered_pairs_hold_both_directions() -> None:
    parts = [trace([1], name) for name in "abc"]
    pairs = {(before.name, after.name) for before, after in ordered_pairs(parts)}
    assert pairs == {(a, b) for a in "abc" for b in "abc" if a != b}
