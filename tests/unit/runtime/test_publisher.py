"""Snapshots are immutable, versions count, and any base in the ring leads to the newest state."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from estimator.runtime.publisher import Publisher
from sched_client.model import (
    GLOBAL_KEY,
    SINGLE_QUEUE,
    Features,
    KappaEntry,
    Key,
    Partition,
    Settings,
    Snapshot,
    evaluate,
    prior_snapshot,
)

_KEYS = [GLOBAL_KEY, Key("a"), Key("a", "transcribe"), Key("b")]


def _entry(kappa: float) -> KappaEntry:
    return KappaEntry(kappa_tokens_per_s=kappa, source="learned")


def _publisher(ring_limit: int = 8) -> Publisher:
    return Publisher(prior_snapshot(), ring_limit=ring_limit)


def test_a_publication_replaces_the_snapshot_and_leaves_the_old_one_as_it_was() -> None:
    publisher = _publisher()
    old = publisher.snapshot
    features = Features(model="a", task="transcribe", language="en", audio_s=10.0)
    before = evaluate(old, features)
    publisher.publish(created_s=5.0, kappas={Key("a"): _entry(9.0)})
    new = publisher.snapshot
    assert (new.version, new.created_s) == (1, 5.0)
    assert Key("a") not in old.kappas
    assert evaluate(old, features) == before
    # The old snapshot had resolved this key already: its cache must not be carried over.
    assert evaluate(new, features).tokens == pytest.approx(90.0)


def test_the_global_key_is_never_removed() -> None:
    publisher = _publisher()
    delta = publisher.publish(created_s=0.0, removed=frozenset({GLOBAL_KEY, Key("a")}))
    assert GLOBAL_KEY in publisher.snapshot.kappas
    assert delta.removed == {Key("a")}


def test_a_model_that_has_one_queue_again_is_told_and_no_longer_held() -> None:
    publisher = _publisher()
    two = Partition(boundaries_s=(1.0,), queue_ids=("q1", "q2"))
    for index in range(100):
        publisher.publish(created_s=0.0, partitions={f"m{index}": two})
        publisher.publish(created_s=0.0, partitions={f"m{index}": SINGLE_QUEUE})
    publisher.publish(created_s=0.0, partitions={"a": two})
    assert publisher.snapshot.partitions == {"a": two}
    told = publisher.delta_since(publisher.snapshot.version - 2)
    assert told is not None
    assert told.partitions == {"m99": SINGLE_QUEUE, "a": two}


def test_a_snapshot_without_the_global_key_is_refused() -> None:
    with pytest.raises(ValueError, match="global key"):
        Publisher(Snapshot(version=1, instance_id="", created_s=0.0, kappas={}), ring_limit=1)


@given(
    st.lists(
        st.tuples(
            st.dictionaries(st.sampled_from(_KEYS), st.floats(0.0, 9.0), max_size=3),
            st.frozensets(st.sampled_from(_KEYS), max_size=2),
        ),
        min_size=1,
        max_size=12,
    ),
    st.integers(1, 12),
)
def test_a_delta_from_any_known_base_gives_the_newest_state(
    steps: list[tuple[dict[Key, float], frozenset[Key]]], ring_limit: int
) -> None:
    publisher = _publisher(ring_limit)
    states = [dict(publisher.snapshot.kappas)]
    for changed, removed in steps:
        publisher.publish(
            created_s=0.0,
            kappas={key: _entry(kappa) for key, kappa in changed.items()},
            removed=removed,
        )
        states.append(dict(publisher.snapshot.kappas))
    for version, state in enumerate(states[:-1]):
        delta = publisher.delta_since(version)
        if version < len(steps) - ring_limit:
            assert delta is None
            continue
        assert delta is not None
        for key in delta.removed:
            state.pop(key, None)
        assert {**state, **delta.kappas} == states[-1]
        assert delta.version == publisher.snapshot.version


def test_deltas_that_outnumber_the_keys_are_forgotten() -> None:
    publisher = _publisher(ring_limit=1000)
    keys = [Key("m", "transcribe", str(i)) for i in range(2000)]
    for kappa in range(10):
        publisher.publish(created_s=0.0, kappas={key: _entry(float(kappa)) for key in keys})
    assert sum(len(delta.kappas) for delta in publisher._ring) <= 2001
    newest = publisher.delta_since(9)
    assert newest is not None
    assert len(newest.kappas) == 2000
    assert publisher.delta_since(1) is None


def test_a_version_from_the_future_has_no_delta() -> None:
    publisher = _publisher()
    publisher.publish(created_s=0.0, settings=Settings(mode="on"))
    assert publisher.delta_since(1) is None
    assert publisher.delta_since(7) is None


async def test_a_waiter_wakes_on_publication_and_on_closing() -> None:
    publisher = _publisher()
    waiter = asyncio.create_task(publisher.wait_beyond(0, 5.0))
    await asyncio.sleep(0)
    publisher.publish(created_s=0.0, settings=Settings(mode="on"))
    assert await waiter
    waiter = asyncio.create_task(publisher.wait_beyond(1, 5.0))
    await asyncio.sleep(0)
    publisher.close()
    assert await waiter
    assert publisher.closed


async def test_a_waiter_that_is_behind_does_not_wait_and_an_idle_one_gives_up() -> None:
    publisher = _publisher()
    publisher.publish(created_s=0.0, settings=Settings(mode="on"))
    assert await publisher.wait_beyond(0, 5.0)
    assert not await publisher.wait_beyond(1, 0.0)
