"""Histograms in text."""

import pytest

from estimator.cli.histogram import draw

EDGES = [1.0, 2.0, 4.0, 8.0, 16.0]


def test_bars_are_as_high_as_their_counts_and_no_line_is_too_wide() -> None:
    lines = draw(EDGES, [8, 0, 4, 1], width=50, blocks=True).splitlines()
    assert max(map(len, lines)) <= 50
    bars = [line[9:].ljust(40) for line in lines[:6]]
    heights = [sum(row[column] != " " for row in bars) for column in range(40)]
    assert heights[:10] == [6] * 10
    assert heights[10:20] == [0] * 10
    assert heights[20:30] == [3] * 10
    assert heights[30:] == [1] * 10
    assert lines[0].startswith("       8│")
    assert lines[-1].split() == ["1", "s", "16", "s", "of", "work"]


def test_what_was_seen_at_all_is_shown() -> None:
    lines = draw(EDGES, [1000, 1, 0, 0], width=50, blocks=True).splitlines()
    assert lines[5][19:29] == "▁" * 10
    assert lines[5][29:].strip() == ""
    plain = draw(EDGES, [1000, 1, 0, 0], width=50, blocks=False).splitlines()
    assert plain[5][19:29] == "#" * 10


def test_boundaries_are_lines_and_queues_are_named_where_there_is_room() -> None:
    lines = draw(
        EDGES, [5, 5, 5, 5], boundaries=[4.0, 4.2], names=["q0", "q7", "q1"], width=50, blocks=True
    ).splitlines()
    assert all(line[9 + 20] == "│" for line in lines[:6])
    named = lines[6][9:]
    assert named.index("q0") == 9
    assert "q1" in named[21:]
    assert "q7" not in named


@pytest.mark.parametrize("bound", [0.001, 1e9])
def test_a_boundary_outside_of_what_was_seen_stands_at_the_margin(bound: float) -> None:
    lines = draw(EDGES, [1, 1, 1, 1], boundaries=[bound], width=50, blocks=False).splitlines()
    assert all(line[9 if bound < 1.0 else 48] == "|" for line in lines[:6])


def test_ascii_terminals_get_hashes() -> None:
    assert draw(EDGES, [8, 0, 4, 1], boundaries=[3.0], names=["a", "b"], blocks=False).isascii()


def test_one_value_alone_and_nothing_are_drawn() -> None:
    assert "3 s" in draw([3.0, 3.0], [5], width=40, blocks=True)
    assert draw([1.0, 2.0], [0], width=40, blocks=True)
