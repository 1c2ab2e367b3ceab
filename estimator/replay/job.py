"""One request of a replay: when it arrives, what it is, and what it will turn out to be."""

from typing import Final, Literal, NamedTuple

from estimator.core.observation import MAX_TOKENS
from sched_client.model import DEFAULT_MODEL, TEXT_TASK, Features, RequestKind
from sched_client.text_class import text_class

__all__ = ["NS_PER_S", "Job", "check_job"]

NS_PER_S: Final = 1_000_000_000
# A century: beyond it something else was meant than nanoseconds.
_MAX_NS: Final = 100 * 366 * 86_400 * NS_PER_S


class Job(NamedTuple):
    """One request.

    Attributes
    ----------
    index : int
        Unique; breaks ties between arrivals at one instant.
    arrival_ns : int
        Virtual nanoseconds, ≥ 0.
    output_tokens : int
        Tokens that it produces if nothing stops it, ≥ 1.
    audio_s : float or None
        Seconds of audio; None for text.
    prompt_tokens : int
        Tokens to be computed before the first one comes out, ≥ 0.
    model, task, language, timestamps, kind
        As in `sched_client.model.Features`; of text the language does not count.
    max_tokens : int or None
        Output is cut at this many, ≥ 1.
    finish_reason : {"stop", "length"}
        How it ends where ``max_tokens`` does not cut it.
    request_type : str
        Class of a text request, which its κ is learned by; empty where unknown.
    group_id : str
        Shared by the pieces of one file.
    priority : int
        vLLM's: a smaller one goes first.
    abort_ns : int or None
        The caller leaves then, after the arrival.
    segment : int
        Which part of the workload it belongs to, for reports.
    """

    index: int  # type: ignore[assignment]  # hides tuple.index, which nobody asks of a job
    arrival_ns: int
    output_tokens: int
    audio_s: float | None = None
    prompt_tokens: int = 0
    model: str = DEFAULT_MODEL
    task: str = "transcribe"
    language: str = ""
    timestamps: bool | None = None
    kind: RequestKind = "transcription"
    max_tokens: int | None = None
    finish_reason: Literal["stop", "length"] = "stop"
    request_type: str = ""
    group_id: str = ""
    priority: int = 0
    abort_ns: int | None = None
    segment: int = 0

    @property
    def features(self) -> Features:
        """What a scheduler can read of it before it runs."""
        text = self.task == TEXT_TASK
        return Features(
            self.model,
            self.task,
            text_class(self.request_type, self.prompt_tokens) if text else self.language,
            self.timestamps,
            self.kind,
            self.audio_s,
            self.prompt_tokens,
            self.max_tokens,
            "none" if self.audio_s is None else "hint",
        )

    @property
    def produced_tokens(self) -> int:
        """Tokens that it produces if it is not aborted."""
        limit = self.max_tokens
        return self.output_tokens if limit is None else min(self.output_tokens, limit)

    @property
    def end(self) -> Literal["stop", "length"]:
        """How it ends if it is not aborted."""
        limit = self.max_tokens
        return "length" if limit is not None and self.output_tokens > limit else self.finish_reason


def check_job(job: Job) -> None:
    """Refuse a job that no engine can run.

    Raises
    ------
    ValueError
        Naming the job, the value, its limit and the remedy.
    """
    if not 0 <= job.arrival_ns <= _MAX_NS:
        raise _refusal(job, "arrival_ns", job.arrival_ns, f"0 to {_MAX_NS}", "start at 0")
    if not 1 <= job.output_tokens <= MAX_TOKENS:
        remedy = "leave out requests that produced nothing"
        raise _refusal(job, "output_tokens", job.output_tokens, f"1 to {MAX_TOKENS}", remedy)
    if not 0 <= job.prompt_tokens <= MAX_TOKENS:
        remedy = "say how many tokens must be computed"
        raise _refusal(job, "prompt_tokens", job.prompt_tokens, f"0 to {MAX_TOKENS}", remedy)
    if job.max_tokens is not None and not 1 <= job.max_tokens <= MAX_TOKENS:
        remedy = "leave it out where there is no limit"
        raise _refusal(job, "max_tokens", job.max_tokens, f"1 to {MAX_TOKENS}", remedy)
    if job.abort_ns is not None and job.abort_ns <= job.arrival_ns:
        limit = f"above its arrival_ns {job.arrival_ns}"
        raise _refusal(job, "abort_ns", job.abort_ns, limit, "a caller leaves after it came")


def _refusal(job: Job, name: str, value: object, limit: str, remedy: str) -> ValueError:
    return ValueError(f"job {job.index}: {name} is {value}, must be {limit}; {remedy}")
