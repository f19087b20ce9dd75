"""Locks on bytes of an open file, which the kernel drops when their holder ends.

Locks of processes would not exclude two tasks of one engine.
"""

from __future__ import annotations

import fcntl
import os
import struct

TO_THE_END = 0  # as a number of bytes
NOWHERE = 0  # as the end of a lock that has none
_FLOCK = "hhqqi4x"


def lock(descriptor: int, byte: int, *, shared: bool = False) -> bool:
    """Whether it could be had at once. A shared lock excludes exclusive ones only."""
    kind = fcntl.F_RDLCK if shared else fcntl.F_WRLCK
    try:
        fcntl.fcntl(descriptor, fcntl.F_OFD_SETLK, _flock(kind, byte, 1))
    except BlockingIOError:
        return False
    return True


def unlock(descriptor: int, byte: int) -> None:
    fcntl.fcntl(descriptor, fcntl.F_OFD_SETLK, _flock(fcntl.F_UNLCK, byte, 1))


def end_of_lock(descriptor: int, first: int, bytes_: int) -> int | None:
    """Where another descriptor's lock on these bytes ends, of either kind; None without one."""
    asked = _flock(fcntl.F_WRLCK, first, bytes_)
    kind, _, start, length, _ = struct.unpack(
        _FLOCK, fcntl.fcntl(descriptor, fcntl.F_OFD_GETLK, asked)
    )
    return None if kind == fcntl.F_UNLCK else start + length if length else NOWHERE


def _flock(kind: int, first: int, bytes_: int) -> bytes:
    return struct.pack(_FLOCK, kind, os.SEEK_SET, first, bytes_, 0)
