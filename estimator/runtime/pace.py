"""How often something costly may be done, so that it takes a small share of the time only."""

__all__ = ["Pace"]


class Pace:
    """Space repetitions by what the last one took.

    Parameters
    ----------
    share : float
        Of the time, that the repetitions may take; in (0, 1].
    least_s, most_s : float
        Seconds from the begin of one to the next, whatever it took; ``most_s`` ≥ ``least_s`` ≥ 0.

    Attributes
    ----------
    next_at : float
        When the next one may begin, in the caller's clock.
    """

    def __init__(self, *, share: float, least_s: float, most_s: float) -> None:
        self.share = share
        self.least_s = least_s
        self.most_s = most_s
        self.next_at = 0.0

    def took(self, begun: float, ended: float) -> None:
        """Note when the last one began and ended, in seconds of the caller's clock."""
        wait_s = min((ended - begun) / self.share, self.most_s)
        self.next_at = begun + max(wait_s, self.least_s)
