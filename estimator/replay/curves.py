"""What a run looks like drawn: the distribution of E2E, and its P90 over time.

A few hundred numbers stand for any number of requests.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np

from estimator.replay.figures import Recorder

# Points of a distribution: every half percent, and the tail closer.
_SHARES: Final = (*(one / 200 for one in range(200)), 0.9975, 0.999, 0.9995, 1.0)
# A window needs some requests to have a P90, and a chart has room for so many windows.
_REQUESTS_PER_WINDOW: Final = 40
_MAX_WINDOWS: Final = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Curves:
    """Two lines of one run.

    Attributes
    ----------
    e2e_s, share_ratio : tuple of float
        The distribution of E2E: this share of the requests took at most so long.
    arrived_s, p90_s : tuple of float
        The middle of each window of arrivals, and the P90 of E2E of who came in it.
    """

    e2e_s: tuple[float, ...]
    share_ratio: tuple[float, ...]
    arrived_s: tuple[float, ...]
    p90_s: tuple[float, ...]


def curves_of(recorder: Recorder) -> Curves:
    """Condense a run's requests.

    Parameters
    ----------
    recorder : Recorder
        At least one request has finished.
    """
    e2e_s = np.frombuffer(recorder.e2e_s)
    arrived_s = np.frombuffer(recorder.finished_s) - e2e_s
    windows = min(max(len(e2e_s) // _REQUESTS_PER_WINDOW, 1), _MAX_WINDOWS)
    first, last = float(arrived_s.min()), float(arrived_s.max())
    width = (last - first) / windows or 1.0
    window = np.minimum(((arrived_s - first) / width).astype(int), windows - 1)
    taken = [index for index in range(windows) if bool((window == index).any())]
    return Curves(
        e2e_s=tuple(float(one) for one in np.quantile(e2e_s, _SHARES)),
        share_ratio=_SHARES,
        arrived_s=tuple(first + (index + 0.5) * width for index in taken),
        p90_s=tuple(float(np.percentile(e2e_s[window == index], 90)) for index in taken),
    )
