"""Whose memory counts where engines of one model differ, and what is kept of it."""

import math
import sys
import threading

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


@pytest.mark.parametrize("value", [0.0, -1.0, math.nan, math.inf, 2e12, 1e-300, "x", "5", None])
def test_a_damaged_state_is_refused(value: object) -> None:
    with pytest.raises(ValueError, match=r"slot_contexts\['m'\]"):
        SlotContexts(2).restore({"m": value})


def test_of_a_state_with_more_models_those_said_last_are_kept() -> None:
    table = SlotContexts(2)
    table.restore({"a": 1.0, "b": 2.0, "c": 3.0})
    assert table.state() == {"b": 2.0, "c": 3.0}


def test_a_checkpoint_reads_it_in_another_thread_while_engines_report() -> None:
    table, models = SlotContexts(64), [f"m{i}" for i in range(64)]
    for model in models:
        table.note(model, 5.0, 0.0)
    failures: list[Exception] = []

    def save() -> None:
        try:
            for _ in range(2_000):
                assert len(table.state()) == len(models)
        except Exception as error:  # noqa: BLE001 - of a thread: shown below
            failures.append(error)

    saving, interval_s = threading.Thread(target=save), sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        saving.start()
        while saving.is_alive():
            for model in models:
                table.note(model, 5.0, 1.0)
    finally:
        sys.setswitchinterval(interval_s)
        saving.join()
    assert not failures


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
