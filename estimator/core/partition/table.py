"""The partitions of all models: what is observed, when a fit is due, what it changes."""

from collections.abc import Mapping
from typing import Any, Final

from estimator.core.partition.config import PartitionConfig
from estimator.core.partition.fit import Fit, FitJob
from estimator.core.partition.revision import PartitionRevision, PartitionStatus
from sched_client.model import ServiceTime
from sched_client.settings import Partition

_DEFAULT: Final = PartitionConfig()


class PartitionTable:
    """A sample and a partition for each model.

    Parameters
    ----------
    config : PartitionConfig
        Constants.
    """

    def __init__(self, config: PartitionConfig = _DEFAULT) -> None:
        self.config = config

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

    def note_drift(self, model: str) -> None:
        """Make a model due: its mix, κ or service time was found to have changed."""

    def due(self, model: str, service: ServiceTime) -> FitJob | None:
        """Give a job if the model should be fitted now, else None. O(1) where it is not.

        Notes
        -----
        One job of a model is out at a time: None until its `Fit` was installed or `give_up` was
        called.
        """
        raise NotImplementedError

    def give_up(self, model: str) -> None:
        """Say that the model's job will not come back."""

    def install(self, fit: Fit) -> PartitionRevision | None:
        """Put a fit into force if it is better by enough; None where what holds is kept."""
        raise NotImplementedError

    def entries(self) -> dict[str, Partition]:
        """Give the partition of every model that has one."""
        raise NotImplementedError

    def models(self) -> tuple[str, ...]:
        """Give the models that have a sample."""
        raise NotImplementedError

    def status(self, model: str) -> PartitionStatus:
        """Say how a model's partition stands; unknown models have one queue."""
        raise NotImplementedError

    def histogram(
        self, model: str, service: ServiceTime, bins: int = 40
    ) -> tuple[list[float], list[int]]:
        """Give the sample's work as a histogram: edges in seconds (geometric) and counts."""
        raise NotImplementedError

    def state(self, model: str = "") -> dict[str, Any]:
        """Give all as JSON (hence Any); ``model`` keeps this one's."""
        raise NotImplementedError

    def restore(self, state: Mapping[str, Any]) -> None:
        """Take on what `state` gave (JSON, hence Any)."""
