"""The score of the EWSJF paper (arXiv 2601.21758), as it stands there. Standard library only.

    qf · (w_base + w_urg · cs + w_fair · ln(b + 1)),    qf = i / (b + 1),    cs = wait / C(b),
    w_urg = a_u · b̄ + b_u,    w_fair = a_f · b̄ + b_f

of the head of queue i (1 the shortest), with b its size, b̄ the mean size of what waits in its
queue and C(b) the time it costs. Only heads are scored; a queue keeps the order of arrival.
"""

from math import log
from typing import Final, NamedTuple

from sched_client.model import PolicyParameters
from sched_client.policies.cells import Cell
from sched_client.policies.ewsjf import QueuedOrders, Scores, by_line
from sched_client.policies.queues import TOKEN, QueueBook
from sched_client.policies.waiting import Waiting


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


def paper_orders(
    parameters: PolicyParameters, weights: PaperWeights = PAPER_WEIGHTS
) -> QueuedOrders:
    """Make the orders of a policy that goes by the paper's score.

    Parameters
    ----------
    parameters : PolicyParameters
        Hold the partition and the weight of tiers.
    weights : PaperWeights
        The score's own.

    Returns
    -------
    QueuedOrders
        Sizes are a request's estimated tokens, as its prompt says little of what a transcription
        costs, and C(b) its estimated service.
    """
    w_base, a_u, b_u, a_f, b_f = weights

    def value(cell: Cell, head: Waiting) -> tuple[float, float]:
        # Without slopes a score is a line in time that stands as long as the head does.
        size = head.tokens + 1.0
        factor = cell.factor * (cell.queue.position / size)
        rate = factor * b_u / head.service_s
        return factor * (w_base + b_f * log(size)) - rate * head.enqueued_s, rate

    def sloped(cells: list[Cell], _book: QueueBook, now_s: float) -> list[float]:
        return [_score(cell, weights, now_s) for cell in cells]

    scores: Scores = sloped if a_u or a_f else by_line
    return QueuedOrders(QueueBook(parameters, value), scores)


def _score(cell: Cell, weights: PaperWeights, now_s: float) -> float:
    """Score a head where its weights move with what waits in its queue."""
    w_base, a_u, b_u, a_f, b_f = weights
    head, queue = cell.head, cell.queue
    if head is None:
        raise RuntimeError("a queue without a head was scored")
    size, mean = head.tokens + 1.0, queue.tokens / (TOKEN * queue.count)
    waited = (now_s - head.enqueued_s) / head.service_s
    worth = w_base + (a_u * mean + b_u) * waited + (a_f * mean + b_f) * log(size)
    return cell.factor * (queue.position / size) * worth
