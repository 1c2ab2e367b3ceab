"""How many objects Python's garbage collector counts.

Each 700 more than before (its first threshold) let it run, whoever made the last one.
"""

import gc
from collections.abc import Callable


def counted_by(act: Callable[[], object]) -> int:
    """Give how many objects an action leaves behind, as the youngest generation counts them."""
    enabled = gc.isenabled()
    gc.collect()
    gc.disable()
    try:
        before = gc.get_count()[0]
        act()
        return gc.get_count()[0] - before
    finally:
        if enabled:
            gc.enable()
