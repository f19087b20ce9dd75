"""The machine's processes, by what they carry."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

__all__ = ["processes_with"]


def processes_with(mark: str) -> list[int]:
    """Other processes that have ``mark`` among their variables or words."""
    pids = [int(name) for name in os.listdir("/proc") if name.isdigit()]
    return [pid for pid in pids if pid != os.getpid() and mark.encode() in _carried(pid)]


def _carried(pid: int) -> bytes:
    found = b""
    for name in ("cmdline", "environ"):
        with suppress(OSError):
            found += Path("/proc", str(pid), name).read_bytes()
    return found
