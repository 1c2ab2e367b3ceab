"""Arrivals have the rate, the variation and the shape they claim, and a seed fixes them."""

import itertools
import math
from statistics import fmean, stdev

import pytest

from estimator.replay.arrivals import ARRIVAL_KINDS, Arrivals
from estimator.replay.job import NS_PER_S

DRAWN = tuple(kind for kind in ARRIVAL_KINDS if kind != "trace")


def times_s(arrivals: Arrivals, rate_rps: float, n: int, seed: int = 0) -> list[float]:
    stream = itertools.islice(arrivals.times_ns(rate_rps, seed), n)
    return [at_ns / NS_PER_S for at_ns in stream]


def gaps(times: list[float]) -> list[float]:
    return [later - sooner for sooner, later in itertools.pairwise(times)]


@pytest.mark.parametrize("kind", DRAWN)
def test_times_are_whole_ascending_and_of_the_mean_rate(kind: str) -> None:
    arrivals = Arrivals(kind=kind, cv=1.5, period_s=20.0, cycle_s=20.0)  # type: ignore[arg-type]  # of ARRIVAL_KINDS
    stream = list(itertools.islice(arrivals.times_ns(50.0, 1), 20_000))
    assert all(isinstance(one, int) for one in stream)
    assert stream == sorted(stream)
    # 20,000 gaps of cv 1.5: a standard error of about 1.1 %.
    assert 20_000 / (stream[-1] / NS_PER_S) == pytest.approx(50.0, rel=0.04)


@pytest.mark.parametrize("kind", DRAWN)
def test_a_seed_fixes_the_pattern_and_another_one_changes_it(kind: str) -> None:
    arrivals = Arrivals(kind=kind)  # type: ignore[arg-type]  # of ARRIVAL_KINDS
    assert times_s(arrivals, 9.0, 200) == times_s(arrivals, 9.0, 200)
    assert times_s(arrivals, 9.0, 200) != times_s(arrivals, 9.0, 200, seed=1)


def test_poisson_gaps_vary_as_exponential_ones() -> None:
    between = gaps(times_s(Arrivals(), 10.0, 20_000))
    assert stdev(between) / fmean(between) == pytest.approx(1.0, rel=0.03)
    # P(gap > mean) = 1/e.
    assert fmean(gap > 0.1 for gap in between) == pytest.approx(math.exp(-1), rel=0.03)


@pytest.mark.parametrize("cv", [0.5, 3.0])
def test_gamma_gaps_have_the_coefficient_of_variation_asked_for(cv: float) -> None:
    between = gaps(times_s(Arrivals(kind="gamma", cv=cv), 10.0, 40_000))
    assert stdev(between) / fmean(between) == pytest.approx(cv, rel=0.06)


@pytest.mark.parametrize("kind", ["poisson", "gamma"])
def test_the_same_seed_at_twice_the_rate_is_the_same_pattern_twice_as_fast(kind: str) -> None:
    arrivals = Arrivals(kind=kind)  # type: ignore[arg-type]  # of ARRIVAL_KINDS
    slow, fast = times_s(arrivals, 5.0, 100), times_s(arrivals, 10.0, 100)
    assert fast == pytest.approx([one / 2 for one in slow], abs=1e-8)


def test_a_day_has_its_peak_in_its_first_half_and_its_trough_in_the_second() -> None:
    arrivals = Arrivals(kind="diurnal", amplitude=0.8, period_s=10.0)
    phases = [at % 10.0 for at in times_s(arrivals, 100.0, 40_000)]
    # ∫(1 + a·sin) over the half period is ½ ± a/π.
    assert fmean(one < 5.0 for one in phases) == pytest.approx(0.5 + 0.8 / math.pi, abs=0.01)
    peak = fmean(2.0 <= one < 3.0 for one in phases) / 0.1
    assert peak == pytest.approx(1.0 + 0.8, rel=0.05)


def test_bursts_are_peaks_of_thirteen_ninths_in_the_last_third_of_a_cycle() -> None:
    phases = [at % 30.0 for at in times_s(Arrivals(kind="bursts", cycle_s=30.0), 50.0, 60_000)]
    quiet, peak = fmean(one < 20.0 for one in phases), fmean(one >= 20.0 for one in phases)
    assert quiet / (2 / 3) == pytest.approx(0.7 / 0.9, rel=0.02)
    assert peak / (1 / 3) == pytest.approx(1.3 / 0.9, rel=0.02)


@pytest.mark.parametrize("rate_rps", [0.0, -1.0, math.nan, math.inf, 1e9])
def test_a_rate_that_no_service_has_is_refused_by_its_value_and_limits(rate_rps: float) -> None:
    with pytest.raises(ValueError, match=r"the rate is .* requests/s, the limits are 1e-06 to"):
        Arrivals().times_ns(rate_rps, 0)


def test_times_of_a_trace_are_the_workloads() -> None:
    with pytest.raises(ValueError, match="its rows'"):
        Arrivals(kind="trace").times_ns(1.0, 0)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"kind": "weekly"}, "arrivals are 'weekly', must be trace, poisson"),
        ({"cv": 0.0}, "cv is 0.0, must be above 0"),
        ({"cv": math.nan}, "cv is nan"),
        ({"amplitude": 1.0}, "amplitude is 1.0, must be in"),
        ({"period_s": -1.0}, "period_s is -1.0"),
        ({"cycle_s": math.inf}, "cycle_s is inf"),
    ],
)
def test_what_no_process_can_have_is_refused(values: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Arrivals(**values)  # type: ignore[arg-type]  # wrong on purpose
