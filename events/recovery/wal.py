"""The ``-wal`` beside a log: damage, and the processes that keep it from shrinking.

SQLite takes the first frame whose checksum is wrong for the end, since a power cut leaves
such a frame. It can't be that when later transactions follow: with ``synchronous=FULL``
none is begun before the one before it is on the disk.
"""

from __future__ import annotations

import logging
import os
import struct
from pathlib import Path

from events.connect import PAGE_BYTES, beside
from events.names import named

__all__ = ["WARN_FROM_BYTES", "Watch", "damage", "readers"]

WARN_FROM_BYTES = 64 << 20

_logger = logging.getLogger(__name__)

_HEADER, _FRAME = 32, 24 + PAGE_BYTES
_MAGIC = (0x377F0682, 0x377F0683)

_READ_LOCKS = range(123, 128)
"""Bytes of the ``-shm`` that a connection locks while it holds a snapshot."""


class Watch:
    """Warns when the ``-wal`` is large, and again whenever it has doubled.

    The writer checkpoints every 1000 pages and then begins the ``-wal`` anew, unless a
    reader still needs what is in it: one that holds a snapshot stops both.
    """

    def __init__(self, log: Path) -> None:
        self._log, self._wal = log, beside(log, "-wal")
        self._limit = WARN_FROM_BYTES

    def look(self) -> None:
        found = named(self._wal)
        size = 0 if found is None else found.size_bytes
        if size < WARN_FROM_BYTES:
            self._limit = WARN_FROM_BYTES
        elif size >= self._limit:
            self._limit = 2 * size
            pids = ", ".join(f"process {pid}" for pid in readers(self._log))
            _logger.warning(
                "%s has grown to %d MB, because %s reads an old state of the log and does not"
                " let go; nothing is lost, but disk space is used until it ends",
                self._wal, size >> 20, pids or "a reader",
            )  # fmt: skip


def damage(log: Path) -> str | None:
    """What is wrong with the ``-wal`` of a log without a writer; None if nothing."""
    try:
        wal = beside(log, "-wal").read_bytes()
    except OSError:
        return None
    frames = range(_HEADER, len(wal) - _FRAME + 1, _FRAME)
    if not frames:
        return None
    magic = int.from_bytes(wal[:4], "big")
    order = "<" if magic == _MAGIC[0] else ">"
    sums = _checksum(order, wal[:24], (0, 0))
    salts = wal[16:24]
    if magic not in _MAGIC or sums != struct.unpack_from(">II", wal, 24):
        return f"the header of the -wal is damaged: its {len(frames)} frames are not read"
    for number, at in enumerate(frames):
        sums = _checksum(order, wal[at : at + 8] + wal[at + 24 : at + _FRAME], sums)
        if wal[at + 8 : at + 16] != salts or sums != struct.unpack_from(">II", wal, at + 16):
            rest = [later for later in frames[number:] if wal[later + 8 : later + 16] == salts]
            commits = [later for later in rest if wal[later + 4 : later + 8] != bytes(4)]
            if commits and commits[0] != rest[-1]:
                return (
                    f"the -wal is damaged at frame {number + 1} of {len(frames)}:"
                    " what was written later is not read"
                )
            return None
    return None


def _checksum(order: str, data: bytes, sums: tuple[int, int]) -> tuple[int, int]:
    one, two = sums
    words = struct.unpack(f"{order}{len(data) // 4}I", data)
    for first, second in zip(words[::2], words[1::2], strict=True):
        one = (one + first + two) & 0xFFFFFFFF
        two = (two + second + one) & 0xFFFFFFFF
    return one, two


def readers(log: Path) -> list[int]:
    """The other processes that hold a snapshot of the log now, as Linux lists their locks.

    The ``-shm`` itself is not opened: closing it again would drop this process's own locks.
    """
    try:
        inode = os.stat(beside(log, "-shm")).st_ino
        lines = Path("/proc/locks").read_text().splitlines()
    except OSError:
        return []
    pids = set()
    for line in lines:
        # 1: POSIX  ADVISORY  READ 4242 fd:00:131090 124 124
        words = line.replace("->", "").split()
        if len(words) == 8 and words[5].endswith(f":{inode}") and int(words[6]) in _READ_LOCKS:
            pids.add(int(words[4]))
    return sorted(pids - {os.getpid()})
