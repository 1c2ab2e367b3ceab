"""What a run amounts to: latencies, throughput, and the comparison of two runs."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from estimator.demo.load import Outcome

# What issue 2 sets out to reach.
P50_GAIN_GOAL: Final = 0.35
THROUGHPUT_RATIO_GOAL: Final = 0.99


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFigures:
    """Figures of one run, latencies from the scheduled arrival to the whole answer.

    Attributes
    ----------
    n, failed : int
        Requests sent, and those without a transcription.
    p50_s, p90_s, p99_s, mean_s, longest_s : float
        Latency.
    throughput_rps : float
        Transcriptions per second from the first arrival to the last answer.
    send_delay_s : float
        The most by which the client itself was late; a large one would spoil the run.
    """

    n: int
    failed: int
    p50_s: float
    p90_s: float
    p99_s: float
    mean_s: float
    longest_s: float
    throughput_rps: float
    send_delay_s: float


def figures_of(outcomes: Sequence[Outcome]) -> RunFigures:
    """Work the figures out; raises ValueError if nothing came back."""
    good = [o for o in outcomes if o.ok]
    if not good:
        body = outcomes[0].body[:200] if outcomes else "no requests"
        raise ValueError(f"no request of the run was answered: {body}")
    latencies = sorted(o.latency_s for o in good)
    first = min(o.arrival.due_s for o in outcomes)
    span_s = max(o.finished_s for o in outcomes) - first
    return RunFigures(
        n=len(outcomes),
        failed=len(outcomes) - len(good),
        p50_s=quantile(latencies, 0.50),
        p90_s=quantile(latencies, 0.90),
        p99_s=quantile(latencies, 0.99),
        mean_s=sum(latencies) / len(latencies),
        longest_s=latencies[-1],
        throughput_rps=len(good) / span_s,
        send_delay_s=max(o.sent_s - o.arrival.due_s for o in outcomes),
    )


def quantile(ordered: Sequence[float], q: float) -> float:
    """Interpolate a quantile of ascending values, as numpy's default does."""
    place = q * (len(ordered) - 1)
    low = int(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (place - low) * (ordered[high] - ordered[low])


def p50_gain(before: RunFigures, after: RunFigures) -> float:
    """Give by what share the median latency fell, negative if it rose."""
    return 1.0 - after.p50_s / before.p50_s


def throughput_ratio(before: RunFigures, after: RunFigures) -> float:
    """Give the later throughput over the earlier one."""
    return after.throughput_rps / before.throughput_rps
