"""What requests that have not finished say of κ: their tokens so far are lower bounds.

In a closed loop short requests report first, so the first completions of a key are those that
produced least: κ of the first ten of 64 that started together is 8 to 33 % low on eight traces.
Owns the mathematics that puts the others beside them. Knows nothing of keys, clients or time
(`estimator.core.running` does).
"""

import math
from collections.abc import Sequence
from typing import Final, NamedTuple, Protocol

from sched_client.model import YOUNG_SAMPLES

# A bound that says less than this share of what a completion says is skipped.
_LEAST_SHARE: Final = 0.02
# Where that share is: δ(-2.75) = 0.02. Spares two exponentials for requests that just began.
_LEAST_DEVIATIONS: Final = -2.75
# Newton's steps: three to five reach the tolerance on the traces.
_MAX_STEPS: Final = 8
_TOLERANCE_RATIO: Final = 2e-3
# One step moves the level by this factor at most, so that none ends where every bound is gross.
_MAX_STEP_RATIO: Final = 2.0
# As in `estimator.core.learner`: a completion counts as its mean one does, more if it is shorter.
_MAX_WEIGHT: Final = 4.0
# As there: below this share of w·Σws² the sizes are one and the same.
_COLLINEAR: Final = 1e-12
# Completions that a factor of 1 on the anchor counts for: it only keeps the first one from
# deciding alone. 0.1 to 1 gave biases within 1.1 % of each other after 10 completions.
_FACTOR_SHRINKAGE: Final = 0.3
# What running requests count, beside the line that was learned, fades by this with each
# completion of a key: half after 46, 2 % after 259. Those that ran when the sums' memory begins
# are missing from them as those that run now are, so an old key has no bias and full weight would
# give it one of +3 %. 0.98, 0.985 and 0.99 left -5.2, -4.4 and -3.6 % after 10 completions and
# +0.5, +2.2 and +4.3 % after 40.
_FADING: Final = 0.985
_ROOT_HALF: Final = math.sqrt(0.5)
_ROOT_TWO_OVER_PI: Final = math.sqrt(2.0 / math.pi)
# From here on the asymptotic series of the tail is exact to 1e-6; erfc is 0 beyond 38.
_FAR: Final = 20.0


class Line(NamedTuple):
    """Tokens expected of a size: ``intercept + kappa · size``."""

    kappa: float
    intercept: float

    def at(self, size: float) -> float:
        """Give the tokens expected of a size, ≥ 1."""
        return max(self.intercept + self.kappa * size, 1.0)


class Anchor(NamedTuple):
    """The line that another one shrinks toward.

    Attributes
    ----------
    line : Line
        A parent's or a prior's.
    weight : float
        Completions that it counts for, ≥ 0.
    size_1, size_2 : float
        Mean of the sizes that it is believed at, and of their squares.
    """

    line: Line
    weight: float
    size_1: float
    size_2: float


class Evidence(NamedTuple):
    """What a line rests on.

    Attributes
    ----------
    line : Line
        What was learned.
    weight : float
        Completions that it counts for, those of the anchor included, > 0.
    size_1, size_2 : float
        Mean of their sizes, and of the squares.
    scale : float
        Robust deviation of a residual, in units of √(expected tokens), > 0.
    anchor : Anchor
        What it shrinks toward.
    """

    line: Line
    weight: float
    size_1: float
    size_2: float
    scale: float
    anchor: Anchor


class Fitted(Protocol):
    """A line and where it was fitted."""

    @property
    def kappa_(self) -> float:
        """Tokens for each unit of size."""

    @property
    def intercept_(self) -> float:
        """Tokens at size 0."""

    @property
    def size_1_(self) -> float:
        """Mean size."""

    @property
    def size_2_(self) -> float:
        """Mean of the squared sizes."""


def evidence_of(
    fitted: Fitted, *, weight: float, scale: float, parent: Fitted, pull: float
) -> Evidence:
    """Collect a regression's evidence.

    Parameters
    ----------
    fitted, parent : Fitted
        The regression and what it shrinks toward.
    weight, pull : float
        Completions that the regression rests on, and that the parent counts for beside them.
    scale : float
        As in `Evidence`.
    """
    return Evidence(
        Line(fitted.kappa_, fitted.intercept_),
        weight + pull,
        fitted.size_1_,
        fitted.size_2_,
        scale,
        Anchor(Line(parent.kappa_, parent.intercept_), pull, parent.size_1_, parent.size_2_),
    )


class Limits(NamedTuple):
    """How far a bound may pull, in robust deviations (`estimator.core.config.CoreConfig`)."""

    clip_deviations: float
    gross_deviations: float


class Bound(NamedTuple):
    """A request that wants more than ``tokens``, and for how many such it stands."""

    size: float
    tokens: float
    count: float = 1.0


class Imputed(NamedTuple):
    """What a bound is worth: a completion of ``tokens`` that counts ``share``, in (0, 1]."""

    tokens: float
    share: float


def tail(z: float) -> tuple[float, float]:
    """Give λ and δ of a standard normal that is known to lie above ``z``.

    Parameters
    ----------
    z : float
        Where it is cut, finite.

    Returns
    -------
    tuple of float
        λ = φ(z)/(1 - Φ(z)), the mean of what lies above; δ = λ(λ - z), what the bound says beside
        a completion, in [0, 1]: the variance of what lies above is 1 - δ.

    References
    ----------
    Tobin (1958), Estimation of relationships for limited dependent variables, Econometrica 26.
    """
    if z > _FAR:
        mean = z + 1.0 / z - 2.0 / z**3
    else:
        mean = _ROOT_TWO_OVER_PI * math.exp(-0.5 * z * z) / math.erfc(z * _ROOT_HALF)
    return mean, min(max(mean * (mean - z), 0.0), 1.0)


def impute(expected: float, scale: float, tokens: float, limits: Limits) -> Imputed | None:
    """Turn a lower bound into what a least-squares fit can take.

    Parameters
    ----------
    expected : float
        What its size lets expect, > 0.
    scale : float
        As in `Evidence`.
    tokens : float
        The bound, ≥ 0.
    limits : Limits
        Beyond ``gross_deviations`` it is a repetition loop and says nothing; no bound pulls
        farther than ``clip_deviations``.

    Returns
    -------
    Imputed or None
        One step of Newton's method on the censored likelihood is least squares with these. None
        where the bound says nothing: far below what was expected, or gross.
    """
    deviation = scale * math.sqrt(expected)
    z = (tokens - expected) / deviation
    if not _LEAST_DEVIATIONS <= z <= limits.gross_deviations:
        return None
    mean, share = tail(z)
    if share < _LEAST_SHARE:
        return None
    return Imputed(expected + deviation * min(mean / share, limits.clip_deviations), share)


def young_line(
    evidence: Evidence, bounds: Sequence[Bound], *, n_seen: int, limits: Limits
) -> Line:
    """Put the requests that still run beside what a young key has learned.

    Parameters
    ----------
    evidence : Evidence
        What was learned from completions; it is not changed.
    bounds : sequence of Bound
        The key's running requests.
    n_seen : int
        Completions of the key, ≥ 0.
    limits : Limits
        How far a bound may pull.

    Returns
    -------
    Line
        The learned one where no request runs, and more of it with each completion.
    """
    learned = evidence.line
    if not bounds or n_seen >= YOUNG_SAMPLES:
        return learned
    likely = with_bounds(evidence, bounds, limits)
    share = _FADING**n_seen
    return Line(
        learned.kappa + share * (likely.kappa - learned.kappa),
        learned.intercept + share * (likely.intercept - learned.intercept),
    )


def with_bounds(evidence: Evidence, bounds: Sequence[Bound], limits: Limits) -> Line:
    """Give the most likely line, the bounds being of requests as old as the completions.

    Notes
    -----
    The maximum of a censored normal likelihood (Tobit) whose completed part is the evidence's
    quadratic form. It is the fixed point of putting E[n | n > c] in the place of each bound
    (Buckley & James), which is reached slowly where 54 of 64 requests run: Newton's steps, each a
    weighted least squares (`impute`), take three to five. A request that has only begun says
    nothing, whatever the line.

    The first completions are short, so that how many tokens a long request wants follows from the
    anchor alone. What is carried over from it is its shape: its level is multiplied by what came
    over what it expects of the same completions. A language with twice the prior's κ was 38 % low
    after 10 completions with the anchor as it is, 3 % with its shape.

    References
    ----------
    Tobin (1958), as in `tail`. Buckley & James (1979), Linear regression with censored data,
    Biometrika 66. Amemiya (1973), Regression analysis when the dependent variable is truncated
    normal, Econometrica 41.
    """
    sums = _completed(evidence)
    line = evidence.line
    for _ in range(_MAX_STEPS):
        after = _step(evidence, sums, bounds, line, limits)
        ratio = after.at(evidence.size_1) / line.at(evidence.size_1)
        bounded = min(max(ratio, 1.0 / _MAX_STEP_RATIO), _MAX_STEP_RATIO)
        if bounded != ratio:
            after = Line(after.kappa * bounded / ratio, after.intercept * bounded / ratio)
        line = after
        if abs(ratio - 1.0) < _TOLERANCE_RATIO:
            break
    return line


# Σw, Σws, Σws², Σwy, Σwsy.
_Sums = tuple[float, float, float, float, float]


def _sums_of(line: Line, weight: float, size_1: float, size_2: float) -> _Sums:
    s, ss = weight * size_1, weight * size_2
    y = line.intercept * weight + line.kappa * s
    return weight, s, ss, y, line.intercept * s + line.kappa * ss


def _completed(evidence: Evidence) -> _Sums:
    """Give the evidence's sums with the anchor at the level of the completions."""
    line, weight, size_1, size_2, _, anchor = evidence
    w, s, ss, y, sy = _sums_of(line, weight, size_1, size_2)
    w_0, s_0, _, y_0, sy_0 = _sums_of(*anchor)
    came = y - y_0
    expected = anchor.line.intercept * (w - w_0) + anchor.line.kappa * (s - s_0)
    # Bounds have no part in it: where they are long, they are imputed from this very level.
    held = _FACTOR_SHRINKAGE * anchor.line.at(anchor.size_1)
    factor = max(came + held, 0.0) / (expected + held) if expected > 0.0 else 1.0
    return w, s, ss, came + factor * y_0, sy + (factor - 1.0) * sy_0


def _step(
    evidence: Evidence, sums: _Sums, bounds: Sequence[Bound], line: Line, limits: Limits
) -> Line:
    """One weighted least squares of the completions and the bounds, as seen from a line."""
    w, s, ss, y, sy = sums
    typical = line.at(evidence.size_1)
    for size, tokens, count in bounds:
        expected = line.at(size)
        imputed = impute(expected, evidence.scale, tokens, limits)
        if imputed is None:
            continue
        counts = count * imputed.share * min(typical / expected, _MAX_WEIGHT)
        w += counts
        s += counts * size
        ss += counts * size * size
        y += counts * imputed.tokens
        sy += counts * size * imputed.tokens
    determinant = w * ss - s * s
    slope = line.kappa
    if determinant > _COLLINEAR * w * ss:
        slope = max((w * sy - s * y) / determinant, 0.0)
    return Line(slope, (y - slope * s) / w)
