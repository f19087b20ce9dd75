"""Foreign processes on the device, noted with pid, name and memory; no verdict is refused for them.

Descendants of the zygote are ours, since it adopts what escapes from its children. A driver may
list processes in another numbering: then only more than ours are noticed.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Sequence
from pathlib import Path

import msgspec

from gpu_sandbox.accelerator.driver_account import DeviceProcess, DriverAccount
from gpu_sandbox.confine import processes

_MAX_OURS = 4  # verifier, the reference's worker, the candidate's, and the next one
_MAX_NAMED = 5
_UNSEEN_BYTES = 1 << 30  # less may be the driver's own
_GB = 1 << 30


class ForeignSample(msgspec.Struct, frozen=True):
    """One sample: processes that can be named, how many can't, and memory of unlisted ones."""

    named: Sequence[DeviceProcess] = ()
    unnamed: int = 0
    unseen_bytes: int = 0


class ForeignProcesses:
    """Of all samples. ``ours``: the pids of our own processes, as this one numbers them;
    ``preparing`` of them are frozen on the device."""

    def __init__(
        self, driver: DriverAccount | None, ours: Callable[[], Collection[int]], preparing: int = 0
    ) -> None:
        self._max_ours = _MAX_OURS + preparing
        self._driver = driver
        self._ours = ours
        self._named: dict[int, str] = {}
        self._unnamed = 0
        self._unseen_bytes = 0

    def sample(self) -> None:
        """Takes a millisecond, outside of timed regions."""
        if self._driver is None:
            return
        before = self._driver.processes()
        ours = self._ours()
        after = self._driver.processes()
        if before is None or after is None:
            return
        listed = {process.pid for process in before}  # one of ours may have begun since
        there = [process for process in after if process.pid in listed]
        found = foreign_among(
            there, os.getpid(), ours, self._driver.used_bytes() or 0, self._max_ours
        )
        for process in found.named:
            self._named.setdefault(process.pid, _describe(process))
        self._unnamed = max(self._unnamed, found.unnamed)
        self._unseen_bytes = max(self._unseen_bytes, found.unseen_bytes)

    @property
    def count(self) -> int:
        """How many other processes are known of."""
        return len(self._named) + self._unnamed + bool(self._unseen_bytes)

    def notes(self) -> list[str]:
        notes = []
        if self._named:
            names = [*self._named.values()][:_MAX_NAMED]
            left = len(self._named) - len(names)
            names += [f"{left} more"] if left else []
            notes.append(f"{_others(len(self._named))} on the device: {', '.join(names)}")
        if self._unnamed:
            notes.append(
                f"{_others(self._unnamed)} on the device, as its driver counts: it gives numbers "
                "that are not this machine's"
            )
        if self._unseen_bytes:
            notes.append(
                f"{self._unseen_bytes / _GB:.1f} GB of the device's memory are held by processes "
                "that can't be seen from here"
            )
        return notes


def foreign_among(
    listed: Sequence[DeviceProcess],
    own: int,
    ours: Collection[int],
    used_bytes: int,
    max_ours: int = _MAX_OURS,
) -> ForeignSample:
    """Processes of ``listed`` that are not ours. Pure. If ``own``, the asking process, is not
    listed, the list has another numbering, and ``max_ours`` may be ours."""
    if own not in {process.pid for process in listed}:
        return ForeignSample(unnamed=max(len(listed) - max_ours, 0))
    named = [process for process in listed if process.pid != own and process.pid not in ours]
    sizes = [process.used_bytes for process in listed if process.used_bytes is not None]
    unseen = used_bytes - sum(sizes) if len(sizes) == len(listed) else 0
    return ForeignSample(named, 0, unseen if unseen >= _UNSEEN_BYTES else 0)


def our_processes() -> set[int]:
    """Descendants of the zygote, whose child this process is."""
    return {os.getpid(), *processes.descendants(os.getppid())}


def _others(count: int) -> str:
    return "another process is" if count == 1 else f"{count} other processes are"


def _describe(process: DeviceProcess) -> str:
    size = f", {process.used_bytes / _GB:.1f} GB" if process.used_bytes is not None else ""
    return f"{_name(process.pid)} (pid {process.pid}{size})"


def _name(pid: int) -> str:
    """Its program's name only: a command line may be private."""
    try:
        text = Path(f"/proc/{pid}/comm").read_text(errors="replace").strip()
    except OSError:
        return "a process that can't be looked at"
    return "".join(c if c.isprintable() else "?" for c in text) or "a process without a name"
