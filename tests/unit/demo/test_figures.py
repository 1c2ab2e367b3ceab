from pathlib import Path

import pytest

from estimator.demo.figures import figures_of, p50_gain, quantile, throughput_ratio
from estimator.demo.load import Arrival, Outcome


def outcomes(latencies: list[float], *, status: int = 200) -> list[Outcome]:
    return [
        Outcome(
            arrival=Arrival(due_s=float(i), clip=Path("a.wav")),
            sent_s=i + 0.01,
            finished_s=i + latency,
            status=status,
            body="{}",
        )
        for i, latency in enumerate(latencies)
    ]


def test_quantile_interpolates() -> None:
    assert quantile([1.0, 2.0, 4.0], 0.5) == 2.0
    assert quantile([1.0, 2.0], 0.25) == 1.25
    assert quantile([3.0], 0.99) == 3.0


def test_figures_of_a_run() -> None:
    figures = figures_of(outcomes([2.0, 4.0, 2.0]) + outcomes([9.0], status=500))
    assert (figures.n, figures.failed) == (4, 1)
    assert figures.p50_s == 2.0
    assert figures.longest_s == 4.0
    assert figures.mean_s == pytest.approx(8.0 / 3.0)
    # From the first arrival at 0 s to the last end, at 9 s.
    assert figures.throughput_rps == pytest.approx(3.0 / 9.0)
    assert figures.send_delay_s == pytest.approx(0.01)


def test_a_run_without_any_answer_is_an_error_that_quotes_one() -> None:
    with pytest.raises(ValueError, match=r"no request .* \{\}"):
        figures_of(outcomes([1.0], status=500))


def test_comparison() -> None:
    slow, fast = figures_of(outcomes([4.0])), figures_of(outcomes([1.0]))
    assert p50_gain(slow, fast) == pytest.approx(0.75)
    assert p50_gain(fast, slow) == pytest.approx(-3.0)
    assert throughput_ratio(slow, fast) == pytest.approx(4.0)
