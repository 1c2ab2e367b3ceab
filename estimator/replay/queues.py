"""Queues of like cost, found in virtual time as the sidecar finds them, and at once.

What the sidecar does in a thread and at its own pace, takes no time here.
"""

from typing import TYPE_CHECKING, Final

from estimator.core.partition import PartitionTable, fit
from sched_client.model import SINGLE_QUEUE, Partition, ServiceTime

if TYPE_CHECKING:  # it loads river, which vLLM's environment lacks (tests/vllm_inprocess)
    from estimator.core.pipeline import Pipeline

__all__ = ["ArrivedWork", "fit_due"]

# A table takes tokens, and what arrives here is known in seconds: a token a microsecond.
_PER_SECOND: Final = 1e6
_RATES: Final = ServiceTime(overhead_s=0.0, seconds_per_token=1.0 / _PER_SECOND)


def fit_due(pipeline: "Pipeline") -> None:
    """Fit every model whose queues are due."""
    while (job := pipeline.due_fit()) is not None:
        pipeline.install_fit(fit(job))


class ArrivedWork:
    """Finds queues in the work of what arrives, for estimates that learn nothing.

    Attributes
    ----------
    partition : Partition
        The queues in force; one until enough has arrived.
    """

    def __init__(self) -> None:
        self.partition: Partition = SINGLE_QUEUE
        self._table = PartitionTable()

    def take(self, model: str, service_s: float) -> bool:
        """Take the work of an arrival.

        Parameters
        ----------
        model : str
            Served model's name; an engine serves one.
        service_s : float
            Its work in seconds, > 0.

        Returns
        -------
        bool
            Whether ``partition`` is another one now.
        """
        table = self._table
        table.observe(model, service_s * _PER_SECOND, 0.0)
        job = table.due(model, _RATES)
        if job is None or table.install(fit(job)) is None:
            return False
        self.partition = table.entries()[model]
        return True
