import math

import pytest

from estimator.core.observation import Completion
from estimator.evaluation.coverage import FixedResiduals, intervals_of
from estimator.evaluation.metrics import Record


def _completion(audio_s: float, tokens: int, language: str = "") -> Completion:
    return Completion(
        completion_id="a", audio_s=audio_s, output_tokens=tokens, language=language, finished_s=1.0
    )


def _record(actual: int, p90: float, size: float) -> Record:
    return Record(0, size, actual, 10.0, 10.0, p90, 30.0)


def test_figures_by_hand() -> None:
    found = intervals_of(
        [
            _record(8, 12.0, 1.0),
            _record(14, 12.0, 2.0),
            _record(10, 20.0, 3.0),
            _record(8, 8.0, 4.0),
        ]
    )
    assert (found.n, found.p50, found.p90, found.p99) == (4, 0.75, 0.75, 1.0)
    assert found.excess_ratio == pytest.approx((4 - 2 + 10 + 0) / 40)
    assert found.pinball_ratio == pytest.approx((0.1 * 4 + 0.9 * 2 + 0.1 * 10) / 40)
    assert (found.shorter_p90, found.longer_p90) == (0.5, 1.0)


def test_figures_of_nothing_are_no_numbers() -> None:
    found = intervals_of([])
    assert found.n == 0
    assert all(map(math.isnan, found[1:]))


def test_the_fixed_interval_starts_at_the_prior() -> None:
    subject = FixedResiduals()
    assert subject.predict(_completion(10.0, 1)) == pytest.approx((32.0, 32.0, 48.0, 80.0))


def test_the_fixed_interval_is_the_conformal_quantile_of_all_past_residuals() -> None:
    subject = FixedResiduals()
    # Σn/Σd stays at 4, so residuals are what is put in: 1/2 to 3/2 of 40, and 1 in between.
    ratios = [0.5, 1.5, 0.8, 1.2, 0.9, 1.1, 0.6, 1.4, 0.7, 1.3]
    subject.learn(_completion(1e6, 4_000_000), ())
    for ratio in ratios:
        subject.learn(_completion(10.0, round(40 * ratio)), ())
    tokens, p50, p90, p99 = subject.predict(_completion(10.0, 1))
    # Eleven residuals, the first 4/3.2 against the prior: ranks ⌈12 · level⌉ = 6, 11 and 12.
    expected = sorted([*ratios, 4.0 / 3.2])
    assert tokens == pytest.approx(40.0, rel=1e-4)
    assert p50 / tokens == pytest.approx(expected[5], rel=1e-3)
    assert p90 / tokens == p99 / tokens == pytest.approx(expected[10], rel=1e-3)


def test_the_fixed_interval_keeps_keys_apart_and_predicting_teaches_nothing() -> None:
    subject = FixedResiduals()
    subject.learn(_completion(10.0, 60, "fr"), ())
    before = subject.predict(_completion(10.0, 1, "fr"))
    assert subject.predict(_completion(10.0, 1, "en")).tokens == pytest.approx(32.0)
    assert subject.predict(_completion(10.0, 1, "fr")) == before
    assert before.tokens == pytest.approx(60.0)
