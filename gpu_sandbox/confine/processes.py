"""Processes: found, killed and reaped where no PID namespace does it.

Invariant: nothing here kills by a broad match: a tree is followed from a named root, a user is a
jail's own.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterable
from contextlib import suppress
from typing import NamedTuple


class _Process(NamedTuple):
    """``ticks``: of processor time, its own and the kernel's for it."""

    parent: int
    dead: bool
    ticks: int


def children(root: int) -> list[int]:
    """Direct ones, zombies included."""
    return sorted(pid for pid, one in _all().items() if one.parent == root)


def descendants(root: int) -> list[int]:
    """The living ones, parents first, from one reading of ``/proc``."""
    return _below(root, _all())


def spent(root: int, *, itself: bool) -> tuple[int, int]:
    """Number of processes below ``root``, or with it, and their processor time in kernel ticks:
    while they are taken down, one of both changes."""
    table = _all()
    pids = [pid for pid in [root] * itself + _below(root, table) if pid in table]
    return len(pids), sum(table[pid].ticks for pid in pids)


def ticks_of(roots: Iterable[int]) -> dict[int, int]:
    """Processor time of each of these and of all below them that are there, in kernel ticks."""
    table = _all()
    pids = {pid for root in roots for pid in (root, *_below(root, table))}
    return {pid: table[pid].ticks for pid in pids if pid in table}


def _below(root: int, table: dict[int, _Process]) -> list[int]:
    parents = {pid: one.parent for pid, one in table.items() if not one.dead}
    found: list[int] = []
    level = {root}
    while level:
        level = {pid for pid, parent in parents.items() if parent in level}
        found += sorted(level)
    return found


def _all() -> dict[int, _Process]:
    found: dict[int, _Process] = {}
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        try:
            with open(f"/proc/{name}/stat", "rb") as file:
                words = file.read().rpartition(b")")[2].split()
        except OSError:
            continue
        dead, ticks = words[0] in (b"Z", b"X"), int(words[11]) + int(words[12])
        found[int(name)] = _Process(int(words[1]), dead, ticks)
    return found


def kill(pids: Iterable[int]) -> None:
    for pid in pids:
        with suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGKILL)


def kill_user(uid: int) -> None:
    """SIGKILL for every process of a user, in one sweep that no fork outruns.

    The caller needs CAP_SETUID. ``uid`` must be a jail's own.
    """
    pid = os.fork()
    if pid == 0:
        try:
            os.setresuid(uid, uid, uid)
            os.kill(-1, signal.SIGKILL)
        finally:
            os._exit(0)
    with suppress(ChildProcessError):
        os.waitpid(pid, 0)


def reap(pid: int, timeout_s: float) -> bool:
    """Whether a child of ours is dead, and taken, within the time."""
    deadline = time.monotonic() + timeout_s
    pause = 0.0002
    while True:
        try:
            if os.waitpid(pid, os.WNOHANG)[0] == pid:
                return True
        except ChildProcessError:
            return True
        if time.monotonic() >= deadline:
            return False
        time.sleep(pause)
        pause = min(pause * 2, 0.02)
