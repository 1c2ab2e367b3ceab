"""From a frozen sample to a partition; pure, for a worker thread."""

import math
from dataclasses import dataclass
from typing import Final

import numpy as np

from estimator.core.partition.boundaries import queues_of
from estimator.core.partition.change import Reference
from estimator.core.partition.concave import fewest_classes
from estimator.core.partition.config import PartitionConfig
from estimator.core.partition.ids import carried, named, overlaps
from estimator.core.partition.mixture import Array, Mixture
from estimator.core.partition.order import best_mixture, penalty
from estimator.core.partition.prune import prune
from estimator.core.partition.refine import Cut, density_cuts, gap_cut, latency_cut
from estimator.core.partition.revision import Reason
from estimator.core.partition.work import log_ratio, log_work
from sched_client.model import ServiceTime
from sched_client.settings import SINGLE_QUEUE, Partition

# Components tried, whatever the number of queues: several may describe one queue.
MAX_COMPONENTS: Final = 8
# A queue that is there is kept down to this part of what a new one needs.
_KEEP: Final = 0.5
# What is in force stays unless another is better by this for each parameter, in twice log
# likelihood.
HYSTERESIS: Final = 5.0
# A mixture of less than this part of a full sample is given up as soon as another is better.
_YOUNG: Final = 0.75


@dataclass(frozen=True, slots=True, kw_only=True)
class Incumbent:
    """What is in force for a model.

    Attributes
    ----------
    mixture : Mixture
        Of log seconds at ``service``.
    cuts : tuple of Cut
        Ascending, in log seconds at ``service``.
    partition : Partition
        The queues.
    service : ServiceTime
        Rates that all of it was made with.
    reference : Reference
        The points that the mixture was fitted to.
    """

    mixture: Mixture
    cuts: tuple[Cut, ...]
    partition: Partition
    service: ServiceTime
    reference: Reference


@dataclass(frozen=True, slots=True, kw_only=True)
class FitJob:
    """A copy of a model's sample and of what is in force; nothing changes it.

    Attributes
    ----------
    model : str
        Served model's name.
    reason : str
        Why it is due.
    points : ndarray of float64, shape (n, 3)
        Estimated output tokens, prompt tokens, observed seconds (0: unknown).
    service : ServiceTime
        The rates that turn tokens into seconds, now.
    completions : int
        The model's completions observed so far.
    config : PartitionConfig
        Constants.
    incumbent : Incumbent or None
        What is in force.
    next_number : int
        First number that no queue of the model ever had.
    """

    model: str
    reason: Reason
    points: Array
    service: ServiceTime
    completions: int
    config: PartitionConfig
    incumbent: Incumbent | None
    next_number: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Fit:
    """What `fit` made of a job, for `PartitionTable.install`.

    Attributes
    ----------
    job : FitJob
        What it was made of.
    best : Incumbent
        What should be in force now; the job's own where that is kept.
    changed : bool
        Whether it is another.
    next_number : int
        First number that no queue of the model ever had, now.
    text : str
        What changed and why, for a person.
    log_densities : ndarray of float64, shape (n,)
        Of the points at ``best``'s rates.
    """

    job: FitJob
    best: Incumbent
    changed: bool
    next_number: int
    text: str
    log_densities: Array


@dataclass(frozen=True, slots=True)
class _Draft:
    """A mixture and the cuts made of it, at the job's rates."""

    mixture: Mixture
    cuts: tuple[Cut, ...]
    why: str


def fit(job: FitJob) -> Fit:
    """Fit a job: refine by a Gaussian mixture, by gaps and by latency, then prune.

    Pure and deterministic; 10 to 60 ms of CPU, more for more components than for more points.

    Parameters
    ----------
    job : FitJob
        At least one point.

    Returns
    -------
    Fit
        To be installed.

    Notes
    -----
    What is in force is kept unless work is distributed otherwise (`Reference.change`) and the new
    mixture is better by BIC by `HYSTERESIS` for each of its parameters; by chance it is by about
    two, one for its own fit and one for the incumbent's. Its cuts are kept with it; new ones are
    added where a gap or latency asks for them. A mixture that was fitted to less than three
    quarters of a full sample is given up as soon as another is better at all.
    """
    x = log_work(job.points, job.service)
    incumbent = job.incumbent
    if incumbent is None:
        return _changed(job, _pruned(job, _new(job, x, None, ""), x, fresh=True), x)
    before = log_work(job.points, incumbent.service)
    log_densities = incumbent.mixture.log_density(before)
    held = _at_new_rates(job, incumbent, before, x)
    draft, kept = _chosen(job, incumbent, held, before, log_densities, x)
    draft = _pruned(job, draft, x, fresh=draft is not held)
    if draft is held and not held.why:
        return Fit(
            job=job,
            best=incumbent,
            changed=False,
            next_number=job.next_number,
            text=f"kept: {kept}",
            log_densities=log_densities,
        )
    return _changed(job, draft, x)


def _new(job: FitJob, x: Array, start: Mixture | None, why: str) -> _Draft:
    mixture = best_mixture(x, max_components=MAX_COMPONENTS, seed=job.config.seed, start=start)
    cuts = density_cuts(mixture, job.config.least_separation)
    return _Draft(mixture, _needed(x, mixture, cuts), why)


def _needed(x: Array, mixture: Mixture, cuts: tuple[Cut, ...]) -> tuple[Cut, ...]:
    """Leave out the cuts by density that lie within one class."""
    by_density = [cut.at for cut in cuts if cut.why == "density"]
    needed = fewest_classes(np.sort(x), mixture, by_density)
    return tuple(cut for cut in cuts if cut.why != "density" or cut.at in needed)


def _chosen(
    job: FitJob,
    incumbent: Incumbent,
    held: _Draft,
    before: Array,
    log_densities: Array,
    x: Array,
) -> tuple[_Draft, str]:
    """Give a new draft or the held one, and why that is kept."""
    if _emptied(x, held.cuts, _KEEP * _least_points(job.config, len(x))):
        # Its component goes with it, or the class would be no news when it comes back.
        return _new(job, x, None, "a queue held hardly anything any more"), ""
    young = incumbent.reference.n < _YOUNG * job.config.capacity
    change = incumbent.reference.change(before, log_densities)
    if not (young or change):
        return held, "work is distributed as it was"
    draft = _new(job, x, held.mixture, change or "better by BIC")
    gain = 2.0 * float((draft.mixture.log_density(x) - held.mixture.log_density(x)).sum())
    gain -= penalty(draft.mixture, len(x)) - penalty(held.mixture, len(x))
    least_gain = 0.0 if young else HYSTERESIS * draft.mixture.parameters
    if gain > least_gain:
        return draft, ""
    if young:
        # More points may show what is in force to be one class where few left it open.
        cuts = _needed(x, held.mixture, held.cuts)
        if cuts != held.cuts:
            return _Draft(held.mixture, cuts, "fewer classes describe it as well"), ""
    return held, f"the best other is better by {gain:.0f} (BIC), {least_gain:.0f} are asked for"


def _pruned(job: FitJob, draft: _Draft, x: Array, *, fresh: bool) -> _Draft:
    """Add the cuts that gaps and latency ask for, and take out those that hold too little."""
    config, order = job.config, np.argsort(x, kind="stable")
    x, ratios = x[order], log_ratio(job.points, job.service)[order]
    cuts = _refined(x, ratios, draft, config)
    least = _least_points(config, len(x))
    if not fresh:
        # New ones leave enough on both sides as it is; what is there may stay at half.
        least *= _KEEP
    cuts = prune(x, cuts, least_points=least, max_queues=config.max_queues)
    return draft if cuts == draft.cuts else _Draft(draft.mixture, cuts, draft.why)


def _emptied(x: Array, cuts: tuple[Cut, ...], least: float) -> bool:
    queues = np.searchsorted([cut.at for cut in cuts], x, side="right")
    return bool(np.bincount(queues, minlength=len(cuts) + 1).min() < least)


def _least_points(config: PartitionConfig, n: int) -> float:
    return max(config.least_count, config.least_share * n)


def _at_new_rates(job: FitJob, incumbent: Incumbent, old: Array, x: Array) -> _Draft:
    """Put what is in force into seconds at the job's rates, if those have moved.

    Each component takes the moments of the points that it is responsible for; a cut goes to where
    the work at it is now: between the points beside it.
    """
    moved = float(np.abs(x - old).mean())
    if moved <= job.config.rates_ratio:
        return _Draft(incumbent.mixture, incumbent.cuts, "")
    mixture = Mixture.moments(x, incumbent.mixture.responsibilities(old))
    cuts = tuple(Cut(at=_mapped(cut.at, old, x), why=cut.why) for cut in incumbent.cuts)
    percent = 100.0 * math.expm1(float((x - old).mean()))
    return _Draft(mixture, cuts, f"work is {percent:+.0f} % seconds")


def _mapped(at: float, old: Array, new: Array) -> float:
    """Give where old log work ``at`` is in new log work, by the nearest points on both sides."""
    shifts = []
    below, above = old < at, old >= at
    if below.any():
        shifts.append((new - old)[below][old[below].argmax()])
    if above.any():
        shifts.append((new - old)[above][old[above].argmin()])
    return at + float(np.mean(shifts))


def _refined(x: Array, ratios: Array, draft: _Draft, config: PartitionConfig) -> tuple[Cut, ...]:
    """Give a draft's cuts and those that gaps and latency ask for."""
    cuts = list(draft.cuts)
    # Each finds at most one cut a queue and pass; twice the queues that may stay are enough.
    for _ in range(config.max_queues):
        found = _one_more(x, ratios, draft.mixture, cuts, config)
        if found is None:
            break
        cuts = sorted([*cuts, found], key=lambda cut: cut.at)
    return tuple(cuts)


def _one_more(
    x: Array, ratios: Array, mixture: Mixture, cuts: list[Cut], config: PartitionConfig
) -> Cut | None:
    edges = np.searchsorted(x, [cut.at for cut in cuts], side="left")
    least = _least_points(config, len(x))
    for part, ratio in zip(np.split(x, edges), np.split(ratios, edges), strict=True):
        if len(part) < 2.0 * least:
            continue
        at = gap_cut(part, mixture, config.gap_alpha)
        if at is not None and _leaves(part, at, least):
            return Cut(at=at, why="gap")
        at = latency_cut(part, ratio, config.latency_alpha, config.latency_ratio)
        if at is not None and _leaves(part, at, least):
            return Cut(at=at, why="latency")
    return None


def _leaves(part: Array, at: float, least: float) -> bool:
    """Whether a cut leaves enough on both sides: what prune would take out is not put in."""
    below = int(np.searchsorted(part, at))
    return min(below, len(part) - below) >= least


def _changed(job: FitJob, draft: _Draft, x: Array) -> Fit:
    incumbent = job.incumbent
    boundaries = [cut.at for cut in draft.cuts]
    new = np.searchsorted(boundaries, x, side="right")
    n_new = len(boundaries) + 1
    if incumbent is None:
        # The one queue of before holds no class; where there is one still, it goes on.
        old_ids = SINGLE_QUEUE.queue_ids
        matches: list[int | None] = [0] if n_new == 1 else [None] * n_new
    else:
        before = log_work(job.points, incumbent.service)
        old = np.searchsorted([cut.at for cut in incumbent.cuts], before, side="right")
        old_ids = incumbent.partition.queue_ids
        matches = carried(overlaps(old, new, len(old_ids), n_new))
    ids, next_number = named(matches, old_ids, job.next_number)
    partition = queues_of(np.sort(x), draft.cuts, ids)
    log_densities = draft.mixture.log_density(x)
    reference = Reference.of(x, log_densities)
    if incumbent is not None and draft.mixture is incumbent.mixture:
        reference = incumbent.reference
    best = Incumbent(
        mixture=draft.mixture,
        cuts=draft.cuts,
        partition=partition,
        service=job.service,
        reference=reference,
    )
    return Fit(
        job=job,
        best=best,
        changed=True,
        next_number=next_number,
        text=_told(old_ids if incumbent else (), ids, draft),
        log_densities=log_densities,
    )


def _told(old_ids: tuple[str, ...], ids: tuple[str, ...], draft: _Draft) -> str:
    parts = [f"{len(ids)} queue{'s' if len(ids) > 1 else ''}"]
    if old_ids:
        new = [queue_id for queue_id in ids if queue_id not in old_ids]
        gone = [queue_id for queue_id in old_ids if queue_id not in ids]
        parts += [f"new {', '.join(new)}"] if new else []
        parts += [f"gone {', '.join(gone)}"] if gone else []
        parts += [] if new or gone else ["boundaries moved" if draft.cuts else "its extent moved"]
    for why in ("gap", "latency"):
        count = sum(cut.why == why for cut in draft.cuts)
        parts += [f"{count} by {why}"] if count else []
    if draft.why:
        parts.append(draft.why)
    return "; ".join(parts)
