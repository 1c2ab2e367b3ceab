import math
import random
import statistics
from collections.abc import Iterable

import pytest

from estimator.core.outliers import Outliers

EXPECTED = 30.0


def judge(outliers: Outliers, y: float, expected: float = EXPECTED) -> float | None:
    return outliers.judge(y, expected, typical=EXPECTED, prior=32.0)[0]


def taught(values: Iterable[float], scale: float = 2.0) -> Outliers:
    outliers = Outliers(scale)
    for y in values:
        judge(outliers, y)
    return outliers


def normal(n: int, seed: int = 0, sd: float = 8.0) -> list[float]:
    rng = random.Random(seed)
    return [rng.gauss(EXPECTED, sd) for _ in range(n)]


def test_scale_becomes_the_standard_deviation_of_normal_residuals() -> None:
    scales = [taught(normal(2_000, seed)).scale_ for seed in range(10)]
    assert statistics.fmean(scales) == pytest.approx(8.0 / math.sqrt(EXPECTED), rel=0.05)


def test_an_ordinary_value_is_learned_as_it_is() -> None:
    assert judge(taught(normal(500)), 38.0) == 38.0


def test_a_lone_large_residual_is_pulled_in_to_three_deviations() -> None:
    outliers = taught(normal(500))
    value, deviation = outliers.judge(80.0, EXPECTED, typical=EXPECTED, prior=32.0)
    assert value == pytest.approx(EXPECTED + 3.0 * deviation)
    assert deviation == pytest.approx(8.0, rel=0.2)


def test_loops_at_one_in_twenty_teach_neither_a_mean_nor_a_spread() -> None:
    clean, spoilt = Outliers(2.0), Outliers(2.0)
    rng = random.Random(3)
    for y in normal(10_000):
        judge(clean, y)
        judge(spoilt, y)
        if rng.random() < 0.05:
            assert judge(spoilt, 444.0) is None
    assert spoilt.scale_ == pytest.approx(clean.scale_, rel=1e-9)


def test_empty_transcripts_at_one_in_twenty_teach_nothing() -> None:
    # They are within three deviations of so wide a spread.
    outliers = taught(normal(500, sd=12.0))
    rng = random.Random(4)
    for y in normal(10_000, 5, sd=12.0):
        judge(outliers, max(y, 10.0))
        if rng.random() < 0.05:
            assert judge(outliers, 1.0) is None


@pytest.mark.parametrize(("share", "within"), [(0.6, 20), (0.3, 45), (0.2, 110)])
def test_what_keeps_coming_is_no_outlier(share: float, within: int) -> None:
    taken = []
    for seed in range(20):
        outliers = taught([EXPECTED] * 200)
        rng = random.Random(seed)
        for n in range(1, 400):
            y = 3.0 * EXPECTED if rng.random() < share else EXPECTED
            if judge(outliers, y) == y != EXPECTED:
                taken.append(n)
                break
    assert len(taken) == 20
    assert statistics.median(taken) <= within


def test_silence_that_keeps_coming_is_learned() -> None:
    outliers = taught(normal(200))
    values = [judge(outliers, 2.0 if i % 2 else EXPECTED) for i in range(40)]
    assert values[1] is None
    assert values[-1] == 2.0


def test_loops_that_keep_coming_count_four_times_what_was_expected_at_most() -> None:
    outliers = taught(normal(200))
    values = [judge(outliers, 444.0) for _ in range(20)]
    assert values[:4] == [None] * 4
    assert values[-1] == 4.0 * EXPECTED


def test_what_the_prior_expects_is_never_implausible() -> None:
    # Long silences were all there was; then somebody speaks.
    outliers = Outliers(2.0)
    for _ in range(100):
        outliers.judge(3.0, 3.0, typical=3.0, prior=32.0)
    value, _ = outliers.judge(40.0, 3.0, typical=3.0, prior=32.0)
    assert value is not None
    value, _ = outliers.judge(444.0, 3.0, typical=3.0, prior=32.0)
    assert value is None


def test_the_same_clip_again_and_again_leaves_a_tenth_of_spread() -> None:
    outliers = taught([EXPECTED] * 5_000)
    assert outliers.scale_ == pytest.approx(0.1 * math.sqrt(EXPECTED))


def test_the_scale_takes_in_a_second_mode() -> None:
    outliers = taught([EXPECTED] * 300)
    rng = random.Random(6)
    mean = 1.4 * EXPECTED
    sent = [3.0 * EXPECTED if rng.random() < 0.2 else EXPECTED for _ in range(1_000)]
    values = [judge(outliers, y, mean) for y in sent]
    assert values[200:] == sent[200:]


@pytest.mark.parametrize("tokens", [90_000.0, 372_000.0, 1_400_000.0])
def test_a_day_of_audio_among_utterances_leaves_their_spread(tokens: float) -> None:
    # It was 0.1·√372,000 = 61 after one, and for hundreds of utterances nothing was an outlier.
    outliers = taught(normal(500))
    scale, dispersion = outliers.scale_, outliers.dispersion_
    judge(outliers, tokens, 372_000.0)
    assert outliers.scale_ <= 1.1 * scale
    # It was 245 times as much, and hid changes for as long.
    assert outliers.dispersion_ <= 2.0 * dispersion
    assert judge(outliers, 444.0) is None


def test_a_run_of_days_without_speech_widens_the_spread_by_as_much_as_one_mode_may() -> None:
    outliers = taught(normal(500))
    before = outliers.scale_
    for _ in range(10):
        judge(outliers, 1.0, 372_000.0)
    # Three were learned, each of 64 squared deviations at most: √(1 + 0.015·63) = 1.4.
    assert outliers.scale_ <= 1.4**3 * before


def test_a_new_keys_first_completions_may_be_far_off() -> None:
    # A parent whose clips were all the same says little of another language.
    outliers = Outliers(0.1 * math.sqrt(EXPECTED))
    assert judge(outliers, 2.0 * EXPECTED) == 2.0 * EXPECTED
    settled = taught([EXPECTED] * 300)
    value = judge(settled, 2.0 * EXPECTED)
    assert value is not None
    assert value < 1.5 * EXPECTED


def test_dispersion_is_that_of_a_sum() -> None:
    rng = random.Random(7)
    outliers = Outliers(2.0)
    variances = means = 0.0
    for _ in range(4_000):
        expected = rng.uniform(5.0, 80.0)
        sd = 0.3 * expected
        outliers.judge(rng.gauss(expected, sd), expected, typical=42.5, prior=expected)
        variances += sd * sd
        means += expected
    assert outliers.dispersion_ == pytest.approx(variances / means, rel=0.25)
    assert outliers.dispersion_ > 1.1 * outliers.scale_**2


def test_state_round_trip_judges_alike() -> None:
    outliers = taught([*normal(50), 444.0, 1.0])
    other = Outliers(3.0).restore(outliers.state())
    following = [*normal(50, 1), 444.0, 444.0, 1.0, 90.0]
    assert [judge(other, y) for y in following] == [judge(outliers, y) for y in following]
    assert other.state() == outliers.state()


@pytest.mark.parametrize(
    ("state", "named"),
    [
        ([math.nan, 1.0, 0, 0.0, 0.0], "spreads"),
        ([1.0, math.inf, 0, 0.0, 0.0], "spreads"),
        ([0.0, 1.0, 0, 0.0, 0.0], "spreads"),
        ([1.0, 1.0, 0, -1.0, 0.0], "evidence"),
        ([1.0, 1.0, 0, 0.0, 11.0], "evidence"),
    ],
)
def test_a_damaged_state_is_refused(state: list[float], named: str) -> None:
    with pytest.raises(ValueError, match=named):
        Outliers(1.0).restore(state)
