"""A cumulative ratio that a detector resets."""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Final, Protocol, Self

from river.drift import ADWIN, PageHinkley

from estimator.core.robust import Temper
from sched_client.model import DEFAULT_KAPPA_TOKENS_PER_S, DEFAULT_MEAN_AUDIO_S

# Robust standard deviation of tokens over the estimate before any data.
_PRIOR_RELATIVE_ERROR: Final = 0.35
# Residuals beyond so many deviations count as that many.
_MAX_DEVIATIONS: Final = 4.0
# A detector starts anew after so many values, so that a state is bounded.
_MAX_VALUES: Final = 1000


class Detector(Protocol):
    """What river's detectors of changes of a mean offer."""

    @property
    def drift_detected(self) -> bool:
        """Whether the last value completed a change."""

    def update(self, x: float) -> None:
        """Take one value."""


class ResettingRatio:
    """Σn/Σd since a detector last saw its residuals change.

    Parameters
    ----------
    detector : callable
        Makes one.
    prior_kappa : float
        κ before any data; it counts as one mean clip.

    Notes
    -----
    River's detectors have no state to save, so a state holds the values since the last start of
    the detector, at most 1,000, and restoring feeds them again.

    References
    ----------
    Page (1954), Continuous inspection schemes, Biometrika 41. Bifet & Gavaldà (2007), Learning
    from time-changing data with adaptive windowing, SDM.
    """

    def __init__(
        self,
        *,
        detector: Callable[[], Detector],
        prior_kappa: float = DEFAULT_KAPPA_TOKENS_PER_S,
    ) -> None:
        self.detector = detector
        self.prior_kappa = prior_kappa
        self._s = DEFAULT_MEAN_AUDIO_S
        self._y = prior_kappa * self._s
        self._temper = Temper(_PRIOR_RELATIVE_ERROR * math.sqrt(self._y))
        self._start()

    def _start(self) -> None:
        self._test = self.detector()
        self._values: list[float] = []

    def learn_one(self, x: Mapping[str, float], y: float) -> None:
        """Learn one pair."""
        size = x["size"]
        expected = max(self.predict_one(x), 1.0)
        value, deviation = self._temper.judge(y, expected, math.sqrt(expected))
        if value is None:
            return
        z = min(max((value - expected) / deviation, -_MAX_DEVIATIONS), _MAX_DEVIATIONS)
        self._values.append(z)
        self._test.update(z)
        if self._test.drift_detected:
            # The prior's clip at the old κ keeps the first ones from deciding alone.
            self._y, self._s = self._y / self._s, 1.0
            self._start()
        elif len(self._values) >= _MAX_VALUES:
            self._start()
        self._y += value
        self._s += size

    def predict_one(self, x: Mapping[str, float]) -> float:
        """Predict tokens, ≥ 0; the prior before any data."""
        return self._y / self._s * x["size"]

    def state(self) -> list[float]:
        """Give what was fitted, as numbers."""
        return [self._y, self._s, *self._temper.state(), *self._values]

    def restore(self, state: Sequence[float]) -> Self:
        """Take on what `state` gave; return self."""
        self._y, self._s = state[:2]
        self._temper.restore(state[2:5])
        self._start()
        for value in state[5:]:
            self._values.append(value)
            self._test.update(value)
        return self


def page_hinkley() -> Detector:
    """Make one that sees a change of half a deviation and more."""
    detector: Detector = PageHinkley(min_instances=5, delta=0.5, threshold=8.0)
    return detector


def adwin() -> Detector:
    """Make one that looks at each value, not at every 32nd only."""
    detector: Detector = ADWIN(clock=1)
    return detector
