"""Finds a request by a name that somebody knows it by, and tells what became of it."""

import asyncio
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Final

from estimator.convert import (
    completion_to_proto,
    drift_to_proto,
    estimate_to_proto,
    kappa_to_proto,
    lesson_to_proto,
    service_to_proto,
)
from estimator.core.drift_event import DriftEvent
from estimator.core.lesson import lesson_of, teaches_service
from estimator.core.observation import Completion
from estimator.runtime.errors import NotFoundError
from estimator.runtime.store_worker import StoreWorker
from estimator.store.base import RequestName
from protos.kappad.estimator.v1 import estimator_pb2 as pb
from sched_client.model import Features, Key, Snapshot, evaluate
from sched_client.request_ids import HashKey, asked_ids

__all__ = ["Explainer"]

# The API's own limits (estimator.proto).
_MAX_FOUND: Final = 100
_MAX_DRIFTS: Final = 20
# A change that far from a completion may still be why it was estimated as it was.
_AROUND_S: Final = 3600.0
# Rows looked at while the store serves nobody else: some 10 ms; a million takes 1.5 s. There is no
# index on the hashes: it would cost every report, for a question that is seldom asked.
_SLICE_ROWS: Final = 8192
_DRIFT_PAGE: Final = 1000
# Boots whose hashes of what was asked are kept while searching; one boot has some 330.
_MAX_BOOTS: Final = 64
# Characters told of an id that was not found: an error travels in headers of 8 KiB together, with
# each character three times and up to twelve bytes long.
_MAX_SHOWN: Final = 64


class Explainer:
    """Answers questions about single requests.

    Parameters
    ----------
    worker : StoreWorker
        History.
    retention_completions : int
        Most completions kept, for the message where nothing is found.
    """

    def __init__(self, worker: StoreWorker, *, retention_completions: int) -> None:
        self._worker = worker
        self._store = worker.store
        self._retention = retention_completions

    async def explain(self, asked: str, snapshot: Snapshot) -> list[pb.Explanation]:
        """Tell what became of a request, newest first.

        Parameters
        ----------
        asked : str
            A completion's id, or the request's as its caller or vLLM knows it.
        snapshot : Snapshot
            What is known now.

        Raises
        ------
        NotFoundError
            If no completion of it is retained.
        """
        found = await self._find(asked)
        if not found:
            raise await self._not_found(asked)
        drifts = await self._worker.read(self._drifts)
        return [_explanation(completion, snapshot, drifts) for completion in found]

    async def _find(self, asked: str) -> list[Completion]:
        stored = await self._worker.read(lambda: self._store.find(asked))
        if stored is not None:
            return [stored.completion]
        matcher = _Matcher(asked)
        row_ids: list[int] = []
        before: int | None = None
        while len(row_ids) < _MAX_FOUND:
            names = await self._worker.read(partial(self._names, before))
            # Not in the store's thread, where reports wait.
            matches = await asyncio.to_thread(matcher.matches, names)
            # The pieces of a file end close together; whether their id was used once more, long
            # before, is not worth reading all of the history.
            over = bool(row_ids) and not matches
            row_ids += matches
            if over or len(names) < _SLICE_ROWS:
                break
            before = names[-1].row_id
        return await self._worker.read(lambda: self._rows(row_ids[:_MAX_FOUND]))

    def _names(self, before: int | None) -> list[RequestName]:
        return self._store.read_request_names(before_row_id=before, limit=_SLICE_ROWS)

    def _rows(self, row_ids: Sequence[int]) -> list[Completion]:
        rows = []
        for row_id in row_ids:
            # It may have been trimmed since it was found.
            rows += [
                stored.completion
                for stored in self._store.read(after_row_id=row_id - 1, limit=1)
                if stored.row_id == row_id
            ]
        return rows

    def _drifts(self) -> list[DriftEvent]:
        events: list[DriftEvent] = []
        before: int | None = None
        while page := self._store.list_drifts(before_id=before, limit=_DRIFT_PAGE):
            events += [event for _, event in page]
            before = page[-1][0]
        return events

    async def _not_found(self, asked: str) -> NotFoundError:
        count = await self._worker.read(self._store.count)
        oldest = await self._worker.read(lambda: self._store.read(limit=1))
        since = ""
        if oldest:
            ended = datetime.fromtimestamp(oldest[0].completion.finished_s, UTC)
            since = f", since {ended:%Y-%m-%d %H:%M:%S} UTC"
        if len(asked) > _MAX_SHOWN:
            asked = f"{asked[:_MAX_SHOWN]}…"
        return NotFoundError(
            f"no completion of {asked!r} is retained; {count:,} of at most {self._retention:,} "
            f"are{since}; a request is known once it has ended, and engines in mode off report "
            "none: give X-Request-Id or a completion id, or raise retention_completions",
            reason="COMPLETION_NOT_FOUND",
            metadata={
                "id": asked,
                "stored_count": str(count),
                "retention_completions": str(self._retention),
            },
        )


class _Matcher:
    """Tells rows by their hashes; each boot has keyed its own."""

    def __init__(self, asked: str) -> None:
        self._ids = tuple(asked_ids(asked))
        self._hashes: dict[str, frozenset[str]] = {}

    def matches(self, names: Iterable[RequestName]) -> list[int]:
        """Give the rows that are meant, in the order given."""
        return [
            name.row_id
            for name in names
            if name.request_hash
            and name.request_hash in self._of(name.completion_id.rpartition("-")[0])
        ]

    def _of(self, boot_id: str) -> frozenset[str]:
        found = self._hashes.get(boot_id)
        if found is None:
            if len(self._hashes) >= _MAX_BOOTS:
                self._hashes.clear()
            found = self._hashes[boot_id] = frozenset(map(HashKey(boot_id).hash, self._ids))
        return found


def _explanation(
    completion: Completion, snapshot: Snapshot, drifts: Iterable[DriftEvent]
) -> pb.Explanation:
    lesson, reason = lesson_of(completion)
    features = Features(
        model=completion.model,
        task=completion.task,
        language=completion.key.language,
        timestamps=completion.timestamps,
        kind=completion.kind,
        audio_s=completion.audio_s,
        prompt_tokens=completion.prompt_tokens,
        max_tokens=completion.max_tokens,
        duration_source=completion.duration_source,
    )
    chain = tuple(completion.key.chain())
    around = [event for event in drifts if _concerns(event, chain, completion.finished_s)]
    return pb.Explanation(
        completion=completion_to_proto(completion),
        client_id=completion.client_id,
        lesson=lesson_to_proto(lesson),
        lesson_reason=reason,
        service_taught=teaches_service(completion),
        kappas=[
            kappa_to_proto(key, snapshot.kappas[key]) for key in chain if key in snapshot.kappas
        ],
        prediction=estimate_to_proto(evaluate(snapshot, features)),
        snapshot_version=snapshot.version,
        service=service_to_proto(completion.model, snapshot.service_of(completion.model)),
        drift_events=map(drift_to_proto, around[:_MAX_DRIFTS]),
    )


def _concerns(event: DriftEvent, chain: Sequence[Key], finished_s: float) -> bool:
    if Key(event.model, event.task, event.language, event.timestamps) not in chain:
        return False
    ended_s = finished_s if event.ended_s is None else event.ended_s
    return event.detected_s - _AROUND_S <= finished_s <= ended_s + _AROUND_S
