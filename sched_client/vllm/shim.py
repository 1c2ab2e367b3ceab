"""What is needed of vLLM, and what to give it when something is missing.

vLLM's scheduler interface is not public. Everything that our classes touch is listed here with
its reason and checked before they are used: a vLLM without it gets its own scheduler back, with
one warning. The doctor prints the same list.
"""

import importlib
import inspect
import logging
import re
from typing import Any, Final, NamedTuple

logger = logging.getLogger("kappad")

_ASYNC: Final = "vllm.v1.core.sched.async_scheduler"
_SCHED: Final = "vllm.v1.core.sched.scheduler"
_QUEUE: Final = "vllm.v1.core.sched.request_queue"
_REQUEST: Final = "vllm.v1.request"
_OUTPUT: Final = "vllm.v1.core.sched.output"
_MANAGER: Final = "vllm.v1.core.kv_cache_manager"
_POOL: Final = "vllm.v1.core.block_pool"
_BLOCK: Final = "vllm.v1.core.kv_cache_utils"
_GROUPS: Final = "vllm.v1.kv_cache_interface"


class Need(NamedTuple):
    """One thing that is needed of vLLM.

    Attributes
    ----------
    module, path : str
        Where it is: ``Class.attribute``, or ``Class().attribute`` for one that instances have,
        which is looked for in the class's source.
    why : str
        What would not work without it.
    """

    module: str
    path: str
    why: str


NEEDS: Final = (
    Need(_ASYNC, "AsyncScheduler", "base class; keeps asynchronous scheduling"),
    Need(_ASYNC, "AsyncScheduler.schedule", "freezes time, snapshot and mode for one step"),
    Need(_ASYNC, "AsyncScheduler.add_request", "stamps arrivals"),
    Need(_ASYNC, "AsyncScheduler._free_request", "reports every end, finished or aborted"),
    Need(_ASYNC, "AsyncScheduler.shutdown", "stops the background threads"),
    Need(_SCHED, "Scheduler().waiting", "the queue that is swapped"),
    Need(_SCHED, "Scheduler().running", "concurrency of the reports"),
    Need(_SCHED, "Scheduler().requests", "tells an arrival from a session's next turn"),
    Need(_SCHED, "Scheduler().policy", "kind of vLLM's own queue"),
    Need(_SCHED, "Scheduler().vllm_config", "options, model and rank"),
    Need(_QUEUE, "RequestQueue", "base class of the queue"),
    Need(
        _QUEUE, "create_request_queue", "vLLM's own queue: modes off and shadow, and the way back"
    ),
    Need(_QUEUE, "SchedulingPolicy.PRIORITY", "whether vLLM counts priorities"),
    Need(_OUTPUT, "SchedulerOutput.scheduled_new_reqs", "who was admitted"),
    Need(_OUTPUT, "NewRequestData.req_id", "who was admitted"),
    Need(_REQUEST, "Request().request_id", "tells requests apart"),
    Need(_REQUEST, "Request().sampling_params", "hints; tells pooling requests"),
    Need(_REQUEST, "Request().max_tokens", "cap of the estimate; detection requests"),
    Need(_REQUEST, "Request().num_prompt_tokens", "size of a text request"),
    Need(_REQUEST, "Request().prompt_token_ids", "language, task and timestamps"),
    Need(_REQUEST, "Request().mm_features", "duration of the audio"),
    Need(_REQUEST, "Request().resumable", "streaming sessions"),
    Need(_REQUEST, "Request().status", "how a request ended"),
    Need(_REQUEST, "Request().priority", "vLLM's priority goes before any order"),
    Need(_REQUEST, "Request().arrival_time", "pieces of one file share it"),
    Need(_REQUEST, "Request().num_preemptions", "preempted requests go first"),
    Need(_REQUEST, "Request.num_output_tokens", "what a completion teaches"),
    Need(_REQUEST, "RequestStatus.FINISHED_STOPPED", "how a request ended"),
    Need(_REQUEST, "RequestStatus.FINISHED_LENGTH_CAPPED", "length finishes are lower bounds"),
    Need(_REQUEST, "RequestStatus.FINISHED_ABORTED", "aborted requests are not learned"),
)

# What the setting ``preemption = least_lost`` needs besides; without it vLLM preempts as it does.
PREEMPTION_NEEDS: Final = (
    Need(_SCHED, "Scheduler().running", "the last of it is preempted"),
    Need(_SCHED, "Scheduler().kv_cache_manager", "free blocks, and those of a request"),
    Need(_SCHED, "Scheduler().kv_cache_config", "how many cache groups grow"),
    Need(_SCHED, "Scheduler().block_size", "blocks that a step will ask for"),
    Need(_SCHED, "Scheduler().max_num_scheduled_tokens", "blocks that a step will ask for"),
    Need(_SCHED, "Scheduler().num_lookahead_tokens", "blocks that a step will ask for"),
    Need(_GROUPS, "KVCacheConfig.kv_cache_groups", "how many cache groups grow"),
    Need(_GROUPS, "KVCacheGroupSpec.kv_cache_spec", "how many cache groups grow"),
    Need(_MANAGER, "KVCacheManager().block_pool", "free blocks"),
    Need(_MANAGER, "KVCacheManager.get_blocks", "blocks of a request"),
    Need(_MANAGER, "KVCacheBlocks.blocks", "blocks of a request"),
    Need(_POOL, "BlockPool.get_num_free_blocks", "whether memory is short"),
    Need(_BLOCK, "KVCacheBlock.ref_cnt", "blocks that others share are not lost"),
    Need(_REQUEST, "Request().num_computed_tokens", "work that would be lost"),
    Need(_REQUEST, "Request.num_tokens_with_spec", "blocks that a step will ask for"),
    Need(_REQUEST, "Request().num_output_placeholders", "blocks that a step will ask for"),
)


class Finding(NamedTuple):
    """Whether one need is met.

    Attributes
    ----------
    name : str
        Module and path.
    why : str
        See `Need`.
    problem : str
        Empty if it is met.
    """

    name: str
    why: str
    problem: str = ""


def examine() -> list[Finding]:
    """Check every need against the vLLM that is installed.

    Returns
    -------
    list of Finding
        All needs in order, then what vLLM asks of a queue.
    """
    findings = [_check(need) for need in NEEDS]
    findings.append(_check_queue())
    return findings


def examine_preemption() -> list[Finding]:
    """Check what only the setting ``preemption = least_lost`` needs.

    Returns
    -------
    list of Finding
        In the order of `PREEMPTION_NEEDS`; one with a problem leaves preemption to vLLM.
    """
    return [_check(need) for need in PREEMPTION_NEEDS]


def resolve() -> type[Any]:
    """Give the scheduler class for this vLLM.

    Returns
    -------
    type
        `KappadScheduler`, or vLLM's own class with one warning.

    Raises
    ------
    ImportError
        This vLLM has no scheduler class that we know of at all.
    """
    problems = [f"{f.name}: {f.problem}" for f in examine() if f.problem]
    if not problems:
        try:
            module = importlib.import_module("sched_client.vllm.scheduler")
            return _class(module.KappadScheduler)
        except Exception as error:  # noqa: BLE001 - whatever it is, vLLM must start
            problems = [f"{type(error).__name__}: {error}"]
    stock = _stock()
    logger.warning(
        "kappad does not fit this vLLM (%s) and stays out of it: %s.%s schedules as without "
        "kappad; `python -m sched_client.vllm.doctor` lists what is missing",
        "; ".join(problems),
        stock.__module__,
        stock.__name__,
    )
    return stock


def engine_version() -> str:
    """Give vLLM's version, or an empty string where there is none."""
    try:
        return str(importlib.import_module("vllm").__version__)
    except Exception:  # noqa: BLE001 - a broken installation raises anything
        return ""


def _class(found: Any) -> type[Any]:
    if not isinstance(found, type):
        raise TypeError(f"{found!r} is no class")
    return found


def _stock() -> type[Any]:
    for module, name in ((_ASYNC, "AsyncScheduler"), (_SCHED, "Scheduler")):
        try:
            return _class(getattr(importlib.import_module(module), name))
        except Exception:  # noqa: BLE001, S112 - a broken module raises anything; the next one may do
            continue
    raise ImportError(
        f"neither {_ASYNC}.AsyncScheduler nor {_SCHED}.Scheduler exists in this vLLM "
        f"({engine_version() or 'not installed'}); start it without --scheduler-cls"
    )


def _check(need: Need) -> Finding:
    name = f"{need.module}.{need.path}"
    try:
        found: Any = importlib.import_module(need.module)  # Any: whatever vLLM has there
    except Exception as error:  # noqa: BLE001 - a broken module raises anything
        return Finding(name, need.why, f"cannot import: {type(error).__name__}: {error}")
    owner, of_instances, attribute = need.path.partition("().")
    for part in owner.split("."):
        if not _has(found, part):
            return Finding(name, need.why, "missing")
        found = getattr(found, part, None)
    if of_instances and not _sets(found, attribute):
        return Finding(name, need.why, "missing")
    return Finding(name, need.why)


def _has(owner: Any, name: str) -> bool:
    # Fields of dataclasses without a default are annotations only.
    return hasattr(owner, name) or name in getattr(owner, "__annotations__", {})


def _sets(cls: Any, attribute: str) -> bool:
    """Say whether instances of a class have an attribute, by the class's source."""
    if hasattr(cls, attribute):
        return True
    source = _source(cls)
    # Without a source (a compiled vLLM) construction finds out, and falls back.
    return not source or bool(re.search(rf"self\.{attribute}\b(?:: [^=\n]+)? = ", source))


def _source(found: Any) -> str:
    try:
        return inspect.getsource(found)
    except (OSError, TypeError):
        return ""


# What vLLM calls on the queue: `self.waiting.x(` and its local name for it in `schedule()`.
_CALLS: Final = re.compile(r"\b(?:self\.waiting|request_queue|from_queue)\.([A-Za-z_]\w*)")


def _check_queue() -> Finding:
    """Check that our queue has all that vLLM calls on it and all that its base class demands."""
    from sched_client.vllm.queue import KappadQueue  # noqa: PLC0415 - the doctor runs without it

    name, why = "methods of the waiting queue", "vLLM calls them on the queue that is swapped in"
    asked: set[str] = set()
    try:
        scheduler = importlib.import_module(_SCHED).Scheduler
        asked.update(_CALLS.findall(_source(scheduler)))
        base = importlib.import_module(_QUEUE).RequestQueue
        asked.update(getattr(base, "__abstractmethods__", ()))
    except Exception as error:  # noqa: BLE001 - a broken module raises anything
        return Finding(name, why, f"cannot look: {type(error).__name__}: {error}")
    unknown = sorted(method for method in asked if not hasattr(KappadQueue, method))
    return Finding(name, why, f"not known here: {', '.join(unknown)}" if unknown else "")
