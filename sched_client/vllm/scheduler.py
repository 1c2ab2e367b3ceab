"""The scheduler class that vLLM loads: its own, with another waiting queue.

``schedule()`` is never copied. Every override calls ``super()`` exactly once and outside of our
own try, so that whatever happens in our code, vLLM's has run. Import this through
`sched_client.vllm`, which checks first that this vLLM has what is needed.
"""

import logging
import os
import socket
import uuid
from typing import Any

from vllm.v1.core.sched.async_scheduler import AsyncScheduler
from vllm.v1.core.sched.request_queue import (
    RequestQueue,
    SchedulingPolicy,
    create_request_queue,
)

from sched_client.model import DEFAULT_MODEL
from sched_client.options import ClientOptions, read_options
from sched_client.transport.identity import make_model_name
from sched_client.vllm.capacity import Capacity, read_capacity
from sched_client.vllm.client import EngineClient, LinkLike
from sched_client.vllm.features import FeatureReader
from sched_client.vllm.preemption import LeastLost, Victims
from sched_client.vllm.queue import KappadQueue
from sched_client.vllm.shim import examine_preemption
from sched_client.vllm.whisper_tokens import served_vocabulary

logger = logging.getLogger("kappad")


class WaitingQueue(KappadQueue, RequestQueue):  # type: ignore[misc]  # vLLM's base is Any here
    """`KappadQueue` as a kind of vLLM's own, so that methods it may gain are there."""


class KappadScheduler(AsyncScheduler):  # type: ignore[misc]  # vLLM's base is Any here
    """vLLM's scheduler, admitting in kappad's order.

    Use it with ``--scheduler-cls sched_client.vllm.KappadScheduler``. It also runs under a
    synchronous engine.
    """

    _kappad: EngineClient | None = None

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        # Any: the keyword sets differ between versions, and all of them are vLLM's.
        super().__init__(*args, **kwargs)
        stock: Any = self.waiting  # type: ignore[has-type]  # vLLM's, as its base
        try:
            self._kappad = attach(self)
            self.waiting = self._kappad.queue
        except Exception:
            self._kappad = None
            self.waiting = stock
            logger.warning("kappad could not start; vLLM schedules as without it", exc_info=True)

    def schedule(self, *args: Any, **kwargs: Any) -> Any:
        """Schedule one step, as vLLM does, with time, snapshot and mode frozen."""
        client = self._kappad
        if client is not None:
            try:
                client.begin_step()
            except Exception as error:  # noqa: BLE001 - our failure must not stop the engine
                client.fail(error)
        output = super().schedule(*args, **kwargs)
        if client is not None:
            try:
                client.end_step(output, len(self.running))
            except Exception as error:  # noqa: BLE001 - our failure must not stop the engine
                client.fail(error)
        return output

    def add_request(self, request: Any) -> None:
        """Take an arrival, or the next turn of a session that is there already."""
        client = self._kappad
        if client is not None:
            try:
                if request.request_id not in self.requests:
                    client.arrive(request)
            except Exception as error:  # noqa: BLE001 - our failure must not stop the engine
                client.fail(error)
        super().add_request(request)

    def _free_request(self, request: Any, *args: Any, **kwargs: Any) -> Any:
        client = self._kappad
        if client is not None:
            try:
                client.finish(request)
            except Exception as error:  # noqa: BLE001 - our failure must not stop the engine
                client.fail(error)
        return super()._free_request(request, *args, **kwargs)

    def shutdown(self) -> None:
        """Stop kappad's threads, then vLLM's own parts."""
        client = self._kappad
        if client is not None:
            try:
                client.close()
            except Exception:
                logger.warning("kappad could not stop its link", exc_info=True)
        super().shutdown()


def attach(scheduler: Any) -> EngineClient:
    """Build kappad's part of a scheduler and start its link.

    Parameters
    ----------
    scheduler : AsyncScheduler
        After its own construction. Any: vLLM's types are not seen here.

    Returns
    -------
    EngineClient
        Its queue is empty and in mode ``off`` until the first step.

    Raises
    ------
    Exception
        Whatever a vLLM that is not as expected leads to; the caller falls back.
    """
    config = scheduler.vllm_config
    options = read_options(config.additional_config)
    for problem in options.problems:
        logger.warning("%s", problem)
    if len(scheduler.waiting):
        raise RuntimeError("the waiting queue is not empty at construction")
    model_config = config.model_config
    served = model_config.served_model_name or DEFAULT_MODEL
    model = make_model_name(served if isinstance(served, str) else str(served[0]))
    reader = FeatureReader(
        model=model,
        model_type=str(getattr(model_config.hf_config, "model_type", "")),
        vocabulary=served_vocabulary(model_config),
        trust_hints=options.trust_hints,
    )
    policy = scheduler.policy
    # Looked up now, so that a vLLM without them falls back at construction, not in a step.
    for name in ("requests", "running"):
        getattr(scheduler, name)
    rank = config.parallel_config.data_parallel_rank
    link = open_link(options, model, rank, read_capacity(scheduler))
    try:
        return EngineClient(
            options=options,
            link=link,
            reader=reader,
            new_queue=lambda owner: WaitingQueue(lambda: create_request_queue(policy), owner),
            priorities=policy == SchedulingPolicy.PRIORITY,
            victims=victims_of(scheduler),
        )
    except Exception:
        link.close()
        raise


def victims_of(scheduler: Any) -> Victims | None:
    """Give what chooses whom vLLM preempts, or None with one warning where it cannot.

    Parameters
    ----------
    scheduler : AsyncScheduler
        After its own construction. Any: vLLM's types are not seen here.

    Returns
    -------
    Victims or None
        None also where vLLM schedules by priority, and preempts by it.
    """
    if scheduler.policy == SchedulingPolicy.PRIORITY:
        return None
    problems = [f"{f.name}: {f.problem}" for f in examine_preemption() if f.problem]
    if not problems:
        try:
            return LeastLost(scheduler)
        except Exception as error:  # noqa: BLE001 - whatever it is, the rest of kappad works
            problems = [f"{type(error).__name__}: {error}"]
    logger.warning("kappad leaves preemption to this vLLM (%s)", "; ".join(problems))
    return None


def open_link(options: ClientOptions, model: str, rank: int, capacity: Capacity) -> LinkLike:
    """Start the background link of one engine.

    Parameters
    ----------
    options : ClientOptions
        Names the sidecar.
    model : str
        The served model's name.
    rank : int
        Data-parallel rank: a pod may have several engines.
    capacity : Capacity
        What the engine can hold.

    Returns
    -------
    LinkLike
        Started; its threads belong to this process.
    """
    # Here and not above: tests and the doctor import this module without a sidecar.
    from vllm import __version__ as engine_version  # noqa: PLC0415

    from sched_client.transport.link import Identity, Link, make_client_id  # noqa: PLC0415

    boot_id = str(uuid.uuid4())
    pod = os.environ.get("POD_NAME") or os.environ.get("HOSTNAME") or socket.gethostname()
    identity = Identity(
        make_client_id(pod, rank, boot_id),
        model,
        str(engine_version),
        kv_tokens=capacity.kv_tokens,
        slots=capacity.slots,
    )
    link = Link(options, identity, boot_id=boot_id)
    link.start()
    return link
