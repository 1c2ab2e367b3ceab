"""The contest's learners: each keeps `estimator.core.learner.Learner`, made by a factory."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Final

from estimator.core.config import CoreConfig
from estimator.core.learner import AffineRegressor, Anchor, Learner
from estimator.evaluation.candidates.bayesian import RiverBayesian
from estimator.evaluation.candidates.forgetting import ForgettingRegressor
from estimator.evaluation.candidates.mixture import FixedShareMixture
from estimator.evaluation.candidates.recursive import RobustRecursiveLeastSquares
from estimator.evaluation.candidates.reset import ResettingRatio, adwin, page_hinkley
from sched_client.model import DEFAULT_KAPPA_TOKENS_PER_S

__all__ = ["CANDIDATES", "ROBUST", "core"]


def core(*, prior_kappa: float = DEFAULT_KAPPA_TOKENS_PER_S) -> Learner:
    """Make what the core learns κ of one key with, without parents."""
    config = CoreConfig()
    anchor = Anchor(
        kappa=prior_kappa,
        intercept=config.prior_intercept_tokens,
        mean_size=config.prior_mean_audio_s,
        sd_size=config.prior_sd_audio_s,
        relative_error=config.prior_relative_error,
    )
    return AffineRegressor(
        parent=anchor,
        forgetting=config.forgetting,
        shrinkage=config.shrinkage,
        level_shrinkage=config.level_shrinkage,
        change_hazard=config.change_hazard,
        clip_deviations=config.clip_deviations,
        gross_deviations=config.gross_deviations,
    )


def _forgetting() -> dict[str, Callable[..., Learner]]:
    return {
        f"forgetting {rate}, {weighting}, {'line' if line else 'through 0'}": partial(
            ForgettingRegressor, forgetting=rate, weighting=weighting, with_intercept=line
        )
        for rate in (0.98, 0.95, 0.9)
        for weighting in ("ratio", "squares")
        for line in (True, False)
    }


# Names to factories, each with an optional keyword ``prior_kappa`` (hence the ellipsis).
CANDIDATES: Final[Mapping[str, Callable[..., Learner]]] = {
    "core": core,
    "river bayesian 0.97, line": partial(RiverBayesian, smoothing=0.97, with_intercept=True),
    "river bayesian 0.97, through 0": partial(RiverBayesian, smoothing=0.97, with_intercept=False),
    "robust recursive least squares 0.98": partial(RobustRecursiveLeastSquares, forgetting=0.98),
    **_forgetting(),
    "fixed share over six rates": FixedShareMixture,
    "reset by page-hinkley": partial(ResettingRatio, detector=page_hinkley),
    "reset by adwin": partial(ResettingRatio, detector=adwin),
}
# Those that repetition loops must not move.
ROBUST: Final = frozenset(
    {
        "core", "robust recursive least squares 0.98", "fixed share over six rates",
        "reset by page-hinkley", "reset by adwin",
    }
)  # fmt: skip
