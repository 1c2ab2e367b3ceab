"""Switches the mode: recorded first, published next, once for each request id."""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

from estimator.runtime.errors import InvalidRequestError, UnavailableError
from estimator.runtime.learner import Learner
from estimator.runtime.store_worker import StoreWorker
from estimator.store.base import ModeChange, StoreError
from estimator.telemetry.logs import get_logger
from sched_client.model import Mode

__all__ = ["ModeSwitch", "ModeSwitched"]

_log = get_logger("mode")
_USED: Final = "was used to switch to {} before; make a new one for another switch"


@dataclass(frozen=True, slots=True, kw_only=True)
class ModeSwitched:
    """The outcome of one switch."""

    mode: Mode
    previous_mode: Mode
    snapshot_version: int


class ModeSwitch:
    """The one way to change the mode at run time.

    Parameters
    ----------
    worker : StoreWorker
        Where switches are recorded; the latest one wins over the configuration at a start.
    learner : Learner
        Publishes.
    now_s : callable
        Unix time.
    """

    def __init__(
        self, worker: StoreWorker, learner: Learner, *, now_s: Callable[[], float] = time.time
    ) -> None:
        self._worker = worker
        self._learner = learner
        self._now_s = now_s
        self._lock = asyncio.Lock()

    async def set(self, mode: Mode, *, actor: str, reason: str, request_id: str) -> ModeSwitched:
        """Switch every engine that follows this sidecar.

        Parameters
        ----------
        mode : {"off", "shadow", "on"}
            The mode from now on.
        actor, reason : str
            Who asked, and why; recorded.
        request_id : str
            The same id again changes nothing and gives the first outcome; empty for none.

        Returns
        -------
        ModeSwitched
            With the version that carries the mode (or the newest, if nothing was to change).

        Raises
        ------
        InvalidRequestError
            If the id was used for another mode: an `off` must not be answered by an old `on`.
        UnavailableError
            If it cannot be recorded: a switch that a restart forgets is none.
        """
        publisher = self._learner.publisher
        store = self._worker.store
        async with self._lock:
            try:
                if request_id:
                    known = await self._worker.read(lambda: store.find_mode_change(request_id))
                    if known is not None and known.mode != mode:
                        raise InvalidRequestError([("request_id", _USED.format(known.mode))])
                    if known is not None:
                        return ModeSwitched(
                            mode=known.mode,
                            previous_mode=known.previous_mode,
                            snapshot_version=publisher.snapshot.version,
                        )
                previous = publisher.snapshot.settings.mode
                if mode != previous:
                    # Before it is recorded: the same id again would be told that it is done.
                    self._learner.check_version_left()
                change = ModeChange(
                    changed_s=self._now_s(),
                    mode=mode,
                    previous_mode=previous,
                    actor=actor,
                    reason=reason,
                    request_id=request_id,
                )
                await self._worker.write(lambda: store.append_mode_change(change))
            except StoreError as error:
                raise UnavailableError(
                    f"the mode cannot be recorded: {error}; to stop reordering at once, put a "
                    "file named 'off' beside the socket",
                    reason="STORE_UNAVAILABLE",
                    retry_after_s=2.0,
                ) from error
            version = publisher.snapshot.version
            if mode != previous:
                settings = replace(publisher.snapshot.settings, mode=mode)
                version = self._learner.publish_settings(settings)
            _log.info("mode", mode=mode, previous=previous, actor=actor, reason=reason)
            return ModeSwitched(mode=mode, previous_mode=previous, snapshot_version=version)
