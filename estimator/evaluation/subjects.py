"""What can be evaluated: a learner of one key, or the whole pipeline, behind one interface."""

import math
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple, Protocol, cast, runtime_checkable

from estimator.core.config import CoreConfig
from estimator.core.drift_event import DriftEvent
from estimator.core.learner import Learner
from estimator.core.observation import MAX_TOKENS, Completion
from estimator.core.pipeline import Pipeline
from estimator.core.running import running_of
from estimator.evaluation.references import Told
from estimator.evaluation.scenarios import Running
from sched_client.model import GLOBAL_KEY, Features, Key, Snapshot, evaluate


class Prediction(NamedTuple):
    """Expected tokens and their quantiles; NaN where a learner has none."""

    tokens: float
    p50: float = math.nan
    p90: float = math.nan
    p99: float = math.nan


class Subject(Protocol):
    """What the prequential runner asks of whatever is evaluated."""

    @property
    def sees_running(self) -> bool:
        """Whether `learn` reads what runs; looking it up costs more than most learners do."""

    def predict(self, completion: Completion) -> Prediction:
        """Predict from what is known of a request before it runs; never mutates."""

    def learn(self, completion: Completion, running: Sequence[Running]) -> tuple[DriftEvent, ...]:
        """Learn one that has finished, told what runs meanwhile; give the events it raises."""

    def change(self) -> None:
        """Take note that another segment begins; only a reference that is told listens."""


@runtime_checkable
class SeesRunning(Protocol):
    """A learner that can use requests which have not finished."""

    def see_running(self, sizes_and_tokens: Sequence[tuple[float, int]]) -> None:
        """Take the sizes of those that run now, with their tokens so far, before `learn_one`."""


def size_of(completion: Completion) -> float:
    """Give what tokens are counted against: seconds of audio, or tokens of a text's prompt.

    0 where audio could not be read.
    """
    if completion.kind == "text":
        return float(completion.prompt_tokens)
    return completion.audio_s or 0.0


def teaches(completion: Completion) -> bool:
    """Tell whether what it produced is what it wanted, so that a prediction can be judged."""
    return (
        completion.finish_reason == "stop"
        and completion.kind in ("transcription", "text")
        and size_of(completion) > 0.0
    )


class LearnerSubject:
    """Learners of one kind, one for each key.

    Parameters
    ----------
    factory : callable
        Makes a learner.
    """

    def __init__(self, factory: Callable[[], Learner]) -> None:
        self.factory = factory
        self._learners: dict[Key, Learner] = {}
        self.sees_running = isinstance(factory(), SeesRunning)
        # A reference that knows of each change learns nothing, after it, of what began before.
        self.is_told = isinstance(factory(), Told)

    def learner(self, key: Key) -> Learner:
        """Give the key's learner, a new one at first."""
        found = self._learners.get(key)
        if found is None:
            found = self._learners[key] = self.factory()
        return found

    def predict(self, completion: Completion) -> Prediction:
        """Predict what the key's learner does."""
        return Prediction(self.learner(completion.key).predict_one({"size": size_of(completion)}))

    def learn(self, completion: Completion, running: Sequence[Running]) -> tuple[DriftEvent, ...]:
        """Teach the key's learner."""
        learner = self.learner(completion.key)
        if self.sees_running:
            cast("SeesRunning", learner).see_running(  # asked for in __init__
                [
                    (size_of(one.completion), one.tokens)
                    for one in running
                    if one.completion.key == completion.key
                ]
            )
        learner.learn_one({"size": size_of(completion)}, float(completion.output_tokens))
        return ()

    def change(self) -> None:
        """Tell those that listen."""
        for learner in self._learners.values():
            if isinstance(learner, Told):
                learner.change()


# A text request without a limit of its own may be as long as any; a transcription has the
# decoder's limit, which `evaluate` knows.
_NO_LIMIT: Final = MAX_TOKENS


class PipelineSubject:
    """The whole of what the sidecar learns with: keys, parents, quantiles, drift events.

    Parameters
    ----------
    config : CoreConfig, optional
        Its constants.
    pipeline : Pipeline, optional
        One that has learned already.
    sees_running : bool
        Whether each report tells what runs, as engines' reports do.
    """

    def __init__(
        self,
        config: CoreConfig | None = None,
        *,
        pipeline: Pipeline | None = None,
        sees_running: bool = True,
    ) -> None:
        self.pipeline = pipeline or Pipeline(config or CoreConfig())
        self.sees_running = sees_running

    def predict(self, completion: Completion) -> Prediction:
        """Predict as a client would that holds the newest snapshot."""
        key = completion.key
        entry = self.pipeline.kappa_of(key)
        limit = completion.max_tokens
        if limit is None and completion.kind == "text":
            limit = _NO_LIMIT
        estimate = evaluate(
            Snapshot(
                version=0,
                instance_id="",
                created_s=0.0,
                kappas={GLOBAL_KEY: entry, completion.key: entry},
            ),
            Features(
                model=completion.model,
                task=completion.task,
                language=completion.key.language,
                timestamps=completion.timestamps,
                kind=completion.kind,
                audio_s=completion.audio_s,
                prompt_tokens=completion.prompt_tokens,
                max_tokens=limit,
            ),
        )
        return Prediction(
            estimate.tokens, estimate.tokens_p50, estimate.tokens_p90, estimate.tokens_p99
        )

    def learn(self, completion: Completion, running: Sequence[Running]) -> tuple[DriftEvent, ...]:
        """Teach the pipeline, and tell it what runs on, as engines do."""
        events = self.pipeline.learn_one(completion)
        if running or self.pipeline.running_count:
            bounds = (
                running_of(
                    one.completion.key,
                    one.completion.kind,
                    audio_s=one.completion.audio_s,
                    prompt_tokens=one.completion.prompt_tokens,
                    tokens=one.tokens,
                    started_s=one.started_s,
                )
                for one in running
            )
            self.pipeline.note_running(
                completion.client_id,
                [bound for bound in bounds if bound is not None],
                completion.finished_s,
            )
        return events

    def change(self) -> None:
        """Hear nothing: the pipeline finds out by itself."""
