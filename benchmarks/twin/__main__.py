"""What the twin shows: what learning is worth, a drift, low load, the guard, and groups.

Run: ``python -m benchmarks.twin [PART…]`` (all of it about 5 minutes of one core).
"""

import argparse
import json
import sys
import time
from collections.abc import Callable
from typing import Final

from benchmarks.twin import drift_middle, groups, guard, learning_worth, low_load
from benchmarks.twin.material import Row

PARTS: Final[dict[str, Callable[[], Row]]] = {
    "worth": learning_worth.measure,
    "drift": drift_middle.measure,
    "low_load": low_load.measure,
    "guard": guard.measure,
    "groups": groups.measure,
}


def main() -> None:
    """Measure the parts that were asked for, all by default, and print JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", metavar="PART", help=", ".join(PARTS))
    wanted = parser.parse_args().parts
    unknown = set(wanted) - PARTS.keys()
    if unknown:
        parser.error(f"unknown part {', '.join(sorted(unknown))}")
    result: Row = {}
    for name, part in PARTS.items():
        if wanted and name not in wanted:
            continue
        start = time.process_time()
        result[name] = part()
        print(f"{name}: {time.process_time() - start:.0f} s", file=sys.stderr, flush=True)
    print(json.dumps(result, indent=2))


if __name__ == "__main__":
    main()
