"""The partitions of all models: what is observed, when a fit is due, what it changes."""

from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any, Final

import numpy as np

from estimator.core.partition.config import PartitionConfig
from estimator.core.partition.entry import ModelEntry
from estimator.core.partition.fitting import Fit, FitJob
from estimator.core.partition.revision import PartitionRevision, PartitionStatus
from estimator.core.partition.sample import Points
from estimator.core.partition.work import log_work
from sched_client.model import ServiceTime
from sched_client.settings import Partition

_DEFAULT: Final = PartitionConfig()
Add = Callable[[float, float, float], Points | None]


class PartitionTable:
    """A sample and a partition for each model, the least recently used beyond a limit dropped.

    Parameters
    ----------
    config : PartitionConfig
        Constants.
    """

    def __init__(self, config: PartitionConfig = _DEFAULT) -> None:
        self.config = config
        self._models: OrderedDict[str, ModelEntry] = OrderedDict()
        # Nearly all completions are of one model: no look-up then.
        self._last = self._nobody()

    def observe(
        self, model: str, tokens: float, prompt_tokens: float, service_s: float = 0.0
    ) -> None:
        """Take one completion.

        Parameters
        ----------
        model : str
            Served model's name.
        tokens : float
            Output tokens as they were estimated, not as they came out: requests are routed by
            estimates. Where no estimate is known, the actual ones.
        prompt_tokens : float
            Prompt tokens.
        service_s : float
            Seconds it was resident; 0 if unknown.
        """
        last, entry, add = self._last
        if model != last:
            entry = self._entry(model)
            add = entry.sample.add
        block = add(tokens, prompt_tokens, service_s)
        if block is not None:
            entry.block(block)

    def _entry(self, model: str) -> ModelEntry:
        entry = self._models.get(model)
        if entry is None:
            entry = self._models[model] = ModelEntry(self.config)
            if len(self._models) > self.config.max_models:
                self._models.popitem(last=False)
        else:
            self._models.move_to_end(model)
        self._last = (model, entry, entry.sample.add)
        return entry

    def _nobody(self) -> tuple[str | None, ModelEntry, Add]:
        entry = ModelEntry(self.config)
        return None, entry, entry.sample.add

    def note_drift(self, model: str) -> None:
        """Make a model due: its mix, κ or service time was found to have changed."""
        entry = self._models.get(model)
        if entry is not None:
            # It was told of completions when a fit was last asked for, which may be long ago.
            entry.trigger.n_seen_ = entry.sample.n_seen_
            entry.trigger.drift()

    def due(self, model: str, service: ServiceTime) -> FitJob | None:
        """Give a job if the model should be fitted now, else None. O(1) where it is not.

        Parameters
        ----------
        model : str
            Served model's name.
        service : ServiceTime
            Its rates now.

        Returns
        -------
        FitJob or None
            One job of a model is out at a time: None until its `Fit` was installed or `give_up`
            was called.
        """
        entry = self._models.get(model)
        return None if entry is None else entry.due(model, service)

    def give_up(self, model: str) -> None:
        """Say that the model's job will not come back; it is due again."""
        entry = self._models.get(model)
        if entry is not None:
            entry.out, entry.given_up = False, True

    def install(self, fit: Fit) -> PartitionRevision | None:
        """Put a fit into force.

        Returns
        -------
        PartitionRevision or None
            None where what holds is kept, or the model was dropped meanwhile.
        """
        entry = self._models.get(fit.job.model)
        if entry is None or not entry.out:
            return None
        return entry.install(fit)

    def entries(self) -> dict[str, Partition]:
        """Give the partition of every model that has one."""
        return {
            model: entry.incumbent.partition
            for model, entry in self._models.items()
            if entry.incumbent is not None
        }

    def models(self) -> tuple[str, ...]:
        """Give the models that have a sample, the least recently used first."""
        return tuple(self._models)

    def unfitted(self) -> tuple[str, ...]:
        """Give the models that have points enough and never had a fit, nor a job that failed."""
        return tuple(model for model, entry in self._models.items() if entry.unfitted)

    def status(self, model: str) -> PartitionStatus:
        """Say how a model's partition stands; an unknown model has one queue."""
        return (self._models.get(model) or ModelEntry(self.config)).status(model)

    def histogram(
        self, model: str, service: ServiceTime, bins: int = 40
    ) -> tuple[list[float], list[int]]:
        """Give the sample's work as a histogram.

        Parameters
        ----------
        model : str
            Served model's name.
        service : ServiceTime
            Rates that turn tokens into seconds.
        bins : int
            How many, ≥ 1, of equal width in log seconds.

        Returns
        -------
        edges : list of float
            In seconds, one more than bins; empty without a sample.
        counts : list of int
            Points in each.
        """
        entry = self._models.get(model)
        if entry is None or not len(entry.sample):
            return [], []
        counts, edges = np.histogram(log_work(entry.sample.points(), service), bins=bins)
        return [float(edge) for edge in np.exp(edges)], [int(count) for count in counts]

    def state(self, model: str = "") -> dict[str, Any]:
        """Give all as JSON (hence Any), the least recently used first; a model keeps its own."""
        return {
            name: entry.state()
            for name, entry in self._models.items()
            if not model or name == model
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Take on what `state` gave (JSON, hence Any).

        Raises
        ------
        ValueError, KeyError, TypeError
            If it is damaged.
        """
        self._models.clear()
        self._last = self._nobody()
        for name, row in state.items():
            entry = self._models[name] = ModelEntry(self.config)
            entry.restore(row)
