"""What is left of a request that has produced some of its tokens.

A request that vLLM preempts keeps its tokens and loses what was computed for them: it computes
its prompt and them again, and then goes on. Standard library only, no clock.
"""

from math import expm1, log
from typing import Final

from sched_client.model import WHISPER_MAX_TOKENS, Estimate, ServiceTime

__all__ = ["expected_total_tokens", "remaining_service_s", "remaining_tokens"]

# Whoever has not ended has a token to come.
_LEAST_TOKENS: Final = 1.0
# Shares of requests that are longer than p50, p90 and p99.
_HALF: Final = 0.5
_TENTH: Final = 0.1
_HUNDREDTH: Final = 0.01
# Beside exponents this close to 1 the integral below is its limit.
_TINY: Final = 1e-9


def remaining_tokens(
    estimate: Estimate, produced_tokens: float, max_tokens: int | None = None
) -> float:
    """Give the tokens that a request is expected to produce yet.

    Parameters
    ----------
    estimate : Estimate
        Made before it ran, finite.
    produced_tokens : float
        What it has produced, ≥ 0.
    max_tokens : int or None
        The most it may produce; Whisper's limit by default, as in `sched_client.model.evaluate`.

    Returns
    -------
    float
        At least 1; ``estimate.tokens`` of a request that has produced nothing.

    Notes
    -----
    `expected_total_tokens` less what was produced.

    Examples
    --------
    >>> one = Estimate(100.0, 100.0, 150.0, 250.0, 1.0, "q0", "learned", 1)
    >>> remaining_tokens(one, 0)
    100.0
    >>> round(remaining_tokens(one, 20), 1)
    81.3
    >>> [round(remaining_tokens(one, n)) for n in (100, 150, 250, 400)]
    [32, 42, 62, 37]
    """
    total = expected_total_tokens(estimate, produced_tokens, max_tokens)
    return max(total - produced_tokens, _LEAST_TOKENS)


def expected_total_tokens(
    estimate: Estimate, produced_tokens: float, max_tokens: int | None = None
) -> float:
    """Give the length that is expected of a request, given that it is longer than so much.

    Parameters
    ----------
    estimate, produced_tokens, max_tokens
        As `remaining_tokens`.

    Returns
    -------
    float
        From ``estimate.tokens`` for nothing produced up to ``max_tokens``.

    Notes
    -----
    The survival S of the length goes through S(p50) = 0.5, S(p90) = 0.1 and S(p99) = 0.01, by a
    power of the length between them and on beyond p99: quantiles here are those of a ratio of
    actual to expected, and a power law between them is the same whatever the unit. From p50 on,
    the expected length given survival is k + ∫ S / S(k), integrated from k to the limit, the
    mean residual life (Hall and Wellner, "Mean residual life", 1981). Below p50 the quantiles
    say nothing of who ends when; the square of the share of p50 that was produced leads from the
    estimate to the value at p50. On LibriSpeech's and Azure's lengths this is within a few
    percent of the mean of those that got so far (tests/unit/test_remaining.py).

    Continuous and never falling in ``produced_tokens``, never below the estimate, and
    proportional where all lengths are.
    """
    limit = float(max_tokens or WHISPER_MAX_TOKENS)
    produced = max(produced_tokens, 0.0)
    if produced == 0.0 or produced >= limit:
        return max(estimate.tokens, produced)
    p50 = min(estimate.tokens_p50, limit)
    if produced >= p50:
        total = produced + _residual_life(estimate, produced, limit)
    else:
        at_p50 = p50 + _residual_life(estimate, p50, limit)
        share = produced / p50
        total = estimate.tokens + (at_p50 - estimate.tokens) * share * share
    return min(max(total, estimate.tokens), limit)


def remaining_service_s(
    service: ServiceTime, *, prompt_tokens: int, produced_tokens: int, remaining: float
) -> float:
    """Give the work that a preempted request will be from its next admission on.

    Parameters
    ----------
    service : ServiceTime
        Of its model.
    prompt_tokens : int
        Length of its prompt; computed again with all that it has produced.
    produced_tokens : int
        What it has produced.
    remaining : float
        `remaining_tokens`.

    Returns
    -------
    float
        Seconds of one slot, > 0, as `ServiceTime.service_s` of a request whose prompt is all that
        is computed again.

    Notes
    -----
    The encoder's pass, part of ``overhead_s``, is needed again too: vLLM frees what it gave when
    a request is preempted.
    """
    return service.service_s(prompt_tokens + produced_tokens, remaining)


def _residual_life(estimate: Estimate, produced: float, limit: float) -> float:
    """Integrate survival from ``produced`` ≥ p50 to the limit, over its value there."""
    p50, p90 = estimate.tokens_p50, max(estimate.tokens_p90, estimate.tokens_p50)
    p99 = max(estimate.tokens_p99, p90)
    pieces = (
        (p50, p90, _HALF, _TENTH),
        (p90, p99, _TENTH, _HUNDREDTH),
    )
    total, alive, at = 0.0, 1.0, produced
    power = 0.0
    for low, high, share, share_after in pieces:
        if high > low:
            power = log(share / share_after) / log(high / low)
        elif produced < low:
            alive *= share_after / share  # they end together, at this one length
        end = min(high, limit)
        if at < end:
            more, left = _power_law(at, end, power)
            total += alive * more
            alive *= left
            at = end
    if at < limit and power > 0.0:
        total += alive * _power_law(at, limit, power)[0]
    return total


def _power_law(low: float, high: float, power: float) -> tuple[float, float]:
    """Integrate (x / low)^-power from low to high; give that and its value at high."""
    length = log(high / low)
    exponent = (1.0 - power) * length
    area = low * length * (expm1(exponent) / exponent if abs(exponent) > _TINY else 1.0)
    return area, expm1(-power * length) + 1.0
