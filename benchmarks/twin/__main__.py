"""What the twin shows: what learning is worth, a drift, low load, the guard, and groups.

Run: ``python -m benchmarks.twin [PART…]`` (all of it about 5 minutes of one core).
"""

from collections.abc import Callable
from typing import Final

from benchmarks.twin import drift_middle, groups, guard, learning_worth, low_load
from benchmarks.twin.material import Row
from benchmarks.twin.parts import run_parts

PARTS: Final[dict[str, Callable[[], Row]]] = {
    "worth": learning_worth.measure,
    "drift": drift_middle.measure,
    "low_load": low_load.measure,
    "guard": guard.measure,
    "groups": groups.measure,
}


if __name__ == "__main__":
    run_parts(PARTS, __doc__)
