"""Processes on the device that are none of ours: noticed, and named.

They make both sides of a pair slower, and not alike. Nobody is refused for it: it is a fact
that a verdict's reader should know.

Ours is what descends from the zygote, which adopts whatever escapes from its children. What
the driver lists may be in another numbering than ours (``DriverAccount.processes``): then our own
process is not in the list, and all that can be said is that there are more than we have.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Sequence
from pathlib import Path

import msgspec

from gpu_sandbox.accelerator.driver_account import DeviceProcess, DriverAccount
from gpu_sandbox.confine import processes

_MOST_OURS = 4
"""Verifier, the reference's worker, the candidate's, and the next one."""
_MOST_NAMED = 5
_UNSEEN_BYTES = 1 << 30
"""Less than that may be the driver's own."""
_GB = 1 << 30


class Seen(msgspec.Struct, frozen=True):
    """One look: those that can be named, how many there are that can't, and how much memory
    is held by whom the driver does not list."""

    named: Sequence[DeviceProcess] = ()
    unnamed: int = 0
    unseen_bytes: int = 0


class Foreign:
    """What all looks saw. ``ours``: the pids of our own processes, as this one numbers them;
    ``preparing`` of them lie still on the device."""

    def __init__(
        self, driver: DriverAccount | None, ours: Callable[[], Collection[int]], preparing: int = 0
    ) -> None:
        self._most_ours = _MOST_OURS + preparing
        self._driver = driver
        self._ours = ours
        self._named: dict[int, str] = {}
        self._unnamed = 0
        self._unseen_bytes = 0

    def look(self) -> None:
        """A millisecond, and outside of what is timed."""
        if self._driver is None:
            return
        before = self._driver.processes()
        ours = self._ours()
        after = self._driver.processes()
        if before is None or after is None:
            return
        listed = {process.pid for process in before}  # one of ours may have begun since
        there = [process for process in after if process.pid in listed]
        found = seen(there, os.getpid(), ours, self._driver.used_bytes() or 0, self._most_ours)
        for process in found.named:
            self._named.setdefault(process.pid, _told(process))
        self._unnamed = max(self._unnamed, found.unnamed)
        self._unseen_bytes = max(self._unseen_bytes, found.unseen_bytes)

    @property
    def count(self) -> int:
        """Of other processes, as far as they can be seen."""
        return len(self._named) + self._unnamed + bool(self._unseen_bytes)

    def notes(self) -> list[str]:
        told = []
        if self._named:
            names = [*self._named.values()][:_MOST_NAMED]
            left = len(self._named) - len(names)
            names += [f"{left} more"] if left else []
            told.append(f"{_others(len(self._named))} on the device: {', '.join(names)}")
        if self._unnamed:
            told.append(
                f"{_others(self._unnamed)} on the device, as its driver counts: it gives numbers "
                "that are not this machine's"
            )
        if self._unseen_bytes:
            told.append(
                f"{self._unseen_bytes / _GB:.1f} GB of the device's memory are held by processes "
                "that can't be seen from here"
            )
        return told


def seen(
    listed: Sequence[DeviceProcess],
    own: int,
    ours: Collection[int],
    used_bytes: int,
    most_ours: int = _MOST_OURS,
) -> Seen:
    """Who of ``listed`` is not ours. Pure. ``own``: the asking process, which is listed by
    that number, or the list is in another numbering, and ``most_ours`` may be ours."""
    if own not in {process.pid for process in listed}:
        return Seen(unnamed=max(len(listed) - most_ours, 0))
    named = [process for process in listed if process.pid != own and process.pid not in ours]
    sizes = [process.used_bytes for process in listed if process.used_bytes is not None]
    unseen = used_bytes - sum(sizes) if len(sizes) == len(listed) else 0
    return Seen(named, 0, unseen if unseen >= _UNSEEN_BYTES else 0)


def our_processes() -> set[int]:
    """Of the zygote, whose child this process is."""
    return {os.getpid(), *processes.descendants(os.getppid())}


def _others(count: int) -> str:
    return "another process is" if count == 1 else f"{count} other processes are"


def _told(process: DeviceProcess) -> str:
    size = f", {process.used_bytes / _GB:.1f} GB" if process.used_bytes is not None else ""
    return f"{_name(process.pid)} (pid {process.pid}{size})"


def _name(pid: int) -> str:
    """Of its program only: a command line may hold what is nobody's business."""
    try:
        text = Path(f"/proc/{pid}/comm").read_text(errors="replace").strip()
    except OSError:
        return "a process that can't be looked at"
    return "".join(c if c.isprintable() else "?" for c in text) or "a process without a name"
