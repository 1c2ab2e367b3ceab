import math
from typing import Any

import pytest

from estimator.core.observation import Completion
from estimator.evaluation.references import CumulativeRatio, ToldRatio
from estimator.evaluation.report import Setting, evaluate
from estimator.evaluation.scenarios import Trace


def constant(name: str, kappa: int, n: int, language: str = "en") -> Trace:
    return Trace(
        name,
        tuple(
            Completion(
                completion_id=f"{name}-{i}",
                language=language,
                audio_s=float(1 + i % 4),
                output_tokens=kappa * (1 + i % 4),
            )
            for i in range(n)
        ),
    )


def document(*traces: Trace, **setting: Any) -> dict[str, Any]:  # Any: the document of `--json`
    return evaluate(traces, Setting(**setting))


def test_an_exact_kappa_has_a_perfect_oracle_and_finite_figures() -> None:
    found = document(constant("a", 3, 50))
    assert found["n"] == 50
    assert found["oracle_mae_tokens"] == 0.0
    # Over an oracle without error there is no ratio.
    assert math.isnan(found["mae_ratio_to_oracle"])
    assert found["segments"][0]["kappa_hindsight"] == 3.0


def test_nothing_gives_no_numbers_and_no_error() -> None:
    found = document(Trace("a", ()))
    assert found["n"] == 0
    assert math.isnan(found["mae_tokens"])
    assert found["segments"][0]["completions_to_cross_10_percent"] is None


def test_n_limits_each_file_and_seeds_multiply() -> None:
    traces = constant("a", 3, 50), constant("b", 6, 50)
    assert document(*traces, n=20)["n"] == 40
    found = document(*traces, n=20, resamples=3)
    assert found["n"] == 120
    assert [one["n"] for one in found["segments"]] == [60, 60]
    assert found["segments"][1]["kappa_hindsight"] == 6.0


def test_more_than_a_file_has_is_all_of_it() -> None:
    assert document(constant("a", 3, 50), n=500)["n"] == 50


def test_hidden_languages_hurt_the_cumulative_learner_more() -> None:
    traces = constant("a", 3, 150, "en"), constant("b", 6, 150, "fr")
    hidden, known = document(*traces, language_hidden=True), document(*traces)
    assert hidden["mae_ratio_to_cumulative"] < 0.7
    assert hidden["mae_tokens"] > known["mae_tokens"]


def test_the_contest_ranks_a_learner_that_is_told_before_one_that_never_forgets() -> None:
    traces = [constant("a", 3, 150), constant("b", 6, 100)]
    found = evaluate(traces, Setting(language_hidden=True), contest={"told": ToldRatio})
    table: Any = found["contest"]  # Any: the document of `--json`
    rows = {row["learner"]: row for row in table}
    assert list(rows) == ["pipeline", "cumulative", "told"]
    assert rows["told"]["mae_tokens"] < rows["pipeline"]["mae_tokens"]
    assert rows["pipeline"]["mae_tokens"] < rows["cumulative"]["mae_tokens"]
    assert rows["cumulative"]["mae_ratio_to_cumulative"] == pytest.approx(1.0)
    assert rows["told"]["median_completions_to_cross_10_percent"] == 1
    assert rows["cumulative"]["median_completions_to_stay_20"] is None


def test_progress_is_told_of_every_run() -> None:
    counts: list[int] = []
    evaluate(
        [constant("a", 3, 30)],
        Setting(resamples=2),
        contest={"again": CumulativeRatio},
        on_run=counts.append,
    )
    assert counts == [30] * 6
