"""Blocks of the KV cache: what steps will need, against counting them request by request."""

from hypothesis import given
from hypothesis import strategies as st

from estimator.replay.kv import KvBlocks


def test_blocks_of_a_context() -> None:
    kv = KvBlocks(1000, 16, 94)
    assert [kv.of(tokens) for tokens in (0, 1, 16, 17, 32, 33)] == [94, 95, 95, 96, 96, 97]


def test_the_phase_is_the_step_that_begins_a_new_block() -> None:
    kv = KvBlocks(1000, 4, 0)
    # A context of 6 after step 10: 7 and 8 fit, the ninth token, in step 13, does not.
    assert kv.phase(10, 6) == 13 % 4


@given(
    size=st.integers(1, 9),
    contexts=st.lists(st.integers(1, 40), max_size=12),
    step=st.integers(0, 100),
    steps=st.integers(0, 60),
    free=st.integers(0, 80),
)
def test_what_steps_need_is_what_each_request_takes(
    size: int, contexts: list[int], step: int, steps: int, free: int
) -> None:
    kv = KvBlocks(free, size, 3)
    for tokens in contexts:
        kv.join(kv.phase(step - 1, tokens))
    taken = [
        sum(kv.of(tokens + k + 1) - kv.of(tokens + k) for tokens in contexts) for k in range(steps)
    ]
    assert [kv.due(step + k) for k in range(steps)] == taken
    assert kv.needed(step, steps) == sum(taken)
    fitting = kv.fitting(step, steps)
    assert sum(taken[:fitting]) <= free
    assert fitting == steps or sum(taken[: fitting + 1]) > free


def test_who_left_is_counted_no_more() -> None:
    kv = KvBlocks(10, 4, 0)
    phase = kv.phase(0, 1)
    kv.join(phase)
    kv.leave(phase)
    assert kv.needed(1, 100) == 0
    assert kv.fitting(1, 100) == 100
