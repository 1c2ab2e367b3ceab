"""What became of one request, and of a whole run."""

from typing import Literal, NamedTuple

from estimator.replay.job import Job

__all__ = ["Finish", "Outcome", "Totals"]

Finish = Literal["stop", "length", "aborted"]


class Outcome(NamedTuple):
    """What became of one job.

    Attributes
    ----------
    job : Job
        The request.
    admitted_ns : int or None
        First admission; None if it was aborted while it waited.
    first_token_ns : int or None
        When its first token came out; None if none did.
    finished_ns : int
        The end. An abort ends what runs with the step that it falls into.
    tokens : int
        Tokens produced.
    preemptions : int
        How often it lost its blocks.
    concurrency : float
        Mean number of running requests from the first admission to the end; 0 if never admitted.
    estimate_tokens, estimate_service_s : float
        What it was last ordered by.
    finish : {"stop", "length", "aborted"}
        How it ended.

    Notes
    -----
    Times are those inside the engine; ``request_overhead_s`` of the profile comes on top.
    """

    job: Job
    admitted_ns: int | None
    first_token_ns: int | None
    finished_ns: int
    tokens: int
    preemptions: int
    concurrency: float
    estimate_tokens: float
    estimate_service_s: float
    finish: Finish


class Totals(NamedTuple):
    """What a run comes to.

    Attributes
    ----------
    arrived, finished, aborted : int
        Requests; ``arrived`` is the sum of the other two.
    output_tokens : int
        Tokens produced, those of aborted requests included.
    preemptions : int
        Times a request lost its blocks.
    admissions : int
        Admissions, those after a preemption included.
    steps : int
        Steps of the engine.
    busy_ns : int
        Time in which it made steps.
    running_ns : int
        Integral of the running requests over time; over ``busy_ns`` it is the mean occupancy.
    first_arrival_ns, last_end_ns : int
        From the first arrival to the last end; both 0 without jobs.
    most_waiting : int
        The longest the waiting queue ever was.
    """

    arrived: int
    finished: int
    aborted: int
    output_tokens: int
    preemptions: int
    admissions: int
    steps: int
    busy_ns: int
    running_ns: int
    first_arrival_ns: int
    last_end_ns: int
    most_waiting: int
