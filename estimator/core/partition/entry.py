"""One model's sample, partition and history of fits."""

from dataclasses import asdict, fields
from typing import Any, Final

import numpy as np

from estimator.core.partition.change import Reference
from estimator.core.partition.config import PartitionConfig
from estimator.core.partition.fitting import Fit, FitJob, Incumbent
from estimator.core.partition.mixture import Mixture
from estimator.core.partition.refine import Cut
from estimator.core.partition.revision import PartitionRevision, PartitionStatus
from estimator.core.partition.sample import BLOCK, Points, Sample
from estimator.core.partition.triggers import Trigger
from estimator.core.partition.work import log_work
from sched_client.model import ServiceTime
from sched_client.settings import Partition

# q0 is the one queue of before the first fit.
_FIRST_NUMBER: Final = 1
# Rates are compared once in so many completions, at the work of so many points.
_RATES_EVERY: Final = BLOCK
_PROBES: Final = 64


class ModelEntry:
    """What is known of one model's queues.

    Attributes
    ----------
    sample : Sample
        Of its completions.
    trigger : Trigger
        When it is due.
    incumbent : Incumbent or None
        What is in force; None before the first fit.
    out : bool
        Whether a job is being fitted.
    given_up : bool
        Whether one did not come back.
    """

    __slots__ = (
        "_fits", "_next_number", "_rates_at", "_revisions", "config", "given_up", "incumbent",
        "out", "sample", "text", "trigger",
    )  # fmt: skip

    def __init__(self, config: PartitionConfig) -> None:
        self.config = config
        self.sample = Sample(config.capacity, config.seed)
        self.trigger = Trigger(config)
        self.incumbent: Incumbent | None = None
        self.out = self.given_up = False
        self.text = ""
        self._next_number = _FIRST_NUMBER
        self._fits = self._revisions = 0
        self._rates_at = 0

    def block(self, block: Points) -> None:
        """Take note of the points that `Sample.add` gave."""
        incumbent = self.incumbent
        if incumbent is not None:
            x = log_work(block.astype(np.float64), incumbent.service)
            self.trigger.block(incumbent.mixture.log_density(x))

    @property
    def unfitted(self) -> bool:
        """Whether a first fit is due; one that failed is in no hurry."""
        ready = len(self.sample) >= self.config.least_points
        return ready and self.incumbent is None and not (self.out or self.given_up)

    def due(self, model: str, service: ServiceTime) -> FitJob | None:
        """Give a job if the model should be fitted now."""
        if self.out:
            return None
        n_seen = self.sample.n_seen_
        self.trigger.n_seen_ = n_seen
        reason = self.trigger.reason(len(self.sample))
        if reason is None:
            if not self._rates_moved(service, n_seen):
                return None
            reason = "rates"
        self.out = True
        return FitJob(
            model=model,
            reason=reason,
            points=self.sample.points(),
            service=service,
            completions=n_seen,
            config=self.config,
            incumbent=self.incumbent,
            next_number=self._next_number,
        )

    def _rates_moved(self, service: ServiceTime, n_seen: int) -> bool:
        incumbent = self.incumbent
        if incumbent is None or n_seen - self._rates_at < _RATES_EVERY:
            return False
        self._rates_at = n_seen
        points = self.sample.some(_PROBES)
        moved = np.abs(log_work(points, service) - log_work(points, incumbent.service)).mean()
        return bool(moved > self.config.rates_ratio)

    def install(self, fit: Fit) -> PartitionRevision | None:
        """Put a fit into force, or take note that what holds is kept."""
        job = fit.job
        self.out = False
        self._fits += 1
        self.trigger.fitted(
            at=job.completions, log_densities=fit.log_densities, changed=fit.changed
        )
        if not fit.changed:
            return None
        self.incumbent, self._next_number = fit.best, fit.next_number
        self._revisions += 1
        self.text = fit.text
        return PartitionRevision(
            model=job.model,
            number=self._revisions,
            partition=fit.best.partition,
            reason=job.reason,
            text=fit.text,
            completions=job.completions,
            points=len(job.points),
        )

    def status(self, model: str) -> PartitionStatus:
        """Say how the partition stands."""
        n, least = len(self.sample), self.config.least_points
        if self.incumbent is not None:
            text = self.text
        elif n < least:
            text = f"one queue: {n} completions seen, {least} are needed before any are told apart"
        else:
            text = "one queue: the first fit has not come back"
        return PartitionStatus(
            model=model,
            text=text,
            completions=self.sample.n_seen_,
            points=n,
            fits=self._fits,
            revisions=self._revisions,
        )

    def state(self) -> dict[str, Any]:
        """Give all as JSON (hence Any); a job that is out is not part of it."""
        incumbent = self.incumbent
        return {
            "sample": self.sample.state(),
            "trigger": self.trigger.state(),
            "incumbent": None if incumbent is None else _told(incumbent),
            "next_number": self._next_number,
            "fits": self._fits,
            "revisions": self._revisions,
            "rates_at": self._rates_at,
            "text": self.text,
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Take on what `state` gave (JSON, hence Any)."""
        self.sample.restore(state["sample"])
        self.trigger.restore(state["trigger"])
        told = state["incumbent"]
        self.incumbent = None if told is None else _incumbent(told)
        self._next_number = int(state["next_number"])
        self._fits, self._revisions = int(state["fits"]), int(state["revisions"])
        self._rates_at = int(state["rates_at"])
        self.text = str(state["text"])
        self.out = False


def _told(incumbent: Incumbent) -> dict[str, Any]:
    mixture, reference = incumbent.mixture, incumbent.reference
    return {
        "mixture": [row.tolist() for row in (mixture.weights, mixture.means, mixture.sds)],
        "tied": mixture.tied,
        "cuts": [[cut.at, cut.why] for cut in incumbent.cuts],
        "partition": asdict(incumbent.partition),
        "service": asdict(incumbent.service),
        "reference": [
            reference.quantiles.tolist(),
            reference.log_density,
            reference.log_density_sd,
            reference.log_density_low,
            reference.n,
        ],
    }


def _incumbent(told: dict[str, Any]) -> Incumbent:
    weights, means, sds = (np.array(row, dtype=np.float64) for row in told["mixture"])
    rows = told["partition"]
    quantiles, mean, sd, low, n = told["reference"]
    return Incumbent(
        mixture=Mixture(weights=weights, means=means, sds=sds, tied=bool(told["tied"])),
        cuts=tuple(Cut(at=float(at), why=why) for at, why in told["cuts"]),
        partition=Partition(**{one.name: tuple(rows[one.name]) for one in fields(Partition)}),
        service=ServiceTime(**told["service"]),
        reference=Reference(
            quantiles=np.array(quantiles, dtype=np.float64),
            log_density=float(mean),
            log_density_sd=float(sd),
            log_density_low=float(low),
            n=int(n),
        ),
    )
