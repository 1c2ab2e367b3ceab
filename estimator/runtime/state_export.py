"""Takes the learner's state out while it works, whole and of one moment."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from estimator.core.pipeline import SCHEMA, Pipeline
from estimator.runtime.errors import EstimatorError, NotFoundError
from estimator.runtime.seed import MAX_SEED_BYTES
from estimator.store.state_text import text_of
from estimator.telemetry.logs import get_logger

__all__ = ["ExportedState", "StateExports", "export_state"]

_log = get_logger("export")


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportedState:
    """The state at one moment.

    Attributes
    ----------
    schema : int
        Version of its layout.
    learned_count : int
        Completions that it learned.
    key_count : int
        Keys with a κ in it.
    text : bytes
        JSON.
    """

    schema: int
    learned_count: int
    key_count: int
    text: bytes


def export_state(pipeline: Pipeline, model: str = "") -> ExportedState:
    """Give what was learned as JSON.

    Parameters
    ----------
    pipeline : Pipeline
        Not learning meanwhile.
    model : str
        Only what concerns this served model; empty means all.

    Raises
    ------
    NotFoundError
        If nothing is known of the model.
    EstimatorError
        If it is larger than a seed may be.
    """
    keys = [key for key in pipeline.sample_counts() if not model or key.model in ("", model)]
    if model and not any(key.model for key in keys):
        known = sorted({key.model for key in pipeline.sample_counts() if key.model})
        # A name that is wrong by a letter is found among the first ones, as a rule.
        names = ", ".join(known[:10]) or "none yet"
        raise NotFoundError(
            f"model_id: nothing was learned of {model!r}; known: {names}",
            reason="MODEL_UNKNOWN",
            metadata={"model_id": model},
        )
    text = text_of(pipeline.state(model, lazy=True)).encode()
    if len(text) > MAX_SEED_BYTES:
        raise EstimatorError(
            f"the state has {len(text)} bytes, a seed may have {MAX_SEED_BYTES}; export one model "
            "alone, or lower key_limit",
            reason="STATE_TOO_LARGE",
        )
    return ExportedState(
        schema=SCHEMA, learned_count=pipeline.learned_count, key_count=len(keys), text=text
    )


class StateExports:
    """What callers wait for until the learner's task gets to it.

    Parameters
    ----------
    wake : callable
        Called when somebody asks.
    """

    def __init__(self, wake: Callable[[], None]) -> None:
        self._wake = wake
        self._asked: dict[str, asyncio.Future[ExportedState]] = {}

    def __bool__(self) -> bool:
        return bool(self._asked)

    async def ask(self, model: str) -> ExportedState:
        """Wait for the state; those who ask for the same model at once share one.

        Raises
        ------
        NotFoundError
            If nothing was learned of the model.
        EstimatorError
            If the learner stops before, or the state is larger than a seed may be.
        """
        waiting = self._asked.get(model)
        if waiting is None:
            waiting = self._asked[model] = asyncio.get_running_loop().create_future()
            self._wake()
        # One caller that leaves must not take it from the others.
        return await asyncio.shield(waiting)

    async def answer(self, pipeline: Pipeline) -> None:
        """Give everybody what they asked for; called by the only one who learns."""
        asked, self._asked = self._asked, {}
        for model, waiting in asked.items():
            try:
                # 20,000 keys take longer than the event loop may be held.
                state = await asyncio.to_thread(export_state, pipeline, model)
            except EstimatorError as error:
                _fail(waiting, error)
            except Exception as error:  # noqa: BLE001  # a look at the state must not end learning
                _log.exception("the state cannot be exported", model=model)
                text = f"the state cannot be exported: {error}; the sidecar's log has more"
                _fail(waiting, EstimatorError(text, reason="STATE_UNFIT"))
            else:
                if not waiting.done():
                    waiting.set_result(state)

    def refuse(self, error: EstimatorError) -> None:
        """Tell everybody that there will be none."""
        asked, self._asked = self._asked, {}
        for waiting in asked.values():
            _fail(waiting, error)


def _fail(waiting: "asyncio.Future[ExportedState]", error: EstimatorError) -> None:
    if not waiting.done():
        waiting.set_exception(error)
        waiting.exception()  # whoever asked may have left: no warning for an error told to nobody
