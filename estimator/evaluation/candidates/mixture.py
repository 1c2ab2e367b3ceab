"""A fixed share over forgetting rates."""

import math
from collections.abc import Mapping, Sequence
from typing import Final, Self

from estimator.core.robust import Temper
from sched_client.model import DEFAULT_KAPPA_TOKENS_PER_S, DEFAULT_MEAN_AUDIO_S

# What RESEARCH.md found worth trying; the first never forgets.
_RATES: Final = (1.0, 0.995, 0.98, 0.95, 0.9, 0.8)
# Share of an expert's weight that goes to the others with each completion.
_SHARE: Final = 0.02
# Robust standard deviation of tokens over the estimate before any data.
_PRIOR_RELATIVE_ERROR: Final = 0.35
# A loss of so many halves of squared deviations is as bad as any: loops take no sides.
_MAX_LOSS: Final = 8.0


class FixedShareMixture:
    """Σn/Σd at six forgetting rates, mixed by how well each did lately.

    Parameters
    ----------
    prior_kappa : float
        κ before any data; it counts as one mean clip.

    References
    ----------
    Herbster & Warmuth (1998), Tracking the best expert, Machine Learning 32.
    """

    def __init__(self, *, prior_kappa: float = DEFAULT_KAPPA_TOKENS_PER_S) -> None:
        self.prior_kappa = prior_kappa
        mean = prior_kappa * DEFAULT_MEAN_AUDIO_S
        self._y = [mean] * len(_RATES)
        self._s = [DEFAULT_MEAN_AUDIO_S] * len(_RATES)
        self._weights = [1.0 / len(_RATES)] * len(_RATES)
        self._temper = Temper(_PRIOR_RELATIVE_ERROR * math.sqrt(mean))

    def _kappas(self) -> list[float]:
        return [y / s for y, s in zip(self._y, self._s, strict=True)]

    def learn_one(self, x: Mapping[str, float], y: float) -> None:
        """Learn one pair."""
        size = x["size"]
        kappas = self._kappas()
        expected = max(self.predict_one(x), 1.0)
        value, deviation = self._temper.judge(y, expected, math.sqrt(expected))
        if value is None:
            return
        losses = [
            min(0.5 * ((value - kappa * size) / deviation) ** 2, _MAX_LOSS) for kappa in kappas
        ]
        least = min(losses)
        weights = [
            weight * math.exp(least - loss)
            for weight, loss in zip(self._weights, losses, strict=True)
        ]
        total = sum(weights)
        given = _SHARE / len(_RATES)
        self._weights = [(1.0 - _SHARE) * weight / total + given for weight in weights]
        self._y = [rate * sums + value for rate, sums in zip(_RATES, self._y, strict=True)]
        self._s = [rate * sums + size for rate, sums in zip(_RATES, self._s, strict=True)]

    def predict_one(self, x: Mapping[str, float]) -> float:
        """Predict tokens, ≥ 0; the prior before any data."""
        kappa = sum(w * k for w, k in zip(self._weights, self._kappas(), strict=True))
        return kappa * x["size"]

    def state(self) -> list[float]:
        """Give what was fitted, as numbers."""
        return [*self._y, *self._s, *self._weights, *self._temper.state()]

    def restore(self, state: Sequence[float]) -> Self:
        """Take on what `state` gave; return self."""
        n = len(_RATES)
        self._y, self._s = list(state[:n]), list(state[n : 2 * n])
        self._weights = list(state[2 * n : 3 * n])
        self._temper.restore(state[3 * n :])
        return self
