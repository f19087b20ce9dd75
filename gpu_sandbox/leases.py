"""The exclusive lease of a device: first come first served here, one holder per host.

Within this process an ``anyio.Lock`` queues fairly; between processes a ``flock`` on a
file named after the device does, and the kernel drops it when its holder dies. Nothing
is written to the file: a lease that was left behind can't exist.
"""

from __future__ import annotations

import fcntl
import os
import re
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import anyio

__all__ = ["Leases"]

_POLL_S = 0.02


def lock_directory() -> Path:
    """Host-wide, so not under any run's own cache: other users measure here too."""
    return Path(tempfile.gettempdir()) / "gpu-sandbox-leases"


class Leases:
    """``counts`` are for progress displays: (waiting, holding)."""

    def __init__(self, directory: Path | None = None) -> None:
        self._directory = directory or lock_directory()
        self._locks: dict[str, anyio.Lock] = {}
        self.waiting = 0
        self.holding = 0

    @asynccontextmanager
    async def hold(self, identity: str) -> AsyncIterator[None]:
        """Exclusive use of the device ``identity`` (``cpu`` or the GPU's UUID)."""
        self.waiting += 1
        entered = False
        try:
            async with self._locks.setdefault(identity, anyio.Lock()):
                descriptor = self._open(identity)
                try:
                    await _flock(descriptor)
                    self.waiting -= 1
                    self.holding += 1
                    entered = True
                    yield
                finally:
                    os.close(descriptor)
        finally:
            if entered:
                self.holding -= 1
            else:
                self.waiting -= 1

    def _open(self, identity: str) -> int:
        self._directory.mkdir(exist_ok=True)
        _widen(self._directory, 0o1777)
        path = self._directory / (re.sub(r"[^A-Za-z0-9_.-]", "_", identity) + ".lock")
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o666)
        _widen(path, 0o666)
        return descriptor


def _widen(path: Path, mode: int) -> None:
    """Let other users in too, whatever the umask was; only the owner can."""
    with suppress(PermissionError):
        os.chmod(path, mode)


async def _flock(descriptor: int) -> None:
    """Polling, because a thread that blocks in ``flock`` can't be cancelled."""
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            await anyio.sleep(_POLL_S)
