"""The drift events that have not ended: what each was seen on, and how it ends."""

from collections.abc import Iterable, Iterator
from dataclasses import asdict, replace
from typing import Any

from estimator.core.drift import Change
from estimator.core.drift_event import DriftEvent, DriftKind
from estimator.core.observation import Completion
from sched_client.model import Key


class OpenDrifts:
    """At most one open event for each kind and key."""

    def __init__(self) -> None:
        self._events: dict[tuple[DriftKind, Key], DriftEvent] = {}

    def __len__(self) -> int:
        return len(self._events)

    def __iter__(self) -> Iterator[DriftEvent]:
        return iter(self._events.values())

    def note(
        self, kind: DriftKind, key: Key, change: Change, completion: Completion
    ) -> DriftEvent:
        """Open an event, or end the one that is open.

        Notes
        -----
        The id is made of the completion that raised it, of which there is one for each kind: a
        replay of the history gives the same ids, however often a sidecar starts anew.
        """
        if not change.begun:
            return self._end(kind, key, completion, change)
        event = DriftEvent(
            event_id=f"{kind}-{completion.completion_id}",
            kind=kind,
            model=key.model,
            task=key.task,
            language=key.language,
            timestamps=key.timestamps,
            detected_s=completion.finished_s,
            before=change.before,
            after=change.after,
            z=change.z,
            completions_to_detect=change.completions,
            detail=change.detail,
        )
        self._events[kind, key] = event
        return event

    def end_evicted(
        self, kind: DriftKind, keys: Iterable[Key], completion: Completion
    ) -> list[DriftEvent]:
        """End the events of keys that are gone, without their having been adapted to."""
        return [self._end(kind, key, completion) for key in keys]

    def _end(
        self, kind: DriftKind, key: Key, completion: Completion, change: Change | None = None
    ) -> DriftEvent:
        event = self._events.pop((kind, key))
        return replace(
            event,
            after=event.after if change is None else change.after,
            completions_to_adapt=None if change is None else change.completions,
            ended_s=completion.finished_s,
        )

    def state(self, model: str = "") -> list[dict[str, Any]]:
        """Give every open event (or a model's) as JSON (hence Any)."""
        return [asdict(event) for event in self if not model or event.model in ("", model)]

    def restore(self, rows: Iterable[dict[str, Any]]) -> None:
        """Take on what `state` gave (JSON, hence Any)."""
        for row in rows:
            event = DriftEvent(**row)
            key = Key(event.model, event.task, event.language, event.timestamps)
            self._events[event.kind, key] = event
