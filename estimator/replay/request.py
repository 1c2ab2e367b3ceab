"""A job between its arrival and its end, as the engine, the estimates and the queue share it."""

from typing import Final

from estimator.replay.job import Job
from sched_client.model import GLOBAL_KEY, Features

__all__ = ["Request"]

_UNREAD: Final = Features()


class Request:
    """One job in the engine.

    Attributes
    ----------
    job : Job
        The job.
    request_id : str
        Its index as text.
    enqueued_s : float
        When the engine took it in, for the policy: the end of the step within which it came.
    ordering, key, service_s, tokens, queue_id, estimated_version, checked_version
        As `sched_client.estimates.Estimated`.
    prompt : int
        Tokens of its prompt; every engine needs one at least.
    total : int
        Tokens that it will have produced at its end.
    produced : int
        Tokens that had come out when it was last admitted, preempted, or ended.
    computed : int
        Tokens of its context that hold KV, while it is being prefilled in chunks.
    end_step : int
        The step with which it ends if nothing happens to it; 0 while it waits or is prefilled.
    admitted_ns, first_token_ns : int or None
        As in `Outcome`.
    admitted_integral : int
        Integral of the running requests at the first admission.
    preemptions : int
        As in `Outcome`.
    order : int
        Counts admissions up; ends of one step come in this order.
    running : bool
        Whether it holds a slot.
    ended : bool
        Whether its outcome is known.
    """

    __slots__ = (
        "admitted_integral",
        "admitted_ns",
        "checked_version",
        "computed",
        "end_step",
        "ended",
        "enqueued_s",
        "estimated_version",
        "first_token_ns",
        "job",
        "key",
        "order",
        "ordering",
        "preemptions",
        "produced",
        "prompt",
        "queue_id",
        "request_id",
        "running",
        "service_s",
        "tokens",
        "total",
    )

    def __init__(self, job: Job) -> None:
        self.job = job
        self.request_id = str(job.index)
        self.enqueued_s = 0.0
        self.ordering = _UNREAD
        self.key = GLOBAL_KEY
        self.service_s = 0.0
        self.tokens = 0.0
        self.queue_id = "q0"
        self.estimated_version = 0
        self.checked_version = -1
        self.prompt = job.prompt_tokens or 1
        self.total = job.produced_tokens
        self.produced = 0
        self.computed = 0
        self.end_step = 0
        self.admitted_ns: int | None = None
        self.first_token_ns: int | None = None
        self.admitted_integral = 0
        self.preemptions = 0
        self.order = 0
        self.running = False
        self.ended = False
