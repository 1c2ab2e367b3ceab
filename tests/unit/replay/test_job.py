"""Jobs: what a scheduler sees of one, how one ends, and what is refused."""

import pytest

from estimator.replay.job import Job, check_job
from sched_client.model import Features


def test_features_of_audio() -> None:
    job = Job(3, 5, 40, 12.5, 4, "whisper", "translate", "de", timestamps=True, max_tokens=99)
    assert job.features == Features(
        "whisper", "translate", "de", True, "transcription", 12.5, 4, 99, "hint"
    )


def test_text_is_filed_by_its_type_and_the_size_of_its_prompt() -> None:
    job = Job(0, 0, 5, None, 1024, task="text", language="en", kind="text", request_type="chat")
    assert job.features.key[2] == "chat/21"
    assert job.features.audio_s is None
    assert job.features.duration_source == "none"


@pytest.mark.parametrize(
    ("tokens", "limit", "produced", "end"),
    [(7, None, 7, "stop"), (7, 8, 7, "stop"), (7, 7, 7, "stop"), (7, 6, 6, "length")],
)
def test_max_tokens_cuts(tokens: int, limit: int | None, produced: int, end: str) -> None:
    job = Job(0, 0, tokens, max_tokens=limit)
    assert (job.produced_tokens, job.end) == (produced, end)


def test_a_trace_that_says_length_is_believed() -> None:
    assert Job(0, 0, 7, finish_reason="length").end == "length"


@pytest.mark.parametrize(
    ("job", "message"),
    [
        (Job(4, -1, 1), "job 4: arrival_ns is -1, must be 0 to"),
        (Job(4, 0, 0), "job 4: output_tokens is 0, must be 1 to 10000000; leave out"),
        (Job(4, 0, 1, prompt_tokens=-1), "job 4: prompt_tokens is -1, must be 0"),
        (Job(4, 0, 1, max_tokens=0), "job 4: max_tokens is 0, must be 1"),
        (Job(4, 9, 1, abort_ns=9), "job 4: abort_ns is 9, must be above its arrival_ns 9"),
    ],
)
def test_a_job_that_no_engine_can_run_is_refused(job: Job, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        check_job(job)


def test_a_job_at_the_limits_is_taken() -> None:
    check_job(Job(0, 0, 1, prompt_tokens=0, max_tokens=1, abort_ns=1))
