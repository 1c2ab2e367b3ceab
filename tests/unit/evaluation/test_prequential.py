import math
from collections.abc import Sequence

import pytest

from estimator.core.drift_event import DriftEvent
from estimator.core.learner import Learner
from estimator.core.observation import Completion
from estimator.evaluation import metrics
from estimator.evaluation.prequential import hindsight_of, kappa_at, run
from estimator.evaluation.references import CumulativeRatio, ToldRatio
from estimator.evaluation.scenarios import (
    Running,
    Trace,
    in_completion_order,
    in_trace_order,
)
from estimator.evaluation.subjects import LearnerSubject, PipelineSubject, Prediction, Subject
from tests.support.completions import speech


def constant(name: str, kappa: int, n: int, language: str = "") -> Trace:
    """κ is exact: every clip is a whole number of seconds."""
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


class Recorder:
    """A subject that notes what it is asked and told."""

    sees_running = True

    def __init__(self) -> None:
        self.log: list[tuple[str, str]] = []
        self.running: list[list[tuple[str, int]]] = []

    def predict(self, completion: Completion) -> Prediction:
        self.log.append(("predict", completion.completion_id))
        return Prediction(float(len([one for one in self.log if one[0] == "learn"])))

    def learn(self, completion: Completion, running: Sequence[Running]) -> tuple[DriftEvent, ...]:
        self.log.append(("learn", completion.completion_id))
        self.running.append([(one.completion.completion_id, one.tokens) for one in running])
        return ()

    def change(self) -> None:
        self.log.append(("change", ""))


def test_every_completion_is_predicted_before_it_is_learned() -> None:
    subject = Recorder()
    result = run(subject, in_trace_order([constant("a", 2, 4), constant("b", 4, 3)]))
    # `Recorder` predicts how many it has learned.
    assert [record.predicted for record in result.records] == [0, 1, 2, 3, 4, 5, 6]
    assert [record.segment for record in result.records] == [0, 0, 0, 0, 1, 1, 1]
    assert subject.log.count(("change", "")) == 1
    learned = [name for what, name in subject.log if what == "learn"]
    assert learned == [f"stream-{i}" for i in range(7)]
    told = subject.log.index(("change", ""))
    assert subject.log.index(("learn", "stream-3")) < told
    assert told < subject.log.index(("predict", "stream-4"))


def test_in_completion_order_a_prediction_knows_only_what_has_finished() -> None:
    trace = Trace(
        "a",
        tuple(
            Completion(completion_id=f"{i}", audio_s=1.0, output_tokens=n)
            for i, n in enumerate([30, 10, 20, 5])
        ),
    )
    subject = Recorder()
    result = run(subject, in_completion_order([trace], slots=3))
    # Three start with nothing known; the fourth takes the place of the shortest.
    assert [record.predicted for record in result.records] == [0, 0, 0, 1]
    assert subject.running[0] == [("stream-0", 10), ("stream-2", 10)]


def test_told_learner_finds_an_exact_kappa_at_once() -> None:
    result = run(
        LearnerSubject(ToldRatio), in_trace_order([constant("a", 2, 50), constant("b", 4, 50)])
    )
    assert [known.kappa for known in result.hindsights] == [2.0, 4.0]
    assert [one.to_cross for one in result.crossings] == [1, 1]
    assert [one.to_stay for one in result.crossings] == [1, 1]
    errors = [abs(one.actual - one.predicted) for one in result.records]
    # The prior's error, and that of the old κ on the first of the new.
    assert errors[0] == pytest.approx(1.2)
    assert errors[50] == pytest.approx(2 * (1 + 0 % 4))
    assert sum(errors) == pytest.approx(errors[0] + errors[50])


def test_told_learner_takes_no_stragglers_for_the_new_kappa() -> None:
    stream = in_completion_order([constant("a", 2, 50), constant("b", 4, 50)], slots=16)
    result = run(LearnerSubject(ToldRatio), stream)
    assert result.crossings[1].to_stay == 1


def test_cumulative_learner_never_finds_a_late_change() -> None:
    result = run(
        LearnerSubject(CumulativeRatio),
        in_trace_order([constant("a", 2, 100), constant("b", 4, 50)]),
    )
    assert result.crossings[1].to_cross is None


def test_languages_are_learned_apart() -> None:
    stream = in_trace_order([constant("a", 2, 40, "en"), constant("b", 6, 40, "fr")])
    result = run(LearnerSubject(CumulativeRatio), stream)
    assert result.crossings[1].to_cross == 1


def test_what_cannot_be_judged_is_learned_but_not_scored() -> None:
    cut = Completion(completion_id="x", audio_s=2.0, output_tokens=444, finish_reason="length")
    trace = Trace("a", (cut, *constant("a", 3, 10).completions))
    result = run(LearnerSubject(CumulativeRatio), in_trace_order([trace]))
    assert [one.is_scored for one in result.records] == [False] + [True] * 10
    assert hindsight_of(trace).kappa == 3.0


def test_a_segment_without_anything_to_judge_has_no_kappa() -> None:
    trace = Trace("a", (Completion(completion_id="x", output_tokens=4, finish_reason="aborted"),))
    result = run(PipelineSubject(), in_trace_order([trace]))
    assert math.isnan(result.hindsights[0].kappa)
    assert result.crossings[0].to_cross is None


def test_text_is_counted_in_prompt_tokens() -> None:
    texts = Trace(
        "t",
        tuple(
            Completion(
                completion_id=f"{i}",
                task="text",
                kind="text",
                prompt_tokens=100,
                output_tokens=700,
            )
            for i in range(60)
        ),
    )
    stream = in_trace_order([texts])
    result = run(LearnerSubject(CumulativeRatio), stream)
    assert result.hindsights[0].kappa == 7.0
    assert result.records[-1].predicted == 700.0
    # The decoder's 448 positions are Whisper's, not a text model's.
    pipeline = PipelineSubject()
    run(pipeline, stream)
    assert kappa_at(pipeline, texts.completions[0], 100.0) == pytest.approx(7.0, rel=0.1)


def test_the_pipeline_has_quantiles_in_order_and_raises_events() -> None:
    before = Trace("a", tuple(speech(200, kappa=3.0, seed=1)))
    after = Trace("b", tuple(speech(100, kappa=6.0, seed=2)))
    result = run(PipelineSubject(), in_trace_order([before, after]))
    for one in result.records:
        assert one.p50 <= one.p90 <= one.p99
    begun = [raised for raised in result.events if raised.event.ended_s is None]
    assert [raised.event.kind for raised in begun] == ["kappa"]
    assert 200 <= begun[0].position < 240
    late = metrics.scored(result.records[-50:])
    # Two thirds of a standard deviation of 20 % is the mean absolute error of the best there is.
    assert 0.1 < metrics.mape(late) < 0.25


def test_the_pipeline_is_told_what_runs_unless_it_is_not_to_be() -> None:
    # All start at once: the first to finish are the ones that produced least.
    squares = {True: 0.0, False: 0.0}
    for sees_running in squares:
        for seed in range(3, 9):
            trace = Trace("a", tuple(speech(128, kappa=5.0, seed=seed, spread=0.2)))
            subject = PipelineSubject(sees_running=sees_running)
            rates: list[float] = []

            def look(n: int, completion: Completion, subject: Subject = subject) -> None:
                if n == 10:
                    rates.append(kappa_at(subject, completion, 15.0))  # noqa: B023 - called in turn

            run(subject, in_completion_order([trace]), on_learned=look)
            squares[sees_running] += (rates[0] / 5.2 - 1.0) ** 2
    assert squares[True] < 0.5 * squares[False]


def test_a_learner_that_can_is_told_what_runs() -> None:
    class Sees(CumulativeRatio):
        seen: list[list[tuple[float, int]]] = []  # noqa: RUF012 - the test's own record

        def see_running(self, sizes_and_tokens: Sequence[tuple[float, int]]) -> None:
            self.seen.append(list(sizes_and_tokens))

    trace = Trace(
        "a",
        tuple(
            Completion(completion_id=f"{i}", audio_s=float(i + 1), output_tokens=n)
            for i, n in enumerate([30, 10])
        ),
    )

    def factory() -> Learner:
        return Sees()

    run(LearnerSubject(factory), in_completion_order([trace], slots=2))
    assert Sees.seen == [[(1.0, 10)], []]
