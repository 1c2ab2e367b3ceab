"""How ``benchmarks.run`` turns JSON into RESULTS.md."""

import math

from benchmarks.listing import BENCHMARKS
from benchmarks.promises import PROMISES
from benchmarks.run import _find, _flat, _table, _take_tables, judged


def test_tables_are_taken_out_and_the_rest_stays_flat() -> None:
    result = {"part": {"tables": {"title": {"row": {"a_b": 1.23456}}}, "figure": 2.0}}
    assert dict(_take_tables(result)) == {"title": {"row": {"a_b": 1.23456}}}
    assert list(_flat(result)) == [("part / figure", 2.0)]


def test_a_table_has_every_column_and_empty_cells_where_a_row_lacks_one() -> None:
    rows: dict[str, dict[str, object]] = {"x": {"a_b": 1.23456, "c": None}, "y": {"d": 3}}
    assert list(_table("title", rows)) == [
        "| title | a b | c | d |",
        "|---|---|---|---|",
        "| x | 1.235 | never |  |",
        "| y |  |  | 3 |",
    ]


def test_never_keeps_no_promise_in_either_direction() -> None:
    result = {"a": {"b": None}}
    assert math.isnan(_find(result, "a/b"))
    for comparison in ("<=", ">="):
        assert judged(("what", "a/b", comparison, 1.0), result).endswith("| **no** |")


def test_every_promise_has_a_comparison_that_can_be_judged() -> None:
    for promises in PROMISES.values():
        for promised in promises:
            what, path, _, _ = promised
            document: object = 0.0
            for key in reversed(path.split("/")):
                document = {key: document}
            assert judged(promised, document).startswith(f"| {what} | 0")


def test_every_promise_is_of_a_benchmark_that_is_run() -> None:
    assert set(PROMISES) <= {benchmark.name for benchmark in BENCHMARKS}
