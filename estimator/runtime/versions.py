"""Which snapshot versions may be used: those that the store has promised to remember.

Versions are promised in blocks, so that none is used twice after a crash: one write for 200 s of
publishing at full rate.
"""

from typing import Final

__all__ = ["VERSION_BLOCK", "Versions"]

VERSION_BLOCK: Final = 1000
# Kept back for switches of the mode, which must not wait for a checkpoint.
_RESERVE: Final = 100


class Versions:
    """What is left of the block that was promised.

    Parameters
    ----------
    promised : int
        The highest version that the store knows may have been used.
    """

    def __init__(self, promised: int) -> None:
        self.promised = promised

    def may_publish(self, version: int) -> bool:
        """Say whether what was learned may be published on top of a version."""
        return self.promised - version > _RESERVE

    def is_one_left(self, version: int) -> bool:
        """Say whether anything may be published on top of a version."""
        return version < self.promised

    def is_low(self, version: int) -> bool:
        """Say whether the next block should be asked for."""
        return self.promised - version < VERSION_BLOCK // 2
