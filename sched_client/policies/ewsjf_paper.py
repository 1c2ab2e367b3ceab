"""The score of the EWSJF paper (arXiv 2601.21758), as it stands there. Standard library only.

    qf · (w_base + w_urg · cs + w_fair · ln(b + 1)),    qf = i / (b + 1),    cs = wait / C(b),
    w_urg = a_u · b̄ + b_u,    w_fair = a_f · b̄ + b_f

of the head of queue i (1 the shortest), with b its size, b̄ the mean size of what waits in its
queue and C(b) the time it costs. Only heads are scored; a queue keeps the order of arrival.
"""

from math import log
from typing import Final, NamedTuple

from sched_client.policies.cells import Cell
from sched_client.policies.ewsjf import Scores
from sched_client.policies.queues import TOKEN, QueueBook


class PaperWeights(NamedTuple):
    """What the paper's optimizer searches, and where it starts here.

    Attributes
    ----------
    w_base : float
        What a head is worth that has not waited.
    a_u, b_u : float
        Weight of waiting, a line over the queue's mean tokens.
    a_f, b_f : float
        Weight of length, likewise.

    Notes
    -----
    The paper gives the formula and no values: its optimizer finds them for each load. No slopes,
    and 1 for what has a scale of its own; ½ for length, as the implementation that its authors
    offered to vLLM (pull request #33392, ``weighting_factor``).
    """

    w_base: float = 1.0
    a_u: float = 0.0
    b_u: float = 1.0
    a_f: float = 0.0
    b_f: float = 0.5


PAPER_WEIGHTS: Final = PaperWeights()


def paper_scores(weights: PaperWeights = PAPER_WEIGHTS) -> Scores:
    """Make the paper's score of heads.

    Parameters
    ----------
    weights : PaperWeights
        Its parameters.

    Returns
    -------
    callable
        For `sched_client.policies.ewsjf.HeadsFirst`. Sizes are a request's estimated tokens, as
        its prompt says little of what a transcription costs, and C(b) its estimated service.
    """
    w_base, a_u, b_u, a_f, b_f = weights

    def scores(cells: list[Cell], _book: QueueBook, now_s: float) -> list[float]:
        values = []
        for cell in cells:
            queue, tokens = cell.queue, cell.tokens
            mean = queue.tokens / (TOKEN * queue.count)
            waited = (now_s - cell.enqueued_s) / cell.service_s
            worth = w_base + (a_u * mean + b_u) * waited + (a_f * mean + b_f) * log(tokens + 1.0)
            values.append(cell.factor * (queue.position / (tokens + 1.0)) * worth)
        return values

    return scores
