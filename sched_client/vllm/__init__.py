"""The thin client inside vLLM: ``--scheduler-cls sched_client.vllm.KappadScheduler``.

The class is looked up on first use, so that importing this package imports nothing heavy; on a
vLLM that it does not fit, the name gives vLLM's own scheduler (`sched_client.vllm.shim`).
"""

from typing import Any

# Not in __all__: `from sched_client.vllm import *` must not load vLLM.
__all__: list[str] = []


def __getattr__(name: str) -> Any:  # Any: a class of vLLM's, which is not imported here
    if name != "KappadScheduler":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from sched_client.vllm.shim import resolve  # noqa: PLC0415 - loads vLLM, only when asked

    return resolve()
