"""The command line that the twin's benchmarks share."""

import argparse
import json
import sys
import time
from collections.abc import Callable, Mapping

from benchmarks.twin.material import Row


def run_parts(parts: Mapping[str, Callable[[], Row]], description: str | None) -> None:
    """Measure the parts that were asked for, all by default, and print JSON.

    Parameters
    ----------
    parts : mapping of str to callable
        What can be asked for, and what measures it.
    description : str or None
        What ``--help`` says.
    """
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("parts", nargs="*", metavar="PART", help=", ".join(parts))
    wanted = parser.parse_args().parts
    unknown = set(wanted) - parts.keys()
    if unknown:
        parser.error(f"unknown part {', '.join(sorted(unknown))}")
    result: Row = {}
    for name, part in parts.items():
        if wanted and name not in wanted:
            continue
        start = time.process_time()
        result[name] = part()
        print(f"{name}: {time.process_time() - start:.0f} s", file=sys.stderr, flush=True)
    print(json.dumps(result, indent=2))
