"""The packed table of κ: a mapping like any other, and nothing for the collector to walk."""

import gc
from itertools import count

from hypothesis import given
from hypothesis import strategies as st

from sched_client.model import KappaEntry, Key
from sched_client.transport import convert
from sched_client.transport.pacing import Pacer
from sched_client.transport.packed import KeyPool, PackedKappas
from tests.support.scripted_sidecar import kappa, snapshot

_FINITE = st.floats(allow_nan=False, allow_infinity=False)
_KEYS = st.builds(Key, st.just("m"), st.just("transcribe"), st.text(max_size=3))
_ENTRIES = st.builds(
    KappaEntry,
    kappa_tokens_per_s=_FINITE,
    intercept_tokens=_FINITE,
    ratio_p50=_FINITE,
    ratio_p90=_FINITE,
    ratio_p99=_FINITE,
    sample_count=st.integers(0, 2**63 - 1),
    source=st.sampled_from(["prior", "learned"]),
)


@given(st.dictionaries(_KEYS, _ENTRIES), st.dictionaries(_KEYS, _ENTRIES), st.sets(_KEYS))
def test_it_holds_what_a_dictionary_would(
    base: dict[Key, KappaEntry], changes: dict[Key, KappaEntry], removed: set[Key]
) -> None:
    first = PackedKappas(base)
    table = PackedKappas(first)
    for key in removed:
        table.discard(key)
    for key, entry in changes.items():
        table.put(key, entry)
    expected = {k: e for k, e in base.items() if k not in removed} | changes
    assert dict(table) == expected
    assert len(table) == len(expected)
    assert dict(first) == base, "a copy must not change what it was made of"
    assert all(key in table for key in expected)
    assert table.get(Key("absent")) is None


def test_keys_are_shared_and_the_pool_is_bounded() -> None:
    pool = KeyPool(2)
    first = pool.shared(Key("m", "t", "a"))
    assert pool.shared(Key("m", "t", "a")) is first
    for number in range(10):
        pool.shared(Key("m", "t", str(number)))
        assert len(pool._keys) <= 2


def test_a_snapshot_of_thousands_of_keys_gives_the_collector_no_work() -> None:
    pool, pacer, kept, rates = KeyPool(10_000), Pacer(60.0, 0.0), [], count(1)

    def read() -> None:
        rate = float(next(rates))
        message = snapshot(1, *(kappa(f"l{number}", rate) for number in range(5_000)))
        data = message.SerializeToString()
        del message
        gc.collect()
        pacer.begin()
        before = [generation["collections"] for generation in gc.get_stats()]
        kept.append(convert.read_snapshot(convert.open_envelope(data), pacer, pool))
        after = [generation["collections"] for generation in gc.get_stats()]
        ran.append(sum(after) - sum(before))

    ran: list[int] = []
    read()
    assert ran.pop() > 5, "the first one brings new keys, so that this test sees collections"
    for _ in range(3):
        read()
    assert max(ran) <= 1
