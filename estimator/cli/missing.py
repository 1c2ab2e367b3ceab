"""The one line for a package that is not installed. Standard library only."""

from typing import Final

_OURS: Final = frozenset({"estimator", "sched_client", "protos"})


def is_ours(error: ModuleNotFoundError) -> bool:
    """Tell whether the missing module is one of kappad's own, which is a bug."""
    return _package(error) in _OURS


def remedy(error: ModuleNotFoundError) -> str:
    """Tell which package is missing and what to do.

    Examples
    --------
    >>> remedy(ModuleNotFoundError(name="google.rpc"))[:23]
    'google is not installed'
    """
    return (
        f"{_package(error)} is not installed; the commands need `pip install 'kappad[sidecar]'`, "
        "not in vLLM's environment but in one of their own"
    )


def _package(error: ModuleNotFoundError) -> str:
    return (error.name or "a package").partition(".")[0]
