"""The store behind one thread of its own, so that a slow disk never holds the event loop."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from estimator.store.base import Store, StoreError
from estimator.telemetry.logs import get_logger
from estimator.telemetry.metrics import Metrics

__all__ = ["StoreWorker"]

_T = TypeVar("_T")
_log = get_logger("store")


class StoreWorker:
    """Runs the store's methods one after the other and knows whether it works.

    Parameters
    ----------
    store : Store
        Used by nobody else from now on.
    metrics : Metrics
        Counts failures.

    Attributes
    ----------
    error : str
        Empty while the store takes writes; otherwise why it does not.
    on_change : callable
        Called when ``error`` changes.
    """

    def __init__(self, store: Store, metrics: Metrics) -> None:
        self.store = store
        self.instance_id = store.instance_id
        self.error = ""
        self.on_change: Callable[[], None] = lambda: None
        self._metrics = metrics
        # One thread: the contract of Store.
        self._executor = ThreadPoolExecutor(1, thread_name_prefix="kappad-store")
        metrics.store_up.set(1)

    async def read(self, function: Callable[[], _T]) -> _T:
        """Run something that changes nothing.

        Raises
        ------
        StoreError
            If the store cannot be read.
        """
        try:
            return await asyncio.get_running_loop().run_in_executor(self._executor, function)
        except StoreError as error:
            self._failed(error)
            raise

    async def write(self, function: Callable[[], _T]) -> _T:
        """Run something that writes; success proves that the store works again.

        Raises
        ------
        StoreError
            If the store cannot be written.
        """
        result = await self.read(function)
        if self.error:
            _log.info("the store works again", was=self.error)
            self.error = ""
            self._metrics.store_up.set(1)
            self.on_change()
        return result

    async def close(self) -> None:
        """Close the store and end the thread."""
        try:
            await self.read(self.store.close)
        except StoreError as error:
            _log.error("the store did not close cleanly", error=str(error))
        await asyncio.to_thread(self._executor.shutdown)

    def _failed(self, error: StoreError) -> None:
        self._metrics.store_failures.inc()
        self._metrics.store_up.set(0)
        if not self.error:
            _log.error("the store does not work", error=str(error))
        self.error = str(error) or type(error).__name__
        self.on_change()
