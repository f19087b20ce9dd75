"""One writer a log: an advisory lock on ``LOG.lock`` that a kill releases.

The lock file is never removed (removing it would let two processes lock two different
files of one name); it holds the pid of the last holder.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import random
import time
from pathlib import Path

from events.errors import LogInUse, LogUnreadable

__all__ = ["WriterLock", "holder", "lock_path"]

_WRITES_S, _LOOKS_S = 0.2, 10.0
"""How long to wait for another writer, and for a process that looks whether there is one."""


class WriterLock:
    """Held from construction to ``release``. Raises ``LogInUse`` naming the holder's pid."""

    def __init__(self, log: Path) -> None:
        path = lock_path(log)
        try:
            self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except OSError as error:
            raise LogUnreadable(f"{path}: {error.strerror}") from error
        if not _take(self._fd):
            pid = _pid_in(self._fd)
            os.close(self._fd)
            writer = f"process {pid}" if pid else "another process"
            raise LogInUse(f"{log}: {writer} is writing this log", pid)
        os.ftruncate(self._fd, 0)
        os.pwrite(self._fd, f"{os.getpid()}\n".encode(), 0)

    def identity(self) -> tuple[int, int]:
        """Device and inode of the file that is locked, whatever its name means by now."""
        found = os.fstat(self._fd)
        return found.st_dev, found.st_ino

    def release(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


def holder(log: Path) -> int | None:
    """The pid of the process that writes ``log`` now, None without one."""
    try:
        fd = os.open(lock_path(log), os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        with contextlib.suppress(BlockingIOError):
            fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
            return None
        return _pid_in(fd)
    finally:
        os.close(fd)


def _take(fd: int) -> bool:
    """Lock it. Patient for a moment, and for longer with a process that only looks: ``holder``
    takes a shared lock in passing, in which a busy machine may leave it for a while."""
    began = time.monotonic()
    while not _locks(fd, fcntl.LOCK_EX):
        looked_at = _locks(fd, fcntl.LOCK_SH)
        if looked_at:
            fcntl.flock(fd, fcntl.LOCK_UN)
        if time.monotonic() - began > (_LOOKS_S if looked_at else _WRITES_S):
            return False
        time.sleep(random.uniform(0.001, 0.009))  # two that begin now look at each other
    return True


def _locks(fd: int, how: int) -> bool:
    try:
        fcntl.flock(fd, how | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _pid_in(fd: int) -> int | None:
    text = os.pread(fd, 32, 0).decode(errors="replace").strip()
    return int(text) if text.isdigit() else None


def lock_path(log: Path) -> Path:
    """Where the lock of ``log`` lies: a log has one, by whatever name it is opened."""
    log = log.resolve()
    return log.with_name(log.name + ".lock")
