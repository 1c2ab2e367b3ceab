"""How long requests of a model stay, and how much of the engine they hold meanwhile.

Standard library only, as `sched_client.model`, which gives these names too.
"""

from dataclasses import dataclass, replace
from typing import Final

__all__ = ["DEFAULT_MEAN_AUDIO_S", "MIN_SERVICE_S", "ServiceTime"]

# Mean utterance of LibriSpeech test-clean (Panayotov et al. 2015), 7.4 s: what an unknown
# duration counts as until the sidecar has told the mean it saw.
DEFAULT_MEAN_AUDIO_S: Final = 7.4
# Keeps response ratios finite where nothing about the service is known yet.
MIN_SERVICE_S: Final = 1e-4


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceTime:
    """Work of a request of one model at the reference concurrency, in seconds of one slot.

    ``residence = overhead_s + seconds_per_prompt_token · uncached prompt + seconds_per_token · n̂``
    ``service_s = residence · max(1, (prompt + n̂ / 2) / slot_context_tokens)``

    Attributes
    ----------
    overhead_s : float
        Seconds a request takes whatever its length (the encoder works on a padded 30 s), ≥ 0.
    seconds_per_token : float
        Seconds per output token at ``reference_concurrency``, > 0.
    seconds_per_prompt_token : float
        Seconds per uncached prompt token, ≥ 0.
    reference_concurrency : float
        Number of requests in the batch that the figures hold for, ≥ 1.
    mean_service_s : float
        Work of a request with the mean prompt and output of recent completions, > 0; scales the
        guard's burst.
    mean_tokens : float
        Mean output tokens of recent completions, > 0.
    mean_audio_s : float
        Mean audio of recent completions, > 0; stands in where a duration cannot be read.
    sample_count : int
        Completions that the fit rests on.
    slot_context_tokens : float
        Tokens of KV memory that come to one slot: all that the engine holds over its most
        running requests, ≥ 0. With 0 it is unknown, or memory is not what binds: work is the
        residence.

    Notes
    -----
    How long a request stays says nothing of what it takes from others. An engine has slots and KV
    memory; a request holds one slot, and memory for its context, which grows from the prompt to
    all it has produced. What it takes is its larger share of the two, its dominant share (Ghodsi
    et al., "Dominant resource fairness", NSDI 2011), for as long as it stays; in parts of one
    slot that is ``max(1, context / slot_context_tokens)``. A prompt whose prefix others hold too
    counts whole: before it runs, nobody knows whether they still will.
    """

    overhead_s: float = 0.05
    seconds_per_token: float = 0.01
    seconds_per_prompt_token: float = 0.0
    reference_concurrency: float = 1.0
    mean_service_s: float = 0.3
    mean_tokens: float = 25.0
    mean_audio_s: float = DEFAULT_MEAN_AUDIO_S
    sample_count: int = 0
    slot_context_tokens: float = 0.0

    def service_s(self, prompt_tokens: float, tokens: float) -> float:
        """Give the work of a request, in seconds of one slot.

        Parameters
        ----------
        prompt_tokens : float
            What is computed before its first token, ≥ 0.
        tokens : float
            What it produces from then on, ≥ 1.

        Returns
        -------
        float
            At least `MIN_SERVICE_S`.

        Examples
        --------
        >>> one = ServiceTime(overhead_s=1.0, seconds_per_token=0.01, slot_context_tokens=500.0)
        >>> one.service_s(300, 200), one.service_s(900, 200)
        (3.0, 6.0)
        """
        seconds = (
            self.overhead_s
            + self.seconds_per_prompt_token * prompt_tokens
            + self.seconds_per_token * tokens
        )
        slot = self.slot_context_tokens
        if slot > 0.0:
            context = prompt_tokens + 0.5 * tokens
            if context > slot:
                seconds *= context / slot
        return seconds if seconds > MIN_SERVICE_S else MIN_SERVICE_S  # noqa: FURB136 - as fast again

    def slots_held(self, prompt_tokens: float, tokens: float) -> float:
        """Give the slots' parts of the engine that a request holds in the mean, ≥ 1."""
        slot = self.slot_context_tokens
        return max(1.0, (prompt_tokens + 0.5 * tokens) / slot) if slot > 0.0 else 1.0

    def residence_s(self, prompt_tokens: float, tokens: float) -> float:
        """Give the seconds that a request stays, whatever it holds; as `service_s`."""
        return replace(self, slot_context_tokens=0.0).service_s(prompt_tokens, tokens)
