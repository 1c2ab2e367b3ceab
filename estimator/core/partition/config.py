"""The partition's constants, each with its unit, its domain and where it comes from."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionConfig:
    """What a `PartitionTable` is built with; no part of its state.

    Attributes
    ----------
    capacity : int
        Points that a model's sample holds, and so the completions after which a point is kept
        with probability 1/e, ≥ ``least_points``.
    max_queues : int
        Most queues of a model, ≥ 1.
    least_points : int
        Points without which there is one queue, ≥ 1.
    refit_every : int
        Completions after which a model is fitted again in any case, ≥ 1.
    max_models : int
        Most models with a sample, ≥ 1; the least recently used one is forgotten beyond it.
    seed : int
        Of the samples' and the fits' random numbers.
    """

    capacity: int = 4096
    max_queues: int = 8
    least_points: int = 200
    refit_every: int = 1024
    max_models: int = 64
    seed: int = 0
