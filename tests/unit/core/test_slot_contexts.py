"""Whose memory counts where engines of one model differ, and what is kept of it."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from estimator.core.slot_contexts import FORGET_S, SlotContexts

UNKNOWN = 0.0


def test_the_least_that_was_said_holds_and_is_said_once() -> None:
    table = SlotContexts(4)
    assert table.get("m") == 0.0
    assert not table.note("m", UNKNOWN, 0.0)
    assert table.note("m", 900.0, 0.0)
    assert table.note("m", 500.0, 1.0)
    # Two engines in turn, every ten seconds for a day: nothing changes.
    for second in range(10, 86_400, 10):
        assert not table.note("m", 900.0, float(second))
        assert not table.note("m", UNKNOWN, float(second))
        assert not table.note("m", 500.0, float(second))
    assert table.get("m") == 500.0
    assert table.get("other") == 0.0


def test_what_nobody_says_any_more_gives_way_after_a_minute() -> None:
    table = SlotContexts(4)
    table.note("m", 500.0, 0.0)
    assert not table.note("m", 900.0, FORGET_S)
    assert table.note("m", 900.0, FORGET_S + 1.0)
    assert table.get("m") == 900.0
    assert not table.note("m", UNKNOWN, 2.0 * FORGET_S)
    assert table.note("m", UNKNOWN, 2.0 * FORGET_S + 2.0)
    assert table.get("m") == 0.0
    assert table.state() == {}


def test_what_was_saved_holds_until_a_minute_after_somebody_spoke() -> None:
    old = SlotContexts(4)
    old.note("m", 500.0, 7e9)
    old.note("n", 80.0, 7e9)
    assert old.state("n") == {"n": 80.0}
    new = SlotContexts(4)
    new.restore(old.state())
    assert (new.get("m"), new.get("n")) == (500.0, 80.0)
    # The clock of another machine.
    assert not new.note("m", 900.0, 3.0)
    assert not new.note("m", 900.0, 3.0 + FORGET_S)
    assert new.note("m", 900.0, 4.0 + FORGET_S)
    assert new.note("n", 79.0, 3.0)


def test_the_model_said_longest_ago_is_forgotten_beyond_the_limit() -> None:
    table = SlotContexts(2)
    for second, model in enumerate(("a", "b", "a", "c")):
        table.note(model, 10.0, float(second))
    assert list(table.state()) == ["a", "c"]


@pytest.mark.parametrize("value", [0.0, -1.0, math.nan, math.inf, 2e12, "x", None])
def test_a_damaged_state_is_refused(value: object) -> None:
    with pytest.raises((ValueError, TypeError)):
        SlotContexts(2).restore({"m": value})


@given(
    st.lists(
        st.tuples(
            st.sampled_from("ab"), st.sampled_from([0.0, 3.0, 5.0, 8.0]), st.integers(0, 40)
        ),
        max_size=60,
    )
)
def test_what_changed_is_told_and_nothing_else(said: list[tuple[str, float, int]]) -> None:
    table, now_s = SlotContexts(2), 0.0
    for model, tokens, later_s in said:
        now_s += later_s
        before = {name: table.get(name) for name in "ab"}
        changed = table.note(model, tokens, now_s)
        after = {name: table.get(name) for name in "ab"}
        assert changed == (before[model] != after[model])
        assert after[model] in {before[model], tokens}
        assert tokens == 0.0 or after[model] <= tokens
        other = "b" if model == "a" else "a"
        assert before[other] == after[other]
