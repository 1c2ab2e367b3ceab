"""What callers wait for who sent several requests at once: the pieces of one file.

A caller has its answer when its last piece has ended.
"""

from array import array

import numpy as np

from estimator.replay.job import NS_PER_S
from estimator.replay.outcome import Outcome


class _File:
    """The pieces of one file that have ended."""

    __slots__ = ("first_ns", "last_ns", "left", "pieces")

    def __init__(self, first_ns: int) -> None:
        self.first_ns = first_ns
        self.last_ns = 0
        self.pieces = 0
        self.left = False


class Callers:
    """Takes the outcomes of requests that belong to groups.

    Attributes
    ----------
    at : array of int
        Which of a run's finished requests, counted from 0, are pieces of files.
    """

    def __init__(self) -> None:
        self.at = array("q")
        self._files: dict[str, _File] = {}

    def __bool__(self) -> bool:
        """Tell whether any request belonged to a group."""
        return bool(self._files)

    def take(self, outcome: Outcome) -> None:
        """Take the outcome of one piece; a file of which one was aborted is not counted."""
        job = outcome.job
        file = self._files.get(job.group_id)
        if file is None:
            file = self._files[job.group_id] = _File(job.arrival_ns)
        file.first_ns = min(file.first_ns, job.arrival_ns)
        file.last_ns = max(file.last_ns, outcome.finished_ns)
        file.pieces += 1
        file.left |= outcome.finish == "aborted"

    def latencies(
        self, e2e_s: "array[float]", overhead_s: float
    ) -> tuple["array[float]", "array[float]"]:
        """Give the seconds from arrival to last answer: of every caller, and of files.

        Parameters
        ----------
        e2e_s : array of float
            Of all finished requests, pieces included, in the order in which they ended.
        overhead_s : float
            Seconds outside the engine, once a caller.

        Returns
        -------
        tuple of array
            A file of one piece is among the first only.
        """
        alone = np.delete(np.frombuffer(e2e_s), np.frombuffer(self.at, dtype=np.int64))
        callers, files = array("d", alone), array("d")
        for file in self._files.values():
            if file.left:
                continue
            latency_s = (file.last_ns - file.first_ns) / NS_PER_S + overhead_s
            callers.append(latency_s)
            if file.pieces > 1:
                files.append(latency_s)
        return callers, files
