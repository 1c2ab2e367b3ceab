"""Which mode is in force, and why; pure.

The operator's switch, the engine's own options, the kill switch, a silent sidecar and our own
failure are all weighed here and nowhere else.
"""

from collections.abc import Collection
from typing import NamedTuple

from sched_client.model import Mode, Snapshot
from sched_client.options import ClientOptions


class Decision(NamedTuple):
    """The mode in force.

    Attributes
    ----------
    mode : {"off", "shadow", "on"}
        What the queue does.
    policy : str
        Name of the order that ``shadow`` records and ``on`` admits in.
    reason : str
        Why this differs from what was asked for; empty if it does not.
    reports : bool
        Whether completions are reported: not in a mode ``off`` that somebody asked for nor after
        a failure, but still while the sidecar is silent, so that nothing is missed.
    """

    mode: Mode
    policy: str
    reason: str = ""
    reports: bool = True


def decide(
    options: ClientOptions,
    snapshot: Snapshot,
    *,
    policies: Collection[str],
    kill_switch: bool = False,
    stale_for_s: float | None = None,
) -> Decision:
    """Weigh everything that has a say in the mode.

    Parameters
    ----------
    options : ClientOptions
        A mode or policy other than ``auto`` stands whatever the snapshot says.
    snapshot : Snapshot
        Version 0 is the configured prior: no sidecar has answered yet, and it never goes stale.
    policies : collection of str
        Names that ``create_policy`` knows.
    kill_switch : bool
        Whether the file named ``off`` lies beside the socket.
    stale_for_s : float or None
        Seconds since the last sign of the sidecar, None while it is in touch.

    Returns
    -------
    Decision
        ``off`` for a kill switch or a long silence, in this order.
    """
    asked: Mode = snapshot.settings.mode
    if options.mode != "auto":
        asked = options.mode  # type: ignore[assignment]  # read_options accepts modes only
    policy = snapshot.settings.policy if options.policy == "auto" else options.policy
    if kill_switch:
        return Decision("off", "fcfs", "kill switch", reports=False)
    if asked == "off":
        reason = "options" if snapshot.settings.mode != "off" else ""
        return Decision("off", "fcfs", reason, reports=False)
    if (
        snapshot.version > 0
        and stale_for_s is not None
        and stale_for_s > options.stale_fcfs_after_s
    ):
        return Decision("off", "fcfs", "stale")
    if policy not in policies:
        return Decision(asked, "fcfs", f"unknown policy {policy[:64]!r}")
    overridden = asked != snapshot.settings.mode or policy != snapshot.settings.policy
    return Decision(asked, policy, "options" if overridden else "")


def failed(failure: str) -> Decision:
    """Give the decision that stands for ever after a failure of our own.

    Parameters
    ----------
    failure : str
        What went wrong.

    Returns
    -------
    Decision
        Mode ``off`` without reports.
    """
    return Decision("off", "fcfs", f"failure: {failure}", reports=False)
