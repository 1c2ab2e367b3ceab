"""One line of progress on a terminal, nothing elsewhere."""

import sys
import time
from types import TracebackType
from typing import Final, Self

_BAR: Final = 30
# Faster than an eye follows, slower than costs anything.
_INTERVAL_S: Final = 0.1


class Progress:
    """Draws a bar on standard error while a block runs; silent where that is no terminal.

    Parameters
    ----------
    label : str
        What is going on; printable.
    shown : bool
        False keeps it silent on a terminal too.
    unit : str
        What is counted.
    """

    def __init__(self, label: str, *, shown: bool = True, unit: str = "rows") -> None:
        self.label = label
        self.unit = unit
        self._shown = shown and sys.stderr.isatty()
        self._started_s = self._drawn_s = time.monotonic()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._shown:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)

    def update(self, n: int, ratio: float | None = None) -> None:
        """Say how far it is.

        Parameters
        ----------
        n : int
            Units so far.
        ratio : float, optional
            Share of the whole, in [0, 1], where it is known.
        """
        now_s = time.monotonic()
        if not self._shown or now_s - self._drawn_s < _INTERVAL_S:
            return
        self._drawn_s = now_s
        rate = n / max(now_s - self._started_s, 1e-9)
        bar = ""
        if ratio is not None:
            filled = round(ratio * _BAR)
            bar = f"[{'#' * filled}{'.' * (_BAR - filled)}] {ratio:4.0%} "
        line = f"\r\x1b[K{self.label} {bar}{n:,} {self.unit}, {rate:,.0f}/s"
        print(line, end="", file=sys.stderr, flush=True)
