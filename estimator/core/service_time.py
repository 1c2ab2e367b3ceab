"""Service times of every model, and which completions teach them."""

from collections import OrderedDict
from collections.abc import Iterator, Mapping
from typing import Any, Final

from estimator.core.config import CoreConfig
from estimator.core.drift import Sample
from estimator.core.observation import Completion
from estimator.core.residence import MIN_PER_TOKEN_S, ServiceFit
from estimator.core.slot_contexts import SlotContexts
from sched_client.model import ServiceTime

# The fallback serves models without completions of their own: of a model that has so many, every
# eighth teaches it enough.
_THIN_AFTER: Final = 64
_THIN_BY: Final = 8
# What counts as moved: 2 % of the cost of a mean request, 10 % of a mean.
_MOVED_RATIO: Final = 0.02
_MOVED_MEAN_RATIO: Final = 0.1


class ServiceTable:
    """Service times of every model, and of all together under the empty name.

    Parameters
    ----------
    config : CoreConfig
        See there.
    """

    def __init__(self, config: CoreConfig) -> None:
        self.config = config
        self._fallback = ServiceFit(None, config)
        self._models: OrderedDict[str, ServiceFit] = OrderedDict()
        self._dirty: dict[str, ServiceFit] = {"": self._fallback}
        self._evicted_while_open: list[str] = []
        self._slot_contexts = SlotContexts(config.max_models)

    def __len__(self) -> int:
        return len(self._models)

    def __iter__(self) -> Iterator[tuple[str, ServiceFit]]:
        yield "", self._fallback
        yield from self._models.items()

    def learn(self, completion: Completion) -> tuple[ServiceFit, Sample] | None:
        """Learn one completion; None if it told nothing of seconds.

        Notes
        -----
        Finished requests only. A preempted one did part of its work twice, a beam step finds its
        encoder's work done, a session waits for its caller; a language detection is a clean
        measurement of one token.
        """
        if completion.finish_reason not in ("stop", "length"):
            return None
        kind = completion.kind
        if kind not in ("transcription", "text", "detection"):
            return None
        model = completion.model
        fit = self._models.get(model)
        if fit is None:
            fit = self._models[model] = ServiceFit(self._fallback, self.config)
            fit.slot_context_tokens = self._slot_contexts.get(model)
            if len(self._models) > self.config.max_models:
                gone, evicted = self._models.popitem(last=False)
                self._dirty.pop(gone, None)
                if evicted.watch is not None and evicted.watch.is_open:
                    self._evicted_while_open.append(gone)
        else:
            self._models.move_to_end(model)
        self._dirty[model] = fit
        self._dirty[""] = self._fallback
        tokens = float(completion.output_tokens)
        prompt = float(max(completion.prompt_tokens - completion.cached_prompt_tokens, 0))
        n_seen = fit.n_seen_
        thinned = n_seen >= _THIN_AFTER and n_seen % _THIN_BY
        fallback = None if thinned else self._fallback
        if kind != "detection":
            fit.describe(tokens, prompt, completion.audio_s)
            if fallback is not None:
                fallback.describe(tokens, prompt, completion.audio_s)
        seconds, concurrency = completion.service_s, completion.concurrency
        if seconds <= 0.0 or concurrency <= 0.0 or completion.preemptions:
            return None
        if concurrency < 1.0:  # noqa: PLR1730 - max() takes as long as the line
            concurrency = 1.0
        admitted = fit.admitted(tokens, concurrency, completion.finished_s, seconds)
        if fallback is not None:
            fallback.learn(tokens, prompt, concurrency, admitted, seconds)
        return fit, fit.learn(tokens, prompt, concurrency, admitted, seconds)

    def note_slot_context(self, model: str, tokens: float, now_s: float) -> bool:
        """Take what an engine says of its memory; `SlotContexts.note`."""
        if not self._slot_contexts.note(model, tokens, now_s):
            return False
        fit = self._models.get(model)
        if fit is not None:
            fit.slot_context_tokens = self._slot_contexts.get(model)
            self._dirty[model] = fit
        return True

    def entries(self) -> dict[str, ServiceTime]:
        """Give the service time of every model and the fallback."""
        return {model: fit.entry() for model, fit in self}

    def told(self, model: str) -> ServiceTime:
        """Give what clients were told of a model, in O(1); the newest if nothing was yet."""
        fit = self._models.get(model, self._fallback)
        return fit.published or fit.entry()

    def take_evicted_while_open(self) -> list[str]:
        """Give the models that left with an open drift event since the last call."""
        gone = self._evicted_while_open
        if gone:  # asked after each completion
            self._evicted_while_open = []
        return gone

    def take_changes(self) -> dict[str, ServiceTime]:
        """Give what a client would act on that has moved since the last call."""
        changed: dict[str, ServiceTime] = {}
        for model, fit in self._dirty.items():
            entry = fit.entry()
            if fit.published is None or _has_moved(fit.published, entry):
                changed[model] = fit.published = entry
        self._dirty.clear()
        return changed

    def state(self, model: str = "") -> Mapping[str, list[Any]]:
        """Give every model's state as JSON (hence Any), the least recently used first.

        ``model`` keeps this one's and the fallback's.
        """
        return {name: fit.state() for name, fit in self if not model or name in ("", model)}

    def restore(self, state: Mapping[str, list[Any]]) -> None:
        """Take on what `state` gave (JSON, hence Any)."""
        self._fallback.restore(state[""])
        for model, row in state.items():
            if model:
                self._models[model] = ServiceFit(self._fallback, self.config).restore(row)
        self._dirty = dict(self)

    def slot_contexts(self, model: str = "") -> dict[str, float]:
        """Give tokens of KV memory a slot by model (of one) as JSON; no part of `state`."""
        return self._slot_contexts.state(model)

    def restore_slot_contexts(self, state: Mapping[str, Any]) -> None:
        """Take on what `slot_contexts` gave, after `restore`."""
        self._slot_contexts.restore(state)
        for model, fit in self._models.items():
            fit.slot_context_tokens = self._slot_contexts.get(model)


def _has_moved(old: ServiceTime, new: ServiceTime) -> bool:
    if new.slot_context_tokens != old.slot_context_tokens:
        return True
    cost = _MOVED_RATIO * old.mean_service_s
    if (
        abs(new.overhead_s - old.overhead_s) > cost
        or abs(new.seconds_per_token - old.seconds_per_token)
        > _MOVED_RATIO * old.seconds_per_token
        or abs(new.seconds_per_prompt_token - old.seconds_per_prompt_token)
        > _MOVED_RATIO * max(old.seconds_per_prompt_token, MIN_PER_TOKEN_S)
    ):
        return True
    return any(
        abs(getattr(new, name) - getattr(old, name)) > _MOVED_MEAN_RATIO * getattr(old, name)
        for name in ("reference_concurrency", "mean_service_s", "mean_tokens", "mean_audio_s")
    )
