"""When requests arrive: Poisson, gamma, diurnal, or in bounded bursts, at a mean rate.

Every process draws unit steps of *operational time* from one seeded generator and maps them to
seconds, so that the same seed at twice the rate gives the same pattern twice as fast: runs at
different rates differ by the load and not by luck. Times are integer nanoseconds.
"""

import math
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final, Literal, get_args

from estimator.replay.job import NS_PER_S

ArrivalKind = Literal["trace", "poisson", "gamma", "diurnal", "bursts"]
ARRIVAL_KINDS: Final[tuple[str, ...]] = get_args(ArrivalKind)
# A rate above this is a typing error: no engine serves a request in ten microseconds.
MAX_RATE_RPS: Final = 1e5
MIN_RATE_RPS: Final = 1e-6
# Bounded bursts are peaks of 1.3 at a mean of .9: a third of the time at 13/9 of the mean rate,
# the rest at 7/9 (loads 1.3 and .7). A peak ends after a third of a cycle, so that what it leaves
# waiting is bounded: sustained overload is no service.
BURST_MEAN_LOAD: Final = 0.9
BURST_PEAK_LOAD: Final = 1.3
BURST_BASE_LOAD: Final = 0.7
_PEAK_SHARE: Final = (BURST_MEAN_LOAD - BURST_BASE_LOAD) / (BURST_PEAK_LOAD - BURST_BASE_LOAD)
_MAX_CV: Final = 50.0
# Below the nanosecond that times are rounded to; halving a century takes 62 rounds to get there.
_INVERSION_ERROR_S: Final = 1e-10
_MAX_ROUNDS: Final = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrivals:
    """How requests arrive, but for the rate.

    Attributes
    ----------
    kind : {"trace", "poisson", "gamma", "diurnal", "bursts"}
        ``trace`` takes the rows' own times, which a workload holds.
    cv : float
        Of ``gamma``: coefficient of variation of the gaps, in (0, 50]; 1 is Poisson.
    amplitude : float
        Of ``diurnal``: the rate swings by this share of its mean, in [0, 1).
    period_s : float
        Of ``diurnal``: seconds from peak to peak, > 0.
    cycle_s : float
        Of ``bursts``: seconds of one cycle, > 0; it begins quietly and ends with the peak.

    Raises
    ------
    ValueError
        Names the value, the limit and the remedy.
    """

    kind: ArrivalKind = "poisson"
    cv: float = 3.0
    amplitude: float = 0.5
    period_s: float = 600.0
    cycle_s: float = 60.0

    def __post_init__(self) -> None:
        if self.kind not in ARRIVAL_KINDS:
            raise ValueError(f"arrivals are {self.kind!r}, must be {', '.join(ARRIVAL_KINDS)}")
        if not 0.0 < self.cv <= _MAX_CV:
            raise ValueError(f"cv is {self.cv}, must be above 0 and at most {_MAX_CV:g}")
        if not 0.0 <= self.amplitude < 1.0:
            raise ValueError(f"amplitude is {self.amplitude}, must be in [0, 1)")
        for name, value in (("period_s", self.period_s), ("cycle_s", self.cycle_s)):
            if not 0.0 < value < math.inf:
                raise ValueError(f"{name} is {value}, must be a number of seconds above 0")

    @property
    def repeats_after_s(self) -> float | None:
        """Seconds after which the rate begins anew; None where it does not change."""
        return {"diurnal": self.period_s, "bursts": self.cycle_s}.get(self.kind)

    def times_ns(self, rate_rps: float, seed: int) -> Iterator[int]:
        """Yield arrival times without end.

        Parameters
        ----------
        rate_rps : float
            Mean arrivals a second.
        seed : int
            The same seed gives the same times.

        Yields
        ------
        int
            Nanoseconds since the start, not decreasing.

        Raises
        ------
        ValueError
            For a rate outside [1e-6, 1e5], or ``trace``, whose times are the rows'.
        """
        check_rate(rate_rps)
        rng = random.Random(f"{seed}/arrivals")  # noqa: S311 - a scenario, no secret
        if self.kind == "trace":
            raise ValueError("arrivals of a trace are its rows'; ask the workload")
        if self.kind == "gamma":
            return _gamma(rng, rate_rps, self.cv)
        if self.kind == "diurnal":
            return _mapped(rng, rate_rps, self._of_the_day)
        if self.kind == "bursts":
            return _mapped(rng, rate_rps, self._of_the_cycle)
        return _poisson(rng, rate_rps)

    def _of_the_day(self, operational_s: float) -> float:
        """Invert t ↦ t + a·P/2π · (1 - cos(2πt/P)), the integral of 1 + a·sin(2πt/P)."""
        periods, rest = divmod(operational_s, self.period_s)
        swing = self.amplitude * self.period_s / math.tau
        low, high, at_s = 0.0, self.period_s, rest
        # Newton's method, kept between bounds that close in; four or five rounds.
        for _ in range(_MAX_ROUNDS):
            angle = math.tau * at_s / self.period_s
            error = at_s + swing * (1.0 - math.cos(angle)) - rest
            if abs(error) < _INVERSION_ERROR_S:
                break
            low, high = (low, at_s) if error > 0.0 else (at_s, high)
            at_s -= error / (1.0 + self.amplitude * math.sin(angle))
            if not low < at_s < high:
                at_s = (low + high) / 2
        return periods * self.period_s + at_s

    def _of_the_cycle(self, operational_s: float) -> float:
        """Invert the integral of a rate that is 7/9 and then 13/9 of its mean."""
        cycles, rest = divmod(operational_s, self.cycle_s)
        base = BURST_BASE_LOAD / BURST_MEAN_LOAD
        quiet_s = (1.0 - _PEAK_SHARE) * self.cycle_s
        if rest <= base * quiet_s:
            within_s = rest / base
        else:
            within_s = quiet_s + (rest - base * quiet_s) * BURST_MEAN_LOAD / BURST_PEAK_LOAD
        return cycles * self.cycle_s + within_s


def check_rate(rate_rps: float) -> None:
    """Raise ValueError for a rate that no service has."""
    if not MIN_RATE_RPS <= rate_rps <= MAX_RATE_RPS:
        limits = f"{MIN_RATE_RPS:g} to {MAX_RATE_RPS:g}"
        raise ValueError(f"the rate is {rate_rps:g} requests/s, the limits are {limits}")


def _poisson(rng: random.Random, rate_rps: float) -> Iterator[int]:
    now = 0.0
    gap_ns = NS_PER_S / rate_rps
    while True:
        now += rng.expovariate(1.0)
        yield int(now * gap_ns)


def _gamma(rng: random.Random, rate_rps: float, cv: float) -> Iterator[int]:
    shape, scale = cv**-2, cv**2
    now = 0.0
    gap_ns = NS_PER_S / rate_rps
    while True:
        now += rng.gammavariate(shape, scale)
        yield int(now * gap_ns)


def _mapped(
    rng: random.Random, rate_rps: float, seconds_of: Callable[[float], float]
) -> Iterator[int]:
    now = 0.0
    last_ns = 0
    while True:
        now += rng.expovariate(1.0)
        # Rounding at the seam of two periods must not turn time back.
        last_ns = max(last_ns, int(seconds_of(now / rate_rps) * NS_PER_S))
        yield last_ns
