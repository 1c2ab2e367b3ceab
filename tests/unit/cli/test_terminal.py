import json
import math

import pytest

from estimator.cli.terminal import at, printable, say_json, say_table, span


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("κ é 日本", "κ é 日本"),
        ("a\nb\tc", "a\\nb\\tc"),
        ("\x1b[31m", "\\x1b[31m"),
        ("caf\udce9", "caf\\udce9"),
        ("\u202egpj", "\\u202egpj"),
    ],
)
def test_nothing_printed_can_break_a_line_or_a_terminal(text: str, shown: str) -> None:
    assert printable(text) == shown


def test_tables_align_numbers_right_and_words_left(capsys: pytest.CaptureFixture[str]) -> None:
    say_table(("key", "n"), [("en", 5), ("longer", 12_345), ("\n", None)])
    assert capsys.readouterr().out.splitlines() == [
        "key          n",
        "en           5",
        "longer  12,345",
        "\\n           -",
    ]


def test_json_has_no_nan(capsys: pytest.CaptureFixture[str]) -> None:
    say_json({"a": math.nan, "b": [math.inf, 1.5], "c": (True, None)})
    assert json.loads(capsys.readouterr().out) == {"a": None, "b": [None, 1.5], "c": [True, None]}


@pytest.mark.parametrize(
    ("seconds", "text"), [(-3.0, "0 s"), (59.0, "59 s"), (90.0, "2 min"), (86400.0, "1.0 d")]
)
def test_spans_have_their_natural_unit(seconds: float, text: str) -> None:
    assert span(seconds) == text


def test_an_absurd_time_is_shown_as_a_number() -> None:
    assert at(1e30) == "1e+30"
