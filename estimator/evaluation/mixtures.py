"""Honest workloads whose tokens are a mixture: the same clips again and again, silences, switches.

Nothing in them is spoilt, so what a learner is to find is the mean of what came. Deterministic:
the same seed gives the same workload.
"""

import functools
import random
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from estimator.core.observation import Completion
from estimator.evaluation.scenarios import Trace

# Seconds and tokens.
Pair = tuple[float, int]
Draw = Callable[[random.Random], Pair]

# The demo's nine English clips and what Whisper-base made of them: some hold long silences, so
# that clips of one length have 14 tokens or 43. Seconds, tokens, how often one run sent them.
DEMO_CLIPS: Final = (
    (1.54, 5, 14), (2.0, 7, 14), (2.38, 7, 13), (3.5, 8, 13), (7.0, 12, 7),
    (11.66, 43, 8), (11.945, 14, 8), (16.04, 59, 8), (20.408, 15, 8),
)  # fmt: skip
# Its Hindi: espeak-ng's sentences, 5.4 tokens a second where the English clips have 2.
HINDI_CLIPS: Final = ((3.22, 18), (4.5, 25), (0.94, 6), (8.47, 45), (1.98, 11), (7.49, 40))
# Read speech: tokens a second, tokens at no length, and the relative spread of one utterance.
_KAPPA: Final = 3.0
_INTERCEPT: Final = 3.0
_SPREAD: Final = 0.2
_LENGTHS_S: Final = (2.0, 25.0)
# Of one clip that is sent again and again.
_CLIP: Final[Pair] = (10.0, 30)
# A voice agent sends 10 s of a line on which mostly nobody speaks.
_AGENT_S: Final = 10.0


class Workload(NamedTuple):
    """What comes, and what it comes from.

    Attributes
    ----------
    trace : Trace
        The completions.
    mean_size, mean_tokens : float
        Of the population that the last of them are drawn from.
    """

    trace: Trace
    mean_size: float
    mean_tokens: float


def _completion(pair: Pair, language: str) -> Completion:
    size, tokens = pair
    return Completion(
        completion_id="mixture", language=language, audio_s=size, output_tokens=tokens,
        duration_source="mel",
    )  # fmt: skip


def trace_of(name: str, pairs: Sequence[Pair], language: str = "en") -> Trace:
    """Give pairs of seconds and tokens as a trace."""
    return Trace(name, tuple(_completion(pair, language) for pair in pairs))


def read(rng: random.Random, density: float = 1.0) -> Pair:
    """Draw an utterance of read speech, ``density`` times as dense."""
    size = rng.uniform(*_LENGTHS_S)
    # The mean of this lognormal is 1.
    noise = rng.lognormvariate(-0.5 * _SPREAD**2, _SPREAD)
    return size, max(round(density * (_INTERCEPT + _KAPPA * size) * noise), 1)


def _demo(rng: random.Random) -> Pair:
    size, tokens, _ = rng.choices(DEMO_CLIPS, [n for *_, n in DEMO_CLIPS])[0]
    return size, tokens


def _two(share: float, ratio: float) -> Draw:
    return lambda rng: read(rng, ratio if rng.random() < share else 1.0)


def _two_clips(share: float, ratio: float) -> Draw:
    size, tokens = _CLIP
    return lambda rng: (size, round(tokens * (ratio if rng.random() < share else 1.0)))


def _agent(silent: float) -> Draw:
    def draw(rng: random.Random) -> Pair:
        if rng.random() < silent:
            return _AGENT_S, rng.randint(2, 4)
        return _AGENT_S, max(round(32.0 * rng.lognormvariate(0.0, 0.25)), 1)

    return draw


# What is drawn from throughout.
STEADY: Final[dict[str, Draw]] = {
    "demo clips": _demo,
    "read speech": read,
    **{
        f"read speech, {share:.0%} x{ratio:g} as dense": _two(share, ratio)
        for share in (0.5, 0.2, 0.8)
        for ratio in (2.0, 3.0)
    },
    **{
        f"one clip, {share:.0%} x{ratio:g} as dense": _two_clips(share, ratio)
        for share in (0.5, 0.2)
        for ratio in (2.0, 3.0)
    },
    "voice agent, 60% silent": _agent(0.6),
    "voice agent, 20% silent": _agent(0.2),
}
# One clip again and again, then this.
AFTER_ONE_CLIP: Final[dict[str, Draw]] = {
    "then 50% x2": _two_clips(0.5, 2.0),
    "then 50% x3": _two_clips(0.5, 3.0),
    "then all x2": _two_clips(1.0, 2.0),
    "then 20% x3": _two_clips(0.2, 3.0),
    "then 60% silent": _agent(0.6),
    "then read speech": read,
}
_N_POPULATION: Final = 20_000


@functools.cache
def population_of(draw: Draw) -> tuple[float, float]:
    """Give the mean size and the mean tokens of what is drawn."""
    rng = random.Random("population")  # noqa: S311 - a scenario, no secret
    pairs = [draw(rng) for _ in range(_N_POPULATION)]
    return (
        sum(size for size, _ in pairs) / _N_POPULATION,
        sum(tokens for _, tokens in pairs) / _N_POPULATION,
    )


def steady(name: str, seed: int, n: int) -> Workload:
    """Give ``n`` completions of one of `STEADY`."""
    draw = STEADY[name]
    rng = random.Random(f"{seed}/{name}")  # noqa: S311 - a scenario, no secret
    pairs = [draw(rng) for _ in range(n)]
    return Workload(trace_of(name, pairs), *population_of(draw))


def after_one_clip(name: str, seed: int, n_before: int, n: int) -> Workload:
    """Give one clip ``n_before`` times, and then ``n`` completions of one of `AFTER_ONE_CLIP`."""
    draw = AFTER_ONE_CLIP[name]
    rng = random.Random(f"{seed}/{name}")  # noqa: S311 - a scenario, no secret
    pairs = [_CLIP] * n_before + [draw(rng) for _ in range(n)]
    return Workload(trace_of(name, pairs), *population_of(draw))


# What a model knows, and how much denser a language is that it does not.
NEW_LANGUAGES: Final[dict[str, tuple[Draw, Draw]]] = {
    "read speech, then x2": (read, lambda rng: read(rng, 2.0)),
    "read speech, then x2.4": (read, lambda rng: read(rng, 2.4)),
    "read speech, then x0.5": (read, lambda rng: read(rng, 0.5)),
    "read speech, then x1.2": (read, lambda rng: read(rng, 1.2)),
    "demo clips, then Hindi": (_demo, lambda rng: rng.choice(HINDI_CLIPS)),
    "one clip, then x2.4": (lambda _rng: _CLIP, lambda rng: read(rng, 2.4)),
}


def new_language(name: str, seed: int, n_before: int, n: int) -> Workload:
    """Give a known language ``n_before`` times, then ``n`` completions of a new one."""
    known, new = NEW_LANGUAGES[name]
    rng = random.Random(f"{seed}/{name}")  # noqa: S311 - a scenario, no secret
    before = trace_of("known", [known(rng) for _ in range(n_before)])
    after = trace_of("new", [new(rng) for _ in range(n)], "xx")
    return Workload(Trace(name, before.completions + after.completions), *population_of(new))
