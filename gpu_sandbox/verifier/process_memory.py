"""Memory that a worker's processes use now, by the driver's account or the kernel's.

No worker has a part in the answer. None: there is no such account, or it does not show the worker.
"""

from __future__ import annotations

import os
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path

from gpu_sandbox.accelerator.driver_account import DriverAccount

_COUNTED = ("RssAnon", "VmSwap")  # without shared memory: the arena
_KB = 1024


def device_bytes(driver: DriverAccount, worker: int, jail: Collection[int]) -> int | None:
    """Device memory of the worker and all others of its jail."""
    listed = driver.processes()
    if listed is None or worker not in {process.pid for process in listed}:
        return None
    sizes = [process.used_bytes for process in listed if process.pid in jail]
    known = [size for size in sizes if size is not None]
    return sum(known) if len(known) == len(sizes) else None


def host_bytes(worker: int, jail: Collection[int]) -> int | None:
    """Host memory, swap included. What forks share counts in each of them."""
    own = _anonymous_bytes(worker)
    if own is None:
        return None
    others = (_anonymous_bytes(pid) for pid in jail if pid != worker)
    return own + sum(size or 0 for size in others)  # another may have ended


def jail_of(worker: int) -> frozenset[int]:
    """The worker, its descendants, and orphans that its jail init has adopted. Not the jail init's
    own forks: they are of its session."""
    found, ahead = set[int](), [worker, *_adopted(worker)]
    while ahead:
        pid = ahead.pop()
        if pid not in found:
            found.add(pid)
            ahead += _children(pid)
    return frozenset(found)


def _adopted(worker: int) -> list[int]:
    init = _stat(worker)[0]
    if init is None or init in _ancestors():  # it has none
        return []
    session = _stat(init)[1]
    return [pid for pid in _children(init) if _stat(pid)[1] != session]


def _ancestors() -> set[int]:
    """Of this process, and itself."""
    found, pid = {0, 1}, os.getpid()
    while pid not in found:
        found.add(pid)
        pid = _stat(pid)[0] or 0
    return found


def _children(pid: int) -> list[int]:
    found: list[int] = []
    with suppress(OSError):
        for thread in os.listdir(f"/proc/{pid}/task"):
            with suppress(OSError):
                found += map(int, Path(f"/proc/{pid}/task/{thread}/children").read_text().split())
    return found


def _stat(pid: int) -> tuple[int | None, int | None]:
    """Parent and session; None if it has ended."""
    try:
        words = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
    except OSError:
        return None, None
    return int(words[1]), int(words[3])


def _anonymous_bytes(pid: int) -> int | None:
    try:
        lines = Path(f"/proc/{pid}/status").read_text(errors="replace").splitlines()
    except OSError:
        return None
    sizes = dict(line.split(":", 1) for line in lines if ":" in line)
    if _COUNTED[0] not in sizes:
        return None
    return sum(int(sizes[name].split()[0]) for name in _COUNTED if name in sizes) * _KB
