"""Which cuts are taken out."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from estimator.core.partition.prune import prune
from estimator.core.partition.refine import Cut


def cuts_at(*positions: float) -> list[Cut]:
    return [Cut(at=at, why="density") for at in positions]


def clusters(*sizes_and_means: tuple[int, float]) -> np.ndarray:
    parts = [mean + np.linspace(-0.1, 0.1, size) for size, mean in sizes_and_means]
    return np.sort(np.concatenate(parts))


def test_a_light_queue_goes_to_the_nearer_neighbour() -> None:
    x = clusters((100, 0.0), (5, 1.0), (100, 3.0))
    kept = prune(x, cuts_at(0.5, 2.0), least_points=10, max_queues=8)
    assert [cut.at for cut in kept] == [2.0]
    x = clusters((100, 0.0), (5, 2.0), (100, 3.0))
    kept = prune(x, cuts_at(1.0, 2.5), least_points=10, max_queues=8)
    assert [cut.at for cut in kept] == [1.0]


def test_light_queues_at_the_ends_and_empty_ones_go() -> None:
    x = clusters((5, 0.0), (100, 1.0), (5, 2.0))
    assert prune(x, cuts_at(0.5, 1.5), least_points=10, max_queues=8) == ()
    assert prune(x, cuts_at(-1.0, 0.5, 0.6, 9.0), least_points=6, max_queues=8) == ()


def test_the_cut_that_explains_least_goes_first() -> None:
    x = clusters((50, 0.0), (50, 0.5), (50, 4.0))
    kept = prune(x, cuts_at(0.25, 2.0), least_points=1, max_queues=2)
    assert [cut.at for cut in kept] == [2.0]
    # Few but far is worth more than many but near.
    x = clusters((500, 0.0), (500, 0.3), (20, 9.0))
    kept = prune(x, cuts_at(0.15, 5.0), least_points=1, max_queues=2)
    assert [cut.at for cut in kept] == [5.0]


@given(
    st.lists(st.floats(-3.0, 3.0), min_size=1, max_size=200),
    st.lists(st.floats(-3.0, 3.0), max_size=12, unique=True),
    st.integers(1, 20),
    st.integers(1, 8),
)
@settings(max_examples=150, deadline=None)
def test_what_is_left_is_some_of_it_and_holds_enough(
    values: list[float], positions: list[float], least: int, most: int
) -> None:
    x, cuts = np.sort(values), cuts_at(*sorted(positions))
    kept = prune(x, cuts, least_points=least, max_queues=most)
    assert set(kept) <= set(cuts)
    assert len(kept) < most
    assert list(kept) == sorted(kept, key=lambda cut: cut.at)
    if kept:
        parts = np.split(x, np.searchsorted(x, [cut.at for cut in kept], side="left"))
        assert min(map(len, parts)) >= least
    assert prune(x, kept, least_points=least, max_queues=most) == kept
