"""The queue of a host's engines for a device: byte locks on the device's file.

The first byte is locked by the holder, one byte each behind it by the engines that wait, in order
of arrival. The kernel drops locks of killed engines (``byte_locks.py``).
"""

from __future__ import annotations

import errno
import os
import time
from pathlib import Path

from gpu_sandbox.devices.byte_locks import NOWHERE, TO_THE_END, end_of_lock, lock, unlock
from gpu_sandbox.devices.lock_files import opened, refusal

_DEVICE, _QUEUE = 0, 1
"""The device's byte, and the first place's."""
_PATIENCE_S = 1.0  # with an engine that is next and does not take the free device


class Place:
    """One engine's place, at the end of the queue at first; the device, once it is taken."""

    def __init__(self, path: Path) -> None:
        """Raises ``PrerequisiteMissing`` where the file can't be opened."""
        self._path = path
        self._descriptor, self._number = _joined(path)
        self._lying_since: float | None = None

    @property
    def is_first(self) -> bool:
        ahead = self._number - _QUEUE
        return not ahead or end_of_lock(self._descriptor, _QUEUE, ahead) is None

    @property
    def has_waiters(self) -> bool:
        """Whether engines wait behind the holder of the device."""
        return end_of_lock(self._descriptor, _QUEUE, TO_THE_END) is not None

    def take(self) -> bool:
        """The device, if it is free and our turn."""
        if not (self.is_first or self._is_left_lying()) or not lock(self._descriptor, _DEVICE):
            return False
        if not self._is_the_file():
            removed = self._descriptor
            self._descriptor, self._number = _joined(self._path)
            os.close(removed)
            return False
        unlock(self._descriptor, self._number)
        return True

    def close(self) -> None:
        """Leaves the queue, or gives the device back."""
        os.close(self._descriptor)

    def _is_left_lying(self) -> bool:
        """Whether it was free for a while, and no engine ahead took it."""
        if end_of_lock(self._descriptor, _DEVICE, 1) is not None:
            self._lying_since = None
            return False
        now = time.monotonic()
        self._lying_since = self._lying_since or now
        return now - self._lying_since > _PATIENCE_S

    def _is_the_file(self) -> bool:
        """Whether the file was not removed: else others lock another one by now."""
        try:
            return os.path.samestat(os.fstat(self._descriptor), os.lstat(self._path))
        except FileNotFoundError:
            return False


def _joined(path: Path) -> tuple[int, int]:
    """The file's descriptor, and which byte the new place at the end of the queue is."""
    descriptor = opened(path)
    try:
        return descriptor, _last(descriptor)
    except OSError as error:
        os.close(descriptor)
        raise refusal(path, f"no place in its queue, {error.strerror}") from None


def _last(descriptor: int) -> int:
    number = _QUEUE
    while True:
        end = end_of_lock(descriptor, number, TO_THE_END)
        if end == NOWHERE:
            raise OSError(errno.EBUSY, "all of it is locked, and not by an engine")
        if end is None and lock(descriptor, number):
            return number
        number = end or number  # or somebody came meanwhile
