"""A jail that lies still while its device is timed, and the time that it has run."""

from __future__ import annotations

import math
import threading
import time
from contextlib import AbstractContextManager

import anyio
import anyio.to_thread

from gpu_sandbox.confine.freeze import Frozen, Stoppable, Unstoppable
from gpu_sandbox.devices.timing_lock import GLANCE_S, Permit

_WITHIN_S = 1.0  # to stop all processes; less than the patience of the timed side
_reading = threading.Lock()  # of files in /proc that all ``Stoppable`` share


class PausingJail:
    """Stops all processes of a jail when its permit is revoked, and lets them go on later.

    The permit is given back ``drains_s`` later, when the device has run what they had queued.
    """

    def __init__(self, processes: Stoppable, permit: Permit, drains_s: float) -> None:
        self._processes = processes
        self._permit = permit
        self._drains_s = drains_s
        self._ran_s = 0.0
        self._running_since: float | None = time.monotonic()
        self._deadline_s = math.inf
        self.is_late = False
        """Whether it ran for longer than it was allowed to."""

    @classmethod
    async def of(cls, pid: int, permit: Permit, drains_s: float) -> PausingJail:
        """``pid`` is the jail's first process, which has no candidate yet. ``permit`` was taken.
        Raises ``OSError`` if it has ended."""
        return cls(await anyio.to_thread.run_sync(_found, pid), permit, drains_s)

    @property
    def ran_s(self) -> float:
        since = self._running_since
        return self._ran_s + (0.0 if since is None else time.monotonic() - since)

    def allow(self, seconds: float) -> None:
        """To run for so long from now on."""
        self._deadline_s = self.ran_s + seconds

    async def close(self) -> None:
        with anyio.CancelScope(shield=True):
            await anyio.to_thread.run_sync(_closed, self._processes)

    async def watch(self, scope: anyio.CancelScope) -> None:
        """Cancel ``scope`` when it is late, has ended, or can't be stopped."""
        try:
            while not self.is_late:
                if self._permit.is_revoked():
                    await self._pause()
                await anyio.sleep(GLANCE_S)
                self.is_late = self.ran_s > self._deadline_s
        except (OSError, Unstoppable):
            pass
        scope.cancel()

    async def _pause(self) -> None:
        stopped = self._processes.stopped()
        with anyio.CancelScope(shield=True):
            await anyio.to_thread.run_sync(_entered, stopped)
        assert self._running_since is not None
        self._ran_s += time.monotonic() - self._running_since
        self._running_since = None
        try:
            await anyio.sleep(self._drains_s)
            self._permit.give_back()
            await self._permit.take()
        finally:
            self._running_since = time.monotonic()
            stopped.__exit__(None, None, None)


def _found(pid: int) -> Stoppable:
    with _reading:
        return Stoppable(pid, _WITHIN_S)


def _entered(stopped: AbstractContextManager[Frozen]) -> None:
    with _reading:
        stopped.__enter__()


def _closed(processes: Stoppable) -> None:
    with _reading:
        processes.close()
