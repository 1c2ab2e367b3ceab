"""The one object that the scheduler sees of the sidecar: plain attributes and an append.

Nothing here imports grpc: it is loaded on a thread of its own after `Link.start`, so that neither
its absence nor its cost reaches the engine. Threads are daemons and a link belongs to the process
that started it; a forked child keeps the last snapshot and reports nothing.
"""

import atexit
import logging
import os
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from sched_client.completion import CompletionReport
from sched_client.model import prior_snapshot
from sched_client.options import ClientOptions
from sched_client.transport.buffer import ReportBuffer
from sched_client.transport.identity import Identity, make_client_id
from sched_client.transport.kill_switch import kill_switch_path
from sched_client.transport.state import LinkState, Timing

if TYPE_CHECKING:
    from sched_client.transport.reporter import Reporter
    from sched_client.transport.watcher import Watcher

__all__ = ["Identity", "Link", "Timing", "make_client_id"]

_LOG: Final = logging.getLogger("kappad")


class Link(LinkState):
    """Follows the sidecar and reports to it in the background.

    Parameters
    ----------
    options : ClientOptions
        Names the sidecar and the prior.
    identity : Identity
        Names this engine.
    boot_id : str
        Uuid of this engine's start: begins every completion id.
    monotonic : callable
        The clock of ``stale_since_s``, seconds.
    timing : Timing
        Bounds; the defaults are for production.

    Notes
    -----
    The attributes are those of `LinkState`. Creating a link costs nothing: no thread, no channel,
    no import.
    """

    def __init__(
        self,
        options: ClientOptions,
        identity: Identity,
        *,
        boot_id: str,
        monotonic: Callable[[], float] = time.monotonic,
        timing: Timing | None = None,
    ) -> None:
        super().__init__(prior_snapshot(kappa_tokens_per_s=options.prior_kappa), monotonic())
        self._options = options
        self._identity = identity
        self._boot_id = boot_id
        self._monotonic = monotonic
        self._timing = timing or Timing()
        self._buffer = ReportBuffer(self._timing.buffer_size)
        self._switch = kill_switch_path(options.target)
        self._watcher: Watcher | None = None
        self._reporter: Reporter | None = None
        self._threads: list[threading.Thread] = []
        self._process: int | None = None
        self._told: set[str] = set()

    def start(self) -> None:
        """Start the threads; once, and it never raises."""
        if self._process is not None:
            return
        self._process = os.getpid()
        try:
            self._spawn("kappad-poll", self._poll)
            self._spawn("kappad-load", self._load)
            atexit.register(self.close)
        except RuntimeError as error:  # the process may start no more threads
            self._fail("cannot start threads; scheduling goes on without a sidecar", error)

    def report(self, report: CompletionReport) -> None:
        """Hand over a completion; never blocks and never raises.

        When the buffer is full the oldest is dropped and counted.
        """
        self._buffer.append(report)

    def close(self) -> None:
        """End the threads within ``Timing.close_s``, sending what can be sent; idempotent."""
        if self._process != os.getpid() or self.stop.is_set():
            return
        end_s = time.monotonic() + self._timing.close_s
        self.stop.set()
        # The reporter may use most of the time for what it still holds.
        for thread in self._threads:
            if thread.name == "kappad-report":
                thread.join(0.75 * self._timing.close_s)
        for part in (self._reporter, self._watcher):
            if part is not None:
                part.close()
        for thread in self._threads:
            thread.join(max(0.0, end_s - time.monotonic()))
        atexit.unregister(self.close)

    def _spawn(self, name: str, body: Callable[[], None]) -> None:
        thread = threading.Thread(target=self._guarded, args=(body,), name=name, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _guarded(self, body: Callable[[], None]) -> None:
        while not self.stop.is_set():
            try:
                body()
            except Exception as error:  # noqa: BLE001  the top of a thread: the engine goes on
                self._fail(f"{threading.current_thread().name} failed and starts again", error)
                self.stop.wait(self._timing.backoff_max_s)
            else:
                return

    def _fail(self, what: str, error: Exception) -> None:
        self.failures += 1
        if what not in self._told:
            self._told.add(what)
            _LOG.error("kappad: %s", what, exc_info=error)

    def _poll(self) -> None:
        """Look for the kill switch and for silence; works whatever the sidecar does."""
        while True:
            present = os.path.exists(self._switch)  # noqa: PTH110  False where Path raises
            if present is not self.kill_switch:
                self.kill_switch = present
                _LOG.warning(
                    "kappad: kill switch %s %s", self._switch, "found" if present else "gone"
                )
            watcher = self._watcher
            if watcher is not None:
                watcher.check_silence()
            if self.stop.wait(self._timing.poll_s):
                return

    def _load(self) -> None:
        # Imported here: grpc takes a tenth of a second to load and may be absent.
        try:
            from sched_client.transport.reporter import Reporter  # noqa: PLC0415  see above
            from sched_client.transport.watcher import Watcher  # noqa: PLC0415  see above
        except Exception as error:  # noqa: BLE001  a broken package raises anything
            self._fail("cannot load grpc; scheduling goes on without a sidecar", error)
            return
        self._reporter = Reporter(
            self, self._buffer, self._options, self._identity, self._boot_id, self._timing
        )
        self._watcher = Watcher(self, self._options, self._identity, self._timing, self._monotonic)
        self._spawn("kappad-report", self._reporter.run)
        self._spawn("kappad-watch", self._watcher.run)
