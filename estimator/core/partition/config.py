"""The partition's constants, each with its unit, its domain and where it comes from."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionConfig:
    """What a `PartitionTable` is built with; no part of its state.

    Attributes
    ----------
    capacity : int
        Points that a model's sample holds, and so the completions after which a point is still
        there with probability 1/e, ≥ ``least_points``.
    max_queues : int
        Most queues of a model, ≥ 1.
    least_points : int
        Points without which there is one queue, ≥ 1. Of two classes 3 σ apart, one a tenth of the
        requests, so many hold twenty.
    refit_every : int
        Completions after which a model is fitted again in any case, ≥ 1. A whole capacity: by
        then the sample has changed by 63 %, and at 900 completions/s it is a fit in 4.5 s.
    least_separation : float
        Distance of neighbouring classes in their deviation (Ashman's D, `separations`), ≥ 0: what
        is nearer is one class that is not log-normal. 2 is Ashman's own limit. The traces in
        benchmarks/traces come to 1 to 6 queues at 2 (BIC alone: 1 to 8), and classes that are 3
        apart are found as before.
    least_share, least_count : float, int
        A queue holds at least this share and this many of the points. So few batch jobs make a
        queue; fewer are not to be told from stray ones. One that is there is kept down to half.
    gap_alpha, latency_alpha : float
        Probability that one class alone is split by a gap, or by its latency, in one fit, (0, 1).
    latency_ratio : float
        A queue is split by its latency where one part takes so many times as long for its
        work as the other, > 1.
    rates_ratio : float
        Boundaries are put into new seconds when the work of the points has moved by this, > 0.
        Less is noise of the service time's fit, and boundaries are to be stable.
    max_models : int
        Most models with a sample, ≥ 1; the least recently used one is forgotten beyond it.
    seed : int
        Of the samples' and the fits' random numbers.

    Raises
    ------
    ValueError
        For a value outside its domain.
    """

    capacity: int = 4096
    max_queues: int = 8
    least_points: int = 200
    refit_every: int = 4096
    least_separation: float = 2.0
    least_share: float = 0.003
    least_count: int = 12
    gap_alpha: float = 1e-3
    latency_alpha: float = 1e-3
    latency_ratio: float = 1.5
    rates_ratio: float = 0.03
    max_models: int = 64
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("max_queues", "least_points", "refit_every", "least_count", "max_models"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} is {getattr(self, name)}; it must be >= 1")
        if self.capacity < self.least_points:
            raise ValueError(
                f"capacity is {self.capacity}; it must be >= least_points, {self.least_points}"
            )
        for name in ("gap_alpha", "latency_alpha"):
            if not 0.0 < getattr(self, name) < 1.0:
                raise ValueError(f"{name} is {getattr(self, name)}; it must be in (0, 1)")
        if not 0.0 <= self.least_share < 1.0:
            raise ValueError(f"least_share is {self.least_share}; it must be in [0, 1)")
        if not (self.least_separation >= 0.0 and self.rates_ratio > 0.0):
            raise ValueError("least_separation must be >= 0 and rates_ratio > 0")
        if not self.latency_ratio > 1.0:
            raise ValueError(f"latency_ratio is {self.latency_ratio}; it must be > 1")
