"""Where the operator's ``off`` file lies. Standard library only."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

_DEFAULT: Final = Path("/run/kappad/off")
_VARIABLE: Final = "KAPPAD_OFF_FILE"
_UNIX: Final = "unix:"


def kill_switch_path(target: str, environment: Mapping[str, str] | None = None) -> Path:
    """Give the file whose existence switches kappad off.

    Parameters
    ----------
    target : str
        The sidecar: the file lies beside a unix socket, else in ``/run/kappad``.
    environment : Mapping of str to str, optional
        ``KAPPAD_OFF_FILE`` wins; defaults to the process's own.

    Returns
    -------
    Path
        Whether or not it exists.

    Examples
    --------
    >>> str(kill_switch_path("unix:///tmp/k/kappad.sock", {}))
    '/tmp/k/off'
    """
    chosen = (os.environ if environment is None else environment).get(_VARIABLE)
    if chosen:
        return Path(chosen)
    if target.startswith(_UNIX):
        return Path(target.removeprefix(_UNIX).removeprefix("//")).with_name("off")
    return _DEFAULT
