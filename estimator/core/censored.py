"""What requests that have not finished say of κ: their tokens so far are lower bounds.

In a closed loop short requests report first, so the first completions of a key are those that
produced least: κ of the first ten of 64 that started together is 8 to 33 % low on eight traces.
Owns the mathematics that puts the others beside them. Knows nothing of keys, clients or time
(`estimator.core.running` does).
"""

import math
from collections.abc import Sequence
from typing import Final, NamedTuple

from sched_client.model import YOUNG_SAMPLES

# A bound that says less than this share of what a completion says is skipped.
_LEAST_SHARE: Final = 0.02
# Where that share is: δ(-2.75) = 0.02. Spares two exponentials for requests that just began.
_LEAST_DEVIATIONS: Final = -2.75
# Newton's steps: the fifth and later ones moved no level of the traces by 0.2 %.
_MAX_STEPS: Final = 4
_TOLERANCE_RATIO: Final = 5e-3
# A line has stopped moving where it has at two sizes: that of the completions, and so many times
# that. At the first alone a step that only turned it ended the search in 2 % of the runs, up to
# 40 % too low.
_FAR_SIZES: Final = 2.0
# One step moves the level by this factor at most, so that none ends where every bound is gross.
_MAX_STEP_RATIO: Final = 2.0
# As in `estimator.core.learner`: a completion counts as its mean one does, more if it is shorter.
_MAX_WEIGHT: Final = 4.0
# As there: below this share of w·Σws² the sizes are one and the same.
_COLLINEAR: Final = 1e-12
# The next four go together: they were chosen for the bias after 10 of 64 that started together,
# on seeds 60 to 539 of eight traces, among those that leave the error after 5, 10, 20 and 40 as it
# was (docs/learning.md has the frontier). A factor of 1 on the anchor counts for one completion,
# which keeps the first ones from deciding alone, and for 0.3 where 18 % and more of the evidence
# is bounds, which do that themselves: always 0.3 erred 9 % more of two requests at a time.
_LEAST_SHRINKAGE: Final = 0.3
_SHRINKAGE_FADING: Final = 4.0
# What a bound counts in that factor, of what it counts in the line: a long one is imputed from
# this very factor, and confirms it.
_FACTOR_SHARE: Final = 0.12
# The first to finish lie closer together than all do: their spread is learned as 0.8 to 1.2 of
# what it will be, and those that run are among all.
_FIRST_SPREAD: Final = 1.35
# Where all is bounds the level is lowered by so much, and by the root of their share in it: to
# extrapolate from short clips to long ones errs upwards, for six of eight traces hold fewer
# tokens a second in long ones.
_EXTRAPOLATION: Final = 0.1
# What running requests say, beside the line that was learned, fades by this with each completion
# of a key after the first 20: half of it after 66, 3 % after 256. Those that ran when the sums'
# memory begins are missing from them as those that run now are, so an old key has no bias, and
# what runs would give it one of +3 %.
_FULL: Final = 20
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


class Sums(NamedTuple):
    """Σw, Σws, Σws², Σwy and Σwsy over completions of size s and y tokens."""

    w: float
    ws: float
    wss: float
    wy: float
    wsy: float


class Evidence(NamedTuple):
    """What a line rests on.

    Attributes
    ----------
    line : Line
        What was learned.
    sums : Sums
        The completions that it was learned from.
    size : float
        The size at which its level is measured: their mean, > 0.
    scale : float
        Robust deviation of a residual, in units of √(expected tokens), > 0.
    anchor : Anchor
        What it shrinks toward: something that rests on other completions.
    """

    line: Line
    sums: Sums
    size: float
    scale: float
    anchor: Anchor


class Limits(NamedTuple):
    """How far a bound may pull, in robust deviations (`estimator.core.config.CoreConfig`)."""

    clip_deviations: float
    gross_deviations: float


class Bound(NamedTuple):
    """A request that wants more than ``tokens``, for how many such it stands, and its start."""

    size: float
    tokens: float
    weight: float = 1.0
    started_s: float = 0.0


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
    among_all = evidence._replace(scale=_FIRST_SPREAD * evidence.scale)
    likely, bounded = with_bounds(among_all, bounds, limits)
    held = math.exp(-_EXTRAPOLATION * math.sqrt(bounded))
    share = _FADING ** max(n_seen - _FULL, 0)
    return Line(
        learned.kappa + share * (held * likely.kappa - learned.kappa),
        learned.intercept + share * (held * likely.intercept - learned.intercept),
    )


def with_bounds(evidence: Evidence, bounds: Sequence[Bound], limits: Limits) -> tuple[Line, float]:
    """Give the most likely line, the bounds being of requests as old as the completions.

    Parameters
    ----------
    evidence, bounds, limits
        As for `young_line`.

    Returns
    -------
    tuple of (Line, float)
        The line, and the share of bounds in what it rests on, in [0, 1): 0 where none says
        anything.

    Notes
    -----
    The maximum of a censored normal likelihood (Tobit) whose completed part is the evidence's
    quadratic form. It is the fixed point of putting E[n | n > c] in the place of each bound
    (Buckley & James), which is reached slowly where 54 of 64 requests run: Newton's steps, each a
    weighted least squares (`impute`), take three or four. A request that has only begun says
    nothing, whatever the line.

    The first completions are short, so that how many tokens a long request wants follows from the
    anchor alone. What is carried over from it is its shape: its level is multiplied by what came
    over what it expects of the same requests.

    References
    ----------
    Tobin (1958), as in `tail`. Buckley & James (1979), Linear regression with censored data,
    Biometrika 66. Amemiya (1973), Regression analysis when the dependent variable is truncated
    normal, Econometrica 41.
    """
    line, share = evidence.line, 0.0
    size, far = evidence.size, _FAR_SIZES * evidence.size
    for _ in range(_MAX_STEPS):
        after, share = _step(evidence, bounds, line, limits)
        ratio = after.at(size) / line.at(size)
        turn = after.at(far) / line.at(far)
        limited = min(max(ratio, 1.0 / _MAX_STEP_RATIO), _MAX_STEP_RATIO)
        if limited != ratio:
            after = Line(after.kappa * limited / ratio, after.intercept * limited / ratio)
        line = after
        if max(abs(ratio - 1.0), abs(turn - 1.0)) < _TOLERANCE_RATIO:
            break
    return line, share


def _step(
    evidence: Evidence, bounds: Sequence[Bound], line: Line, limits: Limits
) -> tuple[Line, float]:
    """One weighted least squares of completions, bounds and anchor, as seen from a line."""
    w, s, ss, y, sy = evidence.sums
    (slope, intercept), pull, size_1, size_2 = evidence.anchor
    # What came, and what the anchor expects of the same.
    came, hoped = y, intercept * w + slope * s
    typical = line.at(evidence.size)
    for size, tokens, weight, _ in bounds:
        expected = line.at(size)
        # Most have only begun: what `impute` says of them too, without a call.
        if tokens - expected < _LEAST_DEVIATIONS * evidence.scale * math.sqrt(expected):
            continue
        imputed = impute(expected, evidence.scale, tokens, limits)
        if imputed is None:
            continue
        counts = weight * imputed.share * min(typical / expected, _MAX_WEIGHT)
        w += counts
        s += counts * size
        ss += counts * size * size
        y += counts * imputed.tokens
        sy += counts * size * imputed.tokens
        came += _FACTOR_SHARE * counts * imputed.tokens
        hoped += _FACTOR_SHARE * counts * (intercept + slope * size)
    share = 1.0 - evidence.sums.w / w if w > 0.0 else 0.0
    held = max(1.0 - _SHRINKAGE_FADING * share, _LEAST_SHRINKAGE) * evidence.anchor.line.at(size_1)
    came, hoped = came + held, hoped + held
    factor = came / hoped if came > 0.0 and hoped > 0.0 else 1.0
    w += pull
    s += pull * size_1
    ss += pull * size_2
    y += pull * factor * (intercept + slope * size_1)
    sy += pull * factor * (intercept * size_1 + slope * size_2)
    determinant = w * ss - s * s
    if determinant > _COLLINEAR * w * ss:
        slope = max((w * sy - s * y) / determinant, 0.0)
    else:
        slope *= factor
    return Line(slope, (y - slope * s) / w), share
