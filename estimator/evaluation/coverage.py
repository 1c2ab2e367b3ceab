"""How often, and how closely, intervals hold what comes.

Owns width and pinball loss, and the interval that all are held against: quantiles of every past
residual of a learner that never forgets.
"""

import bisect
import math
from collections.abc import Sequence
from typing import Final, NamedTuple

from estimator.core.drift_event import DriftEvent
from estimator.core.intervals import PRIOR_RATIOS
from estimator.core.observation import Completion
from estimator.evaluation.metrics import Record, coverage, quantile, ratio
from estimator.evaluation.references import CumulativeRatio
from estimator.evaluation.scenarios import Running
from estimator.evaluation.subjects import Prediction, size_of, teaches
from sched_client.model import Key

LEVELS: Final = (0.5, 0.9, 0.99)


class FixedResiduals:
    """Split-conformal intervals on Σn/Σd: quantiles of all past relative residuals, all equal.

    Exact, and as wide as stationary data need, with memory that grows for ever; after a change
    it covers what it happens to.

    References
    ----------
    Vovk, Gammerman & Shafer (2005), Algorithmic learning in a random world, ch. 2: the
    ⌈(n + 1) · level⌉-th smallest residual.
    """

    sees_running = False

    def __init__(self) -> None:
        self._learners: dict[Key, CumulativeRatio] = {}
        self._ratios: dict[Key, list[float]] = {}

    def predict(self, completion: Completion) -> Prediction:
        """Predict Σn/Σd · size, and its quantiles."""
        key = completion.key
        learner = self._learners.get(key) or CumulativeRatio()
        tokens = max(learner.predict_one({"size": size_of(completion)}), 1.0)
        ratios = self._ratios.get(key)
        if not ratios:
            return Prediction(tokens, *(tokens * one for one in PRIOR_RATIOS))
        ranks = (math.ceil((len(ratios) + 1) * level) - 1 for level in LEVELS)
        return Prediction(tokens, *(tokens * ratios[min(rank, len(ratios) - 1)] for rank in ranks))

    def learn(
        self,
        completion: Completion,
        running: Sequence[Running],  # noqa: ARG002 - a learner of what has finished
    ) -> tuple[DriftEvent, ...]:
        """Learn one that has finished."""
        if teaches(completion):
            tokens = self.predict(completion).tokens
            ratios = self._ratios.setdefault(completion.key, [])
            bisect.insort(ratios, max(completion.output_tokens, 1) / tokens)
            learner = self._learners.setdefault(completion.key, CumulativeRatio())
            learner.learn_one({"size": size_of(completion)}, float(completion.output_tokens))
        return ()

    def change(self) -> None:
        """Hear nothing."""


class Intervals(NamedTuple):
    """What intervals were worth.

    Attributes
    ----------
    n : int
        Completions judged.
    p50, p90, p99 : float
        Share of them at or below the quantile.
    excess_ratio : float
        p90's tokens beyond what came, over what came: the width, whatever the estimate.
    pinball_ratio : float
        Mean pinball loss of p90 over mean tokens: least for the true quantile, so that neither
        coverage nor width is bought with the other (Gneiting & Raftery 2007, eq. 40).
    shorter_p90, longer_p90 : float
        p90's coverage of the shorter and of the longer half.
    """

    n: int
    p50: float
    p90: float
    p99: float
    excess_ratio: float
    pinball_ratio: float
    shorter_p90: float
    longer_p90: float


def intervals_of(records: Sequence[Record]) -> Intervals:
    """Judge records that all are scored; NaN of nothing."""
    actual = sum(one.actual for one in records)
    middle = quantile((one.size for one in records), 0.5)
    return Intervals(
        len(records),
        coverage(records, "p50"),
        coverage(records, "p90"),
        coverage(records, "p99"),
        ratio(sum(one.p90 - one.actual for one in records), actual),
        ratio(sum(_pinball(one) for one in records), actual),
        coverage([one for one in records if one.size <= middle]),
        coverage([one for one in records if one.size > middle]),
    )


def _pinball(record: Record, level: float = 0.9) -> float:
    over = record.actual - record.p90
    return level * over if over > 0.0 else (level - 1.0) * over
