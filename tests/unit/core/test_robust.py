import random

import pytest

from estimator.core.robust import Temper


def settled(seed: int = 0) -> Temper:
    temper = Temper(1.0)
    rng = random.Random(seed)
    for _ in range(2_000):
        temper.judge(10.0 + rng.gauss(0.0, 2.0), 10.0, 1.0)
    temper.streak_ = 0
    return temper


def test_scale_becomes_the_standard_deviation_of_normal_residuals() -> None:
    scales = [settled(seed).scale_ for seed in range(10)]
    assert sum(scales) / len(scales) == pytest.approx(2.0, rel=0.1)


def test_scale_is_hardly_moved_by_one_in_twenty_gross_residuals() -> None:
    clean, dirty = Temper(1.0), Temper(1.0)
    rng = random.Random(1)
    ratios = []
    for i in range(4_000):
        residual = rng.gauss(0.0, 2.0)
        clean.judge(residual, 0.0, 1.0)
        dirty.judge(400.0 if i % 20 == 0 else residual, 0.0, 1.0)
        ratios.append(dirty.scale_ / clean.scale_)
    assert sum(ratios[1_000:]) / 3_000 == pytest.approx(1.0, abs=0.15)


def test_an_ordinary_value_is_learned_as_it_is() -> None:
    temper = settled()
    assert temper.judge(11.0, 10.0, 1.0)[0] == 11.0


def test_a_large_residual_is_pulled_in() -> None:
    temper = settled()
    value, deviation = temper.judge(10.0 + 4.0 * temper.scale_, 10.0, 1.0)
    assert value == pytest.approx(10.0 + 2.5 * deviation)


def test_a_lone_gross_residual_teaches_nothing() -> None:
    assert settled().judge(444.0, 10.0, 1.0)[0] is None


def test_alternating_gross_residuals_never_pass() -> None:
    temper = settled()
    for _ in range(4):
        assert temper.judge(444.0, 10.0, 1.0)[0] is None
        assert temper.judge(-444.0, 10.0, 1.0)[0] is None


def test_a_change_of_level_passes_whole_within_eight_completions() -> None:
    temper = settled()
    values = [temper.judge(60.0, 10.0, 1.0)[0] for _ in range(8)]
    learned = [value for value in values if value is not None]
    assert learned == sorted(learned)
    assert learned[-1] == 60.0


def test_scale_stays_positive_on_noise_free_data() -> None:
    temper = Temper(1.0)
    for _ in range(10_000):
        temper.judge(5.0, 5.0, 1.0)
    assert 1e-4 < temper.scale_ <= 1e-3


def test_state_round_trip_judges_alike() -> None:
    temper = settled()
    temper.judge(444.0, 10.0, 1.0)
    other = Temper(3.0).restore(temper.state())
    assert [other.judge(y, 10.0, 1.0) for y in (444.0, 3.0, 18.0)] == [
        temper.judge(y, 10.0, 1.0) for y in (444.0, 3.0, 18.0)
    ]


def test_a_damaged_state_is_refused() -> None:
    with pytest.raises(ValueError, match="finite and > 0"):
        Temper(1.0).restore([float("nan"), 1, 0])
