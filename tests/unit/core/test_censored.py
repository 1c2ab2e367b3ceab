"""Lower bounds beside completions: the mathematics."""

import heapq
import math
import random
from collections.abc import Sequence
from statistics import NormalDist, fmean

import pytest
from hypothesis import given
from hypothesis import strategies as st

from estimator.core.censored import (
    Anchor,
    Bound,
    Evidence,
    Limits,
    Line,
    Sums,
    impute,
    tail,
    with_bounds,
    young_line,
)
from estimator.core.config import CoreConfig
from estimator.core.learner import AffineRegressor
from estimator.core.learner import Anchor as Prior
from sched_client.model import YOUNG_SAMPLES

LIMITS = Limits(clip_deviations=2.5, gross_deviations=6.0)
FREE = Limits(clip_deviations=math.inf, gross_deviations=math.inf)
LEARNED = Line(3.0, 3.0)
# Ten completions around 4 s.
EVIDENCE = Evidence(
    LEARNED,
    Sums(10.0, 40.0, 180.0, 150.0, 660.0),
    4.0,
    1.0,
    Anchor(Line(3.2, 0.0), 2.0, 7.4, 82.0),
)

sizes = st.floats(min_value=0.1, max_value=30.0)
counts = st.floats(min_value=0.0, max_value=448.0)
bounds = st.lists(st.builds(Bound, sizes, counts, st.floats(1.0, 16.0)), max_size=64)


@pytest.mark.parametrize("z", [-2.5, -1.0, 0.0, 0.7, 2.0, 3.5])
def test_the_tail_is_the_normals(z: float) -> None:
    normal = NormalDist()
    beyond = 1.0 - normal.cdf(z)
    mean, share = tail(z)
    assert mean == pytest.approx(normal.pdf(z) / beyond, rel=1e-9)
    # The variance of what lies above, by the midpoint rule.
    step = 1e-3
    points = [z + step * (i + 0.5) for i in range(8_000)]
    variance = step * sum((x - mean) ** 2 * normal.pdf(x) for x in points) / beyond
    assert share == pytest.approx(1.0 - variance, abs=1e-3)


def test_the_tails_series_meets_the_exact_form() -> None:
    below, above = tail(20.0 - 1e-9), tail(20.0 + 1e-9)
    assert above == pytest.approx(below, rel=1e-3)


@given(st.floats(min_value=-30.0, max_value=1e6))
def test_what_lies_above_is_above(z: float) -> None:
    mean, share = tail(z)
    assert mean >= max(z, 0.0)
    assert 0.0 <= share <= 1.0


def test_a_request_that_just_began_and_one_in_a_loop_say_nothing() -> None:
    assert impute(40.0, 1.0, 0.0, LIMITS) is None
    assert impute(40.0, 1.0, 444.0, LIMITS) is None


@given(st.floats(min_value=1.0, max_value=200.0), st.floats(min_value=0.05, max_value=5.0), counts)
def test_a_bound_is_worth_at_most_a_completion_and_pulls_up_within_the_clip(
    expected: float, scale: float, tokens: float
) -> None:
    imputed = impute(expected, scale, tokens, LIMITS)
    if imputed is not None:
        assert 0.0 < imputed.share <= 1.0
        deviations = (imputed.tokens - expected) / (scale * math.sqrt(expected))
        assert 0.0 < deviations <= LIMITS.clip_deviations + 1e-9


@given(bounds)
def test_bounds_raise_the_level_or_leave_it_and_the_line_is_finite(listed: list[Bound]) -> None:
    without, _ = with_bounds(EVIDENCE, [Bound(4.0, 0.0)], LIMITS)  # the anchor at its level
    (kappa, intercept), share = with_bounds(EVIDENCE, listed, LIMITS)
    assert 0.0 <= share < 1.0
    assert math.isfinite(intercept)
    assert 0.0 <= kappa < math.inf
    # At the centre of what is known; elsewhere the slope may turn.
    centre = EVIDENCE.size
    assert Line(kappa, intercept).at(centre) >= 0.8 * without.at(centre)


@given(bounds, st.integers(min_value=0, max_value=600))
def test_what_runs_fades_with_the_keys_completions(listed: list[Bound], n_seen: int) -> None:
    young = young_line(EVIDENCE, listed, n_seen=0, limits=LIMITS)
    line = young_line(EVIDENCE, listed, n_seen=n_seen, limits=LIMITS)
    if not listed or n_seen >= YOUNG_SAMPLES:
        assert line == LEARNED
    elif abs(young.kappa - LEARNED.kappa) > 1e-6:
        share = (line.kappa - LEARNED.kappa) / (young.kappa - LEARNED.kappa)
        assert share == pytest.approx(0.985 ** max(n_seen - 20, 0), rel=1e-6)


def test_the_line_is_the_maximum_of_the_censored_likelihood() -> None:
    # One weight for all, so that the likelihood is the textbook's; the anchor has none.
    size, scale, n_done, done = 5.0, 0.9, 10.0, 15.0
    sums = Sums(n_done, n_done * size, n_done * size**2, n_done * done, n_done * size * done)
    anchor = Anchor(Line(3.2, 0.0), 0.0, 7.4, 82.0)
    evidence = Evidence(Line(0.0, done), sums, size, scale, anchor)
    running = [Bound(size, 10.0 + i) for i in range(12)]
    level = with_bounds(evidence, running, FREE)[0].at(size)

    def score(mean: float) -> float:
        """Give the derivative of the log-likelihood; the variance is taken as known."""
        deviation = scale * math.sqrt(mean)
        censored = sum(tail((bound.tokens - mean) / deviation)[0] for bound in running)
        return n_done * (done - mean) / deviation + censored

    assert score(level * 0.98) > 0.0 > score(level * 1.02)
    assert level > 1.05 * done


def _regression() -> AffineRegressor:
    config = CoreConfig()
    prior = Prior(
        kappa=config.prior_kappa_tokens_per_s,
        intercept=config.prior_intercept_tokens,
        mean_size=config.prior_mean_audio_s,
        sd_size=config.prior_sd_audio_s,
        relative_error=config.prior_relative_error,
    )
    return AffineRegressor(parent=prior)


def _first_of_64(n_done: int, clips: Sequence[tuple[float, int]]) -> tuple[Evidence, list[Bound]]:
    """Give what is learned once so many of 64 together have finished, and what runs then."""
    regression = _regression()
    waiting = iter(clips)
    running = [(tokens, size, 0) for size, tokens in (next(waiting) for _ in range(64))]
    heapq.heapify(running)
    now = 0
    for _ in range(n_done):
        now, size, begun = heapq.heappop(running)
        regression.learn_one({"size": size}, float(now - begun))
        size, tokens = next(waiting)
        heapq.heappush(running, (now + tokens, size, now))
    line = Line(regression.kappa_, regression.intercept_)
    prior = regression.parent
    anchor = Anchor(
        Line(prior.kappa_, prior.intercept_), regression.pull_, prior.size_1_, prior.size_2_
    )
    scale = regression.temper.scale_
    evidence = Evidence(line, regression.sums(), regression.size_1_, scale, anchor)
    return evidence, [Bound(size, float(now - begun)) for _, size, begun in running]


def _bias_after(n_done: int, clips: Sequence[tuple[float, int]], *, cured: bool) -> float:
    """Give the relative error at the mean clip once so many of 64 together have finished."""
    evidence, listed = _first_of_64(n_done, clips)
    line = evidence.line
    if cured:
        line = young_line(evidence, listed, n_seen=n_done, limits=LIMITS)
    mean_size = fmean(size for size, _ in clips)
    return line.at(mean_size) / fmean(tokens for _, tokens in clips) - 1.0


def test_the_first_finishers_of_64_are_no_longer_taken_for_all() -> None:
    naive, cured = [], []
    for seed in range(30):
        rng = random.Random(seed)
        sizes_s = [rng.uniform(2.0, 12.0) for _ in range(200)]
        means = [3.0 + 4.5 * size_s for size_s in sizes_s]
        # A deviation of √tokens, as the traces have it (0.8 to 1.2).
        tokens = [max(1, round(rng.gauss(mean, math.sqrt(mean)))) for mean in means]
        clips = list(zip(sizes_s, tokens, strict=True))
        naive.append(_bias_after(10, clips, cured=False))
        cured.append(_bias_after(10, clips, cured=True))
    assert fmean(naive) < -0.2
    # An anchor without an intercept carries the short ones' tokens per second to long ones.
    assert abs(fmean(cured)) < 0.1


def test_a_step_that_only_turns_the_line_does_not_end_the_search() -> None:
    # What the first ten of 64 clips of read speech taught, and how many ran by their lengths: its
    # level at the ten's mean is right where it is, and what long ones want is not. Told was 41 %
    # too little.
    evidence = Evidence(
        Line(0.45, 5.83),
        Sums(13.2, 36.3, 112.5, 89.0, 249.9),
        2.74,
        1.01,
        Anchor(Line(3.2, 0.0), 1.0, 7.4, 81.8),
    )
    running = {
        2.3: 1, 2.5: 1, 2.7: 2, 2.9: 1, 3.0: 2, 3.2: 1, 3.3: 1, 3.4: 1, 3.9: 2, 4.0: 5, 5.0: 11,
        6.0: 4, 7.0: 2, 8.0: 2, 9.0: 3, 10.0: 4, 11.0: 3, 12.0: 2, 15.0: 1, 17.0: 3, 18.0: 1,
        22.0: 1,
    }  # fmt: skip
    listed = [Bound(size, 9.0, float(count)) for size, count in running.items()]
    listed += [Bound(size, 0.0) for size in (2.1, 2.5, 2.6)]
    line, _ = with_bounds(evidence, listed, LIMITS)
    again, _ = with_bounds(evidence._replace(line=line), listed, LIMITS)
    for size in (evidence.size, 7.4, 20.0):
        assert again.at(size) == pytest.approx(line.at(size), rel=0.05)


@given(bounds)
def test_what_is_taken_off_grows_with_the_share_of_bounds_up_to_a_tenth(
    listed: list[Bound],
) -> None:
    # Those that have only begun say nothing, so nothing is taken off.
    begun = [Bound(20.0 + size, 0.0) for size, *_ in listed]
    for said in (begun, listed):
        told = young_line(EVIDENCE, said, n_seen=10, limits=LIMITS)
        among_all = EVIDENCE._replace(scale=1.35 * EVIDENCE.scale)
        likely, share = with_bounds(among_all, said, LIMITS)
        if not said:
            assert told == LEARNED
            continue
        assert told.kappa == pytest.approx(math.exp(-0.1 * share**0.5) * likely.kappa, rel=1e-9)
        assert 0.9 * likely.kappa <= told.kappa <= likely.kappa
    _, of_none = with_bounds(EVIDENCE, begun, LIMITS)
    assert of_none == 0.0


def test_more_that_run_are_a_greater_share() -> None:
    shares = [with_bounds(EVIDENCE, [Bound(4.0, 15.0)] * n, LIMITS)[1] for n in (0, 1, 4, 16, 64)]
    assert shares == sorted(set(shares))
    assert shares[-1] > 0.5


def test_the_anchors_level_is_worth_a_completion_where_nothing_runs_that_says_anything() -> None:
    # One completion of twice the tokens that the anchor expects of it, at the anchor's own size.
    size, hoped = 7.4, 3.2 * 7.4
    sums = Sums(1.0, size, size * size, 2.0 * hoped, 2.0 * hoped * size)
    anchor = Anchor(Line(3.2, 0.0), 1.0, size, 82.0)
    evidence = Evidence(Line(3.2, 0.0), sums, size, 1.0, anchor)
    line, share = with_bounds(evidence, [Bound(25.0, 0.0)], LIMITS)
    assert share == 0.0
    # The anchor's shape at (2 + 1)/(1 + 1) of its level, and that as much as the completion.
    assert line.at(size) == pytest.approx((2.0 + 1.5) / 2.0 * hoped, rel=1e-6)
