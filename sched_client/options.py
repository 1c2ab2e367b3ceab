"""The client's options: vLLM's ``additional_config["kappad"]``, then ``KAPPAD_*`` variables.

Variables win and do not enter vLLM's configuration hash. Standard library only. A bad value
never stops an engine: it is replaced by its default and named in `ClientOptions.problems`.
"""

import math
import os
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Final

from sched_client.model import DEFAULT_KAPPA_TOKENS_PER_S, MODES

DEFAULT_TARGET: Final = "unix:///run/kappad/kappad.sock"
_PREFIX: Final = "KAPPAD_"
_TRUE: Final = frozenset({"1", "true", "yes", "on"})
_FALSE: Final = frozenset({"0", "false", "no", "off"})


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientOptions:
    """What an operator may set for one engine.

    Attributes
    ----------
    target : str
        The sidecar: ``unix:///path`` or ``host:port``.
    policy : str
        ``auto`` follows the snapshot; otherwise a name that ``create_policy`` knows.
    mode : str
        ``auto`` follows the snapshot; ``off``, ``shadow`` or ``on`` stand whatever it says.
    prior_kappa : float
        Tokens per second of audio assumed before any snapshot, > 0.
    stale_fcfs_after_s : float
        Seconds without a sign of the sidecar after which the queue is FCFS, > 0.
    trust_hints : bool
        Whether ``vllm_xargs`` hints may lower an estimate or choose a tier.
    problems : tuple of str
        Values that were refused, each with its remedy.
    """

    target: str = DEFAULT_TARGET
    policy: str = "auto"
    mode: str = "auto"
    prior_kappa: float = DEFAULT_KAPPA_TOKENS_PER_S
    stale_fcfs_after_s: float = 300.0
    trust_hints: bool = False
    problems: tuple[str, ...] = ()


def read_options(
    additional_config: object = None, environment: Mapping[str, str] | None = None
) -> ClientOptions:
    """Read the options; never raises.

    Parameters
    ----------
    additional_config : object
        vLLM's ``additional_config``; anything but a mapping is ignored.
    environment : Mapping of str to str, optional
        Defaults to the process's own.

    Returns
    -------
    ClientOptions
        With defaults where a value is absent or refused.
    """
    given: dict[str, Any] = {}  # Any: operators may write any JSON here; each value is checked.
    if isinstance(additional_config, Mapping):
        section = additional_config.get("kappad")
        if isinstance(section, Mapping):
            given.update({str(name): value for name, value in section.items()})
    names = [f.name for f in fields(ClientOptions) if f.name != "problems"]
    for name in names:
        value = (os.environ if environment is None else environment).get(_PREFIX + name.upper())
        if value is not None:
            given[name] = value
    problems = [
        f"kappad option {name!r} is unknown; use one of {', '.join(names)}"
        for name in given
        if name not in names
    ]
    accepted: dict[str, Any] = {}  # Any: each value has its option's own type.
    for name in names:
        if name in given:
            try:
                accepted[name] = _CHECKS[name](given[name])
            except (TypeError, ValueError) as error:
                problems.append(f"kappad option {name}={given[name]!r}: {error}; using default")
    return ClientOptions(**accepted, problems=tuple(problems))


def _target(value: object) -> str:
    text = str(value).strip()
    if not text:
        raise ValueError("must be unix:///path or host:port")
    return text


def _policy(value: object) -> str:
    return str(value).strip() or "auto"


def _mode(value: object) -> str:
    if value is False:  # YAML's and JSON's idea of `mode: off`
        return "off"
    text = str(value).strip().lower()
    if text not in {"auto", *MODES}:
        raise ValueError(f"must be auto, {', '.join(MODES)}")
    return text


def _positive(value: object) -> float:
    if isinstance(value, bool):
        raise TypeError("must be a number > 0")
    number = float(value)  # type: ignore[arg-type]  # a wrong type raises, which is the check
    if not (math.isfinite(number) and number > 0.0):
        raise ValueError("must be finite and > 0")
    return number


def _boolean(value: object) -> bool:
    if isinstance(value, bool):
        return value
    text = str(value).strip().lower()
    if text in _TRUE:
        return True
    if text in _FALSE:
        return False
    raise ValueError("must be true or false")


_CHECKS: Final = {
    "target": _target,
    "policy": _policy,
    "mode": _mode,
    "prior_kappa": _positive,
    "stale_fcfs_after_s": _positive,
    "trust_hints": _boolean,
}
