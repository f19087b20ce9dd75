"""The exclusive lease of a device: first come first served here, one holder per host.

A device that is not clear yet of what was done there is kept from other processes until it is;
the next one in this process may have it meanwhile.

Within this process those who would take the same devices queue up; between processes a
``flock`` on a file named after the device decides (``lock_files.py``), and the kernel drops it
when its holder dies. Nothing is written to the file: a lease that was left behind can't exist.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
from anyio.abc import TaskGroup

from gpu_sandbox.lock_files import lock_directory, lock_file, opened

__all__ = ["Lease", "Leases"]

_POLL_S = 0.005


class Lease:
    """Exclusive use of the device of that ``identity`` (``cpu`` or a GPU's UUID).
    ``clear`` is set when nothing of its holder's is left on it."""

    def __init__(self, identity: str, descriptor: int) -> None:
        self.identity = identity
        self.descriptor = descriptor
        self.clear = anyio.Event()
        self.clear.set()


class Leases:
    """Leases of several devices. ``waiting`` and ``holding`` are for progress displays;
    ``held_s`` is the device time of all leases so far, in seconds."""

    def __init__(self, group: TaskGroup, directory: Path | None = None) -> None:
        """``group`` outlives all leases: in it is waited for devices to be clear."""
        self._group = group
        self._directory = directory or lock_directory()
        self._taken: set[str] = set()
        self._left: dict[str, Lease] = {}
        """Given back here, and not clear yet."""
        self._turns: dict[tuple[str, ...], anyio.Lock] = {}
        self._since: dict[str, float] = {}
        self._held_s = 0.0
        self.waiting = 0

    @property
    def holding(self) -> int:
        return len(self._taken)

    @property
    def held_s(self) -> float:
        now = time.monotonic()
        return self._held_s + sum(now - since for since in self._since.values())

    @asynccontextmanager
    async def hold(self, *identities: str) -> AsyncIterator[Lease]:
        """One of these devices: whichever is free first, served in order of arrival.

        Raises ``PrerequisiteMissing`` where a device's lock can't be opened.
        """
        self.waiting += 1
        try:
            async with self._turns.setdefault(identities, anyio.Lock()):
                lease = await self._first_free(identities)
        finally:
            self.waiting -= 1
        identity = lease.identity
        self._taken.add(identity)
        self._since[identity] = time.monotonic()
        try:
            yield lease
        finally:
            self._taken.discard(identity)
            self._held_s += time.monotonic() - self._since.pop(identity)
            if lease.clear.is_set():
                os.close(lease.descriptor)
            else:
                self._left[lease.identity] = lease
                self._group.start_soon(self._let_go, lease)

    async def _let_go(self, lease: Lease) -> None:
        """When the device is clear, unless somebody here has taken it over."""
        try:
            await lease.clear.wait()
        finally:
            if self._left.get(lease.identity) is lease:
                del self._left[lease.identity]
                os.close(lease.descriptor)

    async def _first_free(self, identities: Sequence[str]) -> Lease:
        """Polling, because a thread that blocks in ``flock`` can't be cancelled, and
        because nobody tells us when another process lets go."""
        while True:
            for identity in identities:
                if identity in self._left:
                    return self._taken_over(self._left.pop(identity))
                if identity not in self._taken:
                    descriptor = opened(lock_file(self._directory, identity))
                    try:
                        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    except BlockingIOError:
                        os.close(descriptor)
                    else:
                        return Lease(identity, descriptor)
            await anyio.sleep(_POLL_S)

    @staticmethod
    def _taken_over(left: Lease) -> Lease:
        """A lease of its own, of a device that may not be clear yet."""
        lease = Lease(left.identity, left.descriptor)
        lease.clear = left.clear
        return lease
