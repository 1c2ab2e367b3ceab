"""River's Bayesian linear regression."""

# ruff: noqa: SLF001 - river offers no state of its own; this reads the fields of its
# BayesianLinearRegression as of 0.26, and tests/conformance/test_learners.py fails if they move.

from collections.abc import Mapping, Sequence
from typing import Self

import numpy as np
from river.linear_model import BayesianLinearRegression

from sched_client.model import DEFAULT_KAPPA_TOKENS_PER_S


class RiverBayesian:
    """``n = a + κ·d`` or ``n = κ·d`` by river's ``BayesianLinearRegression``, not robust.

    Parameters
    ----------
    smoothing : float
        Weight that the past keeps, in (0, 1).
    with_intercept : bool
        Whether the line may miss the origin.
    prior_kappa : float
        κ before any data: what is regressed is what came beyond it, for river's own prior is 0.

    Notes
    -----
    Below a smoothing of 1 the unused part of river's matrix decays to 0 and cannot be inverted
    any more, after 23,350 completions at 0.97: contests are shorter.

    References
    ----------
    Bishop (2006), Pattern Recognition and Machine Learning, eq. 3.50-3.59.
    """

    def __init__(
        self,
        *,
        smoothing: float,
        with_intercept: bool,
        prior_kappa: float = DEFAULT_KAPPA_TOKENS_PER_S,
    ) -> None:
        self.smoothing = smoothing
        self.with_intercept = with_intercept
        self.prior_kappa = prior_kappa
        self._model = BayesianLinearRegression(smoothing=smoothing)
        # Makes room for the features, so that a state always has the same length.
        self._model.learn_one(self._features(0.0), 0.0)

    def _features(self, size: float) -> dict[str, float]:
        return {"size": size, "one": 1.0} if self.with_intercept else {"size": size}

    def learn_one(self, x: Mapping[str, float], y: float) -> None:
        """Learn one pair."""
        size = x["size"]
        self._model.learn_one(self._features(size), y - self.prior_kappa * size)

    def predict_one(self, x: Mapping[str, float]) -> float:
        """Predict tokens, ≥ 0; the prior before any data."""
        size = x["size"]
        beyond = self._model.predict_one(self._features(size))
        return max(float(beyond) + self.prior_kappa * size, 0.0)

    def state(self) -> list[float]:
        """Give what was fitted, as numbers."""
        model = self._model
        arrays = (model._ss_arr, model._ss_inv_arr, model._eta_arr)
        return [float(number) for array in arrays for number in array.ravel()]

    def restore(self, state: Sequence[float]) -> Self:
        """Take on what `state` gave; return self."""
        model = self._model
        size = model._eta_arr.size
        square = size * size
        model._ss_arr = np.array(state[:square]).reshape(size, size)
        model._ss_inv_arr = np.asfortranarray(
            np.array(state[square : 2 * square]).reshape(size, size)
        )
        model._eta_arr = np.array(state[2 * square :])
        model._m_dirty = True
        return self
