"""Everything that is learned, behind one door: completions in, parameters and events out.

Pure and deterministic: time is what completions carry, and the same completions in the same order
give the same state, whether live, replayed, or replayed from a checkpoint.
"""

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from estimator.core.config import CoreConfig
from estimator.core.drift import DriftEvent, Sample, service_watch
from estimator.core.kappa import KappaTable
from estimator.core.mix import MixTable
from estimator.core.node import Node
from estimator.core.observation import Completion
from estimator.core.open_drifts import OpenDrifts
from estimator.core.partition import (
    Fit,
    FitJob,
    PartitionConfig,
    PartitionRevision,
    PartitionTable,
)
from estimator.core.residence import ServiceFit
from estimator.core.running import Running, RunningTable
from estimator.core.service_time import ServiceTable
from sched_client.model import SINGLE_QUEUE, KappaEntry, Key, Partition, ServiceTime

__all__ = ["Changes", "CoreConfig", "Pipeline"]

# Raised with every change of what `Pipeline.state` holds.
SCHEMA: Final = 4
# A model's seconds are watched from the so many-th completion that told of them.
_WATCH_AFTER: Final = 10
_DEFAULT: Final = CoreConfig()


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """What a client would act on that has moved.

    Attributes
    ----------
    kappas : dict of Key to KappaEntry
        New and changed keys.
    removed : frozenset of Key
        Keys that are gone; their parents answer from now on.
    services : dict of str to ServiceTime
        New and changed models; the empty name is the fallback.
    partitions : dict of str to Partition
        New and changed partitions.
    """

    kappas: dict[Key, KappaEntry] = field(default_factory=dict)
    removed: frozenset[Key] = frozenset()
    services: dict[str, ServiceTime] = field(default_factory=dict)
    partitions: dict[str, Partition] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.kappas or self.removed or self.services or self.partitions)


class Pipeline:
    """Learn from completions, one at a time.

    Parameters
    ----------
    config : CoreConfig
        Constants; they are not part of the state.
    state : Mapping, optional
        What `state` gave (JSON, hence Any): learning goes on from there.

    Attributes
    ----------
    learned_count : int
        Completions taken, those that teach nothing included.
    open_drift_count : int
        Events that have not ended.

    Raises
    ------
    ValueError
        If the state is another schema's or damaged.
    """

    def __init__(
        self, config: CoreConfig = _DEFAULT, *, state: Mapping[str, Any] | None = None
    ) -> None:
        self.config = config
        self.learned_count = 0
        self._kappa = KappaTable(config)
        self._service = ServiceTable(config)
        self._mix = MixTable(config)
        self._open = OpenDrifts()
        self._partition = PartitionTable(PartitionConfig(max_models=config.max_models))
        self._told_partitions: dict[str, Partition] = {}
        self._asked = ""
        # Not saved: what runs is said again within seconds.
        self._running = RunningTable()
        self._bounded_version = 0
        if state is not None:
            self._restore(state)

    @property
    def key_count(self) -> int:
        """Keys of κ held, those that do not answer for themselves yet included."""
        return len(self._kappa)

    @property
    def open_drift_count(self) -> int:
        """Drift events that have not ended."""
        return len(self._open)

    @property
    def p90_coverage_ratio(self) -> float | None:
        """Share of the latest thousand or so completions at or below p90; None before any."""
        coverage = self._kappa.p90_coverage
        return coverage.ratio_ if coverage.n_seen_ else None

    def learn_one(self, completion: Completion) -> tuple[DriftEvent, ...]:
        """Learn one completion.

        Parameters
        ----------
        completion : Completion
            Validated by `estimator.core.observation.violation_of`.

        Returns
        -------
        tuple of DriftEvent
            Those that begin (``ended_s`` is None) or end with it.
        """
        self.learned_count += 1
        self._running.finish(completion.client_id, completion.request_hash)
        events: list[DriftEvent] = []
        watched = self._kappa.learn(completion)
        if watched is not None:
            self._watch_kappa(completion, *watched, events)
        evicted = self._kappa.take_evicted_while_open()
        if evicted:
            keys = [gone.key for gone in evicted]
            events += self._open.end_evicted("kappa", keys, completion)
        taught = self._service.learn(completion)
        if taught is not None:
            self._watch_service(completion, *taught, events)
        self._watch_mix(completion, events)
        self._observe_work(completion)
        if events:
            self._note_drifts(events)
        return tuple(events)

    def _observe_work(self, completion: Completion) -> None:
        """Put a completion into its model's sample, as the request was routed: by its estimate."""
        if completion.kind == "session":
            return  # it lasts as long as its caller speaks
        tokens = completion.predicted_tokens or float(completion.output_tokens)
        if tokens <= 0.0:
            return
        ended = completion.finish_reason in ("stop", "length") and not completion.preemptions
        self._partition.observe(
            completion.model,
            tokens,
            completion.prompt_tokens,
            completion.service_s if ended else 0.0,
        )

    def _note_drifts(self, events: Iterable[DriftEvent]) -> None:
        for event in events:
            if event.ended_s is None:
                # The global key's is everybody's.
                for model in (event.model,) if event.model else self._partition.models():
                    self._partition.note_drift(model)

    def _watch_kappa(
        self, completion: Completion, node: Node, sample: Sample, events: list[DriftEvent]
    ) -> None:
        change = node.watch.update(sample) if node.watch is not None else None
        if change is not None:
            events.append(self._open.note("kappa", node.key, change, completion))

    def _watch_service(
        self,
        completion: Completion,
        fit: ServiceFit,
        sample: Sample,
        events: list[DriftEvent],
    ) -> None:
        if fit.watch is None and fit.n_fit_ >= _WATCH_AFTER:
            fit.watch = service_watch(self.config)
        if fit.watch is not None:
            change = fit.watch.update(sample)
            if change is not None:
                if change.begun:
                    fit.discount(self.config.drift_keep_ratio, change.ratio)
                key = Key(completion.model)
                events.append(self._open.note("service", key, change, completion))
        evicted = self._service.take_evicted_while_open()
        if evicted:
            events += self._open.end_evicted("service", map(Key, evicted), completion)

    def _watch_mix(self, completion: Completion, events: list[DriftEvent]) -> None:
        change = self._mix.update(completion)
        if change is not None:
            events.append(self._open.note("mix", Key(completion.model), change, completion))
        evicted = self._mix.take_evicted_while_open()
        if evicted:
            events += self._open.end_evicted("mix", map(Key, evicted), completion)

    def note_running(self, client_id: str, running: Sequence[Running], now_s: float) -> None:
        """Take the newest list of a client's running requests.

        What is published takes them as lower bounds; what is learned, and saved, never does.

        Parameters
        ----------
        client_id : str
            Who says so; an empty list forgets it.
        running : sequence of Running
            At most `MAX_REPORTED`, in an order that says nothing of their tokens.
        now_s : float
            Seconds of a clock that does not jump back.
        """
        self._running.note(client_id, running, now_s)

    def note_slot_context(self, model: str, tokens: float, now_s: float) -> bool:
        """Take what an engine says of its KV memory; say whether work has changed by it.

        Parameters
        ----------
        model : str
            Served model.
        tokens : float
            Tokens of KV memory that come to one of its slots, > 0; 0 where it does not know.
        now_s : float
            Seconds of a clock that does not jump back.

        Notes
        -----
        The least that was said within a minute holds. No part of what is learned: it moves
        `ServiceTime.service_s` and `ServiceTime.mean_service_s` of what is published.
        """
        return self._service.note_slot_context(model, tokens, now_s)

    def expire_running(self, now_s: float) -> bool:
        """Forget the running requests of silent clients; say whether there were any."""
        return self._running.expire(now_s)

    @property
    def running_count(self) -> int:
        """Running requests that are taken into account."""
        return len(self._running)

    def _bound(self) -> None:
        if self._bounded_version != self._running.version:
            self._bounded_version = self._running.version
            self._kappa.set_bounds(self._running.bounds())

    def take_changes(self) -> Changes:
        """Give what a client would act on that has moved since the last call.

        Returns
        -------
        Changes
            Empty (and false) if nothing has. The first call, after a restart too, gives all.

        Notes
        -----
        O(keys taught since the last call).
        """
        self._bound()
        kappas, removed = self._kappa.take_changes()
        return Changes(
            kappas=kappas,
            removed=removed,
            services=self._service.take_changes(),
            partitions=self._take_partitions(),
        )

    def _take_partitions(self) -> dict[str, Partition]:
        told, entries = self._told_partitions, self._partition.entries()
        changed = {model: one for model, one in entries.items() if told.get(model) != one}
        # A model that was forgotten has one queue again, as any that is not known.
        changed |= dict.fromkeys(told.keys() - entries.keys(), SINGLE_QUEUE)
        self._told_partitions = entries
        return changed

    def kappas(self, model: str = "") -> dict[Key, KappaEntry]:
        """Give every key that answers for itself, the global one always.

        Parameters
        ----------
        model : str
            Only this model's keys and the global one; empty means all.
        """
        self._bound()
        return self._kappa.entries(model)

    def sample_counts(self) -> dict[Key, int]:
        """Give how many completions are behind each key of `kappas`, at a tenth of its cost."""
        return self._kappa.sample_counts()

    def services(self) -> dict[str, ServiceTime]:
        """Give the service time of every model; the empty name is the fallback, always there."""
        return self._service.entries()

    def partitions(self) -> dict[str, Partition]:
        """Give the queues of every model that was fitted."""
        return self._partition.entries()

    @property
    def queue_table(self) -> PartitionTable:
        """The samples that queues are found in, to be read."""
        return self._partition

    def work_histogram(self, model: str) -> tuple[list[float], list[int]]:
        """Give a model's sample as edges in seconds of work, and counts between them."""
        return self._partition.histogram(model, self._service.told(model))

    def due_fit(self, most: int | None = None) -> FitJob | None:
        """Give a model's queues to fit, if any are due; then comes `install_fit` or `give_up_fit`.

        Parameters
        ----------
        most : int, optional
            Models to look at, from the one after the last that was; by default all.

        Notes
        -----
        Those that had no fit yet, though they have points enough, come first.

        The completions alone do not say when it is installed: what is learned replays exactly, but
        for queues, which come into force when their fit is done.
        """
        for model in self._partition.unfitted():
            job = self._partition.due(model, self._service.told(model))
            if job is not None:
                return job
        models = sorted(self._partition.models())
        # Each in its turn: of many that are always due, the first would be the only one.
        first = bisect_right(models, self._asked)
        for model in (models[first:] + models[:first])[:most]:
            self._asked = model
            job = self._partition.due(model, self._service.told(model))
            if job is not None:
                return job
        return None

    def install_fit(self, fit: Fit) -> PartitionRevision | None:
        """Put a fit into force if it is better by enough; None where what holds is kept."""
        return self._partition.install(fit)

    def give_up_fit(self, model: str) -> None:
        """Say that a model's fit failed, or is not wanted any more."""
        self._partition.give_up(model)

    def kappa_of(self, key: Key) -> KappaEntry:
        """Give the newest numbers of the key, or of the nearest parent that answers for it."""
        self._bound()
        return self._kappa.get(key).entry(self.config.min_samples)

    @property
    def open_drifts(self) -> tuple[DriftEvent, ...]:
        """Drift events that have not ended, the oldest first."""
        return tuple(self._open)

    def state(self, model: str = "", *, lazy: bool = False) -> dict[str, Any]:
        """Give all that was learned, JSON-serialisable (hence Any).

        ``model`` keeps what concerns this served model; empty keeps all. ``lazy`` makes ``kappas``
        an iterator, to be read before anything more is learned. What has been taken by
        `take_changes` is no part of it: a sidecar that starts tells its clients everything.
        """
        kappas = self._kappa.states(model)
        return {
            "schema": SCHEMA,
            "learned_count": self.learned_count,
            "kappas": kappas if lazy else list(kappas),
            "p90_coverage": self._kappa.p90_coverage.state(),
            "services": dict(self._service.state(model)),
            "slot_contexts": self._service.slot_contexts(model),
            "mix": self._mix.state(model),
            "open_drifts": self._open.state(model),
            "partitions": self._partition.state(model),
        }

    def _restore(self, state: Mapping[str, Any]) -> None:
        # Any: JSON. Whatever is missing or misshapen is one error for the caller.
        if state.get("schema") != SCHEMA:
            raise ValueError(
                f"the state has schema {state.get('schema')!r}, this version reads {SCHEMA}; "
                "replay the history instead"
            )
        try:
            self.learned_count = int(state["learned_count"])
            self._kappa.restore(state["kappas"])
            self._kappa.p90_coverage.restore(state["p90_coverage"])
            self._service.restore(state["services"])
            # A state of before engines said it has none.
            self._service.restore_slot_contexts(state.get("slot_contexts", {}))
            self._mix.restore(state["mix"])
            self._open.restore(state["open_drifts"])
            self._partition.restore(state["partitions"])
        except (KeyError, TypeError, IndexError, AttributeError, ArithmeticError) as error:
            raise ValueError(f"the state is damaged: {error!r}") from error
