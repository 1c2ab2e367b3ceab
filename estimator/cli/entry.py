"""What the ``kappad`` command calls: says what to install where the sidecar's packages are not.

The client's installation, which belongs into vLLM's environment, has the command as well.
Standard library only.
"""

import importlib
import sys

from estimator.cli.missing import is_ours, remedy


def main() -> None:
    """Run a command and exit with its code; 1 where a package is missing."""
    try:
        commands = importlib.import_module("estimator.cli.main")
    except ModuleNotFoundError as error:
        if is_ours(error):
            raise
        print(f"kappad: {remedy(error)}", file=sys.stderr)
        sys.exit(1)
    commands.main()
