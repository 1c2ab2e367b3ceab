"""What the benchmark on text says of classes, of what can be foreseen, and of what is held."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from benchmarks.run import judged
from benchmarks.twin import text
from benchmarks.twin.promises import TEXT
from benchmarks.twin.text_classes import (
    Classes,
    by_application,
    by_expectation,
    by_prompt,
    by_work,
    told_apart,
)
from benchmarks.twin.text_compared import Run, occupancy
from benchmarks.twin.text_mixes import azure


def jobs_of(*rows: tuple[int, int, int]) -> Any:
    """Give jobs by application, prompt and output."""
    return [
        SimpleNamespace(segment=segment, prompt_tokens=prompt, produced_tokens=tokens)
        for segment, prompt, tokens in rows
    ]


def run_of(*rows: tuple[float, float, float, float, float, float]) -> Run:
    """Give a run by arrival, admission, first token, end, prompt and output of each."""
    arrival, admitted, first, end, prompt, tokens = np.array(rows).T
    return Run(arrival, admitted, first, end, prompt, tokens, 1.0, 1.0, 1.0)


def test_what_is_held_counts_while_somebody_waits_and_others_still_come() -> None:
    # The second waits from 1 to 4, the third from 2 to 5, and the fourth comes last, at 6.
    run = run_of(
        (0.0, 0.0, 0.0, 10.0, 100.0, 10.0),
        (1.0, 4.0, 4.0, 6.0, 50.0, 2.0),
        (2.0, 5.0, 5.0, 5.0, 7.0, 1.0),
        (6.0, 8.0, 9.0, 11.0, 1_000.0, 1.0),
    )
    batch, kv_tokens = occupancy(run)
    # From 1 to 4 one runs, with 101 to 104 tokens; from 4 to 5 two, with 104 to 105 and 50 to 51.
    assert batch == pytest.approx((3 * 1 + 1 * 2) / 4)
    assert kv_tokens == pytest.approx((3 * 102.5 + 104.5 + 50.5) / 4)


def test_classes_are_by_what_they_say() -> None:
    jobs = jobs_of(*((0, 100 * (i + 1), 400 - i) for i in range(5)), *((1, 4_000, 1),) * 5)
    assert list(by_application(jobs).short) == [False] * 5 + [True] * 5
    assert list(by_prompt(jobs).short) == [True] * 5 + [False] * 5
    assert list(by_work(jobs).short) == [False] * 5 + [True] * 5
    assert not (by_work(jobs).long & by_work(jobs).short).any()


def test_who_cannot_be_told_apart_is_expected_alike() -> None:
    # Of one application and prompt, though one produces a thousand times as much.
    jobs = jobs_of(*[(0, 600, 1), (0, 610, 1_000)] * 5, *[(1, 600, 20)] * 10)
    expected = by_expectation(jobs)
    assert list(expected.short) == [False] * 10 + [True] * 10
    assert by_work(jobs).short[:10:2].all()


def test_how_much_must_go_first_is_what_the_best_choice_of_cells_needs() -> None:
    # Completions of 600 are all short; chats of 600 are short or long, and nobody knows which.
    jobs = jobs_of(*[(1, 600, 10)] * 50, *[(0, 600, 10), (0, 600, 990)] * 50)
    short = np.array([job.produced_tokens == 10 for job in jobs])
    found = told_apart(jobs, {"by work": lambda _: Classes(short, ~short)})
    (table,) = found["tables"].values()
    row = table["short by work"]
    # Half of the short are the completions, for next to nothing; 99 % of all want 98 % of chats.
    assert row["type, half octave of the prompt: 50 % of them"] == "1 %"
    assert found["needed_share"]["by work"] == pytest.approx(0.98, abs=0.001)
    assert found["affordable_share"] == pytest.approx(1 - 1 / 1.43)


def test_with_learned_lengths_it_is_said_of_what_turned_out_short_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(text, "azure", lambda _n: azure(60))
    found = {"learned": text.learned()}
    rows = [judged(one, found) for one in TEXT if one[1].startswith("learned/")]
    assert len(rows) == 10
    assert sum("as it turned out" in row for row in rows) == 3
    # Two senses of one run, so two figures.
    assert found["learned"]["short_p99_times"] != found["learned"]["turned_out"]["short_p99_times"]
