"""Invented completions for tests of the core."""

import random
from collections.abc import Iterator
from typing import Any

from estimator.core.observation import Completion

KAPPA_TOKENS_PER_S = 3.1
INTERCEPT_TOKENS = 3.0


def completion_of(index: int, audio_s: float | None, tokens: int, **fields: Any) -> Completion:
    """Make a completion; Any: the other fields of `Completion`."""
    values: dict[str, Any] = {
        "completion_id": f"test-{index}",
        "language": "en",
        "timestamps": False,
        "audio_s": audio_s,
        "output_tokens": tokens,
        "finished_s": float(index),
    }
    return Completion(**{**values, **fields})


def speech(
    n: int,
    *,
    seed: int = 0,
    kappa: float = KAPPA_TOKENS_PER_S,
    intercept: float = INTERCEPT_TOKENS,
    spread: float = 0.2,
    start: int = 0,
    **fields: Any,
) -> Iterator[Completion]:
    """Yield completions as Whisper-base gives them: affine in the audio, with noise.

    Any: the other fields of `Completion`.
    """
    rng = random.Random(seed)
    for i in range(start, start + n):
        audio_s = rng.uniform(1.0, 29.0)
        tokens = max(1, round((intercept + kappa * audio_s) * rng.lognormvariate(0.0, spread)))
        yield completion_of(i, audio_s, tokens, **fields)
