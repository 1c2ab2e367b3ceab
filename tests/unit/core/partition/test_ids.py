"""Names that outlive a refit."""

import itertools

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from estimator.core.partition.ids import carried, named, overlaps


def matched(old: list[float], new: list[float], x: np.ndarray) -> list[int | None]:
    before, after = np.searchsorted(old, x), np.searchsorted(new, x)
    return carried(overlaps(before, after, len(old) + 1, len(new) + 1))


X = np.linspace(0.0, 10.0, 1001)


def test_the_same_classes_keep_their_names() -> None:
    assert matched([2.0, 5.0], [2.2, 4.8], X) == [0, 1, 2]


def test_a_class_that_splits_keeps_its_name_in_the_larger_part() -> None:
    assert matched([5.0], [5.0, 9.0], X) == [0, 1, None]
    assert matched([5.0], [1.0, 5.0], X) == [None, 0, 1]


def test_classes_that_join_keep_the_larger_ones_name() -> None:
    assert matched([2.0, 5.0], [5.0], X) == [1, 2]


def test_a_class_that_holds_nothing_hands_its_name_to_nobody() -> None:
    assert matched([-5.0, 5.0], [5.0], X) == [1, 2]


def test_a_name_is_never_used_again() -> None:
    names, number = named([None, 0, None], ("q7", "q3"), 9)
    assert (names, number) == (("q9", "q7", "q10"), 11)


cuts = st.lists(st.integers(1, 99), max_size=7, unique=True).map(sorted)


@given(cuts, cuts)
@settings(max_examples=200, deadline=None)
def test_matches_keep_the_order_and_no_two_share_a_name(old: list[int], new: list[int]) -> None:
    x = np.arange(100) + 0.5
    matches = matched([float(at) for at in old], [float(at) for at in new], x)
    some = [match for match in matches if match is not None]
    assert some == sorted(set(some))
    names, _ = named(matches, [f"q{i}" for i in range(len(old) + 1)], 50)
    assert len(set(names)) == len(new) + 1


@given(cuts, cuts)
@settings(max_examples=60, deadline=None)
def test_no_other_alignment_keeps_more(old: list[int], new: list[int]) -> None:
    old, new = old[:3], new[:3]
    x = np.arange(100) + 0.5
    overlap = overlaps(
        np.searchsorted(old, x), np.searchsorted(new, x), len(old) + 1, len(new) + 1
    )
    least = 0.5 * np.minimum(overlap.sum(axis=1)[:, None], overlap.sum(axis=0)[None, :])
    gain = np.where(overlap >= least, overlap, 0.0)
    best = 0.0
    n_old, n_new = overlap.shape
    for size in range(min(n_old, n_new) + 1):
        for rows in itertools.combinations(range(n_old), size):
            for columns in itertools.combinations(range(n_new), size):
                best = max(best, sum(gain[pair] for pair in zip(rows, columns, strict=True)))
    found = carried(overlap)
    kept = sum(gain[match, j] for j, match in enumerate(found) if match is not None)
    assert kept == best
