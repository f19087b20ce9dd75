"""Is the file that we write still the log, and are we still its writer?

Locks say which process may begin to write; they can't say that nothing changed since: a lock
file can be deleted and taken by another process while the holder is stopped, and a log can be
deleted, replaced, or lose its ``-wal``, after which commits succeed into files that have no
name any more. So the writer looks at the names inside each transaction, before it writes.
A new writer takes the lock first and reads its positions inside a write transaction:
whatever an old one commits is either before that, and seen, or refused here.
"""

from __future__ import annotations

import os
from pathlib import Path

from events.connect import beside
from events.errors import WriterFailed
from events.lock import WriterLock, lock_path
from events.names import named

__all__ = ["Fence"]

_Identity = tuple[int, int]


class Fence:
    """Made inside the writer's first transaction, when all its files exist."""

    def __init__(self, log: Path, lock: WriterLock) -> None:
        self._log = log
        self._owned = {log: _identity(log), lock_path(log): lock.identity()}
        self._files = dict(self._owned)
        for suffix in ("-wal", "-shm"):
            self._files[beside(log, suffix)] = _identity(beside(log, suffix))

    def check(self) -> None:
        """Raises ``WriterFailed`` naming the file that is not the one it was."""
        for path, was in self._files.items():
            now = _identity(path)
            if now == was:
                continue
            how = "was deleted" if now is None else "was replaced"
            if path == lock_path(self._log):
                how += ", so another process may write this log now"
            raise WriterFailed(f"{path} {how} while process {os.getpid()} wrote the log")

    def owns(self) -> bool:
        """False when what lies there may be another writer's log by now. Without its ``-wal``
        it is still ours, and closing it properly saves what only the ``-wal`` held."""
        return all(_identity(path) == was for path, was in self._owned.items())


def _identity(path: Path) -> _Identity | None:
    found = named(path)
    return None if found is None else (found.device, found.inode)
