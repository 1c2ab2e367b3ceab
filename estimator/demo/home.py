"""Where the demo keeps what it builds, and what vLLM's environment sees of kappad.

In a clone both are the clone. An installed kappad must not write into its own environment, nor
show vLLM the sidecar's packages, which vLLM pins otherwise: it uses the user's cache, and in it a
folder with links to the client alone. Standard library only, as `estimator.demo.environment`.
"""

import contextlib
import os
from pathlib import Path
from typing import Final

_PARENT: Final = Path(__file__).resolve().parents[2]
_CLIENT_PACKAGES: Final = ("sched_client", "protos")


def home(parent: Path = _PARENT) -> Path:
    """Give the folder for environments, weights and runs.

    Parameters
    ----------
    parent : pathlib.Path
        The folder that holds the package ``estimator``.

    Returns
    -------
    pathlib.Path
        The clone, or ``$XDG_CACHE_HOME/kappad`` of an installed kappad.
    """
    if (parent / "pyproject.toml").is_file():
        return parent
    cache = os.environ.get("XDG_CACHE_HOME")
    return (Path(cache) if cache else Path.home() / ".cache") / "kappad"


def client_path(parent: Path = _PARENT) -> Path:
    """Give the folder to put on vLLM's module path; made where there is no clone.

    Parameters
    ----------
    parent : pathlib.Path
        The folder that holds the packages.
    """
    folder = home(parent)
    if folder == parent:
        return folder
    folder = folder / "client"
    folder.mkdir(parents=True, exist_ok=True)
    for name in _CLIENT_PACKAGES:
        link, source = folder / name, parent / name
        if link.is_symlink() and link.readlink() != source:  # another installation's
            link.unlink(missing_ok=True)
        with contextlib.suppress(FileExistsError):
            link.symlink_to(source)
    return folder
