"""Exclusion of timed jobs and preparations on a device, between all engines of a host.

Two bytes of a file are locked: the first, exclusively, by the holder of the lease while its job
is timed; the second, shared, by each preparation that runs. Either side locks its own byte before
it tests the other's, so that one of two that come at once sees the other.
"""

from __future__ import annotations

import os
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio

from gpu_sandbox.devices.byte_locks import end_of_lock, lock, unlock
from gpu_sandbox.devices.lock_files import lock_directory, lock_file, opened

_TIMED, _PREPARING = 0, 1
GLANCE_S = 0.01  # between two tests of whether a preparation has to stop
_POLL_S = 0.002
_PATIENCE_S = 4.0  # with an engine that does not stop its preparations: as a rule it is stopped


def timing_file(identity: str) -> Path:
    """The file of the device with that lease identity."""
    return lock_file(lock_directory(), f"{identity}-timing")


class TimingLock:
    """The side of the lease's holder. One job at a time."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._descriptor: int | None = None

    async def acquire(self) -> None:
        """Returns when no preparation runs on the device, or after some patience; at once if it is
        held already. Raises ``PrerequisiteMissing`` where the file can't be opened."""
        if self._descriptor is not None:
            return
        self._descriptor = descriptor = opened(self._path)
        deadline = time.monotonic() + _PATIENCE_S
        held = lock(descriptor, _TIMED)
        while not held or end_of_lock(descriptor, _PREPARING, 1) is not None:
            if time.monotonic() > deadline:
                return
            await anyio.sleep(_POLL_S)
            held = held or lock(descriptor, _TIMED)

    def release(self) -> None:
        """Preparations go on."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    @asynccontextmanager
    async def held(self) -> AsyncIterator[None]:
        try:
            await self.acquire()
            yield
        finally:
            self.release()


class Permit:
    """The side of one preparation: ``take`` before it runs, ``give_back`` when it is frozen."""

    def __init__(self, path: Path) -> None:
        """Raises ``PrerequisiteMissing`` where the file can't be opened."""
        self._descriptor = opened(path)

    def is_revoked(self) -> bool:
        """Whether the device is timed, or about to be."""
        return end_of_lock(self._descriptor, _TIMED, 1) is not None

    async def take(self) -> None:
        """Returns when the device is not timed."""
        while True:
            if not self.is_revoked() and lock(self._descriptor, _PREPARING, shared=True):
                if not self.is_revoked():
                    return
                self.give_back()
            await anyio.sleep(GLANCE_S)

    def give_back(self) -> None:
        unlock(self._descriptor, _PREPARING)

    def close(self) -> None:
        os.close(self._descriptor)
