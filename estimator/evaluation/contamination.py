"""What real callers and models do wrong, at a chosen share and reproducibly.

Each function gives a copy of a trace in which some completions, chosen by the seed, are spoilt;
the others, the order and the number stay as they are, so that a spoilt run can be held against
the clean one.
"""

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Final

from estimator.core.observation import Completion, FinishReason
from estimator.evaluation.scenarios import Trace

# Whisper's decoder has 448 positions; 4 of them are the prompt.
LOOP_TOKENS: Final = 444
LOOP_AUDIO_S: Final = 2.0


def _spoil(
    trace: Trace,
    share: float,
    seed: int,
    change: Callable[[Completion, random.Random], Completion],
) -> Trace:
    rng = random.Random(f"{seed}/{trace.name}/spoil")  # noqa: S311 - a scenario, no secret
    spoilt = tuple(change(one, rng) if rng.random() < share else one for one in trace.completions)
    return Trace(trace.name, spoilt)


def with_loops(
    trace: Trace,
    share: float,
    seed: int,
    *,
    audio_s: float | None = LOOP_AUDIO_S,
    finish_reason: FinishReason = "length",
) -> Trace:
    """Let a share of the clips end in a repetition loop that fills the decoder.

    Parameters
    ----------
    trace : Trace
        The clean one.
    share : float
        Expected share of spoilt completions, in [0, 1].
    seed : int
        Which.
    audio_s : float or None
        Length of such a clip; None leaves each its own.
    finish_reason : {"stop", "length", "aborted", "error"}
        What the engine calls it: ``length`` at the end of the decoder, ``stop`` where the model
        found its way out.
    """

    def change(one: Completion, _rng: random.Random) -> Completion:
        length = one.audio_s if audio_s is None else audio_s
        return replace(one, audio_s=length, output_tokens=LOOP_TOKENS, finish_reason=finish_reason)

    return _spoil(trace, share, seed, change)


def with_empty_transcripts(trace: Trace, share: float, seed: int) -> Trace:
    """Let a share of the clips give nothing but the end of the text, one token."""
    return _spoil(trace, share, seed, lambda one, _rng: replace(one, output_tokens=1))


def with_lying_hints(trace: Trace, share: float, seed: int, *, factor: float = 8.0) -> Trace:
    """Let a share of the requests come from a caller who multiplies every duration.

    Their ``duration_source`` is ``hint``; the others' is ``mel``, which cannot be told to lie.
    """
    honest = Trace(
        trace.name, tuple(replace(one, duration_source="mel") for one in trace.completions)
    )

    def change(one: Completion, _rng: random.Random) -> Completion:
        length = None if one.audio_s is None else one.audio_s * factor
        return replace(one, audio_s=length, duration_source="hint")

    return _spoil(honest, share, seed, change)


def with_wrong_languages(trace: Trace, share: float, seed: int, languages: Sequence[str]) -> Trace:
    """Label a share of the completions with one of these languages, each other than its own."""

    def change(one: Completion, rng: random.Random) -> Completion:
        others = [language for language in languages if language != one.language]
        return replace(one, language=rng.choice(others)) if others else one

    return _spoil(trace, share, seed, change)


def invented_languages(
    n: int, *, model: str = "default", audio_s: float = 5.0, output_tokens: int = 18
) -> Iterator[Completion]:
    """Yield completions of one client, each in a language of its own."""
    for index in range(n):
        yield Completion(
            completion_id=f"invented-{index}",
            model=model,
            language=f"x{index}",
            audio_s=audio_s,
            output_tokens=output_tokens,
            finished_s=float(index),
            client_id="one",
        )
