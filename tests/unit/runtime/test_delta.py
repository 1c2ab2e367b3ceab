"""Merging deltas equals applying them one after the other."""

from hypothesis import given
from hypothesis import strategies as st

from estimator.runtime.delta import SnapshotDelta, merge
from sched_client.model import KappaEntry, Key, ServiceTime, Settings

_KEYS = [Key(), Key("a"), Key("a", "transcribe"), Key("b")]


def _apply(state: dict[Key, float], delta: SnapshotDelta) -> dict[Key, float]:
    out = {k: v for k, v in state.items() if k not in delta.removed}
    out.update({k: e.kappa_tokens_per_s for k, e in delta.kappas.items()})
    return out


@st.composite
def _chains(draw: st.DrawFn) -> list[SnapshotDelta]:
    chain = []
    for version in range(draw(st.integers(1, 6))):
        changed = draw(st.dictionaries(st.sampled_from(_KEYS), st.floats(0.0, 9.0), max_size=4))
        gone = draw(st.frozensets(st.sampled_from(_KEYS)))
        chain.append(
            SnapshotDelta(
                base_version=version,
                version=version + 1,
                kappas={k: KappaEntry(kappa_tokens_per_s=v) for k, v in changed.items()},
                removed=gone - set(changed),
            )
        )
    return chain


@given(_chains(), st.dictionaries(st.sampled_from(_KEYS), st.floats(0.0, 9.0), max_size=4))
def test_a_merged_delta_equals_its_parts_in_turn(
    chain: list[SnapshotDelta], state: dict[Key, float]
) -> None:
    merged = merge(chain)
    expected = state
    for delta in chain:
        expected = _apply(expected, delta)
    assert _apply(state, merged) == expected
    assert (merged.base_version, merged.version) == (0, len(chain))
    assert not merged.removed & set(merged.kappas)


def test_a_filter_keeps_what_belongs_to_no_model() -> None:
    entry = KappaEntry(kappa_tokens_per_s=1.0)
    delta = SnapshotDelta(
        base_version=1,
        version=2,
        kappas={Key(): entry, Key("a"): entry, Key("b"): entry},
        removed=frozenset({Key("b", "text")}),
        services={"": ServiceTime(), "b": ServiceTime()},
    )
    filtered = delta.filtered({"a"})
    assert set(filtered.kappas) == {Key(), Key("a")}
    assert not filtered.removed
    assert set(filtered.services) == {""}
    assert delta.filtered(()) is delta


def test_a_delta_of_another_model_is_empty_for_this_one() -> None:
    entry = KappaEntry(kappa_tokens_per_s=1.0)
    other = SnapshotDelta(base_version=1, version=2, kappas={Key("b"): entry})
    assert other.filtered({"a"}).empty
    assert not other.empty
    assert not SnapshotDelta(base_version=1, version=2, settings=Settings()).filtered({"a"}).empty
